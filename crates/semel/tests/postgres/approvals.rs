//! Approvals on Postgres: the same answers, whichever of two workers asks, decides and sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Answer, Approval, Code, Context, Error, NativeKey, RunState};
use semel_core::verify;

use crate::kit::Ledger;

/// How often it was sent.
type Sent = Arc<AtomicU32>;

async fn publish(ctx: Context, sent: Sent) -> Result<String, Error> {
    let effect = ctx.effect("publish").key(["home"]).input("page").contract(NativeKey::hours(1));
    let effect = effect.approval(Approval::required().four_eyes("ada"));
    effect
        .call(move |intent| {
            intent.downstream_key();
            sent.fetch_add(1, Ordering::SeqCst);
            async { Ok("sent".to_owned()) }
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i16_on_postgres_two_workers_two_answers_one_outcome() {
    for round in 0..10 {
        let ledger = Ledger::new().await;
        let (one, two, sent) = (ledger.open().await, ledger.open().await, Sent::default());
        let offer = |semel: &semel::Semel| {
            let sent = sent.clone();
            let flow = move |ctx: Context, (): ()| publish(ctx, sent.clone());
            semel.worker().workflow("w", flow).start().unwrap();
        };
        offer(&one);
        let run = one.start("w").key("k").input(&()).run().await.unwrap();
        while run.state().await.unwrap() != RunState::Waiting {
            tokio::task::yield_now().await;
        }
        offer(&two);
        let mut shown = Vec::new();
        for semel in [&one, &two] {
            shown.push(semel.approvals().find("publish", ["home"]).await.unwrap());
        }
        assert_eq!(shown[0].approve("Ada", "").await.unwrap_err().code(), Code::FourEyes);
        let (yes, no) = tokio::join!(shown[0].approve("ann", "fine"), shown[1].deny("bob", "no"));
        let (yes, no) = (yes.unwrap(), no.unwrap());
        assert_eq!(yes.judgement, no.judgement, "round {round}");
        assert!(yes.is_new != no.is_new, "round {round}: decided once");
        let result = run.result::<String>().await.map_err(|error| error.code());
        match yes.judgement.answer {
            Answer::Approved => {
                assert_eq!((result, sent.load(Ordering::SeqCst)), (Ok("sent".to_owned()), 1));
            }
            _ => assert_eq!((result, sent.load(Ordering::SeqCst)), (Err(Code::ApprovalDenied), 0)),
        }
        let effect = two.find("publish", ["home"]).await.unwrap().unwrap();
        let now = two.engine().store().ground().now;
        assert_eq!(verify::check(&effect, &now), []);
    }
}
