//! A mail server that accepts everything and counts.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone)]
pub(crate) struct MailServer {
    pub(crate) address: String,
    accepted: Arc<AtomicU64>,
}

impl MailServer {
    /// Serves until the process of the tests ends.
    pub(crate) fn start() -> MailServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let accepted = Arc::new(AtomicU64::new(0));
        let counts = accepted.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counts = counts.clone();
                std::thread::spawn(move || {
                    // A worker that dies in the middle of a mail is what these tests are about.
                    let _ = serve(client, &counts);
                });
            }
        });
        MailServer { address, accepted }
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }
}

fn serve(mut client: TcpStream, accepted: &AtomicU64) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut lines = BufReader::new(client.try_clone()?).lines();
    client.write_all(b"220 ready\r\n")?;
    while let Some(line) = lines.next().transpose()? {
        match line.split(' ').next().unwrap_or_default() {
            "EHLO" | "HELO" | "MAIL" | "RCPT" | "RSET" | "NOOP" => {
                client.write_all(b"250 ok\r\n")?;
            }
            "DATA" => {
                client.write_all(b"354 go on\r\n")?;
                while lines.next().transpose()?.is_some_and(|line| line != ".") {}
                accepted.fetch_add(1, Ordering::SeqCst);
                client.write_all(b"250 accepted\r\n")?;
            }
            "QUIT" => return client.write_all(b"221 bye\r\n"),
            _ => client.write_all(b"500 what?\r\n")?,
        }
    }
    Ok(())
}
