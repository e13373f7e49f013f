//! Where a worker dies: at the point that its environment names, by a real SIGKILL, and nowhere
//! else. Points lie before and after each commit and around each word on the wire.

use std::io::Write;

use rustix::process::{Signal, getpid, kill_process};

/// The name of the point to die at. `nowhere` lists all points that are passed.
pub const DIE_AT: &str = "SEMEL_DEMO_DIE_AT";

/// The points of this process, and which one is its last.
pub struct Points {
    die_at: String,
}

impl Points {
    /// `None`: a worker like any other.
    pub fn from_environment() -> Option<Points> {
        let die_at = std::env::var(DIE_AT).ok().filter(|name| !name.is_empty())?;
        Some(Points { die_at })
    }

    /// Passes a point that has one name or several, and says so; or never returns.
    pub fn pass(&self, names: &[String]) {
        let line = format!("point: {}\n", names.join(" | "));
        // One write: whoever is killed meanwhile leaves a whole line or none.
        let _ = std::io::stderr().write_all(line.as_bytes());
        if names.contains(&self.die_at) {
            die();
        }
    }
}

fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    // The signal arrives before this thread comes back from the kernel.
    std::process::abort()
}
