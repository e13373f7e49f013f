//! What a genuine delivery says: who it is, and the JSON that keys and inputs are made of.

use std::borrow::Cow;

use super::cloud;
use super::pointer::{Astray, Pointer};
use super::request::Request;
use super::scheme::Scheme;
use super::verify::{Refused, standard_headers};
use crate::code::Code;
use crate::json::{Json, JsonInvalid};

/// A delivery that was verified, read.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    request: Request<'a>,
    scheme: &'a Scheme,
    /// What places in templates look at: the body, or a CloudEvent in the one form that both of
    /// its modes have.
    body: Cow<'a, [u8]>,
}

/// Why no run can be made of a genuine delivery. The trigger's author, or the sender, has to change
/// something; until then it may be delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// A part of the key or of the input is not there.
    Missing(String),
    Invalid(String),
    /// The parts are there and make no key.
    Key(String),
}

impl Unusable {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Unusable::Missing(_) | Unusable::Invalid(_) => Code::InputInvalid,
            Unusable::Key(_) => Code::KeyInvalid,
        }
    }
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Unusable::Missing(why) | Unusable::Invalid(why) | Unusable::Key(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Unusable {}

impl From<JsonInvalid> for Unusable {
    fn from(error: JsonInvalid) -> Unusable {
        Unusable::Invalid(error.to_string())
    }
}

impl<'a> Event<'a> {
    /// Reads a delivery that was verified.
    pub fn read(scheme: &'a Scheme, request: Request<'a>) -> Result<Event<'a>, Unusable> {
        let body = match scheme {
            Scheme::CloudEvents(_) => Cow::Owned(cloud::read(&request)?.into_bytes()),
            _ => Cow::Borrowed(request.body),
        };
        Ok(Event { request, scheme, body })
    }

    pub(super) fn request(&self) -> &Request<'a> {
        &self.request
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// By what the sender tells deliveries apart: the same for each redelivery.
    pub(super) fn identity(&self) -> Result<Vec<String>, Unusable> {
        let header = |name: &str| {
            let found = self.request.needed(name);
            found.map(|id| vec![id.to_owned()]).map_err(|refused| of_header(name, refused))
        };
        match self.scheme {
            Scheme::Standard => header(standard_headers(&self.request)[0]),
            Scheme::GitHub => header("x-github-delivery"),
            Scheme::Stripe => self.texts(&["/id"]),
            Scheme::Slack => self.texts(&["/event_id"]),
            Scheme::CloudEvents(_) => self.texts(&["/source", "/id"]),
            Scheme::Hmac(_) | Scheme::Bearer { .. } => {
                Err(Unusable::Missing("the trigger does not say what its key is".into()))
            }
        }
    }

    fn texts(&self, pointers: &[&str]) -> Result<Vec<String>, Unusable> {
        pointers.iter().map(|pointer| self.text(pointer)).collect()
    }

    fn text(&self, pointer: &str) -> Result<String, Unusable> {
        let found = Pointer::parse(pointer).expect("a pointer of ours").find(&self.body);
        let value = found.map_err(|astray| match astray {
            Astray::NotJson => Unusable::Invalid("the body is no JSON".into()),
            Astray::Twice => Unusable::Invalid(format!("the body has {pointer} twice")),
            Astray::NotThere => Unusable::Missing(format!("the body has no {pointer}")),
        })?;
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        text.filter(|text| !text.is_empty())
            .ok_or_else(|| Unusable::Invalid(format!("{pointer} of the body is no text")))
    }

    /// The whole body as JSON; an empty one is `null`.
    pub(super) fn whole(&self) -> Result<Json, Unusable> {
        if self.body.is_empty() {
            return Ok(Json::null());
        }
        let text = str::from_utf8(&self.body)
            .map_err(|_| Unusable::Invalid("the body is no JSON".into()))?;
        Json::from_text(text)
            .map_err(|error| Unusable::Invalid(format!("the body is no JSON: {}", error.0)))
    }

    /// What Slack wants back before it sends events to an address.
    pub fn challenge(&self) -> Option<String> {
        if *self.scheme != Scheme::Slack || self.text("/type").ok()? != "url_verification" {
            return None;
        }
        self.text("/challenge").ok()
    }
}

pub(super) fn of_header(name: &str, refused: Refused) -> Unusable {
    match refused {
        Refused::Repeated => Unusable::Invalid(format!("the header {name} is there twice")),
        Refused::Malformed => Unusable::Invalid(format!("the header {name} is no plain text")),
        _ => Unusable::Missing(format!("the header {name} is missing")),
    }
}
