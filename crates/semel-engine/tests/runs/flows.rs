//! Workflows to be killed. What each step and effect is given follows from what came before.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, select_all};
use futures_util::stream::{self, StreamExt};
use semel_core::code::Code;
use semel_core::json::Json;
use semel_core::key::{Action, Key};
use semel_core::record::Contract;
use semel_engine::{Error, Executor, Exhausted, Port, Start, Work, callback_signal};

use super::kit::{AT_ONCE, Kit, NATIVE, PROBE, Sending, json, sleep, wait};
use super::world::start;

pub(crate) type Done = BoxFuture<'static, Result<Json, Error>>;

pub(crate) fn three_steps(port: Port, kit: Kit) -> Done {
    async move {
        let a = kit.step(&port, "a", "").await?;
        let b = kit.step(&port, "b", a.text()).await?;
        kit.step(&port, "c", b.text()).await
    }
    .boxed()
}

/// A model, two effects, a sleep and a wait.
pub(crate) fn of_all_kinds(port: Port, kit: Kit) -> Done {
    async move {
        let (asked, again) = (model(&port, &kit), model(&port, &kit));
        let (answer, same) = (asked.await?, again.await?);
        assert_eq!(answer, same, "one request, one answer");
        let first = kit.effect(&port, "k-1", NATIVE, answer, Sending::Quick).await?;
        sleep(&port, 5_000).await?;
        let word = wait(&port, "word", None).await?.expect("no timeout");
        let both = json(&format!("[{},{}]", first.text(), word.text()));
        let second = kit.effect(&port, "k-2", PROBE, both, Sending::Quick).await?;
        kit.step(&port, "last", second.text()).await
    }
    .boxed()
}

fn model(port: &Port, kit: &Kit) -> Done {
    let (kit, id) = (kit.clone(), port.next_id("model"));
    let run = move |_| {
        let kit = kit.clone();
        async move {
            kit.life.point().await;
            Ok(json(&format!("{}", kit.there.sends())))
        }
        .boxed()
    };
    let work = Work::Step {
        run: std::sync::Arc::new(run),
        executor: Executor::Task,
        retry: AT_ONCE,
        exhausted: Exhausted::Pause,
    };
    let pending = port.model(id, "what is it?".to_owned(), work);
    async move { pending.await.map(|value| value.expect("a model answers")) }.boxed()
}

/// Five steps and three effects at once, then four steps, two at a time.
pub(crate) fn wide(port: Port, kit: Kit) -> Done {
    async move {
        let steps = (0..5).map(|n| kit.step(&port, "wide", n.to_string()));
        let mut all: Vec<Done> = steps.collect();
        for n in 0..3 {
            let contract = if n == 1 { PROBE } else { NATIVE };
            let key = format!("k-{n}");
            all.push(kit.effect(&port, &key, contract, json(&n.to_string()), Sending::Quick));
        }
        let got = join_all(all).await.into_iter().collect::<Result<Vec<Json>, Error>>()?;
        let texts: Vec<&str> = got.iter().map(Json::text).collect();
        let given = texts.join(" ");
        let each = |n: u32| kit.step(&port, "bound", format!("{n} {given}"));
        let mapped: Vec<_> = stream::iter((0..4).map(each)).buffered(2).collect().await;
        mapped.into_iter().next().expect("four of them")
    }
    .boxed()
}

/// A timer against an effect that is slower. The effect is settled before the run ends.
pub(crate) fn slow_race(port: Port, kit: Kit) -> Done {
    async move {
        let timer = {
            let port = port.clone();
            async move { sleep(&port, 3_000).await.map(|()| json("\"timer\"")) }.boxed()
        };
        let slow = Sending::Slow(6_000);
        let effect = kit.effect(&port, "k-1", NATIVE, json("1"), slow);
        let (won, place, _) = select_all([timer, effect]).await;
        let won = won?;
        kit.step(&port, "after", format!("{place} {}", won.text())).await
    }
    .boxed()
}

pub(crate) fn stubborn_step(port: Port, kit: Kit) -> Done {
    async move {
        let a = kit.failing_step(&port, "a", "", 2).await?;
        kit.step(&port, "b", a.text()).await
    }
    .boxed()
}

