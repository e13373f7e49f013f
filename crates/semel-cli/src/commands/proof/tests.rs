//! Text, page and signature of proofs that were taken from a store whose time moves by hand.

use std::sync::Arc;

use semel::{Contract, Failure, NativeKey, Semel};
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::proof::{self, Document, Statement};
use semel_engine::Engine;
use semel_store::memory::Memory;
use semel_store::{Clock, ManualClock};

use super::{html, sign, text};
use crate::print::Printer;

fn address(key: &str) -> Address {
    Address {
        namespace: Namespace::default(),
        action: Action::new("crm-ticket").expect("a name"),
        key: Key::from_text(key).expect("a key"),
    }
}

struct Told {
    statement: Statement,
    document: Document,
}

async fn told(engine: &Engine, key: &str) -> Told {
    let evidence = engine.evidence_of_effect(&address(key)).await.expect("evidence");
    let statement = proof::state(&evidence).expect("a statement");
    let document = Document::new(&statement, &evidence);
    Told { statement, document }
}

/// One send that was refused with proof, one that worked, and a repeat.
async fn ticket(input: &str) -> Told {
    let clock = ManualClock::new(1_700_000_000_000);
    let store = Arc::new(Memory::new(Clock::Manual(clock.clone())));
    let engine = Engine::new(store, "worker-1").expect("an engine");
    let semel = Semel::on(engine.clone());
    let call = |is_up: bool| {
        semel
            .effect("crm-ticket")
            .key(["42"])
            .input(&serde_json::json!({ "request_id": "42", "subject": input }))
            .contract(NativeKey::hours(24))
            .retry(semel::Retry::NONE)
            .call(move |intent| {
                let _ = intent.downstream_key();
                async move {
                    match is_up {
                        true => Ok(serde_json::json!({ "id": "T-1" })),
                        false => Err(Failure::not_applied("the connection was refused")),
                    }
                }
            })
    };
    call(false).await.expect_err("it was refused");
    clock.advance_ms(90_000);
    call(true).await.expect("a receipt");
    clock.advance_ms(1_000);
    call(true).await.expect("the first receipt");
    engine.write_repeats().await;
    clock.advance_ms(1_000);
    told(&engine, "42").await
}

#[tokio::test]
async fn req_v1_the_text_tells_both_attempts_and_is_as_people_have_seen_it() {
    let told = ticket("printer on fire").await;
    let lines = text::lines(&told.statement, &Printer::new(false)).join("\n") + "\n";
    if std::env::var_os("SEMEL_BLESS").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/proof/golden.txt");
        std::fs::write(file, &lines).expect("it is written");
    }
    assert_eq!(lines, include_str!("golden.txt"));
}

#[tokio::test]
async fn a_page_needs_nothing_from_outside_and_escapes_everything() {
    let bad = r#"</title><script>alert(1)</script><img src="http://x.test/" onerror=alert(1)>"#;
    let clock = ManualClock::new(1_700_000_000_000);
    let store = Arc::new(Memory::new(Clock::Manual(clock)));
    let engine = Engine::new(store, bad).expect("an engine");
    let semel = Semel::on(engine.clone());
    let effect = semel.effect("crm-ticket").key([bad]).input(&bad).contract(Contract::AtMostOnce);
    let sent: String =
        effect.call(move |_| async move { Ok(bad.to_owned()) }).await.expect("a receipt");
    assert_eq!(sent, bad);
    let told = told(&engine, bad).await;
    let page = html::page(&told.statement, &told.document);
    assert!(page.contains("&lt;script&gt;alert(1)"), "the payload is shown as text");
    for word in ["<script", "<img", "<link", "<iframe", " src=", " href=", "url(", "@import"] {
        assert!(!page.replace("&lt;", "").contains(word) || word == " src=", "{word}");
    }
    // What looks like an attribute stands in text only: no tag of ours has it.
    let tags = page.split('<').skip(1).filter_map(|rest| rest.split('>').next());
    for tag in tags {
        assert!(!tag.contains("src=") && !tag.contains("onerror"), "<{tag}>");
    }
    assert!(page.contains("default-src 'none'") && page.contains("<svg"));
}

#[tokio::test]
async fn a_signed_proof_holds_for_its_key_and_no_byte_of_it_can_be_changed() {
    let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let mut document = ticket("x").await.document;
    document.signature = Some(sign::sign(&key, &document));
    let holds = |text: &str| {
        let Ok(document) = Document::read(text) else { return false };
        let Some(signature) = &document.signature else { return false };
        let is_ours = sign::check(&document, signature).is_ok_and(|by| by == key.verifying_key());
        is_ours && document.check().0.iter().all(|check| check.holds)
    };
    let text = document.text();
    assert!(holds(&text));
    let mut bytes = text.clone().into_bytes();
    for place in 0..bytes.len() {
        bytes[place] ^= 1;
        let changed = std::str::from_utf8(&bytes).is_ok_and(holds);
        assert!(!changed, "byte {place} of {text}");
        bytes[place] ^= 1;
    }
    // By another key it is another's.
    let other = ed25519_dalek::SigningKey::from_bytes(&[8; 32]);
    document.signature = Some(sign::sign(&other, &document));
    assert!(!holds(&document.text()));
}
