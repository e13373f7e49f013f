//! Rows of the requirements that a run as a whole must keep.

use std::time::Duration;

use semel::{Code, Context, Error, Failure, NativeKey, Retry, RunState, Semel};
use semel_core::journal::{Event, Outcome, Value, decode};
use semel_store::RunQuery;

use crate::common::{Count, Place, reaches};

/// Creates a ticket for a request, waits for a word, then confirms.
async fn request(ctx: Context, id: String, tickets: Count, mails: Count) -> Result<String, Error> {
    let ticket = ctx.effect("ticket").key([id.as_str()]).contract(NativeKey::hours(24));
    let ticket = ticket.call(move |intent| {
        let (_key, number) = (intent.downstream_key().to_owned(), tickets.up());
        async move { Ok::<_, Failure>(format!("T-{number}")) }
    });
    let ticket: String = ticket.await?;
    ctx.wait_for_signal::<()>("go").await?;
    let mail = ctx.effect("mail").key([id]).call(move |_| {
        let number = mails.up();
        async move { Ok::<_, Failure>(format!("M-{number}")) }
    });
    let mail: String = mail.await?;
    Ok(format!("{ticket} {mail}"))
}

fn offer(semel: &Semel, tickets: &Count, mails: &Count) -> semel::Working {
    let (tickets, mails) = (tickets.clone(), mails.clone());
    let code = move |ctx, id| request(ctx, id, tickets.clone(), mails.clone());
    semel.worker().workflow("request", code).start().unwrap()
}

