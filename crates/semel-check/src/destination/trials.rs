//! The trials, one after the other, and what was seen.

use std::time::{Duration, Instant};

use semel_core::canonical::canonical;
use semel_core::claim::{Answer, Kind, Search, Seen, Trial};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::sleep;

use super::client::{Client, Message, Reply};
use super::wish::{Names, REFERENCE, Trouble, Wish, parse_url};

/// How long a search may take to find what was created.
const VISIBLE_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A repeat after a cut may meet the first one still under way; so often it asks again.
const CONFLICTS_MAX: usize = 50;

/// Sends real requests: a sandbox will have some objects more. `tell` hears which trial begins.
pub async fn try_out(wish: &Wish, tell: impl Fn(&'static str)) -> Result<Seen, Trouble> {
    wish.check()?;
    let bench = Bench { wish, client: Client::new()?, names: Names::new(), lag: Duration::ZERO };
    bench.all(tell).await
}

struct Bench<'a> {
    wish: &'a Wish,
    client: Client,
    names: Names,
    /// How long a search is behind.
    lag: Duration,
}

impl Bench<'_> {
    async fn all(mut self, tell: impl Fn(&'static str)) -> Result<Seen, Trouble> {
        let mut seen = Seen::default();
        if self.wish.lookup.is_some() {
            tell("search");
            seen.search = self.search().await?;
            let lag_ms = seen.search.as_ref().map_or(0, |search| search.visible_ms);
            self.lag = Duration::from_millis(lag_ms);
        }
        let (key, reference) = (self.names.draw(), self.names.draw());
        for kind in [Kind::Twice, Kind::OtherBody, Kind::AtOnce, Kind::Cut] {
            tell(kind.name());
            seen.trials.extend(self.trial(kind, &key, &reference).await?);
        }
        for kind in [Kind::FreshKey, Kind::NoKey] {
            tell(kind.name());
            seen.trials.extend(self.trial(kind, &key, &reference).await?);
        }
        if self.wish.conditional {
            for kind in [Kind::CreateTwice, Kind::CreateAtOnce] {
                tell(kind.name());
                seen.trials.extend(self.trial(kind, &key, &reference).await?);
            }
        }
        if self.wish.wait_ms > 0 {
            tell(Kind::Later.name());
            sleep(Duration::from_millis(self.wish.wait_ms)).await;
            seen.paused_ms = self.wish.wait_ms;
            seen.trials.extend(self.trial(Kind::Later, &key, &reference).await?);
        }
        Ok(seen)
    }

    /// One trial with the counts around it. None: it cannot be tried.
    async fn trial(&self, kind: Kind, key: &str, first: &str) -> Result<Option<Trial>, Trouble> {
        let fresh = self.names.draw();
        let reference = match kind {
            Kind::Twice | Kind::OtherBody | Kind::FreshKey | Kind::NoKey | Kind::Later => first,
            Kind::AtOnce | Kind::Cut | Kind::CreateTwice | Kind::CreateAtOnce => &fresh,
        };
        let other = self.names.draw();
        let request = match kind {
            Kind::Twice | Kind::Later => self.message(reference, Some(key)),
            Kind::OtherBody => match self.other_body(&other, reference, key) {
                Some(message) => message,
                None => return Ok(None),
            },
            Kind::AtOnce | Kind::Cut | Kind::FreshKey => {
                self.message(reference, Some(&self.names.draw()))
            }
            Kind::NoKey => self.message(reference, None),
            Kind::CreateTwice | Kind::CreateAtOnce => self.creation(reference),
        }?;
        let references = [reference, &other];
        let before = self.objects(&references).await?;
        let answers = match kind {
            Kind::Twice | Kind::CreateTwice => {
                vec![self.answer(&request).await?, self.answer(&request).await?]
            }
            Kind::OtherBody | Kind::FreshKey | Kind::NoKey | Kind::Later => {
                vec![self.answer(&request).await?]
            }
            Kind::AtOnce | Kind::CreateAtOnce => self.at_once(&request).await?,
            Kind::Cut => {
                self.client.send_and_leave(&request).await?;
                vec![self.settled(&request).await?, self.answer(&request).await?]
            }
        };
        sleep(self.lag).await;
        let after = self.objects(&references).await?;
        let objects = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok(Some(Trial { kind, answers, objects }))
    }

    /// All on connections of their own, and none waits for another.
    async fn at_once(&self, request: &Message) -> Result<Vec<Answer>, Trouble> {
        let sends = (0..self.wish.at_once).map(|_| self.answer(request));
        futures_util::future::join_all(sends).await.into_iter().collect()
    }

    /// Asks again while the first is under way.
    async fn settled(&self, request: &Message) -> Result<Answer, Trouble> {
        let mut answer = self.answer(request).await?;
        for _ in 0..CONFLICTS_MAX {
            if !matches!(answer.status, Some(409 | 425 | 429)) {
                break;
            }
            sleep(LOOK_EVERY).await;
            answer = self.answer(request).await?;
        }
        Ok(answer)
    }

    /// None: there was nothing to look for, since the creation did not succeed.
    async fn search(&self) -> Result<Option<Search>, Trouble> {
        let reference = self.names.draw();
        let before = self.found(&reference).await?;
        let creation = self.message(&reference, Some(&self.names.draw()))?;
        let created = self.client.send(&creation).await?;
        if !created.is_some_and(|reply| (200..300).contains(&reply.status)) {
            return Ok(None);
        }
        let started = Instant::now();
        let mut after = self.found(&reference).await?;
        let mut visible = Duration::ZERO;
        while after <= before && started.elapsed() < VISIBLE_MAX {
            sleep(LOOK_EVERY).await;
            after = self.found(&reference).await?;
            visible = started.elapsed();
        }
        let visible_ms = u64::try_from(visible.as_millis()).unwrap_or(u64::MAX);
        Ok(Some(Search { before, after, visible_ms }))
    }

    /// How many objects there are, where anybody can say.
    async fn objects(&self, references: &[&str]) -> Result<Option<u64>, Trouble> {
        if self.wish.lookup.is_some() {
            let mut sum = 0;
            for reference in references {
                sum += self.found(reference).await?;
            }
            return Ok(Some(sum));
        }
        let Some(address) = &self.wish.count else { return Ok(None) };
        let reply = self.get(address).await?;
        number(&reply, &self.wish.counted).map(Some)
    }

    async fn found(&self, reference: &str) -> Result<u64, Trouble> {
        let address = self.wish.lookup.as_deref().unwrap_or_default();
        let reply = self.get(&address.replace(REFERENCE, reference)).await?;
        // Many services answer so when there is none.
        if reply.status == 404 { Ok(0) } else { number(&reply, &self.wish.found) }
    }

    async fn get(&self, address: &str) -> Result<Reply, Trouble> {
        let message = Message {
            method: "GET".into(),
            url: parse_url(address)?,
            headers: self.wish.headers.clone(),
            body: String::new(),
        };
        let none = || Trouble::Unreachable(format!("no answer from {address}"));
        self.client.send(&message).await?.ok_or_else(none)
    }

    async fn answer(&self, request: &Message) -> Result<Answer, Trouble> {
        Ok(match self.client.send(request).await? {
            None => Answer { status: None, object: None },
            Some(reply) => {
                let object = object(&reply.body, self.wish.id.as_deref());
                Answer { status: Some(reply.status), object: Some(object) }
            }
        })
    }

    fn message(&self, reference: &str, key: Option<&str>) -> Result<Message, Trouble> {
        self.message_with(&self.wish.body, reference, key)
    }

    /// None: nobody said what another body is.
    fn other_body(
        &self,
        other: &str,
        reference: &str,
        key: &str,
    ) -> Option<Result<Message, Trouble>> {
        if let Some(body) = &self.wish.other_body {
            return Some(self.message_with(body, reference, Some(key)));
        }
        // The path stays: another path would be another request, not another body.
        let is_in_body = self.wish.body.contains(REFERENCE);
        let body = self.wish.body.replace(REFERENCE, other);
        is_in_body.then(|| self.message_with(&body, reference, Some(key)))
    }

    fn creation(&self, reference: &str) -> Result<Message, Trouble> {
        let mut message = self.message(reference, None)?;
        let is_there =
            message.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("if-none-match"));
        if !is_there {
            message.headers.push(("if-none-match".into(), "*".into()));
        }
        Ok(message)
    }

    fn message_with(
        &self,
        body: &str,
        reference: &str,
        key: Option<&str>,
    ) -> Result<Message, Trouble> {
        let named = |text: &str| text.replace(REFERENCE, reference);
        let mut headers: Vec<(String, String)> =
            self.wish.headers.iter().map(|(name, value)| (name.clone(), named(value))).collect();
        let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if !has_type && !body.is_empty() {
            headers.push(("content-type".into(), "application/json".into()));
        }
        headers.extend(key.map(|key| (self.wish.key_header.clone(), key.to_owned())));
        let url = parse_url(&named(&self.wish.url))?;
        Ok(Message { method: self.wish.method.clone(), url, headers, body: named(body) })
    }
}

/// What an answer names: the member that was pointed to, its `id`, or all of it.
fn object(body: &[u8], pointer: Option<&str>) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let named = value.pointer(pointer.unwrap_or("/id")).filter(|named| !named.is_null());
    match named {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => {
            let bytes = canonical(body).map_or_else(|| body.to_vec(), String::into_bytes);
            let hash = Sha256::digest(&bytes);
            let hex: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            format!("answer {hex}")
        }
    }
}

/// A number, or how long a list is.
fn number(reply: &Reply, pointer: &str) -> Result<u64, Trouble> {
    let value: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let at = value.pointer(pointer);
    let count = match at {
        Some(Value::Array(items)) => Some(items.len() as u64),
        Some(other) => other.as_u64(),
        None => None,
    };
    let place = if pointer.is_empty() { "the answer".into() } else { format!("`{pointer}`") };
    count.ok_or_else(|| {
        let status = reply.status;
        Trouble::Usage(format!("a count or a lookup got status {status}, and {place} is no list"))
    })
}
