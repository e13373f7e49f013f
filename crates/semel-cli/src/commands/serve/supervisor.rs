//! What systemd is told: that the server is ready, that it stops, and, where it asks for that, that
//! the engine is alive. A process whose loops hang is silent, and is started anew.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use semel_server::App;

/// The way to a supervisor, where there is one.
pub(super) struct Supervisor {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear of us.
    every: Option<Duration>,
}

impl Supervisor {
    /// As the environment names it. One that cannot be reached is none: nobody fails for that.
    pub(super) fn of(environment: impl Fn(&str) -> Option<String>) -> Supervisor {
        let to = environment("NOTIFY_SOCKET").filter(|path| !path.is_empty()).and_then(|path| {
            let address = address(&path).ok()?;
            Some((UnixDatagram::unbound().ok()?, address))
        });
        let is_for_us =
            environment("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let usec = environment("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        // Twice as often as it must be, as its documentation asks for.
        let every = usec.filter(|usec| *usec > 0 && is_for_us);
        Supervisor { to, every: every.map(|usec| Duration::from_micros(usec) / 2) }
    }

    pub(super) fn ready(&self, url: &str) {
        self.tell(&format!("READY=1\nSTATUS=listening on {url}"));
    }

    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=letting open requests finish");
    }

    /// Tells for as long as the engine is well. Never ends.
    pub(super) async fn watch(&self, app: Arc<App>) {
        let Some(every) = self.every else { return std::future::pending().await };
        loop {
            if app.is_well() {
                self.tell("WATCHDOG=1");
            }
            tokio::time::sleep(every).await;
        }
    }

    fn tell(&self, text: &str) {
        let Some((socket, address)) = &self.to else { return };
        if let Err(error) = socket.send_to_addr(text.as_bytes(), address) {
            tracing::warn!(%error, "the supervisor was not told");
        }
    }
}

fn address(path: &str) -> io::Result<SocketAddr> {
    match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 200];
        let count = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[test]
    fn a_supervisor_hears_of_readiness_and_of_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let name = path.display().to_string();
        let supervisor = Supervisor::of(|asked| match asked {
            "NOTIFY_SOCKET" => Some(name.clone()),
            "WATCHDOG_USEC" => Some("3000000".into()),
            _ => None,
        });
        supervisor.ready("http://127.0.0.1:1");
        assert_eq!(heard(&socket), "READY=1\nSTATUS=listening on http://127.0.0.1:1");
        supervisor.stopping();
        assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=letting open requests finish");
        assert_eq!(supervisor.every, Some(Duration::from_millis(1_500)));
    }

    #[test]
    fn without_a_supervisor_nothing_is_told_and_nothing_fails() {
        let none = Supervisor::of(|_| None);
        none.ready("x");
        assert!(none.to.is_none() && none.every.is_none());
        let others = Supervisor::of(|asked| match asked {
            "WATCHDOG_USEC" => Some("3000000".into()),
            "WATCHDOG_PID" => Some("1".into()),
            _ => Some("/nowhere/at/all".into()),
        });
        others.stopping();
        assert_eq!(others.every, None, "the watchdog is somebody else's");
    }
}
