//! One row that cannot be read fails no list, on any way in: it is named, and the others are there.

use reqwest::StatusCode;
use semel::{Context, Error, Semel};
use semel_core::access::{self, Role};
use semel_core::code::Code;
use semel_core::hook;
use semel_core::journal::{self, At, Entry, Event};
use semel_core::json::Json;
use semel_core::key::Namespace;
use semel_core::proof;
use semel_core::release::Releases;
use semel_core::run::Run;
use semel_core::schedule::{self, CatchUp, Content};
use semel_core::time::Moment;
use semel_engine::Engine;
use semel_store::conformance::{address, insert};
use semel_store::remote::Remote;
use semel_store::{
    Access, Append, Card, CardQuery, Cards, Clock, Query, RunQuery, Runs, Store, Write,
};
use serde_json::Value;

use crate::served::Served;
use crate::tenants::{Home, commit, first_entry, new_run, start};

/// Two of everything in the namespace `default`: one that stays whole, and one to be damaged.
async fn plant(home: &Home) -> [Run; 2] {
    let opened = home.open().await;
    let store = opened.store();
    let engine = Engine::on(&opened, "planter").expect("an engine");
    let ground = store.ground();
    let runs = [1, 2].map(|number| new_run("default", &format!("r{number}"), number, &ground.now));
    for run in &runs {
        let first = first_entry(run, &ground.now, None);
        let second = planned(run, &first, "effect mail/lost", &ground.now);
        commit(&*store, vec![start(run, &ground.now), first, second]).await.expect("a run");
    }
    for key in ["whole", "lost"] {
        let effect = semel_store::conformance::armed(&address("mail", key), key, &ground);
        store.commit(insert(&effect, &ground).into()).await.expect("an effect");
    }
    for name in ["whole", "lost"] {
        let content = Content {
            workflow: "w".into(),
            input: Json::null(),
            cron: "* * * * *".into(),
            zone: "UTC".into(),
            catch_up: CatchUp::Skip,
            window_ms: 1,
        };
        engine.put_schedule(&Namespace::default(), name, content).await.expect("a schedule");
    }
    let known = serde_json::to_string(&Releases::default()).expect("plain data");
    for (kind, name, record) in [
        ("workflow", "whole", known.as_str()),
        ("workflow", "lost", "garbage"),
        (hook::CARD, "lost", "garbage"),
    ] {
        store.commit(card(kind, name, record).into()).await.expect("a card");
    }
    runs
}

/// An entry that says what a run is about to do.
fn planned(run: &Run, first: &Write, what: &str, now: &Moment) -> Write {
    let Write::Append(first) = first else { panic!("an entry") };
    let event = Event::Planned { id: "e#0".into(), what: what.into(), undo: false };
    let entry = Entry { format: journal::FORMAT, at: At::from(now), event };
    let text = journal::encode(&entry);
    let (after, link) = (first.link, first.link.then(&text));
    Write::Append(Append { run: run.number, seq: 1, after, link, text })
}

fn card(kind: &str, name: &str, record: &str) -> Write {
    Write::Card(Card {
        namespace: "default".into(),
        kind: kind.into(),
        name: name.into(),
        version: 1,
        due: None,
        record: record.into(),
    })
}

async fn got(served: &Served, path: &str, token: Option<&str>) -> (StatusCode, String) {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let ask = client.build().expect("a client").get(format!("{}{path}", served.url));
    let ask = match token {
        Some(token) => ask.bearer_auth(token),
        None => ask,
    };
    let answer = ask.send().await.expect("an answer");
    (answer.status(), answer.text().await.expect("a text"))
}

