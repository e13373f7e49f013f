//! Ready keys and receipt shapes for the four most common effects.
//!
//! Each recipe names the subject and the specific event, so that a retry finds its first receipt
//! and a new revision is a new intent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::key::{Key, KeyInvalid};

/// A ticket: one per case and action.
pub fn ticket(case_id: &str, action_name: &str) -> Result<Key, KeyInvalid> {
    recipe([case_id, action_name])
}

/// A message: one per intent, recipient and version.
pub fn message(intent_id: &str, recipient: &str, version: &str) -> Result<Key, KeyInvalid> {
    recipe([intent_id, recipient, version])
}

/// A publication: one per content, destination and revision.
pub fn publish(content_id: &str, destination: &str, revision: &str) -> Result<Key, KeyInvalid> {
    recipe([content_id, destination, revision])
}

/// A change of a record: one per record, action and version of the intent.
pub fn record(record_id: &str, action_name: &str, intent_version: &str) -> Result<Key, KeyInvalid> {
    recipe([record_id, action_name, intent_version])
}

/// What is known after a ticket was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketReceipt {
    /// The ticket's status as the provider words it.
    pub status: String,
    /// The provider's id.
    pub ticket_id: String,
    /// RFC 3339.
    pub created_at: String,
}

/// What is known after a message was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageReceipt {
    /// The provider's answer as it came.
    pub provider_response: Value,
    /// RFC 3339.
    pub sent_at: String,
    /// The last known state of the delivery, as the provider words it.
    pub final_state: String,
}

/// What is known after something was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishReceipt {
    /// Where it can be read.
    pub url: String,
    /// Digest of the published revision.
    pub revision_hash: String,
    /// RFC 3339.
    pub published_at: String,
}

/// What is known after a record was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordReceipt {
    /// The value that was replaced; `null` when there was none.
    pub old_value: Value,
    /// The value that stands now.
    pub new_value: Value,
    /// What the destination said to the write.
    pub commit_result: String,
    /// Finds the change in the destination's traces.
    pub trace_id: String,
}

/// A plain key may have empty parts. A recipe may not: a case id that somebody forgot to fill in
/// would give all such cases one key, and only the first of them a ticket.
fn recipe<const N: usize>(parts: [&str; N]) -> Result<Key, KeyInvalid> {
    if parts.iter().any(|part| part.trim().is_empty()) {
        return Err(KeyInvalid { why: "key has a blank part where its recipe needs one" });
    }
    Key::from_parts(parts)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    fn check(key: Result<Key, KeyInvalid>, want: &str) {
        assert_eq!(key.unwrap().as_str(), want);
    }

    fn refuse(key: Result<Key, KeyInvalid>) {
        assert_eq!(key.unwrap_err().why, "key has a blank part where its recipe needs one");
    }

    /// The receipt is written as `want`, reads back as itself, and no member may be missing.
    fn check_shape<T: Serialize + DeserializeOwned + PartialEq + Debug>(receipt: &T, want: &Value) {
        assert_eq!(serde_json::to_value(receipt).unwrap(), *want);
        assert_eq!(serde_json::from_value::<T>(want.clone()).unwrap(), *receipt);
        for name in want.as_object().unwrap().keys() {
            let mut less = want.clone();
            less.as_object_mut().unwrap().remove(name);
            assert!(serde_json::from_value::<T>(less).is_err(), "{name} may be missing");
        }
    }

    #[test]
    fn req_k9_recipes_join_subject_and_event() {
        check(ticket("case-7", "open"), "case-7,open");
        check(message("welcome-7", "ann@example.com", "2"), "welcome-7,ann@example.com,2");
        check(publish("post-7", "blog", "r3"), "post-7,blog,r3");
        check(record("customer-7", "set-limit", "v1"), "customer-7,set-limit,v1");
        check(ticket("a,b", "50%"), "a%2Cb,50%25");
    }

    #[test]
    fn req_k10_a_new_version_or_revision_is_a_new_key() {
        for (one, two) in [("1", "2"), ("1", "1.0"), ("r1", "R1")] {
            assert_ne!(message("i", "ann", one), message("i", "ann", two));
            assert_ne!(publish("c", "blog", one), publish("c", "blog", two));
            assert_ne!(record("r", "set", one), record("r", "set", two));
        }
        assert_eq!(message("i", "ann", "1"), message("i", "ann", "1"));
    }

    #[test]
    fn req_k6_recipes_tell_subjects_apart() {
        assert_ne!(ticket("case-1", "open"), ticket("case-2", "open"));
        assert_ne!(ticket("case-1", "open"), ticket("case-1", "close"));
        assert_ne!(message("i", "ann", "1"), message("i", "bob", "1"));
        assert_ne!(publish("c", "blog", "1"), publish("c", "mail", "1"));
        assert_ne!(record("r", "set", "1"), record("r", "unset", "1"));
        assert_ne!(message("i,ann", "1", "2"), message("i", "ann,1", "2"));
    }

    #[test]
    fn a_forgotten_part_is_refused() {
        refuse(ticket("", "open"));
        refuse(ticket("case-7", " "));
        refuse(message("i", "", "1"));
        refuse(publish("c", "blog", "\u{a0}"));
        refuse(record("\t", "set", "1"));
    }

    #[test]
    fn req_l7_receipts_carry_the_fields_of_their_action() {
        let text = str::to_owned;
        let time = "2026-07-01T12:00:00Z";
        check_shape(
            &TicketReceipt { status: text("open"), ticket_id: text("T-1"), created_at: text(time) },
            &json!({"status": "open", "ticket_id": "T-1", "created_at": time}),
        );
        check_shape(
            &MessageReceipt {
                provider_response: json!({"id": "m-1"}),
                sent_at: text(time),
                final_state: text("sent"),
            },
            &json!({"provider_response": {"id": "m-1"}, "sent_at": time, "final_state": "sent"}),
        );
        check_shape(
            &PublishReceipt {
                url: text("https://example.com/p"),
                revision_hash: text("ab12"),
                published_at: text(time),
            },
            &json!({"url": "https://example.com/p", "revision_hash": "ab12", "published_at": time}),
        );
        check_shape(
            &RecordReceipt {
                old_value: Value::Null,
                new_value: json!(100),
                commit_result: text("ok"),
                trace_id: text("t-1"),
            },
            &json!({"old_value": null, "new_value": 100, "commit_result": "ok", "trace_id": "t-1"}),
        );
    }
}
