//! Texts with places in them: `{body:/data/id}`, `{header:x-request-id}`. Read once when a trigger
//! is put; filling one in copies values and evaluates nothing.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::event::Unusable;
use super::pointer::{Astray, Pointer};
use super::request::Request;
use super::verify::Refused;
use crate::idempotency;
use crate::json::Json;
use crate::limits;

/// A text with places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

/// What is signed, as a trigger's author describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pieces: Vec<SignedPiece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Header(String),
    Body(Pointer, String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SignedPiece {
    Text(String),
    Header(String),
    Timestamp,
    Body,
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateInvalid(pub String);

impl std::fmt::Display for TemplateInvalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Template, TemplateInvalid> {
        let pieces = split(text)?.into_iter().map(|part| match part {
            Part::Text(text) => Ok(Piece::Text(text)),
            Part::Place(place) => match place.split_once(':') {
                Some(("header", name)) => Ok(Piece::Header(header_name(name)?)),
                Some(("body", pointer)) => Ok(Piece::Body(
                    Pointer::parse(pointer).map_err(|error| TemplateInvalid(error.0))?,
                    pointer.to_owned(),
                )),
                None if place == "body" => {
                    Ok(Piece::Body(Pointer::parse("").expect("empty"), String::new()))
                }
                Some(_) | None => Err(TemplateInvalid(format!(
                    "`{{{place}}}` is no place; there are {{header:NAME}}, {{body:/POINTER}} and \
                     {{body}}"
                ))),
            },
        });
        Ok(Template { pieces: pieces.collect::<Result<_, _>>()? })
    }

    /// Whether it has a place: a key without one would be the same for all deliveries.
    pub(super) fn has_a_place(&self) -> bool {
        self.pieces.iter().any(|piece| !matches!(piece, Piece::Text(_)))
    }

    /// The text with its places filled in. Each must have something in it.
    pub(super) fn text(&self, request: &Request<'_>, body: &[u8]) -> Result<String, Unusable> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Header(name) => text.push_str(&header(request, name)?),
                Piece::Body(pointer, shown) => {
                    text.push_str(&plain(find(pointer, shown, body)?, shown)?);
                }
            }
            // Nothing that is this long becomes a key, and it bounds what places can add up to.
            if text.len() > limits::VALUE_BYTES_MAX {
                return Err(Unusable::Invalid("a text made of places is too long".into()));
            }
        }
        Ok(text)
    }

    /// The value: that of the body where the template is one place in it, a string otherwise.
    pub(super) fn value(&self, request: &Request<'_>, body: &[u8]) -> Result<Json, Unusable> {
        let value = match self.pieces.as_slice() {
            [Piece::Body(pointer, shown)] => Json::from_text(find(pointer, shown, body)?.get()),
            _ => Json::of(&self.text(request, body)?),
        };
        value.map_err(|error| Unusable::Invalid(error.to_string()))
    }
}

impl Signed {
    /// Reads what is signed. The body must be in it, and the time where there is one: what is not
    /// signed can be changed by anybody.
    pub(super) fn parse(text: &str, has_timestamp: bool) -> Result<Signed, TemplateInvalid> {
        let pieces = split(text)?.into_iter().map(|part| match part {
            Part::Text(text) => Ok(SignedPiece::Text(text)),
            Part::Place(place) => match (place.as_str(), place.split_once(':')) {
                ("body", _) => Ok(SignedPiece::Body),
                ("timestamp", _) => Ok(SignedPiece::Timestamp),
                (_, Some(("header", name))) => Ok(SignedPiece::Header(header_name(name)?)),
                _ => Err(TemplateInvalid(format!(
                    "`{{{place}}}` is nothing that is signed; there are {{timestamp}}, \
                     {{header:NAME}} and {{body}}"
                ))),
            },
        });
        let pieces = pieces.collect::<Result<Vec<_>, _>>()?;
        let count = |wanted: &SignedPiece| pieces.iter().filter(|piece| *piece == wanted).count();
        let problem = match (count(&SignedPiece::Body), count(&SignedPiece::Timestamp)) {
            (1, times) if has_timestamp == (times > 0) => return Ok(Signed { pieces }),
            (1, 0) => "the time of `timestamp_header` is not in what is signed: add {timestamp}",
            (1, _) => "{timestamp} needs a `timestamp_header`",
            _ => "what is signed must have {body} in it, once",
        };
        Err(TemplateInvalid(problem.into()))
    }

