//! The small shapes: names, links, cards, what comes from outside, and the ground of a decision.

use std::borrow::Cow;

use semel_core::effect::{Ground, Quarantine, Rows};
use semel_core::journal::Link;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::time::{Moment, Steady, Wall};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Malformed;
use crate::{Card, Delivery, Inked};

/// Namespace, action and key of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressShape<'a>(pub Cow<'a, str>, pub Cow<'a, str>, pub Cow<'a, str>);

impl<'a> From<&'a Address> for AddressShape<'a> {
    fn from(address: &'a Address) -> AddressShape<'a> {
        let Address { namespace, action, key } = address;
        AddressShape(namespace.as_str().into(), action.as_str().into(), key.as_str().into())
    }
}

impl AddressShape<'_> {
    /// Checks the names.
    pub fn read(&self) -> Result<Address, Malformed> {
        Ok(Address {
            namespace: Namespace::stored(&self.0).map_err(|error| Malformed(error.to_string()))?,
            action: Action::new(&self.1).map_err(|error| Malformed(error.to_string()))?,
            key: Key::parse(&self.2).map_err(|error| Malformed(error.to_string()))?,
        })
    }
}

/// A link, as 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkShape(pub Link);

impl Serialize for LinkShape {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        to.serialize_str(std::str::from_utf8(&text).expect("hex digits are ASCII"))
    }
}

impl<'de> Deserialize<'de> for LinkShape {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LinkShape, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        read_link(&text).map(LinkShape).ok_or_else(|| D::Error::custom("a link is 64 hex digits"))
    }
}

fn read_link(text: &str) -> Option<Link> {
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(Link(bytes))
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardShape<'a> {
    pub namespace: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Wall>,
    pub record: Cow<'a, str>,
}

impl<'a> From<&'a Card> for CardShape<'a> {
    fn from(card: &'a Card) -> CardShape<'a> {
        let Card { namespace, kind, name, version, due, record } = card;
        CardShape {
            namespace: namespace.into(),
            kind: kind.into(),
            name: name.into(),
            version: *version,
            due: *due,
            record: record.into(),
        }
    }
}

impl From<CardShape<'_>> for Card {
    fn from(shape: CardShape<'_>) -> Card {
        let CardShape { namespace, kind, name, version, due, record } = shape;
        Card {
            namespace: namespace.into_owned(),
            kind: kind.into_owned(),
            name: name.into_owned(),
            version,
            due,
            record: record.into_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryShape<'a> {
    pub run: i64,
    pub number: i64,
    pub identity: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub payload: Cow<'a, str>,
    pub at: Wall,
    pub consumed: bool,
}

impl<'a> From<&'a Delivery> for DeliveryShape<'a> {
    fn from(delivery: &'a Delivery) -> DeliveryShape<'a> {
        let Delivery { run, number, identity, name, payload, at, consumed } = delivery;
        DeliveryShape {
            run: *run,
            number: *number,
            identity: identity.into(),
            name: name.into(),
            payload: payload.into(),
            at: *at,
            consumed: *consumed,
        }
    }
}

impl From<DeliveryShape<'_>> for Delivery {
    fn from(shape: DeliveryShape<'_>) -> Delivery {
        let DeliveryShape { run, number, identity, name, payload, at, consumed } = shape;
        Delivery {
            run,
            number,
            identity: identity.into_owned(),
            name: name.into_owned(),
            payload: payload.into_owned(),
            at,
            consumed,
        }
    }
}

/// One entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InkedShape<'a> {
    pub seq: u64,
    pub link: LinkShape,
    pub text: Cow<'a, str>,
}

impl<'a> From<&'a Inked> for InkedShape<'a> {
    fn from(Inked { seq, link, text }: &'a Inked) -> InkedShape<'a> {
        InkedShape { seq: *seq, link: LinkShape(*link), text: text.into() }
    }
}

impl From<InkedShape<'_>> for Inked {
    fn from(InkedShape { seq, link, text }: InkedShape<'_>) -> Inked {
        Inked { seq, link: link.0, text: text.into_owned() }
    }
}

/// The store's time, its epoch and its quarantine, when the server wrote the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroundShape {
    pub wall: Wall,
    pub steady: Steady,
    #[serde(default, skip_serializing_if = "is_false")]
    pub wall_is_behind: bool,
    pub epoch: u64,
    /// Since when, and the newest time that the restored store remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<(Wall, Wall)>,
}

impl From<Ground> for GroundShape {
    fn from(Ground { now, epoch, quarantine }: Ground) -> GroundShape {
        let Moment { wall, steady, wall_is_behind } = now;
        let quarantine = quarantine.map(|known| (known.opened, known.recovered));
        GroundShape { wall, steady, wall_is_behind, epoch, quarantine }
    }
}

impl From<GroundShape> for Ground {
    fn from(shape: GroundShape) -> Ground {
        let GroundShape { wall, steady, wall_is_behind, epoch, quarantine } = shape;
        // No transaction comes this way.
        let rows = Rows::MayHaveStayed;
        let quarantine =
            quarantine.map(|(opened, recovered)| Quarantine { opened, recovered, rows });
        Ground { now: Moment { wall, steady, wall_is_behind }, epoch, quarantine }
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}
