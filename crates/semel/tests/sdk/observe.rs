//! What an observer can say of code that ran: how keys are made, and what is wrong with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel::{Context, Error, Failure, NativeKey, Registry, Retry, Semel};
use semel_core::declare::{Declaration, Kind, Sign, Tristate};
use semel_core::lint::lint;
use serde_json::{Value, json};

use crate::common::Ledger;

fn find<'a>(registry: &'a Registry, name: &str) -> &'a Declaration {
    let mut found = registry.declarations.iter().filter(|one| one.title() == name);
    found.next().unwrap_or_else(|| panic!("{name} is not in {registry:?}"))
}

fn parts(registry: &Registry, action: &str) -> Vec<String> {
    find(registry, action).key.clone().expect("a key").parts
}

fn signs(registry: &Registry, action: &str) -> Vec<Sign> {
    find(registry, action).key.clone().expect("a key").signs
}

fn findings(registry: &Registry) -> Vec<(String, &'static str)> {
    lint(registry).into_iter().map(|one| (one.action, one.name)).collect()
}

/// Runs a workflow once for each of these inputs, under a start key of its own.
async fn run(semel: &Semel, inputs: &[Value]) {
    for (at, input) in inputs.iter().enumerate() {
        let key = format!("event-{at}");
        let run = semel.start("w").key([key]).input(input).run().await.expect("a run");
        run.result::<Value>().await.expect("it ends");
    }
}

async fn send(ctx: &Context, action: &str, key: &[String], input: &Value) -> Result<Value, Error> {
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let effect = ctx.effect(action).key(key.as_slice()).input(input);
    let effect = effect.contract(NativeKey::hours(24)).fingerprint(["id"]);
    effect
        .call(|intent| async move {
            let key = intent.downstream_key().to_owned();
            Ok::<_, Failure>(json!({ "id": "T-1", "key": key }))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn req_s1_what_a_key_is_made_of_is_seen_by_what_it_equals() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let observer = semel.observe();
    let code = |ctx: Context, input: Value| async move {
        let class: Value =
            ctx.model("classify", &input, || async { Ok(json!({ "category": "fire" })) }).await?;
        let id = input["request_id"].as_str().unwrap_or_default().to_owned();
        let subject = format!("[{}] help", class["category"].as_str().unwrap_or_default());
        let asked = json!({ "id": id, "subject": subject });
        let key = [id, format!("v{}", input["version"]), "mail".to_owned()];
        send(&ctx, "ticket", &key, &asked).await
    };
    semel.worker().workflow("w", code).limit(3).start().expect("a worker");
    let inputs = [("r-1", 1), ("r-2", 1), ("r-1", 2)]
        .map(|(id, version)| json!({ "request_id": id, "version": version }));
    run(&semel, &inputs).await;

    let registry = observer.registry();
    assert_eq!(parts(&registry, "ticket"), ["{request_id}", "v{version}", "mail"]);
    let ticket = find(&registry, "ticket");
    assert_eq!((ticket.kind, ticket.key_passed_on), (Kind::Effect, Tristate::Yes));
    assert_eq!(ticket.file.as_deref(), Some("crates/semel/tests/sdk/observe.rs"));
    let receipt = ticket.receipt.clone().expect("a receipt");
    assert_eq!((&*receipt.name, receipt.fields), ("Value", vec!["id".into(), "key".into()]));
    assert_eq!(ticket.model_words, ["subject"]);
    assert_eq!(find(&registry, "classify").kind, Kind::Model);
    let flow = find(&registry, "w").flow.clone().expect("a workflow");
    assert_eq!((flow.steps, flow.limit), (vec!["classify".into(), "ticket".into()], Some(3)));
    assert!(
        observer.spec().contains("as `[{request_id}, v{version}, mail]`"),
        "{}",
        observer.spec()
    );
    assert_eq!(findings(&registry), []);
    assert_eq!(Registry::parse(&registry.to_text()), Ok(registry));
}

#[tokio::test(flavor = "multi_thread")]
async fn req_k4_keys_of_time_chance_and_models_are_seen_in_what_ran() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let observer = semel.observe();
    let clock = Arc::new(AtomicU64::new(1_763_301_600_000));
    let code = move |ctx: Context, input: Value| {
        let clock = clock.clone();
        async move {
            let said: Value = ctx.model("classify", &input, || async { Ok(json!("fire")) }).await?;
            let now = clock.fetch_add(1_000, Ordering::Relaxed);
            for (action, key) in [
                ("by-time", now.to_string()),
                ("by-chance", ctx.uuid().to_string().replacen("-8", "-4", 1)),
                ("by-model", said.as_str().unwrap_or_default().to_owned()),
                ("by-count", format!("draw {now}").replace("1763301", "x")),
            ] {
                send(&ctx, action, &[key], &json!({ "id": 1 })).await?;
            }
            Ok(json!(null))
        }
    };
    semel.worker().workflow("w", code).start().expect("a worker");
    let same = json!({ "order_id": "o-1", "text": "help" });
    run(&semel, &[same.clone(), same]).await;

    let registry = observer.registry();
    assert_eq!(signs(&registry, "by-model"), [Sign::ModelOutput]);
    assert!(signs(&registry, "by-time").contains(&Sign::Time));
    // Two runs of one input, two keys: whatever it is made of, a retry would act again.
    for action in ["by-time", "by-chance", "by-count"] {
        assert!(signs(&registry, action).contains(&Sign::Changes), "{action}: {registry:?}");
    }
    let found = findings(&registry);
    let has = |action: &str, name: &str| found.iter().any(|one| *one == (action.into(), name));
    assert!(has("by-time", "key-from-time") && has("by-model", "key-from-model"), "{found:?}");
    assert!(has("by-count", "key-changes") && has("by-chance", "key-changes"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_never_passed_on_and_bare_receipts_are_seen() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let observer = semel.observe();
    for (customer, order) in [("c-1", "o-1"), ("c-2", "o-2")] {
        let effect = semel.effect("charge").key([customer]).retry(Retry::NONE);
        let effect = effect.input(&json!({ "customer_id": customer, "order_id": order }));
        let charged = effect.contract(NativeKey::hours(24)).call(|_| async { Ok(true) }).await;
        assert!(charged.expect("it works"));
    }
    let found = findings(&observer.registry());
    let names: Vec<&str> = found.iter().map(|(_, name)| *name).collect();
    let want = ["key-too-broad", "native-key-not-passed-on", "retries-off", "empty-receipt"];
    assert_eq!(names, want, "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_noted_before_somebody_asks() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let call = async |key: &str| {
        let effect = semel.effect("ticket").key([key]).input(&json!({ "id": key }));
        effect.call(|_| async { Ok("T".to_owned()) }).await.expect("it works")
    };
    call("before").await;
    let observer = semel.observe();
    assert_eq!(observer.registry().declarations, []);
    call("after").await;
    assert_eq!(parts(&observer.registry(), "ticket"), ["{id}"]);
    // The same one, whoever asks.
    assert_eq!(semel.observe().registry(), observer.registry());
}
