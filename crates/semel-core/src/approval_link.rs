//! Links by which one named person answers one question, without an account. A link is
//! `NAMESPACE.SECRET`: whoever holds it may decide, so only a digest of it is stored.
//!
//! It is bound to one question: namespace, effect, generation, run, payload, and when it was asked.
//! A question is answered once, for ever, so its links are good for one decision between them and
//! need no mark of their own; asked anew, it is another question.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::effect::Refusal;
use crate::effect::approve::spelt;
use crate::key::{Action, Address, Key, Namespace};
use crate::limits;
use crate::record::Effect;
use crate::time::{Moment, Wall};

/// The kind of the cards that links are.
pub const CARD: &str = "approval_link";

/// A link as its card keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub action: String,
    pub key: String,
    pub generation: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The payload, as the question names it.
    pub digest: String,
    pub asked: Wall,
    /// The actor of what is decided with it.
    pub approver: String,
    /// Who made it.
    pub maker: String,
    pub created: Wall,
    pub expires: Wall,
    /// Over token, namespace and all of the above: a card that was changed, or moved to another
    /// namespace, leads nowhere.
    #[serde(default)]
    pub seal: String,
}

/// For whom a link is, who makes it, and for how long it is good.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub approver: &'a str,
    pub maker: &'a str,
    pub expires_ms: u64,
}

/// Where a presented link is to be looked up. Nothing of it is believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    pub namespace: Namespace,
    /// The name of its card.
    pub card: String,
    token: String,
}

impl Presented {
    /// Takes a presented link apart. `None`: it is none of ours.
    pub fn read(token: &str) -> Option<Presented> {
        let (namespace, secret) = token.rsplit_once('.')?;
        let is_secret = secret.len() == 64 && secret.bytes().all(|b| b.is_ascii_hexdigit());
        let namespace = Namespace::stored(namespace).ok()?;
        is_secret.then(|| Presented { namespace, card: card_name(token), token: token.to_owned() })
    }

    /// What the link is about. `None`: the card is not the one that was written for it.
    pub fn leads_to(&self, link: &Link) -> Option<Address> {
        let seal = seal(&self.token, &self.namespace, link);
        if !bool::from(seal.as_bytes().ct_eq(link.seal.as_bytes())) {
            return None;
        }
        let action = Action::new(&link.action).ok()?;
        let key = Key::parse(&link.key).ok()?;
        Some(Address { namespace: self.namespace.clone(), action, key })
    }

    /// What a form on the page of this link must bring along: only who was shown the page knows it.
    pub fn form_value(&self, link: &Link) -> String {
        hex(&Sha256::digest(format!("form {} {}", self.token, link.digest).as_bytes()))
    }
}

impl Link {
    /// Whether it is about this very question.
    pub fn asks(&self, effect: &Effect) -> bool {
        let asked = effect.approval.as_ref();
        effect.generation == self.generation
            && effect.run == self.run
            && asked.is_some_and(|asked| asked.digest == self.digest && asked.asked == self.asked)
    }

    /// Whether its time is over. It is, too, where the clock cannot be trusted.
    pub fn is_over(&self, now: &Moment) -> bool {
        now.wall_is_behind || now.wall >= self.expires
    }
}

/// A new link and its record. The secret has 32 random bytes, given from outside. Whom four eyes
/// keep from deciding cannot make a link to decide by, for anybody.
pub fn mint(
    effect: &Effect,
    wish: Wish<'_>,
    secret: [u8; 32],
    now: &Moment,
) -> Result<(String, Link), Refusal> {
    let asked = effect.approval.as_ref().filter(|_| effect.is_held(now));
    let asked = asked.ok_or(Refusal::NotHeld(effect.state(now)))?;
    let Wish { approver, maker, expires_ms } = wish;
    let is_name = |name: &str| {
        !spelt(name).is_empty()
            && name.len() <= limits::NAME_BYTES_MAX
            && !name.contains(char::is_control)
    };
    if !is_name(approver) || !is_name(maker) {
        return Err(Refusal::ApprovalInvalid("a link is for a name of 1 to 100 bytes"));
    }
    if expires_ms == 0 || expires_ms > limits::APPROVAL_LINK_MS_MAX {
        return Err(Refusal::ApprovalInvalid("a link is good for a moment up to 90 days"));
    }
    if asked.is_own(approver) || asked.is_own(maker) {
        return Err(Refusal::FourEyes);
    }
    let address = &effect.address;
    let token = format!("{}.{}", address.namespace, hex(&secret));
    let mut link = Link {
        action: address.action.as_str().to_owned(),
        key: address.key.as_str().to_owned(),
        generation: effect.generation,
        run: effect.run.clone(),
        digest: asked.digest.clone(),
        asked: asked.asked,
        approver: approver.trim().to_owned(),
        maker: maker.trim().to_owned(),
        created: now.wall,
        expires: now.wall.plus(expires_ms),
        seal: String::new(),
    };
    link.seal = seal(&token, &address.namespace, &link);
    Ok((token, link))
}

/// The name of a link's card.
pub fn card_name(token: &str) -> String {
    hex(&Sha256::digest(format!("approval_link {token}").as_bytes()))
}