async fn events(semel: &Semel, run: &semel::RunHandle) -> Vec<Event> {
    let journal = semel.engine().journal(&run.status().await.unwrap()).await.unwrap();
    journal.iter().map(|inked| decode(&inked.text).unwrap().event).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn req_l2_replay_returns_the_receipt_from_the_journal_and_calls_nobody() {
    let (place, tickets, mails) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    offer(&semel, &tickets, &mails);
    let run = semel.start("request").key("e").input("42").run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run.signal("go", "go", &()).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "T-1 M-1");
    assert_eq!((tickets.get(), mails.get()), (1, 1));
    let row = semel.find("ticket", "42").await.unwrap().unwrap();
    assert_eq!(row.attempts.len(), 1, "the replay did not even ask the ledger to send");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_r7_whoever_repeats_what_one_effect_remains() {
    let (place, tickets, mails) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    let working = offer(&semel, &tickets, &mails);
    // The queue redelivers and the form is sent twice, at the same instant.
    let starts = (0..10).map(|_| semel.start("request").key("e").input("42").run());
    let runs = futures_util::future::join_all(starts).await;
    let runs: Vec<_> = runs.into_iter().map(Result::unwrap).collect();
    assert!(runs.iter().all(|run| run.id() == runs[0].id()));
    assert_eq!(runs.iter().filter(|run| !run.is_attached()).count(), 1);
    let run = &runs[0];
    reaches(run, RunState::Waiting).await;
    // The worker restarts while the run waits.
    working.stop(Duration::from_secs(1)).await;
    offer(&semel, &tickets, &mails);
    // The reviewer clicks twice, in two windows.
    let clicks = ["click-1", "click-1", "click-2"].map(|id| run.signal("go", id, &()));
    for click in futures_util::future::join_all(clicks).await {
        click.unwrap();
    }
    assert_eq!(run.result::<String>().await.unwrap(), "T-1 M-1");
    // The scheduler replays the event, and another workflow reaches the same intent.
    let again = semel.start("request").key("e").input("42").run().await.unwrap();
    assert_eq!(again.result::<String>().await.unwrap(), "T-1 M-1");
    let other = semel.start("request").key("other").input("42").run().await.unwrap();
    other.signal("go", "go", &()).await.unwrap();
    assert_eq!(other.result::<String>().await.unwrap(), "T-1 M-1");
    assert_eq!((tickets.get(), mails.get()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn req_v4_history_tells_key_branch_output_and_whether_a_repeat_was_caught() {
    let (place, tickets, mails) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    offer(&semel, &tickets, &mails);
    let mut told = Vec::new();
    for key in ["first", "second"] {
        let run = semel.start("request").key(key).input("42").run().await.unwrap();
        run.signal("go", "go", &()).await.unwrap();
        run.result::<String>().await.unwrap();
        for event in events(&semel, &run).await {
            if let Event::Effect { id, what, result: Outcome::Value(Value::Json(json)), repeat } =
                event
            {
                told.push(format!("{id}: {what} = {}, repeat: {repeat}", json.text()));
            }
        }
    }
    let want = [
        "ticket#0: effect ticket/42 = \"T-1\", repeat: false",
        "mail#0: effect mail/42 = \"M-1\", repeat: false",
        "ticket#0: effect ticket/42 = \"T-1\", repeat: true",
        "mail#0: effect mail/42 = \"M-1\", repeat: true",
    ];
    assert_eq!(told, want);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_v2_journal_and_ledger_prove_one_effect() {
    let (place, tickets, mails) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    offer(&semel, &tickets, &mails);
    let run = semel.start("request").key("e").input("42").run().await.unwrap();
    run.signal("go", "go", &()).await.unwrap();
    run.result::<String>().await.unwrap();
    let receipts: Vec<String> = events(&semel, &run)
        .await
        .iter()
        .filter(|event| event.id() == Some("ticket#0"))
        .filter_map(|event| match event.value()? {
            Value::Json(json) => Some(json.text().to_owned()),
            Value::Blob { .. } => None,
        })
        .collect();
    let row = semel.find("ticket", "42").await.unwrap().unwrap();
    assert_eq!(receipts, [row.receipt().unwrap().text()]);
    let applied = row.attempts.iter().filter(|attempt| attempt.receipt().is_some()).count();
    assert_eq!((applied, tickets.get()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn req_v5_one_record_per_intent_names_its_run() {
    let (place, tickets, mails) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    offer(&semel, &tickets, &mails);
    for key in ["first", "second"] {
        let run = semel.start("request").key(key).input("42").run().await.unwrap();
        run.signal("go", "go", &()).await.unwrap();
        run.result::<String>().await.unwrap();
    }
    let first = semel.start("request").key("first").input("42").run().await.unwrap();
    let query = semel_store::Query::everywhere(10);
    let rows = semel.engine().list(&query).await.unwrap().effects;
    assert_eq!(rows.len(), 2, "a ticket and a mail, whoever asked how often");
    assert!(rows.iter().all(|row| row.run.as_deref() == Some(first.id())));
}

#[tokio::test(flavor = "multi_thread")]
async fn req_v3_runs_are_found_by_their_key() {
    let (place, tickets, mails) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    offer(&semel, &tickets, &mails);
    for key in ["event-1", "event-2"] {
        semel.start("request").key(key).input(key).run().await.unwrap();
    }
    let mut query = RunQuery::everywhere(10);
    query.key = Some("event-2".into());
    let found = semel.engine().runs(&query).await.unwrap().runs;
    assert_eq!(found.iter().map(|run| run.key.as_str()).collect::<Vec<_>>(), ["event-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_r5_a_read_retries_freely_and_a_write_needs_a_key() {
    let (place, reads, writes) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    let (read, write) = (reads.clone(), writes.clone());
    let both = move |ctx: Context, (): ()| {
        let (read, write) = (read.clone(), write.clone());
        async move {
            let quick = Retry { delay_ms: 1, ..Retry::default() };
            let read = ctx.step("read", move || {
                let number = read.up();
                async move { if number < 5 { Err(Failure::unknown("down")) } else { Ok(number) } }
            });
            read.retry(quick).await?;
            let keyless = ctx.effect("write").call(move |_| {
                let number = write.up();
                async move { Ok::<_, Failure>(number) }
            });
            Ok(keyless.await.unwrap_err().code().as_str().to_owned())
        }
    };
    semel.worker().workflow("both", both).start().unwrap();
    let run = semel.start("both").key("e").input(&()).run().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), Code::KeyInvalid.as_str());
    assert_eq!((reads.get(), writes.get()), (5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn req_r1_retries_are_on_by_default_and_an_effect_bears_any_number_of_runs() {
    assert!(Retry::default().attempts_max > 1);
    let (place, tickets, mails) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    offer(&semel, &tickets, &mails);
    for number in 0..20 {
        let key = format!("delivery-{number}");
        let run = semel.start("request").key(key).input("42").run().await.unwrap();
        run.signal("go", "go", &()).await.unwrap();
        assert_eq!(run.result::<String>().await.unwrap(), "T-1 M-1");
    }
    assert_eq!((tickets.get(), mails.get()), (1, 1));
}
