//! A webhook and a mail server that keep what they were told.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Kept<T> = Arc<Mutex<Vec<T>>>;

pub(crate) async fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Answers every request with one status; with 0 it reads and hangs up.
pub(crate) struct Hook {
    port: u16,
    requests: Kept<(String, String)>,
}

impl Hook {
    pub(crate) async fn start(status: u16) -> Hook {
        Hook::on(free_port().await, status).await
    }

    pub(crate) async fn on(port: u16, status: u16) -> Hook {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port");
        let requests: Kept<(String, String)> = Kept::default();
        let kept = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, status, kept.clone()));
            }
        });
        Hook { port, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().expect("no panic").clone()
    }
}

async fn answer(stream: TcpStream, status: u16, kept: Kept<(String, String)>) {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line.replace("\r\n", "\n"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    let body = String::from_utf8(body).expect("text");
    kept.lock().expect("no panic").push((head, body));
    if status > 0 {
        let answer = format!("HTTP/1.1 {status} Fine\r\ncontent-length: 0\r\n\r\n");
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

/// Takes every mail.
pub(crate) struct MailServer {
    pub(crate) port: u16,
    /// All that was said in one connection that ended in a mail.
    mails: Kept<String>,
}

impl MailServer {
    pub(crate) async fn start() -> MailServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mails: Kept<String> = Kept::default();
        let kept = mails.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take_mail(stream, kept.clone()));
            }
        });
        MailServer { port, mails }
    }

    pub(crate) fn mails(&self) -> Vec<String> {
        self.mails.lock().expect("no panic").clone()
    }
}

async fn take_mail(stream: TcpStream, kept: Kept<String>) {
    let mut stream = BufReader::new(stream);
    let mut said = String::new();
    let mut is_data = false;
    let mut answer = "220 here\r\n";
    loop {
        if !answer.is_empty() && stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        said.push_str(&line);
        answer = match line.trim_end() {
            "." if is_data => {
                is_data = false;
                kept.lock().expect("no panic").push(said.clone());
                "250 taken\r\n"
            }
            _ if is_data => "",
            "DATA" => {
                is_data = true;
                "354 go on\r\n"
            }
            "QUIT" => "221 bye\r\n",
            command if command.starts_with("EHLO") => "250-here\r\n250 AUTH PLAIN\r\n",
            command if command.starts_with("AUTH") => "235 known\r\n",
            _ => "250 fine\r\n",
        };
    }
}
