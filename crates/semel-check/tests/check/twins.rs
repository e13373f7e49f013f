//! The same workflows without protection: plain steps that send. Each must fail the check.

use semel::{Context, Error, Failure};
use semel_check::{Check, Report};
use semel_core::check::{Fault, Outcome};
use serde_json::{Value, json};

use super::examples::{inbound, order, shop_double, triage_double, wish};

/// One request inside a plain step, as careless code makes it.
async fn send(ctx: &Context, name: &str, url: String, body: Value) -> Result<Value, Error> {
    let client = reqwest::Client::new();
    let step = move || {
        let request = client.post(&url).json(&body);
        async move {
            let answer = request.send().await.map_err(Failure::unknown)?;
            let answer = answer.error_for_status().map_err(Failure::unknown)?;
            answer.json::<Value>().await.map_err(Failure::unknown)
        }
    };
    ctx.step(name, step).await
}

/// It does things twice, where a worker dies before the record and where an answer is lost; and
/// each failure says how to see it again.
fn must_fail(report: &Report) {
    assert!(!report.is_ok());
    let twice = |fault: Fault| {
        let verdicts = report.verdicts.iter().filter(move |one| one.case.fault == fault);
        verdicts.filter(|one| one.outcome == Outcome::Twice).count()
    };
    for fault in [Fault::Kill, Fault::CutAfter, Fault::ErrorAfter, Fault::PauseBeyondLease] {
        assert!(twice(fault) > 0, "{fault:?} found nothing:\n{}", report.text());
    }
    assert_eq!(report.count(Outcome::Error), 0, "{}", report.text());
    for verdict in report.failures() {
        let again = verdict.reproduce.as_deref().expect("a command");
        assert!(
            again.starts_with(&format!("SEMEL_CHECK_ONLY='{}' cargo", verdict.name)),
            "{again}"
        );
    }
}

#[tokio::test]
async fn req_l13_an_unprotected_triage_fails_the_check() {
    let double = triage_double();
    let url = double.url();
    let code = move |ctx: Context, inbound: triage::Inbound| {
        let url = url.clone();
        async move {
            send(&ctx, "classify", format!("{url}/classify"), json!({ "text": inbound.text }))
                .await?;
            let ticket = json!({ "reference": inbound.request_id });
            send(&ctx, "ticket", format!("{url}/native/tickets"), ticket).await
        }
    };
    must_fail(&Check::new("triage", code).input(&inbound()).double(&double).run().await);
}

#[tokio::test]
async fn req_l13_an_unprotected_saga_fails_the_check() {
    let double = shop_double();
    let url = double.url();
    let code = move |ctx: Context, order: saga_order::Order| {
        let url = url.clone();
        async move {
            let about = json!({ "order": order.order_id });
            for path in ["reservations", "charges", "parcels", "refunds", "releases"] {
                send(&ctx, path, format!("{url}/{path}"), about.clone()).await?;
            }
            Ok("taken back".to_owned())
        }
    };
    must_fail(&Check::new("order", code).input(&order()).double(&double).run().await);
}

#[tokio::test]
async fn req_l13_an_unprotected_refund_fails_the_check() {
    let double = shop_double();
    let url = double.url();
    let code = move |ctx: Context, wish: refund_approval::Wish| {
        let url = url.clone();
        async move {
            ctx.approve("may-refund", &wish).key([&wish.order_id]).await?;
            let body = json!({ "order": wish.order_id, "cents": wish.cents });
            send(&ctx, "refund", format!("{url}/refunds"), body).await
        }
    };
    must_fail(&Check::new("refund", code).input(&wish()).double(&double).run().await);
}