/// The token is secret and the inner digest has a fixed length, so nobody else can make one.
fn seal(token: &str, namespace: &Namespace, link: &Link) -> String {
    let parts = Link { seal: String::new(), ..link.clone() };
    let parts = serde_json::to_vec(&(namespace.as_str(), parts)).expect("a link is plain data");
    let mut hash = Sha256::new();
    hash.update(token.as_bytes());
    hash.update(Sha256::digest(&parts));
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::testing::Desk;

    const SECRET: [u8; 32] = [7; 32];

    fn wish<'a>(approver: &'a str, maker: &'a str) -> Wish<'a> {
        Wish { approver, maker, expires_ms: 60_000 }
    }

    fn asked(line: &str) -> Desk {
        let mut desk = Desk::new("native_key");
        desk.run(line);
        desk
    }

    fn minted(desk: &Desk) -> (Presented, Link) {
        let effect = desk.effect().expect("a row");
        let (token, link) = mint(effect, wish("bob", "ops"), SECRET, &desk.now).expect("a link");
        (Presented::read(&token).expect("ours"), link)
    }

    #[test]
    fn sec_40_a_link_has_256_bits_and_only_digests_are_stored() {
        let desk = asked("begin ask");
        let (presented, link) = minted(&desk);
        let secret = hex(&SECRET);
        assert_eq!(presented.token, format!("default.{secret}"));
        let record = serde_json::to_string(&link).unwrap();
        assert!(!record.contains(&secret) && !presented.card.contains(&secret));
        let address = presented.leads_to(&link).expect("its own card");
        assert_eq!(address, desk.effect().unwrap().address);
        assert!(link.asks(desk.effect().unwrap()));
    }

    #[test]
    fn sec_3_a_link_whose_card_was_changed_in_any_part_leads_nowhere() {
        let desk = asked("begin ask");
        let (presented, link) = minted(&desk);
        let swapped = [
            Link { action: "payment".into(), ..link.clone() },
            Link { key: "43".into(), ..link.clone() },
            Link { generation: 1, ..link.clone() },
            Link { run: Some("r1".into()), ..link.clone() },
            Link { digest: "00".into(), ..link.clone() },
            Link { asked: Wall(1), ..link.clone() },
            Link { approver: "eve".into(), ..link.clone() },
            Link { maker: "eve".into(), ..link.clone() },
            Link { created: Wall(1), ..link.clone() },
            Link { expires: link.expires.plus(1), ..link.clone() },
            Link { seal: String::new(), ..link.clone() },
        ];
        for card in swapped {
            assert_eq!(presented.leads_to(&card), None, "{card:?}");
        }
        let elsewhere = Namespace::new("other").unwrap();
        let moved = Presented { namespace: elsewhere, ..presented.clone() };
        assert_eq!(moved.leads_to(&link), None, "another namespace");
    }

    #[test]
    fn sec_3_texts_that_are_no_links_are_not_read() {
        let good = format!("default.{}", "a".repeat(64));
        assert!(Presented::read(&good).is_some());
        for text in ["", ".", "default", &good[..70], &format!("{good}0"), &good[7..], "a b.c"] {
            assert_eq!(Presented::read(text), None, "{text}");
        }
    }

    #[test]
    fn sec_43_four_eyes_hold_for_whoever_gets_and_whoever_makes_the_link() {
        let desk = asked("begin four_eyes=ada");
        let effect = desk.effect().expect("a row");
        let make = |who| mint(effect, who, SECRET, &desk.now).map(|_| ());
        assert_eq!(make(wish("bob", "ops")), Ok(()));
        assert_eq!(make(wish(" ADA ", "ops")), Err(Refusal::FourEyes));
        assert_eq!(make(wish("bob", "ada")), Err(Refusal::FourEyes));
        for name in ["", "  ", "\u{200b}", "a\nb", &"x".repeat(101)] {
            let refused = make(wish(name, "ops"));
            assert!(matches!(refused, Err(Refusal::ApprovalInvalid(_))), "{name:?}");
        }
    }

    #[test]
    fn sec_40_a_link_ends_and_a_question_put_anew_is_another() {
        let mut desk = asked("begin ask");
        let (_, link) = minted(&desk);
        assert!(!link.is_over(&desk.now));
        desk.run("wait 1m");
        assert!(link.is_over(&desk.now));
        let behind = Moment { wall_is_behind: true, wall: link.created, ..desk.now };
        assert!(link.is_over(&behind), "a clock that went back lengthens nothing");
        desk.run("begin as=harmless");
        assert!(!link.asks(desk.effect().unwrap()));
        desk.run("approve");
        let late = mint(desk.effect().unwrap(), wish("bob", "ops"), SECRET, &desk.now);
        assert!(matches!(late, Err(Refusal::NotHeld(_))), "nothing is asked any more");
    }

    #[test]
    fn a_form_value_is_of_one_link_and_one_payload() {
        let desk = asked("begin ask");
        let (presented, link) = minted(&desk);
        let other = Link { digest: "00".into(), ..link.clone() };
        assert_ne!(presented.form_value(&link), presented.form_value(&other));
    }
}
