//! Telling people that they are waited for: by webhook or by mail, chosen by an address.

mod mail;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use semel_core::contract::Declared;
use semel_core::notice;
use semel_core::record::Contract;
use semel_engine::{Error, Intent};
use serde_json::Value;
use url::Url;

use crate::{Code, Failure, Semel};

use mail::Mail;
use webhook::Webhook;

/// How long the other side may take for any one thing.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where people are told. It shows neither passwords nor secrets.
#[derive(Clone, Debug)]
pub struct Notifier {
    route: Route,
}

#[derive(Clone, Debug)]
enum Route {
    Webhook(Webhook),
    Mail(Mail),
}

impl Notifier {
    /// Reads `https://…`, `http://…`, or `smtp://user:password@host:port/?from=…&to=…` (`smtps://`
    /// for a server that speaks TLS from the start).
    pub fn parse(address: &str) -> Result<Notifier, Error> {
        // The address may hold a password: what is wrong is said without it.
        let url = Url::parse(address).map_err(|error| invalid(&error.to_string()))?;
        let route = match url.scheme() {
            "https" | "http" => Route::Webhook(Webhook::parse(&url)?),
            "smtp" | "smtps" => Route::Mail(Mail::parse(&url)?),
            _ => return Err(invalid("it begins with https, http, smtp or smtps")),
        };
        Ok(Notifier { route })
    }

    /// Signs what a webhook is sent (Standard Webhooks, v1): `whsec_` and base64, or any text.
    pub fn secret(mut self, secret: &str) -> Result<Notifier, Error> {
        match &mut self.route {
            Route::Webhook(webhook) => webhook.set_secret(secret)?,
            Route::Mail(_) => return Err(invalid("only a webhook is signed")),
        }
        Ok(self)
    }

    async fn send(&self, intent: Intent) -> Result<Value, Failure> {
        match &self.route {
            Route::Webhook(webhook) => webhook.send(&intent).await,
            Route::Mail(mail) => mail.send(&intent).await,
        }
    }
}

impl Semel {
    /// From now on this process tells people of this namespace that somebody waits for them: of
    /// approvals, of doubts that only they can end, and of paused runs. Each occasion is an effect
    /// of the action `semel.notify`, told at most once over all processes. Needs a tokio runtime.
    pub fn notify(&self, notifier: Notifier) -> Result<(), Error> {
        let notifier = Arc::new(notifier);
        let handler = self.handler(notice::ACTION).contract(Contract::AtMostOnce);
        handler.register(move |intent| {
            let notifier = notifier.clone();
            async move { notifier.send(intent).await }
        })?;
        let declared = Declared { contract: Some(Contract::AtMostOnce), ..Declared::default() };
        self.engine.start_notifying(self.namespace.clone(), declared);
        Ok(())
    }
}

fn invalid(why: &str) -> Error {
    Error::new(Code::InputInvalid, format!("no address to notify: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_who_is_told_and_shows_no_secret() {
        for address in [
            "https://hooks.example/semel?channel=7",
            "http://127.0.0.1:8080/",
            "smtp://ann:pa%3Ass@mail.example:587/?from=semel@a.example&to=ops@a.example",
            "smtps://mail.example/?from=semel@a.example&to=a@a.example,b@a.example",
        ] {
            let notifier = Notifier::parse(address).expect(address);
            let shown = format!("{notifier:?}");
            assert!(!shown.contains("pa:ss") && !shown.contains("channel=7"), "{shown}");
        }
        let signed = Notifier::parse("https://hooks.example/").unwrap().secret("whsec_c2VjcmV0");
        assert!(!format!("{signed:?}").contains("secret\""), "{signed:?}");
    }

    #[test]
    fn what_cannot_be_told_is_refused_without_its_password() {
        for address in [
            "",
            "mail.example",
            "ftp://a.example/",
            "smtp://ann:hush@mail.example/",
            "smtp://ann:hush@mail.example/?from=a@a.example",
            "smtp://ann:hush@mail.example/?from=a@a.example&to=nobody",
            "smtp://ann:hush@/?from=a@a.example&to=b@a.example",
        ] {
            let error = Notifier::parse(address).expect_err(address);
            assert_eq!(error.code(), Code::InputInvalid);
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        let mail = Notifier::parse("smtp://h/?from=a@a.example&to=b@a.example").unwrap();
        assert!(mail.secret("s").is_err());
        let hook = Notifier::parse("http://h/").unwrap();
        assert!(hook.clone().secret("whsec_not base64").is_err());
        assert!(hook.secret("").is_err());
    }
}