/// How many items a list has, and the names of those that cannot be read.
async fn listed(served: &Served, path: &str, token: Option<&str>) -> (usize, Vec<String>) {
    let (status, text) = got(served, path, token).await;
    assert_eq!(status, StatusCode::OK, "{path}: {text}");
    let page: Value = serde_json::from_str(&text).expect("JSON");
    let lost = page["unreadable"].as_array().cloned().unwrap_or_default();
    assert!(lost.iter().all(|row| row["code"] == "store_corrupt"), "{text}");
    let name = |row: &Value| row["name"].as_str().expect("a name").to_owned();
    (page["items"].as_array().expect("items").len(), lost.iter().map(name).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_one_row_that_cannot_be_read_fails_no_list_of_the_server_and_of_its_workers() {
    for home in Home::both() {
        let [whole, lost] = plant(&home).await;
        home.sql("UPDATE effects SET sum = sum + 1 WHERE key = 'lost'");
        home.sql("UPDATE runs SET sum = sum + 1 WHERE number = 2");
        home.sql("UPDATE cards SET sum = sum + 1 WHERE kind = 'schedule' AND name = 'lost'");
        let first = semel_core::audit::card_name(1);
        home.sql(&format!("UPDATE cards SET sum = sum + 1 WHERE name = '{first}'"));
        let served = Served::quiet(&home.url()).await;
        for (path, items, name) in [
            ("/v1/effects", 1, "mail/lost"),
            ("/v1/runs", 1, &*lost.id),
            ("/v1/schedules", 1, "lost"),
            ("/v1/triggers", 0, "lost"),
            ("/v1/releases", 1, "lost"),
            ("/v1/audit", 1, "1"),
        ] {
            assert_eq!(listed(&served, path, None).await, (items, vec![name.into()]), "{path}");
        }
        for path in ["/console", "/console/effects", "/console/runs"] {
            let (status, text) = got(&served, path, None).await;
            assert_eq!(status, StatusCode::OK, "{path}: {text}");
            assert!(text.contains("cannot be read"), "{path}: {text}");
        }
        // Over the protocol of workers.
        let worker = Remote::open(&served.url, None, Access::ReadWrite, Clock::Real).await;
        let worker = worker.expect("the server answers");
        let page = worker.list(&Query::everywhere(9)).await.expect("a list");
        assert_eq!((page.effects.len(), &*page.unreadable[0].name), (1, "mail/lost"));
        assert_eq!(page.unreadable[0].code, Code::StoreCorrupt);
        let page = worker.list_runs(&RunQuery::everywhere(9)).await.expect("a list");
        assert_eq!((page.runs.len(), &page.unreadable[0].name), (1, &lost.id));
        let kind = schedule::CARD.to_owned();
        let query = CardQuery { namespace: None, kind, after: None, limit: 9 };
        let page = worker.cards(&query).await.expect("a list");
        assert_eq!((page.cards.len(), &*page.unreadable[0].name), (1, "lost"));
        // A proof says what it is without.
        let engine = Engine::new(served.store.clone(), "prover").expect("an engine");
        let evidence = engine.evidence_of_run(&Namespace::default(), &whole.id).await;
        let evidence = evidence.expect("the rest of it");
        let statement = proof::state(&evidence).expect("a statement");
        assert_eq!(statement.verdict.finding, "broken");
        let broken = statement.verdict.broken.iter();
        let said: Vec<_> = broken.map(|one| one.says.to_string()).collect();
        assert!(said.iter().any(|says| says.ends_with("mail/lost cannot be read")), "{said:?}");
        engine.turn().await.expect("a whole turn of the job");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_a_token_that_cannot_be_read_is_named_and_keeps_the_server_closed() {
    for home in Home::both() {
        let opened = home.open().await;
        let engine = Engine::on(&opened, "planter").expect("an engine");
        let space = Namespace::default();
        let whose = ("ann", Role::Admin);
        let (text, _) = engine.create_token(&space, whose, None, "ann").await.expect("a token");
        let (_, lost) = engine.create_token(&space, whose, None, "ann").await.expect("a token");
        drop((engine, opened));
        home.sql(&format!("UPDATE cards SET sum = sum + 1 WHERE name = '{}'", lost.id));
        let served = Served::quiet(&home.url()).await;
        let tokens = listed(&served, "/v1/tokens", Some(&text)).await;
        assert_eq!(tokens, (1, vec![lost.id.clone()]));
        served.stop().await;
        home.sql(&format!("UPDATE cards SET sum = sum + 1 WHERE kind = '{}'", access::CARD));
        let served = Served::quiet(&home.url()).await;
        let (status, text) = got(&served, "/v1/tokens", None).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_nothing_is_chained_behind_an_audit_entry_that_cannot_be_read() {
    for home in Home::both() {
        plant(&home).await;
        home.sql("UPDATE cards SET sum = sum + 1 WHERE kind = 'audit'");
        let opened = home.open().await;
        let engine = Engine::on(&opened, "engine").expect("an engine");
        let made = engine.create_token(&Namespace::default(), ("a", Role::Admin), None, "a").await;
        assert_eq!(made.map(|_| ()).map_err(|error| error.code()), Err(Code::StoreCorrupt));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_a_workflow_whose_releases_cannot_be_read_keeps_back_no_other() {
    for home in Home::both() {
        plant(&home).await;
        let opened = home.open().await;
        let engine = Engine::on(&opened, "worker").expect("an engine");
        let semel = Semel::on(engine.clone());
        let worker = semel.worker().release("r1");
        let worker = ["a", "lost", "z"].into_iter().fold(worker, |worker, name| {
            worker.workflow(name, |_: Context, (): ()| async { Ok::<_, Error>(()) })
        });
        drop(worker.start().expect("a worker"));
        engine.announce().await.expect("the others");
        let known = engine.releases(&Namespace::default()).await.expect("a list");
        let names: Vec<_> = known.found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "whole", "z"]);
        assert_eq!(known.unreadable.len(), 1);
        engine.turn().await.expect("a whole turn of the job");
    }
}
