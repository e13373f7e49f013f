//! Golden vectors of effect ids and downstream keys.
//!
//! THEY MAY NEVER CHANGE. Providers remember these keys: another value for the same intent is a
//! second charge. A failing row means that the code is wrong, never the row. The ids were made by a
//! second implementation (Python's hashlib and uuid), so they also hold across languages.

use semel_core::derive::{downstream_key, effect_id};
use semel_core::key::{Action, Address, Key, Namespace};

fn check(namespace: &str, action: &str, parts: &[&str], generation: u32, want: &str) {
    let address = Address {
        namespace: Namespace::stored(namespace).unwrap(),
        action: Action::new(action).unwrap(),
        key: Key::from_parts(parts).unwrap(),
    };
    assert_eq!(effect_id(&address, generation).to_string(), want, "{address} {generation}");
    assert_eq!(downstream_key(&address, generation, None), want, "{address} {generation}");
}

#[test]
fn req_k3_key_derivation_is_frozen_over_processes_and_hosts() {
    check("default", "crm-ticket", &["42"], 0, "2f76c66d-35ca-8d2f-bfcd-d668f594172e");
    check("default", "crm-ticket", &["42"], 1, "a9a43b71-b6c7-8d19-98ff-840b4eb0699c");
    check("default", "crm-ticket", &["42"], 7, "f323bfb2-615c-85e0-bdb2-5bfceaa75add");
    check("default~draft", "crm-ticket", &["42"], 0, "4192ebd3-6fdd-8adb-958f-d34a2625d374");
    check("default~draft", "crm-ticket", &["42"], 7, "0b552b96-e982-8656-9cd0-fb2371b7272f");
    check("acme.eu", "crm-ticket", &["42"], 0, "f081de1c-f8da-83cb-91b7-4e0b565d24ef");
    check("default", "confirmation-mail", &["42"], 0, "65ebb5a2-49b4-8cbb-8671-e1401c4ecf3b");
    check("default", "charge", &["42", "v2"], 0, "66c62272-e7eb-8cc2-b310-85f476f62ba2");
    check("default", "charge", &["42,v2"], 0, "4e9e4799-ec63-8fb0-b040-7295700b9a4e");
    check("default", "charge", &["a:b", "c"], 0, "596aea3b-4d02-83d8-b437-3c4617206322");
    check("default", "charge", &["a", "b:c"], 0, "a9f669dd-c428-8180-9745-1f90706b72b7");
    check("default", "charge", &["", "100%", "%2C"], 0, "3c1015cd-a274-8fec-8351-65ce69912bd7");
    check("default", "größe", &["日本", "é", "😀"], 0, "75b69679-ee6e-85b7-b537-7eab1ee95afb");
    check("default", "charge", &["e\u{301}"], 1, "8f0c4edc-c28a-8c3b-b4dd-75b61896e51c");
    check("default", "charge", &["é"], 1, "085f900f-5ab8-8f01-b9bc-9302eb32e7b4");
    check(
        "default",
        "charge",
        &[&"x".repeat(255)],
        u32::MAX,
        "2f7c4fef-2c01-883d-9f29-2b9a9b6c0dbe",
    );
}
