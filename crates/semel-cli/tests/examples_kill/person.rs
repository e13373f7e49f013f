//! The people around the examples: Ann decides on refunds and settles doubts, Bob comes too late.

use std::path::Path;
use std::time::Duration;

use semel::{Answer, Asked, Code, Contract, IntoKey, Json, Semel};
use semel_core::effect::{Person, Resolution, State};
use semel_core::record::Effect;
use serde_json::Value;

use crate::shop::Shop;
use crate::worker::{End, ORDER, Worker, store_url};

const LOOK: Duration = Duration::from_millis(20);
/// Longer than anything here takes, also on a busy machine.
const LOOKS_MAX: usize = 3_000;

/// What the people had to do until a worker ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deeds {
    pub(crate) questions: usize,
    pub(crate) doubts: usize,
}

/// Lets a worker go on to its end, with people at hand.
pub(crate) async fn attend(worker: &mut Worker, folder: &Path, shop: &Shop) -> (End, Deeds) {
    let mut deeds = Deeds::default();
    let mut semel = None;
    for _ in 0..LOOKS_MAX {
        if let Some(end) = worker.ended() {
            return (end, deeds);
        }
        tokio::time::sleep(LOOK).await;
        if semel.is_none() && folder.join("semel.db").exists() {
            semel = Semel::open(&store_url(folder)).await.ok();
        }
        if let Some(semel) = &semel {
            deeds.questions += answer_questions(semel).await;
            deeds.doubts += settle_doubts(semel, shop).await;
        }
    }
    panic!("a worker hangs: {}", worker.words());
}

async fn answer_questions(semel: &Semel) -> usize {
    let open = semel.approvals().list(10).await.expect("the store answers");
    for asked in &open {
        answer(asked).await;
    }
    open.len()
}

/// The first version is returned, the edited one approved; the second click changes nothing.
async fn answer(asked: &Asked) {
    let is_first = asked.effect().address.key == [ORDER, "v1"].into_key().expect("a key");
    let own = asked.approve("bot", "I am sure").await.expect_err("four eyes");
    assert_eq!(own.code(), Code::FourEyes);
    let (want, decided) = if is_first {
        (Answer::Returned, asked.send_back("ann", "half of it is enough").await)
    } else {
        (Answer::Approved, asked.approve("ann", "as agreed").await)
    };
    match decided {
        Ok(decided) => assert_eq!((decided.judgement.answer, decided.is_new), (want, true)),
        // The row moved on between the look and the word: the next look decides.
        Err(error) => return assert_eq!(error.code(), Code::VersionChanged, "{error}"),
    }
    let late = asked.deny("bob", "too much").await.expect("he is told");
    assert_eq!((late.judgement.answer, late.is_new), (want, false));
}

/// Ann looks at the account: what is there is done, what is not is paid.
async fn settle_doubts(semel: &Semel, shop: &Shop) -> usize {
    let mut settled = 0;
    for key in [[ORDER].into_key(), [ORDER, "v2"].into_key()] {
        let found = semel.find("refund", key.expect("a key")).await.expect("the store answers");
        if let Some(effect) = found {
            settled += usize::from(settle(semel, &effect, shop).await);
        }
    }
    settled
}

async fn settle(semel: &Semel, effect: &Effect, shop: &Shop) -> bool {
    // Where the contract knows a way on, people leave it alone: they would hide what it does.
    let is_for_people =
        effect.plan.as_ref().is_some_and(|plan| plan.terms.contract == Contract::AtMostOnce);
    let state = effect.state(&semel.engine().store().ground().now);
    if state != State::InDoubt || !is_for_people {
        return false;
    }
    let paid: Option<Value> = shop.all("refunds").first().cloned();
    let resolution = match &paid {
        Some(refund) => Resolution::Done(Json::of(refund).expect("JSON")),
        None => Resolution::Retry,
    };
    let person = Person {
        actor: "ann".to_owned(),
        reason: "looked at the account".to_owned(),
        version: effect.version,
    };
    match semel.engine().resolve(&effect.address, &person, &resolution).await {
        Ok(_) => true,
        // Not before the settle window is over; and not when somebody else has moved it.
        Err(error) => {
            assert!([Code::TooEarly, Code::VersionChanged].contains(&error.code()), "{error}");
            false
        }
    }
}
