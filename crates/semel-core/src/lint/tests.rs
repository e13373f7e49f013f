use super::*;
use crate::declare::{Allowed, ApprovalShape, KeyShape, ReceiptShape, Times};

/// An effect that nothing is wrong with.
fn good() -> Declaration {
    Declaration {
        name: "create_ticket".into(),
        action: Some("crm-ticket".into()),
        file: Some("app.py".into()),
        line: Some(7),
        parameters: vec!["request_id".into(), "customer_id".into(), "subject".into()],
        key: Some(key(&["{request_id}"], &["request_id"], &[])),
        contract: Some(Contract::NativeKey { retention_ms: 86_400_000 }),
        key_passed_on: Tristate::Yes,
        receipt: Some(ReceiptShape { name: "Ticket".into(), fields: vec!["id".into()] }),
        ..Declaration::default()
    }
}

fn key(parts: &[&str], fields: &[&str], signs: &[Sign]) -> KeyShape {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    KeyShape { parts: owned(parts), fields: owned(fields), function: None, signs: signs.to_vec() }
}

fn found(one: &Declaration) -> Vec<Finding> {
    lint(&Registry { declarations: vec![one.clone()], ..Registry::new() })
}

fn check(one: &Declaration, want: &[&str]) {
    let names: Vec<&str> = found(one).iter().map(|finding| finding.name).collect();
    assert_eq!(names, want, "{one:?}");
}

#[test]
fn a_good_effect_raises_nothing() {
    check(&good(), &[]);
    let by_subject = key(&["{customer_id}", "{month}"], &["customer_id", "month"], &[]);
    check(&Declaration { key: Some(by_subject), ..good() }, &[]);
}

#[test]
fn req_k4_signs_of_time_chance_attempt_and_model_are_found() {
    for (sign, want) in [
        (Sign::Time, "key-from-time"),
        (Sign::Randomness, "key-from-chance"),
        (Sign::Attempt, "key-from-attempt"),
        (Sign::ModelOutput, "key-from-model"),
    ] {
        let shape = key(&["{?}"], &[], &[sign]);
        check(&Declaration { key: Some(shape), ..good() }, &[want]);
    }
    let finding =
        &found(&Declaration { key: Some(key(&["{?}"], &[], &[Sign::Time])), ..good() })[0];
    assert_eq!((finding.file.as_deref(), finding.line), (Some("app.py"), Some(7)));
    assert_eq!(finding.better, "make the key of `request_id`, which is in the input");
}

#[test]
fn req_k15_a_key_that_changes_under_the_same_input_is_found() {
    let shape = key(&["{?}"], &[], &[Sign::Changes]);
    check(&Declaration { key: Some(shape), ..good() }, &["key-changes"]);
}

#[test]
fn keys_that_take_two_wishes_for_one_are_found() {
    let customer = key(&["{customer_id}"], &["customer_id"], &[]);
    check(&Declaration { key: Some(customer.clone()), ..good() }, &["key-too-broad"]);
    // Without anything better in the input nobody knows that there could be a second wish.
    let only = Declaration { parameters: vec!["customer_id".into()], ..good() };
    check(&Declaration { key: Some(customer), ..only }, &[]);
    check(&Declaration { key: Some(key(&["tickets"], &[], &[])), ..good() }, &["key-too-broad"]);
}

#[test]
fn req_r4_retries_beyond_what_is_remembered_are_found() {
    let times = Times { retry_total_ms: Some(86_400_000), ..Times::default() };
    check(&Declaration { times, ..good() }, &["retries-beyond-window"]);
    let short = Times { window_ms: Some(60_000), ..Times::default() };
    check(&Declaration { times: short, ..good() }, &["retries-beyond-window"]);
    let off = Times { attempts: Some(1), ..Times::default() };
    check(&Declaration { times: off, ..good() }, &["retries-off"]);
}

#[test]
fn keys_that_are_not_passed_on_and_contracts_that_are_not_said_are_found() {
    check(&Declaration { key_passed_on: Tristate::No, ..good() }, &["native-key-not-passed-on"]);
    check(&Declaration { key_passed_on: Tristate::Unknown, ..good() }, &[]);
    check(
        &Declaration { contract: None, key_passed_on: Tristate::No, ..good() },
        &["contract-undeclared"],
    );
    let transaction = Declaration { kind: Kind::Transaction, contract: None, ..good() };
    check(&transaction, &[]);
}

#[test]
fn a_models_words_need_a_fingerprint() {
    let worded = Declaration { model_words: vec!["subject".into()], ..good() };
    check(&worded, &["fingerprint-needed"]);
    let counted = Some(vec!["request_id".to_owned()]);
    check(&Declaration { fingerprint: counted, ..worded.clone() }, &[]);
    let wrong = Some(vec!["subject".to_owned()]);
    check(&Declaration { fingerprint: wrong, ..worded }, &["fingerprint-needed"]);
    check(&Declaration { is_tool: true, ..good() }, &["fingerprint-needed"]);
}

#[test]
fn req_l1_a_bare_yes_is_found() {
    let receipt = |name: &str| Some(ReceiptShape { name: name.into(), fields: Vec::new() });
    check(&Declaration { receipt: receipt("bool"), ..good() }, &["empty-receipt"]);
    check(&Declaration { receipt: receipt("str"), ..good() }, &[]);
}

#[test]
fn a_question_has_nothing_to_send() {
    let approval = Some(ApprovalShape { only: true, ..ApprovalShape::default() });
    check(&Declaration { approval, contract: None, ..good() }, &[]);
}

#[test]
fn every_rule_has_a_code_and_a_name_of_its_own() {
    for (at, rule) in RULES.iter().enumerate() {
        for other in &RULES[at + 1..] {
            assert!(rule.code != other.code && rule.name != other.name, "{rule:?} {other:?}");
        }
    }
}

#[test]
fn what_is_allowed_with_a_reason_is_not_told() {
    let shape = key(&["{?}"], &[], &[Sign::Time]);
    let bad = Declaration { key: Some(shape), ..good() };
    let allowing = |code: &str, reason: &str| {
        let allowed = vec![Allowed { code: code.into(), reason: reason.into() }];
        Declaration { allowed, ..bad.clone() }
    };
    check(&allowing("SML001", "one report for each minute"), &[]);
    check(&allowing("SML002", "another thing"), &["key-from-time"]);
    check(&allowing("SML001", " "), &["allowed-without-reason"]);
}
