//! What is proven after which story, and that nothing in a document can be changed unseen.

use super::testing::{of_run, played, tampered, with_repeats};
use super::{Document, Evidence, Finding, Lost, Statement, state};
use crate::record::{self, Contract, Named, Undo};

fn stated(evidence: &Evidence) -> Statement {
    state(evidence).expect("it can be read")
}

/// Plays a story and checks finding, and words that are proven and not proven.
fn check(terms: &str, story: &[&str], finding: Finding, proven: &[&str], open: &[&str]) {
    let statement = stated(&played(terms, story));
    let verdict = &statement.verdict;
    assert_eq!(verdict.finding, finding.as_str(), "{story:?}: {}", verdict.says);
    assert_eq!(verdict.broken, [], "{story:?}");
    let says = |claims: &[super::Claim]| -> String {
        claims.iter().map(|one| format!("{} ({})\n", one.says, one.evidence)).collect()
    };
    let (is_proven, is_open) = (says(&verdict.proven), says(&verdict.not_proven));
    for words in proven {
        assert!(is_proven.contains(words), "{story:?} does not prove {words}:\n{is_proven}");
    }
    for words in open {
        assert!(is_open.contains(words), "{story:?} leaves not open {words}:\n{is_open}");
        assert!(!is_proven.contains(words), "{story:?} proves and does not: {words}");
    }
}

