//! Proofs of runs that are on their way.

use semel::{Context, Error, Failure, Finding, NativeKey};

use crate::common::Place;

async fn ticket(ctx: Context, id: String) -> Result<String, Error> {
    let effect = ctx.effect("crm-ticket").key([&id]).contract(NativeKey::hours(24));
    let send = move |intent: semel::Intent| {
        let receipt = format!("T-{}", intent.downstream_key());
        async move { Ok::<_, Failure>(receipt) }
    };
    effect.call(send).await
}

/// Its row and its journal are read one after the other, while both change.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_while_it_is_proven_is_never_told_as_broken() {
    let place = Place::new();
    let semel = place.open().await;
    semel.worker().workflow("ticket", ticket).start().unwrap();
    for number in 0..60 {
        let id = format!("e-{number}");
        let run = semel.start("ticket").key(&id).input(&id).run().await.unwrap();
        loop {
            match run.proof().await.unwrap().finding() {
                Finding::InProgress => {}
                Finding::Done => break,
                other => panic!("run {number} is {other:?}"),
            }
        }
    }
}
