//! Triage of a support inbox: a model classifies the request, the CRM gets one ticket, the sender
//! gets one acknowledgement. Kill the worker where you like; the next one goes on.

mod services;

pub use services::{Services, Settings};

use semel::{Context, Contract, Error, NativeKey};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A request, as it came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbound {
    /// What the business calls this request: the keys of all effects are made of it.
    pub request_id: String,
    /// The address of whoever asks.
    pub sender: String,
    pub subject: String,
    pub text: String,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub class: Class,
    pub ticket: Ticket,
    pub mail: Mail,
}

/// What the model is asked.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    pub model: String,
    pub subject: String,
    pub text: String,
}

/// What the model says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    pub category: String,
    pub urgent: bool,
}

/// A ticket, as the CRM answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub id: String,
}

/// A mail that the mail server has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    pub message_id: String,
}

/// The workflow. What it asks for is answered by the journal when the run is replayed.
pub async fn triage(ctx: Context, inbound: Inbound, services: Services) -> Result<Outcome, Error> {
    let Inbound { request_id, sender, subject, text } = inbound;

    // The answer is recorded once, and whatever follows works with that one. A crash between the
    // answer and its record asks, and pays, once more: that is all a model can offer.
    let question = Question { model: "triage-1".to_owned(), subject: subject.clone(), text };
    let (model, asked) = (services.clone(), question.clone());
    let class: Class =
        ctx.model("classify", &question, move || model.clone().classify(asked.clone())).await?;

    // The CRM honours an idempotency key for a day: after a crash the same key is sent again. The
    // category is a model's word, so it is no part of what makes this the same intent.
    let lease = services.lease();
    let crm = services.clone();
    let subject = format!("[{}] {subject}", class.category);
    let ticket: Ticket = ctx
        .effect("crm-ticket")
        .intent("Create the ticket of a request")
        .key([&request_id])
        .input(&json!({ "request_id": request_id, "subject": subject }))
        .fingerprint(["request_id"])
        .contract(NativeKey::hours(24))
        .lease(lease)
        .deadline(2 * lease)
        .call(move |intent| crm.clone().create_ticket(intent))
        .await?;

    // SMTP offers nothing to find out or to recognise a repeat: at most once, and a mail that was
    // cut on its way waits for a person. `v1` is this wording.
    let settle_window = services.settle_window();
    let mail: Mail = ctx
        .effect("ack-mail")
        .intent("Tell the sender the number of the ticket")
        .key([request_id.as_str(), sender.as_str(), "v1"])
        .input(&json!({ "recipient": sender, "ticket": ticket.id }))
        .contract(Contract::AtMostOnce)
        .settle_window(settle_window)
        .lease(lease)
        .deadline(2 * lease)
        .call(move |intent| services.clone().acknowledge(intent))
        .await?;

    Ok(Outcome { class, ticket, mail })
}