#[test]
fn req_v1_a_cut_attempt_and_its_resend_are_both_told_with_one_downstream_key() {
    let story = ["begin", "unknown 1", "wait 1m", "begin", r#"receipt 2 "0""#];
    check(
        "native_key",
        &story,
        Finding::Done,
        &["all 2 sends were handed the same downstream key", "derived again", "attempt 2 returned"],
        &["whether attempt 1 changed anything", "honours keys for 1h", "sends carried the"],
    );
    let statement = stated(&played("native_key", &story));
    let row = &statement.effects[0].generations[0];
    let outcomes: Vec<_> = row.attempts.iter().map(|one| one.view.outcome).collect();
    assert_eq!(outcomes, ["unknown", "applied"]);
    assert_eq!(row.downstream_key.as_ref().map(|key| (key.derived, key.sends)), Some((true, 2)));
}

#[test]
fn req_v2_one_send_and_one_receipt_prove_one_effect() {
    let story = ["begin", r#"receipt 1 "0""#];
    let once = [
        "at most once per authorisation",
        "attempt 1 returned a receipt",
        "the one send was handed",
    ];
    check("at_most_once", &story, Finding::Done, &once, &["no stopped process sends later"]);
    check("transaction", &[r#"transact "0""#], Finding::Done, &["exactly once"], &[]);
    let story = ["begin", "not_applied 1", "wait 1m", "begin", r#"receipt 2 "0""#];
    check(
        "at_most_once",
        &story,
        Finding::Done,
        &["attempt 1 ended as not applied (by its worker"],
        &[],
    );
    check("harmless", &["begin", r#"receipt 1 "0""#], Finding::Done, &[], &["only once"]);
}

#[test]
fn a_doubt_is_not_proven_either_way() {
    let open = ["whether attempt 1 changed anything"];
    check("at_most_once", &["begin", "unknown 1"], Finding::InDoubt, &[], &open);
    // Time alone makes a doubt of silence.
    check("at_most_once", &["begin", "wait 10m"], Finding::InDoubt, &[], &open);
    check("at_most_once", &["begin"], Finding::InProgress, &["the one send"], &[]);
}

#[test]
fn a_persons_word_is_told_as_one() {
    let story = ["begin", "unknown 1", "wait 10m", r#"done "7""#];
    let word = ["that the person's decision is right"];
    check("at_most_once", &story, Finding::Told, &["decided: done"], &word);
    let story = ["begin", "unknown 1", "wait 10m", "failed"];
    check("at_most_once", &story, Finding::NotDone, &["decided: failed"], &word);
    check("at_most_once", &[r#"import "0""#], Finding::Told, &[], &["the imported row is right"]);
}

#[test]
fn what_was_approved_is_what_is_sent() {
    let held = ["begin ask"];
    check("native_key", &held, Finding::NotDone, &["nothing was sent"], &[]);
    let story = ["begin ask", "approve", "begin ask", r#"receipt 1 "0""#];
    check("native_key", &story, Finding::Done, &["approved the contract and the input"], &[]);
    check("native_key", &["begin ask", "deny"], Finding::NotDone, &["denied it"], &[]);
}

#[test]
fn every_generation_is_told() {
    let story = ["begin", r#"receipt 1 "0""#, "supersede", "begin", r#"receipt 1 "1""#];
    check("native_key", &story, Finding::Done, &["it has 2 generations"], &[]);
    let statement = stated(&played("native_key", &story));
    let keys: Vec<_> = statement.effects[0]
        .generations
        .iter()
        .filter_map(|row| row.downstream_key.as_ref())
        .map(|key| (key.key.clone(), key.derived))
        .collect();
    assert!(keys.len() == 2 && keys[0].0 != keys[1].0 && keys.iter().all(|key| key.1));
}

#[test]
fn late_receipts_disputes_and_second_receipts_are_told() {
    let late = ["begin", "wait 10m", "lapse", r#"receipt 1 "0""#];
    check("at_most_once", &late, Finding::Done, &["after its lease had ended"], &[]);
    let disputed = ["begin", "unknown 1", "wait 10m", "failed", r#"receipt 1 "0""#];
    check("at_most_once", &disputed, Finding::Disputed, &["decided: failed"], &[]);
    let twice = ["begin", "unknown 1", "begin", r#"receipt 2 "0""#, r#"receipt 1 "1""#];
    check("harmless", &twice, Finding::Twice, &[], &[]);
}

#[test]
fn what_was_taken_back_is_told_with_both_receipts() {
    let mut evidence = played("native_key", &["begin", r#"receipt 1 "0""#]);
    let mut effect = record::decode(&evidence.effects[0]).expect("a record");
    let by = Named { action: "refund".into(), key: "42".into(), generation: 0 };
    let receipt = crate::json::Json::from_text("\"r-1\"").expect("JSON");
    for (receipt, says) in [(None, "is being undone"), (Some(receipt), "was undone")] {
        effect.undo = Some(Undo { by: by.clone(), receipt });
        evidence.effects = vec![record::encode(&effect)];
        let verdict = stated(&evidence).verdict;
        assert_eq!(verdict.finding, "undone");
        assert!(verdict.says.to_string().contains(says), "{}", verdict.says);
    }
}

#[test]
fn req_v4_repeats_are_told_by_door_and_as_a_lower_bound() {
    let evidence = with_repeats(played("native_key", &["begin", r#"receipt 1 "0""#]));
    let statement = stated(&evidence);
    let repeats: Vec<_> =
        statement.effects[0].repeats.iter().map(|one| (one.door, one.at_least)).collect();
    assert_eq!(repeats, [("call", 3)]);
    let says = |words: &str| {
        statement.verdict.proven.iter().any(|one| one.says.to_string().contains(words))
    };
    assert!(says("at least 3"));
    assert!(statement.verdict.not_proven.iter().any(|one| one.evidence.contains("lower bound")));
}

#[test]
fn req_v5_a_run_is_told_with_its_journal_its_workers_and_its_effects() {
    let statement = stated(&of_run());
    let run = statement.run.as_ref().expect("a run");
    assert_eq!((run.id_derives, run.chain.verified, run.chain.entries), (true, true, 7));
    assert_eq!(
        run.takes.iter().map(|take| take.worker.as_str()).collect::<Vec<_>>(),
        ["worker-1", "worker-2"]
    );
    assert_eq!((run.children[0].key.as_str(), run.children[0].state), ("event-7", "missing"));
    let mentions: Vec<_> =
        statement.effects[0].mentions.iter().map(|one| (one.seq, one.kind, one.repeat)).collect();
    assert_eq!(mentions, [(2, "planned", false), (5, "effect", true)]);
    assert_eq!(statement.verdict.finding, "done", "{:?}", statement.verdict);
}

#[test]
fn a_store_that_was_changed_is_told_as_broken() {
    let evidence = played("native_key", &[r#"begin input={"n":1}"#, r#"receipt 1 "0""#]);
    let statement = stated(&tampered(evidence.clone(), r#""n":1"#, r#""n":2"#));
    assert_eq!(statement.verdict.finding, "broken");
    assert!(!statement.effects[0].generations[0].fingerprint.as_ref().unwrap().matches_input);
    let key = stated(&evidence).effects[0].generations[0].downstream_key.clone().unwrap().key;
    let other = key.replace(&key[..4], "beef");
    assert_eq!(stated(&tampered(evidence, &key, &other)).verdict.finding, "broken");
}

#[test]
fn what_cannot_be_read_leaves_nothing_proven() {
    let mut evidence = played("native_key", &[r#"begin input={"n":1}"#, r#"receipt 1 "0""#]);
    assert_eq!(stated(&evidence).verdict.finding, "done");
    let lost = Lost { name: "run r".into(), why: "a row does not match its checksum".into() };
    evidence.unreadable.push(lost);
    let verdict = stated(&evidence).verdict;
    assert_eq!(verdict.finding, "broken");
    assert_eq!(verdict.broken[0].says.to_string(), "run r cannot be read");
}

#[test]
fn a_journal_that_was_changed_breaks_where_it_was() {
    let whole = of_run();
    for place in 0..whole.runs[0].entries.len() {
        let mut changed = whole.clone();
        changed.runs[0].entries[place].text.push(' ');
        let mut cut = whole.clone();
        cut.runs[0].entries.remove(place);
        for evidence in [changed, cut] {
            let statement = stated(&evidence);
            assert_eq!(statement.verdict.finding, "broken", "entry {place}");
        }
    }
}

/// Rows that are gone, or that are another's, are told by the journal.
#[test]
fn a_run_and_the_ledger_that_do_not_fit_are_told_as_broken() {
    let whole = of_run();
    let gone = Evidence { effects: Vec::new(), ..whole.clone() };
    let other_receipt = tampered(whole.clone(), r#""receipt":"0""#, r#""receipt":"1""#);
    let mut foreign = whole.clone();
    let other = whole.effects[0].replace(r#""42""#, r#""another""#);
    assert_ne!(other, whole.effects[0], "{other}");
    foreign.effects.push(other);
    for (evidence, words) in [
        (gone, "the ledger has no such effect"),
        (other_receipt, "another receipt than the run was given"),
        (foreign, "which never asked for it"),
    ] {
        let verdict = stated(&evidence).verdict;
        assert_eq!(verdict.finding, "broken");
        assert!(
            verdict.broken.iter().any(|one| one.says.to_string().contains(words)),
            "{verdict:?}"
        );
    }
}

#[test]
fn what_has_no_canonical_form_is_proven_too() {
    let half = r#"receipt 1 {"text":"\ud83d"}"#;
    let evidence = played("native_key", &["begin", half]);
    let document = Document::new(&stated(&evidence), &evidence);
    let (checks, _) = Document::read(&document.text()).expect("a proof").check();
    assert!(checks.iter().all(|check| check.holds), "{checks:?}");
}

#[test]
fn a_document_is_read_back_and_holds() {
    for evidence in [of_run(), with_repeats(played("probe", &["begin", r#"receipt 1 "0""#]))] {
        let document = Document::new(&stated(&evidence), &evidence);
        let again = Document::read(&document.text()).expect("a proof");
        let (checks, statement) = again.check();
        assert!(checks.iter().all(|check| check.holds), "{checks:?}");
        assert!(statement.is_some());
        // Laid out anew it says the same.
        let value: serde_json::Value = serde_json::from_str(&document.text()).unwrap();
        let compact = Document::read(&value.to_string()).expect("a proof");
        assert!(compact.check().0.iter().all(|check| check.holds));
    }
}

#[test]
fn a_changed_byte_of_a_document_is_found() {
    let evidence = with_repeats(of_run());
    let text = Document::new(&stated(&evidence), &evidence).text();
    let mut bytes = text.clone().into_bytes();
    // Every one of them is tried on a signed proof, by the tests of the command.
    for place in (0..bytes.len()).step_by(13) {
        bytes[place] ^= 1;
        let is_found = match std::str::from_utf8(&bytes).ok().map(Document::read) {
            None | Some(Err(_)) => true,
            Some(Ok(document)) => !document.check().0.iter().all(|check| check.holds),
        };
        assert!(is_found, "byte {place}: {}", &text[place.saturating_sub(30)..=place]);
        bytes[place] ^= 1;
    }
}

/// Whoever also writes the digest anew is stopped by the statement, or by a signature.
#[test]
fn a_statement_that_says_more_than_its_evidence_is_found() {
    let evidence = played("at_most_once", &["begin", "unknown 1"]);
    let mut statement = stated(&evidence);
    statement.verdict.finding = Finding::Done.as_str();
    let (checks, _) = Document::new(&statement, &evidence).check();
    let failed: Vec<_> = checks.iter().filter(|one| !one.holds).map(|one| one.what).collect();
    assert_eq!(failed, ["statement"]);
}

#[test]
fn promises_are_those_of_the_page() {
    let page = include_str!("../../../../docs/contracts.md");
    let contracts = [
        Contract::Transaction,
        Contract::NativeKey { retention_ms: 1 },
        Contract::Conditional,
        Contract::Probe { first: false },
        Contract::AtMostOnce,
        Contract::Harmless,
    ];
    for contract in contracts {
        assert!(page.contains(contract.promise()), "docs/contracts.md: {}", contract.promise());
    }
}
