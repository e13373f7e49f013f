//! What people have to be told: somebody waits for their decision. Telling is an effect like any
//! other, one for each occasion, so that it happens once however many processes see the occasion.

use serde_json::{Value, json};

use crate::derive;
use crate::effect::State;
use crate::json::Json;
use crate::key::{Action, IntoKey, Key, Namespace};
use crate::limits;
use crate::record::Effect;
use crate::run::{self, Run};
use crate::time::Moment;
use crate::wire::rfc3339;

/// The action of all notices.
pub const ACTION: &str = "semel.notify";

/// Something that a person has to be told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Names the occasion.
    pub key: Key,
    pub input: Json,
}

/// The action of all notices, as one.
pub fn action() -> Action {
    Action::new(ACTION).expect("it is a name")
}

/// What a person has to be told about an effect, if anything. Made of what is on record alone, so
/// that all processes say the same. Of a notice itself nobody is told: that would never end.
pub fn of_effect(effect: &Effect, now: &Moment) -> Option<Notice> {
    if effect.address.action.as_str() == ACTION {
        return None;
    }
    if effect.is_held(now) {
        return asked(effect);
    }
    // What a machine can still find out is none of a person's business.
    let needs_person = effect.state(now) == State::InDoubt && effect.due(now).is_none();
    needs_person.then(|| doubted(effect, now)).flatten()
}

/// What a person has to be told about a run, if anything.
pub fn of_run(run: &Run) -> Option<Notice> {
    let paused = run.paused.as_ref().filter(|_| run.state() == run::State::Paused)?;
    let at = place(&run.namespace);
    let input = json!({
        "kind": "paused",
        "namespace": run.namespace,
        "run": run.id,
        "workflow": run.workflow,
        "key": run.key,
        "code": paused.code,
        "command": format!("semel{at} runs show {}", quoted(&run.id)),
    });
    notice(&["paused", &run.id, &run.fence.to_string()], &input)
}

fn asked(effect: &Effect) -> Option<Notice> {
    let (approval, plan) = (effect.approval.as_ref()?, effect.plan.as_ref()?);
    let mut input = about("approval", effect, "approvals show");
    input["digest"] = json!(approval.digest);
    input["contract"] = json!(plan.terms.contract.name());
    for (name, text) in [("note", &approval.note), ("requester", &approval.requester)] {
        if let Some(text) = text {
            input[name] = json!(text);
        }
    }
    if let Some(at) = approval.expires {
        input["expires_at"] = json!(rfc3339(at.0));
    }
    // A message, not a document: a large payload is for the command to show.
    if plan.input.text().len() <= limits::NOTICE_INPUT_BYTES_MAX {
        input["input"] = json!(plan.input);
    }
    // Asked anew, it is another occasion.
    let asked_at = approval.asked.0.to_string();
    occasion("approval", effect, &asked_at, &input)
}

fn doubted(effect: &Effect, now: &Moment) -> Option<Notice> {
    let unknown = effect.attempts.iter().rev().find(|attempt| attempt.is_unknown(now))?;
    let mut input = about("in_doubt", effect, "effects show");
    input["attempt"] = json!(unknown.number);
    occasion("in_doubt", effect, &unknown.number.to_string(), &input)
}

fn about(kind: &str, effect: &Effect, verb: &str) -> Value {
    let address = &effect.address;
    let at = place(address.namespace.as_str());
    let name = quoted(&format!("{}/{}", address.action, address.key));
    json!({
        "kind": kind,
        "namespace": address.namespace.as_str(),
        "action": address.action.as_str(),
        "key": address.key.as_str(),
        "generation": effect.generation,
        "command": format!("semel{at} {verb} {name}"),
    })
}

fn occasion(kind: &str, effect: &Effect, which: &str, input: &Value) -> Option<Notice> {
    let (address, generation) = (&effect.address, effect.generation.to_string());
    let (action, key) = (address.action.as_str(), address.key.as_str());
    notice(&[kind, action, key, &generation, which], input).or_else(|| {
        // Names as long as they may be do not fit into one key; a digest of them always does.
        let id = derive::effect_id(address, effect.generation).to_string();
        notice(&[kind, &id, which], input)
    })
}

