//! CloudEvents 1.0 over HTTP. An event may come with its attributes in headers (binary mode) or all
//! in one JSON object (structured mode); both are read into the same object, so that a sender may
//! deliver it again in the other mode and it is still the same event.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::event::{Unusable, of_header};
use super::request::Request;
use crate::json::Json;
use crate::limits;

const STRUCTURED: &str = "application/cloudevents+json";
const FAMILY: &str = "application/cloudevents";

/// An event as one JSON object: attributes as texts, `data` as JSON, text, or in base64.
pub(super) fn read(request: &Request<'_>) -> Result<String, Unusable> {
    let media = request.media_type();
    let mut members = match media.as_deref() {
        Some(STRUCTURED) => structured(request)?,
        Some(other) if other.starts_with(FAMILY) => {
            let text = format!("{other} is not understood: send one event at a time, as JSON");
            return Err(Unusable::Invalid(text));
        }
        _ => binary(request, media.as_deref())?,
    };
    for needed in ["id", "source", "type"] {
        if !members.contains_key(needed) {
            return Err(Unusable::Missing(format!("the event has no {needed}")));
        }
    }
    match members.get("specversion").map(|version| version.text()) {
        Some("\"1.0\"") => {}
        Some(_) => return Err(Unusable::Invalid("only specversion 1.0 is understood".into())),
        None => return Err(Unusable::Missing("the event has no specversion".into())),
    }
    // JSON is what data is where nothing is said.
    let is_json = |kind: &Json| is_json(kind.text().trim_matches('"'));
    if members.get("datacontenttype").is_some_and(is_json) {
        members.remove("datacontenttype");
    }
    Ok(Json::of(&members)?.text().to_owned())
}

fn structured(request: &Request<'_>) -> Result<BTreeMap<String, Json>, Unusable> {
    let given: Members<'_> = serde_json::from_slice(request.body)
        .map_err(|error| Unusable::Invalid(format!("the event cannot be read: {error}")))?;
    let mut members = BTreeMap::new();
    for (name, value) in given.0 {
        let value = match (name.as_str(), value.get()) {
            (_, "null") => continue,
            ("data", text) => Json::from_text(text)?,
            (_, text) if text.starts_with('"') => {
                let plain: String = serde_json::from_str(text)
                    .map_err(|_| Unusable::Invalid(format!("{name} of the event is no text")))?;
                Json::of(&plain)?
            }
            (_, text) if text.starts_with(['{', '[']) => {
                return Err(Unusable::Invalid(format!("{name} of the event is no plain value")));
            }
            // In headers there are only texts: 5 and "5" are one attribute.
            (_, text) => Json::of(text)?,
        };
        if members.insert(name.clone(), value).is_some() {
            return Err(Unusable::Invalid(format!("{name} is in the event twice")));
        }
    }
    Ok(members)
}

fn binary(request: &Request<'_>, media: Option<&str>) -> Result<BTreeMap<String, Json>, Unusable> {
    let mut members = BTreeMap::new();
    let names = request.headers.iter().filter_map(|(name, _)| name.strip_prefix("ce-"));
    for name in names.take(limits::HOOK_MEMBERS_MAX) {
        let header = format!("ce-{name}");
        let text = request.needed(&header).map_err(|refused| of_header(&header, refused))?;
        members.insert(name.to_owned(), Json::of(&unescape(text)?)?);
    }
    if let Some(media) = media.filter(|media| !is_json(media)) {
        members.insert("datacontenttype".into(), Json::of(media)?);
    }
    if request.body.is_empty() {
        return Ok(members);
    }
    let text = str::from_utf8(request.body);
    match text {
        Ok(text) if media.is_none_or(is_json) => {
            let data = Json::from_text(text)?;
            members.insert("data".into(), data);
        }
        Ok(text) => {
            members.insert("data".into(), Json::of(text)?);
        }
        Err(_) => {
            let data = STANDARD.encode(request.body);
            members.insert("data_base64".into(), Json::of(&data)?);
        }
    }
    Ok(members)
}

/// Values of headers may be written with `%` and two digits for each byte.
fn unescape(text: &str) -> Result<String, Unusable> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let digit = |at: usize| more.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).expect("two digits are a byte"));
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| Unusable::Invalid("an attribute of the event is no text".into()))
}

fn is_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media.ends_with("+json")
}

/// The members of an object in their order, each as it is written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Members<'a>, D::Error> {
        struct All;
        impl<'de> serde::de::Visitor<'de> for All {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    if members.len() == limits::HOOK_MEMBERS_MAX {
                        return Err(serde::de::Error::custom("too many members"));
                    }
                    members.push(member);
                }
                Ok(members)
            }
        }
        reader.deserialize_map(All).map(Members)
    }
}
