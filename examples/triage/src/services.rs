//! The three services that triage talks to. Each call says what its failure proves: that nothing
//! happened, that nothing ever will, or neither.

use std::sync::Arc;
use std::time::Duration;

use lettre::message::Message;
use lettre::transport::smtp;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::extension::ClientId;
use semel::{Failure, Intent, classify};
use serde::Deserialize;
use serde_json::json;

use crate::{Class, Mail, Question, Ticket};

/// Longer than any of them takes, shorter than the deadline of an attempt.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where the services are.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model, such as `http://127.0.0.1:8001`.
    pub model: String,
    /// The CRM, such as `http://127.0.0.1:8002`.
    pub crm: String,
    /// The mail server, such as `127.0.0.1:2525`.
    pub mail: String,
    /// How long a mail may still be accepted after its attempt was cut: before that, nobody may
    /// send it again.
    pub settle_window: Duration,
    /// How long a worker may give no sign of life before another one goes on.
    pub lease: Duration,
}

/// The services, ready to be called. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    client: reqwest::Client,
    settings: Arc<Settings>,
}

impl Services {
    pub fn new(settings: Settings) -> Result<Services, reqwest::Error> {
        // A redirect would hide what the first server did: see `semel::classify`.
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()?;
        Ok(Services { client, settings: Arc::new(settings) })
    }

    pub fn settle_window(&self) -> Duration {
        self.settings.settle_window
    }

    pub fn lease(&self) -> Duration {
        self.settings.lease
    }

    /// Asks the model. Any failure is tried again.
    pub async fn classify(self, question: Question) -> Result<Class, Failure> {
        let url = format!("{}/classify", self.settings.model);
        let response = self.client.post(url).json(&question).send().await?;
        Ok(classify::response(response)?.json().await?)
    }

    /// Creates the ticket, or gets the one that this key created before.
    pub async fn create_ticket(self, intent: Intent) -> Result<Ticket, Failure> {
        #[derive(Deserialize)]
        struct Input {
            request_id: String,
            subject: String,
        }
        let Input { request_id, subject } = intent.input_as()?;
        let request = self
            .client
            .post(format!("{}/native/tickets", self.settings.crm))
            .header("idempotency-key", intent.downstream_key())
            .json(&json!({ "reference": request_id, "subject": subject }));
        Ok(classify::send(request).await?.json().await?)
    }

    /// Sends the acknowledgement.
    pub async fn acknowledge(self, intent: Intent) -> Result<Mail, Failure> {
        #[derive(Deserialize)]
        struct Input {
            recipient: String,
            ticket: String,
        }
        let Input { recipient, ticket } = intent.input_as()?;
        // Derived from the intent, so that a person can look for it at the destination.
        let message_id = format!("<{}@triage.example>", intent.downstream_key());
        let message = Message::builder()
            .message_id(Some(message_id.clone()))
            .from("Support <support@triage.example>".parse().map_err(Failure::refused)?)
            .to(recipient.parse().map_err(Failure::refused)?)
            .subject(format!("We have your request: {ticket}"))
            .body(format!("Thank you. Your request is now ticket {ticket}.\r\n"))
            .map_err(Failure::refused)?;
        let (server, us) = (&*self.settings.mail, ClientId::Domain("triage.example".to_owned()));
        let connected =
            AsyncSmtpConnection::connect_tokio1(server, Some(PATIENCE), &us, None, None).await;
        // Before the greetings are over nothing of the mail has left.
        let mut connection = connected.map_err(Failure::not_applied)?;
        let sent = connection.send(message.envelope(), &message.formatted()).await;
        sent.map_err(|error| judge(&error))?;
        // It was accepted: how the connection ends is of no interest.
        let _ = connection.quit().await;
        Ok(Mail { message_id })
    }
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
