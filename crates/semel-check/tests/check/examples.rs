//! The examples, tried at every point: each effect once, or in doubt where its contract says so.

use std::sync::Arc;
use std::time::Duration;

use semel_check::double::{Double, Script};
use semel_check::{Check, Report};
use semel_core::check::{Fault, Outcome};

use super::mail::MailServer;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const SETTLE_WINDOW: Duration = Duration::from_secs(120);

/// A model and a CRM that honours keys.
pub(crate) fn triage_double() -> Arc<Double> {
    start(
        r#"{"routes": [
            {"method": "POST", "path": "/classify", "mode": "model", "status": 200,
             "answer": {"category": "hardware", "urgent": true}},
            {"method": "POST", "path": "/native/tickets", "mode": "keys"}
        ]}"#,
    )
}

/// A back office that honours keys, except for refunds, and ships nowhere.
pub(crate) fn shop_double() -> Arc<Double> {
    start(
        r#"{"mode": "keys", "routes": [
            {"method": "POST", "path": "/parcels", "mode": "keys",
             "answer": {"refused": "no carrier goes there"}},
            {"method": "POST", "path": "/refunds", "mode": "plain"}
        ]}"#,
    )
}

fn start(script: &str) -> Arc<Double> {
    let script = Script::from_json(script).expect("a script");
    Arc::new(Double::start(script).expect("a double"))
}

pub(crate) fn inbound() -> triage::Inbound {
    triage::Inbound {
        request_id: "request-42".into(),
        sender: "ada@customer.example".into(),
        subject: "The printer is on fire".into(),
        text: "It began after lunch.".into(),
    }
}

pub(crate) fn order() -> saga_order::Order {
    saga_order::Order { order_id: "order-42".into(), cents: 4200, to: "Atlantis".into() }
}

pub(crate) fn wish() -> refund_approval::Wish {
    let (order_id, agent) = ("order-42".to_owned(), "bot".to_owned());
    refund_approval::Wish { order_id, version: 1, cents: 4200, agent }
}

/// Every kind of fault was played, at no less than so many points.
fn check_reach(report: &Report, points_min: usize, sends: usize) {
    assert!(report.points.len() >= points_min, "{:?}", report.points);
    assert_eq!(report.sends.len(), sends, "{:?}", report.sends);
    let played = |fault| report.verdicts.iter().filter(|one| one.case.fault == fault).count();
    for fault in [Fault::Kill, Fault::PauseBeyondLease, Fault::NewRelease] {
        assert_eq!(played(fault), report.points.len(), "{fault:?}");
    }
    for fault in [Fault::CutBefore, Fault::CutAfter, Fault::Timeout, Fault::ErrorAfter] {
        assert_eq!(played(fault), sends, "{fault:?}");
    }
    assert_eq!((played(Fault::RepeatTrigger), played(Fault::Duplicates)), (1, 1));
    // A check that finds no doubt at all where nothing can be found out is blind.
    assert!(report.count(Outcome::InDoubt) > 0);
}

#[tokio::test]
async fn req_l12_the_triage_example_passes_the_check_completely() {
    let (double, mail) = (triage_double(), MailServer::start());
    let services = triage::Services::new(triage::Settings {
        model: double.url(),
        crm: double.url(),
        mail: mail.address.clone(),
        settle_window: SETTLE_WINDOW,
        lease: LEASE,
    });
    let services = services.expect("a client");
    let report =
        Check::new("triage", move |ctx, inbound| triage::triage(ctx, inbound, services.clone()))
            .input(&inbound())
            .double(&double)
            .counter("mails", move || mail.accepted())
            .run()
            .await;
    report.assert_ok();
    check_reach(&report, 16, 2);
}

#[tokio::test]
async fn req_l12_the_saga_example_passes_the_check_completely() {
    let double = shop_double();
    let shop = saga_order::Shop::new(saga_order::Settings {
        url: double.url(),
        settle_window: SETTLE_WINDOW,
        lease: LEASE,
    });
    let shop = shop.expect("a client");
    let code = move |ctx, order| saga_order::order(ctx, order, shop.clone());
    let check = Check::new("order", code).input(&order()).double(&double);
    // No carrier goes there, so everything is taken back.
    let report = check.ends("failed").run().await;
    report.assert_ok();
    assert!(report.summary().contains("it ends as failed: no carrier"), "{}", report.summary());
    // Reserve, charge, ask for a parcel, pay back, release.
    check_reach(&report, 30, 5);
}

#[tokio::test]
async fn req_l12_the_approval_example_passes_the_check_completely() {
    let double = shop_double();
    let bank = refund_approval::Bank::new(refund_approval::Settings {
        url: double.url(),
        settle_window: SETTLE_WINDOW,
        lease: LEASE,
    });
    let bank = bank.expect("a client");
    let code = move |ctx, wish| refund_approval::refund(ctx, wish, bank.clone());
    let report = Check::new("refund", code).input(&wish()).double(&double).run().await;
    report.assert_ok();
    check_reach(&report, 12, 1);
    let approved = |fault| report.verdicts.iter().any(|one| one.case.fault == fault);
    assert!(approved(Fault::RepeatApproval));
}
