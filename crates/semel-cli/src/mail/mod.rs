//! A small mail server: it speaks SMTP, keeps what it accepts in a file, and delivers nothing.
//!
//! The recipient tells it how to behave: `refused@…` does not exist (550), `later@…` is busy (451).
//! A mail for `hang@…` or `cut@…` is accepted, but its sender never gets to know: it hears nothing
//! more, or the connection ends.

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::crm::{LIFE_MAX, lines};

const MAILS: &str = "mails.jsonl";
/// A line of SMTP has 1,000 bytes at most; more than that is not mail.
const LINE_BYTES_MAX: u64 = 4_096;
const MAIL_BYTES_MAX: usize = 1 << 20;
/// A sender that says nothing for so long is cut off.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One mail that was accepted: one line of `mails.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mail {
    pub message_id: Option<String>,
    pub from: String,
    pub to: Vec<String>,
    /// With its headers, as it came.
    pub text: String,
}

/// Serves until the process is killed. The address is in `dir/mail.addr` once mail is taken.
pub(crate) async fn serve(dir: PathBuf) -> anyhow::Result<()> {
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let (file, _) = lines::open(&dir.join(MAILS), lines::parse::<Mail>)?;
    let file = Arc::new(Mutex::new(file));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    lines::publish(&dir.join("mail.addr"), &listener.local_addr()?.to_string())?;
    let accept = async {
        loop {
            let (stream, _) = listener.accept().await?;
            let file = file.clone();
            tokio::spawn(async move {
                // A sender that goes away in the middle is its own affair.
                let _ = Session::new(stream, file).run().await;
            });
        }
    };
    timeout(LIFE_MAX, accept).await.unwrap_or(Ok(()))
}

/// All accepted mails, straight from the file.
pub(crate) fn mails(dir: &Path) -> anyhow::Result<Vec<Mail>> {
    lines::read(&dir.join(MAILS))
}

struct Session {
    stream: BufReader<TcpStream>,
    file: Arc<Mutex<File>>,
    from: Option<String>,
    to: Vec<String>,
}

/// What comes after a command.
enum Then {
    Next,
    Close,
}

impl Session {
    fn new(stream: TcpStream, file: Arc<Mutex<File>>) -> Session {
        Session { stream: BufReader::new(stream), file, from: None, to: Vec::new() }
    }

    async fn run(mut self) -> anyhow::Result<()> {
        self.say("220 mail.example ready").await?;
        while let Some(line) = line(&mut self.stream).await? {
            match self.obey(&line).await? {
                Then::Next => {}
                Then::Close => break,
            }
        }
        Ok(())
    }

    async fn obey(&mut self, line: &str) -> anyhow::Result<Then> {
        let upper = line.to_ascii_uppercase();
        let verb = upper.split([' ', ':']).next().unwrap_or_default();
        match verb {
            "EHLO" | "HELO" => self.say("250-mail.example\r\n250 8BITMIME").await?,
            "MAIL" => {
                self.from = Some(address(line));
                self.to.clear();
                self.say("250 go on").await?;
            }
            "RCPT" => self.recipient(address(line)).await?,
            "DATA" if self.from.is_some() && !self.to.is_empty() => self.data().await?,
            "DATA" => self.say("503 first MAIL and RCPT").await?,
            "RSET" => {
                self.from = None;
                self.to.clear();
                self.say("250 forgotten").await?;
            }
            "NOOP" => self.say("250 yes").await?,
            "QUIT" => {
                self.say("221 goodbye").await?;
                return Ok(Then::Close);
            }
            _ => self.say("500 no such command").await?,
        }
        Ok(Then::Next)
    }

    async fn recipient(&mut self, to: String) -> anyhow::Result<()> {
        if self.from.is_none() {
            return self.say("503 first MAIL").await;
        }
        if to.starts_with("refused@") {
            return self.say("550 no such mailbox").await;
        }
        if to.starts_with("later@") {
            return self.say("451 try again later").await;
        }
        self.to.push(to);
        self.say("250 go on").await
    }

    async fn data(&mut self) -> anyhow::Result<()> {
        self.say("354 end with a dot").await?;
        let mut text = String::new();
        loop {
            let line = line(&mut self.stream).await?.context("the mail was not finished")?;
            if line == "." {
                break;
            }
            // A line that begins with a dot got another one before it.
            text.push_str(line.strip_prefix('.').unwrap_or(&line));
            text.push('\n');
            anyhow::ensure!(text.len() <= MAIL_BYTES_MAX, "the mail is too large");
        }
        let is_for = |name: &str| self.to.iter().any(|to| to.starts_with(name));
        let (hangs, cuts) = (is_for("hang@"), is_for("cut@"));
        let mail = Mail {
            message_id: header(&text, "message-id"),
            from: self.from.take().unwrap_or_default(),
            to: std::mem::take(&mut self.to),
            text,
        };
        self.keep(mail).await?;
        if hangs {
            tokio::time::sleep(LIFE_MAX).await;
        }
        anyhow::ensure!(!cuts, "the connection is cut as scripted");
        self.say("250 accepted").await
    }

    /// On the disk before it is answered: what was accepted is there.
    async fn keep(&self, mail: Mail) -> anyhow::Result<()> {
        let file = self.file.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let mut file = file.lock().expect("no holder of the file panics");
            lines::append(&mut file, &mail)?;
            Ok(file.sync_data()?)
        });
        kept.await?
    }

    async fn say(&mut self, answer: &str) -> anyhow::Result<()> {
        // One write: an answer arrives whole.
        Ok(self.stream.write_all(format!("{answer}\r\n").as_bytes()).await?)
    }
}

/// The next line without its end; `None` when the sender has gone.
async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> anyhow::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut bounded = stream.take(LINE_BYTES_MAX);
    let read = bounded.read_until(b'\n', &mut bytes);
    timeout(SILENCE_MAX, read).await.context("the sender says nothing")??;
    if bytes.is_empty() {
        return Ok(None);
    }
    anyhow::ensure!(bytes.ends_with(b"\n"), "a line is too long, or was cut");
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// What stands between `<` and `>`.
fn address(line: &str) -> String {
    let inner = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map(|(address, _)| address.to_owned()).unwrap_or_default()
}

fn header(text: &str, name: &str) -> Option<String> {
    let headers = text.lines().take_while(|line| !line.is_empty());
    let mut pairs = headers.filter_map(|line| line.split_once(':'));
    let found = pairs.find(|(header, _)| header.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim().to_owned())
}
