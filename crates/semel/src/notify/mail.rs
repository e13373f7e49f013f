//! A mail to people.

use lettre::message::{Mailbox, Message};
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use semel_engine::{Error, Intent};
use serde_json::{Value, json};
use url::Url;

use super::{PATIENCE, invalid};
use crate::Failure;

#[derive(Clone)]
pub(super) struct Mail {
    host: String,
    port: u16,
    /// The server speaks TLS from the start; otherwise it is asked for it.
    is_wrapped: bool,
    login: Option<(String, String)>,
    from: Mailbox,
    to: Vec<Mailbox>,
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mail({}:{}, login: {})", self.host, self.port, self.login.is_some())
    }
}

impl Mail {
    pub(super) fn parse(url: &Url) -> Result<Mail, Error> {
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| invalid("it names no host"))?;
        let is_wrapped = url.scheme() == "smtps";
        let named = |wanted: &str| -> Result<Vec<Mailbox>, Error> {
            let pairs = url.query_pairs().filter(|(name, _)| name == wanted);
            let all: Vec<String> = pairs.map(|(_, value)| value.into_owned()).collect();
            let each = all.iter().flat_map(|value| value.split(','));
            let read = |one: &str| one.trim().parse();
            let found: Result<Vec<Mailbox>, _> = each.map(read).collect();
            found.map_err(|_| invalid(&format!("`{wanted}` is no mail address")))
        };
        let from = named("from")?.into_iter().next();
        let to = named("to")?;
        if to.is_empty() {
            return Err(invalid("a mail needs `to`"));
        }
        let password = url.password().map(plain);
        let login = password.map(|password| (plain(url.username()), password));
        Ok(Mail {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(if is_wrapped { 465 } else { 25 }),
            is_wrapped,
            login,
            from: from.ok_or_else(|| invalid("a mail needs `from`"))?,
            to,
        })
    }

    pub(super) async fn send(&self, intent: &Intent) -> Result<Value, Failure> {
        let key = intent.downstream_key();
        let message = self.message(key, intent.input().text())?;
        // Before the transfer nothing of the mail has left.
        let mut connection = self.connect().await?;
        let sent = connection.send(message.envelope(), &message.formatted()).await;
        sent.map_err(|error| judge(&error))?;
        // It was accepted: how the connection ends is of no interest.
        let _ = connection.quit().await;
        Ok(json!({ "message_id": message_id(key) }))
    }

    fn message(&self, key: &str, text: &str) -> Result<Message, Failure> {
        let told: Value = serde_json::from_str(text).map_err(Failure::refused)?;
        let mut message = Message::builder().from(self.from.clone());
        for to in &self.to {
            message = message.to(to.clone());
        }
        let message = message.message_id(Some(message_id(key))).subject(subject(&told));
        message.body(body(&told)).map_err(Failure::refused)
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Failure> {
        let (server, us) = ((self.host.as_str(), self.port), ClientId::default());
        let wrapped = self.is_wrapped.then(|| self.tls()).transpose()?;
        let connected =
            AsyncSmtpConnection::connect_tokio1(server, Some(PATIENCE), &us, wrapped, None).await;
        let mut connection = connected.map_err(Failure::not_applied)?;
        if connection.can_starttls() {
            let upgraded = connection.starttls(self.tls()?, &us).await;
            upgraded.map_err(Failure::not_applied)?;
        }
        if let Some((name, password)) = &self.login {
            if !connection.is_encrypted() && !self.is_local() {
                let text = "the mail server offers no TLS: the password is not sent in the clear";
                return Err(Failure::not_applied(text));
            }
            let login = Credentials::new(name.clone(), password.clone());
            let known = connection.auth(DEFAULT_MECHANISMS, &login).await;
            known.map_err(Failure::not_applied)?;
        }
        Ok(connection)
    }

    fn tls(&self) -> Result<TlsParameters, Failure> {
        TlsParameters::new(self.host.clone()).map_err(Failure::not_applied)
    }

    fn is_local(&self) -> bool {
        let is_loopback = |ip: std::net::IpAddr| ip.is_loopback();
        self.host == "localhost" || self.host.parse().is_ok_and(is_loopback)
    }
}

/// The same in every attempt, so that readers and servers can tell a repeat.
fn message_id(key: &str) -> String {
    format!("<{key}@semel.invalid>")
}

fn subject(told: &Value) -> String {
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let about = match told["kind"].as_str() {
        Some("approval") => format!("please decide: {}/{}", text("action"), text("key")),
        Some("in_doubt") => format!("in doubt: {}/{}", text("action"), text("key")),
        _ => format!("paused: {}/{}", text("workflow"), text("key")),
    };
    // A subject is one line, whatever the names hold.
    let line = |c: char| if c.is_control() { ' ' } else { c };
    format!("[semel] {}", about.chars().map(line).collect::<String>())
}

fn body(told: &Value) -> String {
    let command = told["command"].as_str().unwrap_or_default();
    let facts = serde_json::to_string_pretty(told).unwrap_or_default();
    format!("{command}\n\n{facts}\n").replace('\n', "\r\n")
}

/// What a failed transfer proves. A server that answers with a failure has not taken the mail,
/// whichever command it answers; without an answer nobody knows.
fn judge(error: &smtp::Error) -> Failure {
    match error.status().map(u16::from) {
        // The server is closing down, which it may also say after it took the mail.
        Some(421) | None => Failure::unknown(error),
        Some(400..=499) => Failure::not_applied(error),
        Some(500..=599) => Failure::refused(error),
        Some(_) => Failure::unknown(error),
    }
}

/// Without the escapes of an address.
fn plain(text: &str) -> String {
    let pairs = format!("v={}", text.replace('+', "%2B"));
    url::form_urlencoded::parse(pairs.as_bytes()).next().map_or_else(String::new, |(_, v)| v.into())
}