/// An effect is refused, the code sees it and does something else.
pub(crate) fn refused_effect(port: Port, kit: Kit) -> Done {
    async move {
        let refused = kit.effect(&port, "k-1", NATIVE, json("1"), Sending::Refused).await;
        let error = refused.expect_err("it is refused");
        assert_eq!(error.code(), Code::EffectFailed);
        let input = json(&format!("\"instead: {}\"", error.detail()));
        kit.effect(&port, "k-2", PROBE, input, Sending::Quick).await
    }
    .boxed()
}

/// Three questions, with something done before each: a yes, a no, and silence.
pub(crate) fn asks(port: Port, kit: Kit) -> Done {
    async move {
        let mut last = kit.effect(&port, "before", NATIVE, json("1"), Sending::Quick).await?;
        for (key, contract) in [("yes", PROBE), ("no", NATIVE), ("late", NATIVE)] {
            let seen = kit.step(&port, "look", last.text()).await?;
            let told = kit.effect(&port, key, contract, seen, Sending::Asked).await;
            last = told.unwrap_or_else(|error| json(&format!("\"{}\"", error.code())));
        }
        assert_eq!(last.text(), "\"approval_expired\"");
        kit.step(&port, "after", last.text()).await
    }
    .boxed()
}

pub(crate) fn wait_in_vain(port: Port, kit: Kit) -> Done {
    async move {
        let came = wait(&port, "word", Some(5_000)).await?;
        assert_eq!(came, None);
        kit.step(&port, "after", "nothing").await
    }
    .boxed()
}

/// Two signals of one name, each of which decides something.
pub(crate) fn two_words(port: Port, kit: Kit) -> Done {
    async move {
        let first = wait(&port, "word", None).await?.expect("no timeout");
        kit.step(&port, "one", first.text()).await?;
        let second = wait(&port, "word", None).await?.expect("no timeout");
        kit.step(&port, "two", format!("{} {}", first.text(), second.text())).await
    }
    .boxed()
}

pub(crate) const WORDS: usize = 40;

/// Many signals, one after the other.
pub(crate) fn many_words(port: Port, kit: Kit) -> Done {
    async move {
        for _ in 0..WORDS {
            wait(&port, "word", None).await?;
        }
        kit.step(&port, "after", "").await
    }
    .boxed()
}

/// A step that takes twenty seconds.
pub(crate) fn long_step(port: Port, kit: Kit) -> Done {
    async move { kit.long_step(&port, "long", 20_000).await }.boxed()
}

/// A step that takes longer than a lease lasts.
pub(crate) fn longest_step(port: Port, kit: Kit) -> Done {
    async move { kit.long_step(&port, "long", 100_000).await }.boxed()
}

pub(crate) fn long_sleep(port: Port, kit: Kit) -> Done {
    async move {
        sleep(&port, 100_000).await?;
        kit.step(&port, "after", "").await
    }
    .boxed()
}

/// A sleep beside a step that takes so long that the run is never parked.
pub(crate) fn sleep_beside_a_step(port: Port, kit: Kit) -> Done {
    async move {
        let sleeper = port.clone();
        let sleep = async move { sleep(&sleeper, 100_000).await.map(|()| json("0")) }.boxed();
        let step = kit.long_step(&port, "long", 1_000_000);
        let (won, place, _) = select_all([sleep, step]).await;
        won.map(|_| json(&place.to_string()))
    }
    .boxed()
}

pub(crate) fn one_slow_effect(port: Port, kit: Kit) -> Done {
    async move { kit.effect(&port, "k-1", NATIVE, json("1"), Sending::Slow(45_000)).await }.boxed()
}

/// Its step never works: the run pauses.
pub(crate) fn hopeless(port: Port, kit: Kit) -> Done {
    async move { kit.failing_step(&port, "a", "", u32::MAX).await }.boxed()
}

pub(crate) fn unsafe_effect(port: Port, kit: Kit) -> Done {
    async move {
        let once = Contract::AtMostOnce;
        kit.effect(&port, "k-1", once, json("1"), Sending::Quick).await
    }
    .boxed()
}

/// A signal against a slow effect.
pub(crate) fn signal_race(port: Port, kit: Kit) -> Done {
    async move {
        let waiter = port.clone();
        let word =
            async move { wait(&waiter, "word", None).await.map(|word| word.expect("it came")) };
        let effect = kit.effect(&port, "k-1", NATIVE, json("1"), Sending::Slow(6_000));
        let (won, _, _) = select_all([word.boxed(), effect]).await;
        won
    }
    .boxed()
}

