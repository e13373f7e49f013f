use super::*;
use crate::declare::{Flow, Language, RateShape, ReceiptShape, Sign, Times, Tristate};

const CRASHED: &str = "after a crash between call and record";

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn ticket() -> Declaration {
    Declaration {
        name: "create_ticket".into(),
        action: Some("crm-ticket".into()),
        file: Some("app.py".into()),
        line: Some(70),
        intent: Some("Creates the ticket of a request.".into()),
        parameters: texts(&["request_id", "subject"]),
        key: Some(KeyShape {
            parts: texts(&["{request_id}"]),
            fields: texts(&["request_id"]),
            ..KeyShape::default()
        }),
        fingerprint: Some(texts(&["request_id"])),
        contract: Some(Contract::NativeKey { retention_ms: 86_400_000 }),
        key_passed_on: Tristate::Yes,
        receipt: Some(ReceiptShape { name: "Ticket".into(), fields: texts(&["id"]) }),
        ..Declaration::default()
    }
}

fn triage() -> Registry {
    let model = Declaration {
        kind: Kind::Model,
        name: "classify".into(),
        intent: Some("Asks the model.".into()),
        ..Declaration::default()
    };
    let mail = Declaration {
        name: "acknowledge".into(),
        action: Some("ack-mail".into()),
        key: Some(KeyShape {
            parts: texts(&["{request_id}", "{sender}", "v1"]),
            fields: texts(&["request_id", "sender"]),
            ..KeyShape::default()
        }),
        ..Declaration::default()
    };
    let flow = Flow { steps: texts(&["classify", "crm-ticket", "ack-mail"]), ..Flow::default() };
    let workflow = Declaration {
        kind: Kind::Workflow,
        name: "triage".into(),
        intent: Some("One request.".into()),
        flow: Some(flow),
        ..Declaration::default()
    };
    Registry {
        source: Some("app.py".into()),
        declarations: vec![workflow, mail, model, ticket()],
        ..Registry::new()
    }
}

fn one(declaration: Declaration) -> EffectSpec {
    let registry = Registry { declarations: vec![declaration], ..Registry::new() };
    spec(&registry).effects.remove(0)
}

fn answers(declaration: Declaration) -> Vec<Answer> {
    one(declaration).checklist.iter().map(|check| check.answer).collect()
}

#[test]
fn req_s1_an_effect_has_all_seven_fields() {
    let found = one(ticket());
    assert_eq!(found.action_protected, "`crm-ticket`, done by `create_ticket`");
    assert_eq!(found.business_intent, "Creates the ticket of a request.");
    let same = "of the input, `request_id` must be the same in a repeat";
    assert_eq!(found.key_fields, format!("`request_id`, as `{{request_id}}`; {same}"));
    assert!(found.storage_location.contains("(namespace, `crm-ticket`, key, generation)"));
    assert!(found.replay_window.starts_with("30d from its end"), "{}", found.replay_window);
    assert_eq!(found.result_record, "`Ticket` with `id`");
    // Word for word what the rules of the contract say.
    let contract = Contract::NativeKey { retention_ms: 1 };
    assert_eq!(
        (&*found.resume_rule, &*found.promise),
        (contract.after_crash(), contract.promise())
    );
    let page = markdown(&spec(&triage()));
    for field in [
        "Action protected",
        "Business intent",
        "Key fields",
        "Storage location",
        "Replay window",
        "Result record",
        "Resume rule",
    ] {
        assert_eq!(page.matches(&format!("| {field} |")).count(), 2, "{field}");
    }
    assert_eq!(page.matches(CRASHED).count(), 2);
}

#[test]
fn req_s1_the_spec_is_stable() {
    let (page, mut shuffled) = (markdown(&spec(&triage())), triage());
    shuffled.declarations.reverse();
    for declaration in &mut shuffled.declarations {
        declaration.line = declaration.line.map(|line| line + 10);
    }
    assert_eq!(markdown(&spec(&shuffled)), page, "neither order nor lines of code show");
}