fn notice(key: &[&str], input: &Value) -> Option<Notice> {
    let input = Json::of(input).ok()?;
    key.into_key().ok().map(|key| Notice { key, input })
}

fn place(namespace: &str) -> String {
    if namespace == Namespace::default().as_str() {
        return String::new();
    }
    format!(" --namespace {}", quoted(namespace))
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::testing::Desk;

    fn told(desk: &Desk) -> Option<Value> {
        let notice = of_effect(desk.effect().expect("a row"), &desk.now)?;
        Some(serde_json::from_str(notice.input.text()).expect("an object"))
    }

    fn key(desk: &Desk) -> String {
        let notice = of_effect(desk.effect().expect("a row"), &desk.now);
        notice.expect("an occasion").key.as_str().to_owned()
    }

    #[test]
    fn a_question_is_told_with_all_that_decides_it() {
        let mut desk = Desk::new("native_key");
        desk.run("begin expires=1h four_eyes=ada");
        let told = told(&desk).expect("an occasion");
        let digest = &desk.effect().expect("a row").approval.as_ref().expect("asked").digest;
        for (name, value) in [
            ("kind", "approval"),
            ("action", "crm-ticket"),
            ("key", "42"),
            ("digest", digest),
            ("requester", "ada"),
            ("contract", "native_key"),
            ("expires_at", "2023-11-14T23:13:20Z"),
            ("command", "semel approvals show 'crm-ticket/42'"),
        ] {
            assert_eq!(told[name], value, "{name}");
        }
        assert_eq!(told["input"], json!({ "n": 1 }));
    }

    #[test]
    fn an_occasion_keeps_its_name_and_words_until_it_is_another_one() {
        let mut desk = Desk::new("native_key");
        desk.run("begin expires=5h");
        let first = of_effect(desk.effect().expect("a row"), &desk.now);
        for line in ["wait 1h", "boot", "lapse", "begin"] {
            desk.run(line);
            assert_eq!(of_effect(desk.effect().expect("a row"), &desk.now), first, "{line}");
        }
        let name = key(&desk);
        desk.run("begin as=harmless");
        assert_ne!(key(&desk), name, "asked anew");
        desk.run("approve");
        assert_eq!(told(&desk), None, "nobody waits any more");
    }

    #[test]
    fn of_a_doubt_people_are_told_when_only_they_can_end_it() {
        let mut desk = Desk::new("at_most_once");
        for line in ["begin", "unknown 1"] {
            assert!(desk.effect().is_none() || told(&desk).is_none(), "not yet");
            desk.run(line);
        }
        assert_eq!(told(&desk).expect("an occasion")["kind"], "in_doubt");
        let first = key(&desk);
        for line in ["wait 2m", "retry", "begin", "unknown 2"] {
            desk.run(line);
        }
        assert_ne!(key(&desk), first, "another doubt");
        let mut safe = Desk::new("native_key");
        safe.run("begin");
        safe.run("unknown 1");
        assert_eq!(told(&safe), None, "a resend will tell");
    }

    #[test]
    fn long_names_and_quotes_do_no_harm() {
        let mut desk = Desk::new("native_key");
        desk.run("begin ask");
        let mut effect = desk.effect().expect("a row").clone();
        effect.address.key = Key::from_text(&"k".repeat(200)).expect("a key");
        effect.address.action = Action::new(&"a".repeat(90)).expect("a name");
        let long = of_effect(&effect, &desk.now).expect("an occasion");
        assert!(long.key.as_str().len() < 100, "{}", long.key.as_str());
        effect.address.key = Key::from_text("it's").expect("a key");
        let told = of_effect(&effect, &desk.now).expect("an occasion").input;
        assert!(told.text().contains(r"/it'\\''s'"), "{}", told.text());
        effect.address.action = action();
        assert_eq!(of_effect(&effect, &desk.now), None, "nothing about notices");
    }
}