/// A timer against an effect that only a person can settle when it is cut.
pub(crate) fn unsafe_race(port: Port, kit: Kit) -> Done {
    async move {
        let sleeper = port.clone();
        let timer = async move { sleep(&sleeper, 1_000).await.map(|()| json("1")) }.boxed();
        let slow = Sending::Slow(6_000);
        let effect = kit.effect(&port, "k-1", Contract::AtMostOnce, json("1"), slow);
        select_all([timer, effect]).await.0
    }
    .boxed()
}

/// Two effects that can be taken back, then a failure: both are.
pub(crate) fn saga(port: Port, kit: Kit) -> Done {
    async move {
        let first = kit.undoable(&port, ("k-1", "u-1"), NATIVE, json(r#"{"n":1}"#)).await?;
        let input = json(&format!(r#"{{"n":{}}}"#, first.text()));
        let second = kit.undoable(&port, ("k-2", "u-2"), PROBE, input).await?;
        kit.step(&port, "last", second.text()).await?;
        Err(Error::new(Code::RunFailed, "nothing left to ship"))
    }
    .boxed()
}

/// One effect that can be taken back, then a wait that is cancelled.
pub(crate) fn undoable_wait(port: Port, kit: Kit) -> Done {
    async move {
        kit.undoable(&port, ("k-1", "u-1"), NATIVE, json(r#"{"n":1}"#)).await?;
        wait(&port, "word", None).await?;
        kit.undoable(&port, ("k-2", "u-2"), PROBE, json(r#"{"n":2}"#)).await
    }
    .boxed()
}

/// What children do.
pub(crate) fn child(port: Port, kit: Kit) -> Done {
    async move {
        let key = format!("child-{}", port.facts().key);
        let receipt = kit.effect(&port, &key, NATIVE, json("1"), Sending::Quick).await?;
        sleep(&port, 3_000).await?;
        kit.step(&port, &format!("of {}", port.facts().key), receipt.text()).await
    }
    .boxed()
}

/// Two children at once, then a step.
pub(crate) fn parent(port: Port, kit: Kit) -> Done {
    async move {
        let got = join_all([begin_child(&port, "1"), begin_child(&port, "2")]).await;
        let got = got.into_iter().collect::<Result<Vec<Json>, Error>>()?;
        kit.step(&port, "after", format!("{} {}", got[0].text(), got[1].text())).await
    }
    .boxed()
}

fn begin_child(port: &Port, key: &str) -> Done {
    let ask = Start {
        workflow: Action::new("child").expect("a name"),
        key: Some(Key::from_text(key).expect("a key")),
        ..start()
    };
    let (id, what) = (port.next_id("child"), format!("child child/{key}"));
    let pending = port.command(id, what, Work::Child(Box::new(ask)));
    async move { pending.await.map(|value| value.expect("a child has a result")) }.boxed()
}

/// An entity around a step, let go; another one that the end lets go.
pub(crate) fn entities(port: Port, kit: Kit) -> Done {
    async move {
        let (first, fence) = enter(&port, "ticket:1").await?;
        kit.step(&port, "one", fence.text()).await?;
        let id = port.next_id("leave ticket:1");
        let work = Work::Leave { entered: first.clone(), name: "ticket:1".into() };
        port.command(id, format!("leave {first}"), work).await?;
        let (_, fence) = enter(&port, "ticket:2").await?;
        kit.step(&port, "two", fence.text()).await
    }
    .boxed()
}

async fn enter(port: &Port, name: &str) -> Result<(String, Json), Error> {
    let id = port.next_id(&format!("entity {name}"));
    let work = Work::Enter { name: name.to_owned() };
    let fence = port.command(id.clone(), format!("entity {name}"), work).await?;
    Ok((id, fence.expect("a grant has a fence")))
}

/// A token that is given away, and its answer.
pub(crate) fn agent(port: Port, kit: Kit) -> Done {
    async move {
        let id = port.next_id("agent");
        let token = port.command(id.clone(), "callback".to_owned(), Work::Callback).await?;
        let token = token.expect("a callback has a token");
        kit.effect(&port, "k-1", NATIVE, token, Sending::Quick).await?;
        let report = wait(&port, &callback_signal(&id), None).await?.expect("no timeout");
        kit.step(&port, "apply", report.text()).await
    }
    .boxed()
}