#[test]
fn req_s2_the_checklist_of_a_good_effect_is_all_yes() {
    assert_eq!(answers(ticket()), [Answer::Yes; 6]);
    let questions: Vec<_> = one(ticket()).checklist.iter().map(|check| check.question).collect();
    assert_eq!(questions.len(), 6);
    let why = |spec: &Spec, at: usize| spec.effects[at].checklist[5].why.clone();
    let cached = "`classify`: one recorded answer per run and request";
    assert_eq!(why(&spec(&triage()), 1), cached);
}

#[test]
fn req_s2_what_is_open_is_said_with_its_reason() {
    use Answer::{Attention, No, Yes};
    let check = |declaration: Declaration, at: usize, want: Answer, word: &str| {
        let found = one(declaration).checklist.remove(at);
        assert_eq!(found.answer, want, "{found:?}");
        assert!(found.why.contains(word), "{found:?}");
    };
    let keyed = |key: KeyShape| Declaration { key: Some(key), ..ticket() };
    check(keyed(KeyShape { parts: texts(&["all"]), ..KeyShape::default() }), 0, No, "one intent");
    let timed = KeyShape { signs: vec![Sign::Time], ..KeyShape::default() };
    check(keyed(timed), 0, No, "time");
    let odd =
        KeyShape { parts: texts(&["{id}", "{?}"]), fields: texts(&["id"]), ..KeyShape::default() };
    check(keyed(odd), 0, Attention, "nobody could explain");
    check(Declaration { key: None, ..ticket() }, 0, Attention, "nobody could see");
    check(Declaration { key_passed_on: Tristate::No, ..ticket() }, 1, No, "never passes it on");
    check(Declaration { key_passed_on: Tristate::No, ..ticket() }, 3, No, "person");
    check(Declaration { key_passed_on: Tristate::Unknown, ..ticket() }, 1, Attention, "not seen");
    check(Declaration { contract: None, ..ticket() }, 1, Attention, "no contract");
    check(Declaration { contract: None, ..ticket() }, 3, Attention, "person");
    let off = Times { attempts: Some(1), ..Times::default() };
    check(Declaration { times: off, ..ticket() }, 4, Attention, "retries are off");
    let long = Times { retry_total_ms: Some(86_400_000), ..Times::default() };
    check(Declaration { times: long, ..ticket() }, 4, No, "exceed the provider's retention");
    let words = Declaration { fingerprint: None, model_words: texts(&["subject"]), ..ticket() };
    check(words, 5, No, "`subject`");
    let transaction = Declaration { kind: Kind::Transaction, contract: None, ..ticket() };
    assert_eq!(answers(transaction), [Yes; 6]);
}

#[test]
fn what_else_is_declared_is_in_the_spec() {
    let found = one(Declaration {
        approval: Some(ApprovalShape {
            expires_ms: Some(604_800_000),
            four_eyes: true,
            only: false,
        }),
        undo: Some("refund".into()),
        rate: Some(RateShape { count: 10, per_ms: 1_000 }),
        downstream_key: Some("crm-ticket:{request_id}".into()),
        goes_on_in_doubt: true,
        language: Language::Rust,
        ..ticket()
    });
    let more = found.more.join("\n");
    for word in ["7d is a no", "may not decide", "`refund`", "10 sends in 1s", "goes on"] {
        assert!(more.contains(word), "{word} is not in {more}");
    }
}

#[test]
fn a_workflow_says_what_it_uses() {
    let workflow = &spec(&triage()).workflows[0];
    assert_eq!(workflow.effects, ["ack-mail", "crm-ticket"]);
    assert_eq!((&*workflow.models, &*workflow.functions), (&["classify".to_owned()][..], &[][..]));
    assert_eq!(workflow.concurrency, "any number of runs at once");
    let text = concurrency(Some(5), Some("{customer}"), Some("coalesce"));
    let want = "at most 5 runs at once; one run at a time for each `{customer}`, the others \
                attach to it";
    assert_eq!(text, want);
}

#[test]
fn text_from_the_code_cannot_break_the_page() {
    let intent = Some("a | b\n# c".to_owned());
    let registry =
        Registry { declarations: vec![Declaration { intent, ..ticket() }], ..Registry::new() };
    let page = markdown(&spec(&registry));
    assert!(page.contains("| Business intent | a \\| b # c |"), "{page}");
    assert!(!page.contains("\n# c"));
}
