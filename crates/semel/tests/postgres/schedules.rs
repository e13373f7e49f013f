//! Schedules on Postgres, whose clock nobody moves: the card says that it began ten minutes ago.

use semel::{CatchUp, Semel};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::schedule::{self, CARD, Change, Content};
use semel_core::time::{Moment, Wall};
use semel_store::{Card, RunQuery, Write};

use crate::kit::Ledger;

const MINUTES: u64 = 10;

/// Writes the card of a schedule that nobody has looked at for ten minutes.
async fn put_ten_minutes_ago(semel: &Semel) -> Wall {
    let store = semel.engine().store();
    let now = store.ground().now;
    let wall = Wall(now.wall.0 - i64::try_from(MINUTES * 60_000).unwrap());
    let content = Content {
        workflow: "report".to_owned(),
        input: Json::null(),
        cron: "* * * * *".to_owned(),
        zone: "Asia/Kathmandu".to_owned(),
        catch_up: CatchUp::All,
        window_ms: limits::WINDOW_MS,
    };
    let Change::To(put) = schedule::put(None, &content, &Moment { wall, ..now }) else {
        panic!("it is new")
    };
    let card = Card {
        namespace: "default".to_owned(),
        kind: CARD.to_owned(),
        name: "often".to_owned(),
        version: 1,
        due: schedule::due_of(&put).unwrap(),
        record: schedule::encode(&put),
    };
    store.commit(Write::Card(card).into()).await.expect("a card");
    wall
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_dapr_8548_three_processes_on_postgres_start_one_run_per_tick() {
    let ledger = Ledger::new().await;
    let processes = [ledger.engine().await, ledger.engine().await, ledger.engine().await];
    let began = put_ten_minutes_ago(&processes[0]).await;
    for _ in 0..3 {
        let turns = processes.iter().map(|semel| semel.engine().turn_schedules());
        for turned in futures_util::future::join_all(turns).await {
            turned.expect("a turn");
        }
    }
    let status = processes[1].schedule("often").status().await.expect("it is there");
    let last = status.schedule.last.expect("ticks came");
    let page = processes[2].engine().runs(&RunQuery::everywhere(100)).await.expect("runs");
    let mut keys: Vec<String> = page.runs.into_iter().map(|run| run.key).collect();
    keys.sort();
    let minutes = (began.0 / 60_000 + 1)..=(last.0 / 60_000);
    let key = |minute: i64| schedule::tick_key("often", Wall(minute * 60_000)).unwrap();
    let want: Vec<String> = minutes.map(|minute| key(minute).as_str().to_owned()).collect();
    assert_eq!(keys, want);
    assert!(keys.len() as u64 >= MINUTES, "each of the missed ones, and perhaps one since");
    let schedule = status.schedule;
    assert_eq!((schedule.fired, schedule.skipped), (keys.len() as u64, 0));
    assert!(schedule.firing.is_empty() && schedule.trouble.is_none());
}
