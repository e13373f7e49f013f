//! The specs of the examples in Rust, as their code declares them when it runs, held against the
//! pages that are committed beside them. `SEMEL_WRITE_SPECS=1` writes the pages anew.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use refund_approval::{Bank, Refund, Wish, key_of, refund, submit};
use saga_order::{Order, order};
use semel::{Registry, Semel};
use semel_core::lint::lint;
use semel_core::spec::{Spec, diff, markdown, spec};
use serde_json::Value;
use triage::{Inbound, Outcome, Services, triage};

use crate::common::{Crm, semel as command, until};
use crate::shop::Shop;
use crate::worker::store_url;

/// As the programs of the examples have them.
const LEASE: Duration = Duration::from_secs(30);
const SETTLE_WINDOW: Duration = Duration::from_secs(120);

fn check(name: &str, mut registry: Registry) -> Spec {
    registry.source = Some(format!("examples/{name}"));
    let spec = spec(&registry);
    let page = markdown(&spec);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("examples").join(name).join("SPEC.md");
    if std::env::var_os("SEMEL_WRITE_SPECS").is_some() {
        fs::write(&file, &page).expect("written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    if let Some(differs) = diff(&committed, &page) {
        panic!("examples/{name}/SPEC.md is old; SEMEL_WRITE_SPECS=1 writes it:\n{differs}");
    }
    // A good example raises nothing.
    assert_eq!(lint(&registry), [], "{name}");
    spec
}

async fn opened() -> (tempfile::TempDir, Semel) {
    let folder = tempfile::tempdir().expect("a folder");
    let semel = Semel::open(&store_url(folder.path())).await.expect("the store opens");
    (folder, semel)
}

#[tokio::test(flavor = "multi_thread")]
async fn req_s1_the_spec_of_the_order_is_the_one_committed() {
    let (_folder, semel) = opened().await;
    let observer = semel.observe();
    let url = Shop::default().start().await;
    let settings = saga_order::Settings { url, settle_window: SETTLE_WINDOW, lease: LEASE };
    let shop = saga_order::Shop::new(settings).expect("a client");
    let code = move |ctx, wish| order(ctx, wish, shop.clone());
    semel.worker().workflow("order", code).start().expect("a worker");
    // Atlantis cannot be reached, so that the undos are seen, too.
    for (id, to) in [("order-1", "Atlantis"), ("order-2", "Rome")] {
        let wish = Order { order_id: id.into(), cents: 4200, to: to.into() };
        let run = semel.start("order").key([id]).input(&wish).run().await.expect("a run");
        assert_eq!(run.result::<Value>().await.is_ok(), to == "Rome");
    }
    let spec = check("saga_order", observer.registry());
    let actions: Vec<_> = spec.effects.iter().map(|one| one.action.as_str()).collect();
    assert_eq!(actions, ["charge", "refund", "release", "reserve", "ship"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_s1_the_spec_of_the_refund_is_the_one_committed() {
    let (_folder, semel) = opened().await;
    let observer = semel.observe();
    let url = Shop::default().start().await;
    let settings = refund_approval::Settings { url, settle_window: SETTLE_WINDOW, lease: LEASE };
    let bank = Bank::new(settings).expect("a client");
    let code = move |ctx, wish| refund(ctx, wish, bank.clone());
    semel.worker().workflow("refund", code).start().expect("a worker");
    for (order, version) in [("order-1", 1), ("order-2", 7)] {
        let wish = Wish { order_id: order.into(), version, cents: 4200, agent: "bot".into() };
        let run = submit(&semel, &wish).await.expect("a run");
        approve(&semel, &wish).await;
        assert_eq!(run.result::<Refund>().await.expect("paid").cents, 4200);
    }
    let spec = check("refund_approval", observer.registry());
    assert!(spec.effects[0].more[0].contains("may not decide"), "{:?}", spec.effects[0].more);
}

async fn approve(semel: &Semel, wish: &Wish) {
    loop {
        match semel.approvals().find("refund", key_of(wish)).await {
            Ok(asked) if !asked.digest().is_empty() => {
                asked.approve("ann", "as agreed").await.expect("decided");
                return;
            }
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// A server that does not outlive this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn req_s2_the_spec_of_the_triage_is_the_one_committed() {
    let (folder, semel) = opened().await;
    let observer = semel.observe();
    let start = |name: &str| Server(command().arg(name).arg(folder.path()).spawn().expect(name));
    let _servers = [start("demo-model"), start("demo-mail")];
    let _crm = Crm::start(folder.path());
    let address = |name: &str| {
        let file = folder.path().join(format!("{name}.addr"));
        until("a server starts", || fs::read_to_string(&file).ok())
    };
    let settings = triage::Settings {
        model: address("model"),
        crm: address("crm"),
        mail: address("mail"),
        settle_window: SETTLE_WINDOW,
        lease: LEASE,
    };
    let services = Services::new(settings).expect("clients");
    let code = move |ctx, inbound| triage(ctx, inbound, services.clone());
    semel.worker().workflow("triage", code).start().expect("a worker");
    for (id, sender) in [("request-1", "ada@customer.example"), ("request-2", "bob@b.example")] {
        let inbound = Inbound {
            request_id: id.into(),
            sender: sender.into(),
            subject: format!("{id}: the printer is on fire"),
            text: "It began after lunch.".into(),
        };
        let run = semel.start("triage").key([id]).input(&inbound).run().await.expect("a run");
        run.result::<Outcome>().await.expect("it ends");
    }
    let spec = check("triage", observer.registry());
    let cached = &spec.effects[1].checklist[5].why;
    assert_eq!(cached, "`classify`: one recorded answer per run and request");
}