    pub(super) fn pieces<'a>(
        &'a self,
        request: &Request<'a>,
        timestamp: &'a str,
    ) -> Result<Vec<&'a [u8]>, Refused> {
        let piece = |piece: &'a SignedPiece| {
            Ok(match piece {
                SignedPiece::Text(text) => text.as_bytes(),
                SignedPiece::Header(name) => request.needed(name)?.as_bytes(),
                SignedPiece::Timestamp => timestamp.as_bytes(),
                SignedPiece::Body => request.body,
            })
        };
        self.pieces.iter().map(piece).collect()
    }
}

/// The one header of this name, with something in it. `Idempotency-Key` is read as everywhere.
fn header<'a>(request: &Request<'a>, name: &str) -> Result<Cow<'a, str>, Unusable> {
    if name == "idempotency-key" {
        let lines: Vec<&[u8]> = request.lines(name).collect();
        let key = idempotency::text(&lines).map_err(|error| Unusable::Key(error.to_string()))?;
        let missing = || Unusable::Missing(format!("the header {name} is missing"));
        return key.filter(|key| !key.is_empty()).map(Cow::Owned).ok_or_else(missing);
    }
    let text = request.needed(name).map_err(|refused| {
        let why = match refused {
            Refused::Repeated => "is there twice",
            Refused::Malformed => "is no plain text",
            _ => "is missing",
        };
        Unusable::Missing(format!("the header {name} {why}"))
    })?;
    Ok(Cow::Borrowed(text))
}

fn find<'a>(pointer: &Pointer, shown: &str, body: &'a [u8]) -> Result<&'a RawValue, Unusable> {
    pointer.find(body).map_err(|astray| match astray {
        Astray::NotThere => Unusable::Missing(format!("the body has no {shown}")),
        Astray::Twice => {
            Unusable::Invalid(format!("a member on the way to {shown} is there twice"))
        }
        Astray::NotJson => Unusable::Invalid("the body is no JSON".into()),
    })
}

/// A value as a part of a text: a string, or a whole number as it is written. Anything else names
/// nothing.
fn plain(value: &RawValue, shown: &str) -> Result<String, Unusable> {
    let text = value.get();
    if text.starts_with('"') {
        let plain: String = serde_json::from_str(text)
            .map_err(|_| Unusable::Invalid(format!("the text at {shown} cannot be read")))?;
        if plain.is_empty() {
            return Err(Unusable::Missing(format!("the text at {shown} is empty")));
        }
        return Ok(plain);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return Ok(text.to_owned());
    }
    Err(Unusable::Invalid(format!("the value at {shown} is neither a text nor a whole number")))
}

enum Part {
    Text(String),
    Place(String),
}

/// Texts and places in their order. `{{` and `}}` are plain braces.
fn split(text: &str) -> Result<Vec<Part>, TemplateInvalid> {
    if text.len() > limits::HOOK_TEMPLATE_BYTES_MAX {
        return Err(TemplateInvalid("a template is longer than 2000 bytes".into()));
    }
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            plain.push_str(brace);
            rest = after;
            continue;
        }
        let end = rest.find('}').filter(|_| brace == "{");
        let Some(end) = end else {
            return Err(TemplateInvalid(format!("`{text}` has a brace without its pair")));
        };
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(Part::Place(rest[..end].to_owned()));
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

/// A header's name in lower case, checked.
pub(super) fn header_name(name: &str) -> Result<String, TemplateInvalid> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || !name.chars().all(is_plain) {
        return Err(TemplateInvalid(format!("`{name}` is no name of a header")));
    }
    Ok(name.to_ascii_lowercase())
}
