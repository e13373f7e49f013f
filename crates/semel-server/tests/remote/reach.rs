//! What a token does not reach is not there, whoever's it is; and what its role may not do is
//! refused. Every operation of the protocol with another namespace's names and numbers.

use semel_core::access::Role;
use semel_core::audit::{self, Deed, Verb};
use semel_core::code::Code;
use semel_core::effect::{self, Ground, Person, Resolution};
use semel_core::json::Json;
use semel_core::record::{Answer, Approval, Effect, Judgement};
use semel_core::run::Run;
use semel_core::schedule::{self, CatchUp, Change, Content, Schedule};
use semel_core::time::Wall;
use semel_store::conformance::{
    address, appends, armed, card, delivery, drop_card, finished, insert, new_run, queued, taken,
    update,
};
use semel_store::remote::Remote;
use semel_store::{
    Batch, Card, CardPage, CardQuery, Cards, CommitError, Query, RunQuery, RunRow, Runs, Store,
    StoreError, Write,
};
use tempfile::TempDir;

use crate::served::Served;

/// A server with one namespace in which there is one of everything.
struct World {
    served: Served,
    _folder: TempDir,
    owner: Remote,
    effect: Effect,
    run: Run,
}

impl World {
    async fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let served = Served::quiet(&format!("sqlite:{}/semel.db", folder.path().display())).await;
        let owner = served.remote(&served.token("default", Role::Admin).await).await;
        let ground = owner.ground();
        let effect = armed(&address("mail", "k"), "1", &ground);
        let held = taken(&new_run("k", 1, &ground), &ground);
        let waiting = taken(&new_run("waiting", 2, &ground), &ground);
        let mut writes = vec![
            insert(&effect, &ground),
            start(&new_run("k", 1, &ground), &owner),
            Write::UpdateRun(RunRow::new(&held, &ground.now)),
            start(&new_run("waiting", 2, &ground), &owner),
            Write::UpdateRun(RunRow::new(&waiting, &ground.now)),
            Write::UpdateRun(RunRow::new(&queued(&waiting, "mail"), &ground.now)),
            start(&new_run("due", 3, &ground), &owner),
            Write::Deliver(delivery(&held, "d", "1")),
            Write::Blob { namespace: ns(), digest: "b".into(), text: "large".into(), run: 1 },
            Write::Card(Card { due: Some(Wall(1)), ..card("rate", "s") }),
        ];
        writes.extend(appends(&held, &["one", "two"]).into_iter().map(Write::Append));
        commit(&owner, writes).await.expect("it is written");
        let run = owner.run("default", &held.id).await.expect("read").expect("a run");
        World { served, _folder: folder, owner, effect, run }
    }

    async fn with(&self, namespace: &str, role: Role) -> Remote {
        self.served.remote(&self.served.token(namespace, role).await).await
    }
}

fn ns() -> String {
    "default".to_owned()
}

fn start(run: &Run, store: &dyn Store) -> Write {
    Write::StartRun(RunRow::new(run, &store.ground().now))
}

async fn commit(store: &dyn Store, writes: Vec<Write>) -> Result<(), CommitError> {
    store.commit(Batch { writes: writes.into() }).await
}

/// Everything that can be read of the world, by every question there is.
async fn everything(store: &dyn Store, world: &World) -> Vec<String> {
    let (run, id) = (world.run.number, &world.run.id);
    let mail = &world.effect.address;
    let cards = |namespace| CardQuery { namespace, kind: "rate".into(), after: None, limit: 9 };
    let own = Query::all(mail.namespace.clone(), 9);
    let runs = RunQuery { namespace: Some(ns()), ..RunQuery::everywhere(9) };
    vec![
        format!("{:?}", store.load(mail).await.map(|found| found.into_iter().collect::<Vec<_>>())),
        format!("{:?}", store.load_generation(mail, 0).await.map(|found| found.is_some())),
        format!("{:?}", store.list(&own).await),
        format!("{:?}", store.list(&Query::everywhere(9)).await),
        format!("{:?}", store.due(None, 9).await.map(|page| page.effects)),
        format!("{:?}", store.sweepable(9).await),
        format!("{:?}", store.run("default", id).await),
        format!("{:?}", store.namespace_of(run).await),
        format!("{:?}", store.journal(run, 0, 9).await),
        format!("{:?}", store.last_entry(run).await),
        format!("{:?}", store.inbox(run).await),
        format!("{:?}", store.delivery(run, "d").await),
        format!("{:?}", store.blob("default", "b").await),
        format!("{:?}", store.due_runs("default/w", 9).await),
        format!("{:?}", store.due_runs("", 9).await.map(|due| due.runs)),
        format!("{:?}", store.next_queued("default/mail").await),
        format!("{:?}", store.list_runs(&runs).await),
        format!("{:?}", store.list_runs(&RunQuery::everywhere(9)).await),
        format!("{:?}", store.sweepable_runs(9).await),
        format!("{:?}", store.card("default", "rate", "s").await),
        format!("{:?}", store.cards(&cards(Some(ns()))).await),
        format!("{:?}", store.cards(&cards(None)).await),
        format!("{:?}", store.due_cards("rate", 9).await),
    ]
}

/// Every kind of write, aimed at what belongs to the namespace `default`.
fn attacks(world: &World) -> Vec<(Write, bool)> {
    let ground = world.owner.ground();
    let now = &ground.now;
    let (run, id) = (world.run.number, world.run.id.clone());
    let row = || RunRow::new(&Run { version: world.run.version + 1, ..world.run.clone() }, now);
    let entry = appends(&world.run, &["one", "two", "three"])[2].clone();
    let last = appends(&world.run, &["one", "two"])[1].link;
    let further = Effect { version: 2, ..world.effect.clone() };
    let removed = world.effect.address.clone();
    let version = world.run.version;
    let blob = |namespace: &str| Write::Blob {
        namespace: namespace.into(),
        digest: "b".into(),
        text: "mine".into(),
        run,
    };
    // Those by a name are refused; those by a number find no such run.
    vec![
        (insert(&armed(&address("mail", "new"), "1", &ground), &ground), true),
        (update(&further, &ground), true),
        (Write::Remove { address: removed, generation: 0, version: 1 }, true),
        (start(&new_run("other", 9, &ground), &world.owner), true),
        (Write::UpdateRun(row()), true),
        (Write::DropRun { namespace: ns(), id: id.clone(), number: run, version, row: None }, true),
        (
            Write::DropRun {
                namespace: "other".into(),
                id: id.clone(),
                number: run,
                version,
                row: None,
            },
            false,
        ),
        (Write::Append(entry), false),
        (Write::Holds { run, fence: world.run.fence, seq: 1, link: last }, false),
        (Write::Deliver(delivery(&world.run, "e", "1")), false),
        (Write::Consume { run, identity: "d".into() }, false),
        (Write::Touch { namespace: ns(), id, at: now.steady }, true),
        (blob("default"), true),
        (blob("other"), false),
        (Write::Card(card("gate", "g")), true),
        (drop_card(&card("rate", "s")), true),
    ]
}

#[tokio::test]
async fn sec_2_6_every_operation_with_another_namespaces_names_finds_nothing_and_changes_nothing() {
    let world = World::new().await;
    let stranger = world.with("other", Role::Admin).await;
    let before = everything(&*world.served.store, &world).await;
    let nothing = {
        let empty = semel_store::memory::Memory::new(semel_store::Clock::Real);
        everything(&empty, &world).await
    };
    assert_eq!(everything(&stranger, &world).await, nothing);
    let own: Vec<bool> = before.iter().zip(&nothing).map(|(one, other)| one != other).collect();
    assert!(own.iter().filter(|is_there| **is_there).count() >= 18, "{before:?}");
    for (attack, is_named) in attacks(&world) {
        let answer = commit(&stranger, vec![attack.clone()]).await;
        match is_named {
            true => assert_eq!(code(answer), Code::Forbidden, "{attack:?}"),
            false => assert!(matches!(answer, Err(CommitError::Stale(_))), "{attack:?} {answer:?}"),
        }
    }
    assert_eq!(everything(&*world.served.store, &world).await, before);
}

#[tokio::test]
async fn sec_6_a_number_that_is_taken_elsewhere_cannot_be_claimed() {
    let world = World::new().await;
    let stranger = world.with("other", Role::Admin).await;
    let ground = stranger.ground();
    let before = everything(&*world.served.store, &world).await;
    let claim = Run { namespace: "other".into(), ..new_run("k", world.run.number, &ground) };
    let entry = appends(&world.run, &["one", "two", "three"])[2].clone();
    let batch = vec![start(&claim, &stranger), Write::Append(entry)];
    let answer = commit(&stranger, batch).await;
    assert!(matches!(answer, Err(CommitError::Stale(_))), "{answer:?}");
    assert_eq!(everything(&*world.served.store, &world).await, before);
}

#[tokio::test]
async fn sec_6_the_draft_twin_is_within_reach() {
    let world = World::new().await;
    let ground = world.owner.ground();
    let draft = |effect: Effect| {
        let mut address = effect.address.clone();
        address.namespace = address.namespace.draft();
        Effect { address, ..effect }
    };
    let twin = draft(armed(&address("mail", "draft"), "1", &ground));
    commit(&world.owner, vec![insert(&twin, &ground)]).await.expect("it is written");
    assert_eq!(world.owner.load(&twin.address).await, Ok(Some(twin)));
}

#[tokio::test]
async fn sec_9_the_servers_own_cards_are_not_there_for_anybody() {
    let world = World::new().await;
    let admin = world.with("default", Role::Admin).await;
    let query = |kind: &str| CardQuery {
        namespace: Some(ns()),
        kind: kind.to_owned(),
        after: None,
        limit: 9,
    };
    let stored = world.served.store.cards(&query("token")).await.expect("cards").cards;
    assert_eq!(stored.len(), 2, "the tokens of this test");
    assert_eq!(admin.cards(&query("token")).await, Ok(CardPage::default()));
    assert_eq!(admin.card("default", "token", &stored[0].name).await, Ok(None));
    assert_eq!(admin.due_cards("token", 9).await, Ok(vec![]));
    for kind in ["token", "trigger", "anything"] {
        let written = commit(&admin, vec![Write::Card(card(kind, "x"))]).await;
        assert_eq!(code(written), Code::Forbidden, "{kind}");
    }
    let dropped = commit(&admin, vec![drop_card(&stored[0])]).await;
    assert_eq!(code(dropped), Code::Forbidden);
    assert_eq!(world.served.store.cards(&query("token")).await.map(|page| page.cards.len()), Ok(2));
}

/// An effect that is held for a person, judged by whoever writes it.
fn approved(effect: &Effect) -> Effect {
    let judgement =
        Judgement { answer: Answer::Approved, actor: "me".into(), note: "".into(), at: Wall(1) };
    let approval = Approval {
        asked: Wall(0),
        digest: "d".into(),
        expires: None,
        requester: None,
        four_eyes: false,
        note: None,
        only: false,
        after: 0,
        judgement: Some(judgement),
    };
    Effect { approval: Some(approval), version: effect.version + 1, ..effect.clone() }
}

#[tokio::test]
async fn sec_6_a_worker_works_and_does_not_decide() {
    let world = World::new().await;
    let worker = world.with("default", Role::Worker).await;
    let operator = world.with("default", Role::Operator).await;
    let ground = worker.ground();
    let lapsed = effect::settle(
        &world.effect,
        &effect::Settle {
            fence: world.effect.last_fence(),
            report: effect::Report::Unknown { reason: "cut".into(), key_not_used: false },
            retry_after_ms: None,
        },
        &ground.now,
    );
    let doubtful = lapsed.expect("settled").effect.expect("changed");
    commit(&worker, vec![update(&doubtful, &ground)]).await.expect("a worker files doubt");
    let person = Person { actor: "me".into(), reason: "gone".into(), version: doubtful.version };
    let decided = effect::resolve(&doubtful, &person, &Resolution::Failed, &ground.now);
    let decided = decided.expect("a doubt is resolved");
    let held = approved(&doubtful);
    let audit = Write::Card(card("audit", "0001"));
    let end = finished(&world.run, &ground);
    let removal = Write::Remove {
        address: world.effect.address.clone(),
        generation: 0,
        version: doubtful.version,
    };
    let dropped = Write::DropRun {
        namespace: ns(),
        id: end.id.clone(),
        number: end.number,
        version: world.run.version,
        row: None,
    };
    let words = [update(&decided, &ground), update(&held, &ground), audit, removal, dropped];
    for word in words {
        assert_eq!(code(commit(&worker, vec![word.clone()]).await), Code::Forbidden, "{word:?}");
    }
    assert_eq!(worker.load(&world.effect.address).await, Ok(Some(doubtful.clone())));
    assert_eq!(worker.sweepable(9).await, Ok(vec![]), "retention is the server's work");
    assert_eq!(worker.due_cards("rate", 9).await, Ok(vec![]), "so are old cards");
    // An operator decides, and does not approve.
    assert_eq!(code(commit(&operator, vec![update(&held, &ground)]).await), Code::Forbidden);
    commit(&operator, vec![update(&decided, &ground)]).await.expect("an operator decides");
    // What was decided is carried on by whoever writes the effect next.
    let next = Effect { version: decided.version + 1, waiters: vec!["r".into()], ..decided };
    commit(&worker, vec![update(&next, &ground)]).await.expect("it says nothing new");
}

#[tokio::test]
async fn sec_6_who_may_look_may_not_commit_and_who_may_not_look_sees_nothing() {
    let world = World::new().await;
    let gate = || vec![Write::Card(card("gate", "g"))];
    for role in [Role::Viewer, Role::Approver] {
        let viewer = world.with("default", role).await;
        assert_eq!(viewer.load(&world.effect.address).await.map(|found| found.is_some()), Ok(true));
        assert_eq!(code(commit(&viewer, gate()).await), Code::Forbidden, "{role:?}");
    }
    let token = world.served.token("default", Role::Trigger).await;
    assert_eq!(refused(&world.served, Some(&token)).await, Code::Forbidden);
    assert_eq!(refused(&world.served, Some("semel_default.00.11")).await, Code::Unauthenticated);
    assert_eq!(refused(&world.served, None).await, Code::Unauthenticated);
}

async fn refused(served: &Served, token: Option<&str>) -> Code {
    use semel_store::{Access, Clock};
    let opened = Remote::open(&served.url, token, Access::ReadWrite, Clock::Real).await;
    let error: StoreError = opened.err().expect("it is refused");
    assert!(!error.to_string().contains("semel_"), "the token is not repeated: {error}");
    error.code()
}

/// A schedule as an operator would put it.
fn scheduled(firing: usize, ground: &Ground) -> Card {
    let content = Content {
        workflow: "w".into(),
        input: Json::null(),
        cron: "0 0 * * *".into(),
        zone: "UTC".into(),
        catch_up: CatchUp::Skip,
        window_ms: 1,
    };
    let Change::To(put) = schedule::put(None, &content, &ground.now) else { panic!("it is new") };
    let record = schedule::encode(&Schedule { firing: vec![Wall(1); firing], ..*put });
    Card { record, ..card("schedule", "s") }
}

#[tokio::test]
async fn sec_6_schedules_are_an_operators_and_are_such_that_the_server_can_read_them() {
    let world = World::new().await;
    let worker = world.with("default", Role::Worker).await;
    let operator = world.with("default", Role::Operator).await;
    let ground = worker.ground();
    let put = |card: Card| vec![Write::Card(card)];
    assert_eq!(code(commit(&worker, put(scheduled(0, &ground))).await), Code::Forbidden);
    let unreadable = card("schedule", "s");
    assert_eq!(code(commit(&operator, put(unreadable)).await), Code::RequestInvalid);
    assert_eq!(code(commit(&operator, put(scheduled(101, &ground))).await), Code::RequestInvalid);
    commit(&operator, put(scheduled(0, &ground))).await.expect("an operator puts a schedule");
    assert_eq!(
        code(commit(&worker, vec![drop_card(&scheduled(0, &ground))]).await),
        Code::Forbidden
    );
}

#[tokio::test]
async fn sec_51_nobody_writes_an_entry_that_would_end_the_audit_chain() {
    let world = World::new().await;
    let operator = world.with("default", Role::Operator).await;
    let entries = CardQuery { namespace: Some(ns()), kind: "audit".into(), after: None, limit: 9 };
    for name in ["00000000000000000000", "0001", "99999999999999999999"] {
        let stray = Write::Card(Card { record: "x".into(), ..card("audit", name) });
        let answer = commit(&operator, vec![stray]).await;
        assert!(matches!(answer, Err(CommitError::Stale(_))), "{name} {answer:?}");
    }
    assert_eq!(world.served.store.cards(&entries).await, Ok(CardPage::default()));
    let deed = Deed {
        actor: "olga".into(),
        verb: Verb::CancelRun,
        subject: "a run".into(),
        reason: "why".into(),
        version: None,
        detail: None,
    };
    let first = audit::append(&audit::End::of_namespace("default"), &deed, Wall(1));
    let name = audit::card_name(first.0.seq);
    let next = Card { record: first.1, ..card("audit", &name) };
    commit(&operator, vec![Write::Card(next)]).await.expect("the next entry is taken");
}

#[tokio::test]
async fn sec_45_texts_that_no_database_holds_are_refused_before_they_reach_one() {
    let world = World::new().await;
    let worker = world.with("default", Role::Worker).await;
    let long = "x".repeat(2_000);
    let bad = [
        card("gate", "a\0b"),
        card("gate", &long),
        Card { record: "a\0b".into(), ..card("gate", "g") },
    ];
    for card in bad {
        let answer = commit(&worker, vec![Write::Card(card.clone())]).await;
        assert_eq!(code(answer), Code::RequestInvalid, "{card:?}");
    }
    commit(&worker, vec![Write::Card(card("gate", "g"))]).await.expect("it is written");
}

#[tokio::test]
async fn bad_batches_are_refused_one_by_one() {
    let world = World::new().await;
    let owner = &world.owner;
    let good = vec![Write::Card(card("gate", "good"))];
    let link = appends(&world.run, &["one"])[0].link;
    let huge = Write::Holds { run: world.run.number, fence: u64::MAX, seq: 0, link };
    let bad = vec![Write::Card(card("gate", "bad")), huge];
    // They wait at the same moment, so they travel together.
    let (good, bad) = tokio::join!(commit(owner, good), commit(owner, bad));
    assert_eq!(good, Ok(()));
    assert_eq!(code(bad), Code::RequestInvalid);
    let mut broken = appends(&world.run, &["one", "two", "three"])[2].clone();
    broken.text = "another".into();
    let bad = vec![Write::Card(card("gate", "bad")), Write::Append(broken)];
    assert_eq!(commit(owner, bad).await, Err(CommitError::Stale(vec![])), "a broken chain");
    assert_eq!(owner.card("default", "gate", "bad").await, Ok(None));
}

/// Other languages have no engine that looks by itself: they ask, and the server waits with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_for_due_runs_may_wait_for_one() {
    let world = World::new().await;
    let token = world.served.token("default", Role::Worker).await;
    let ask = async |wait_ms: u64| -> serde_json::Value {
        let body =
            format!(r#"{{"due_runs":{{"lane":"default/v","limit":9,"wait_ms":{wait_ms}}}}}"#);
        let asked = reqwest::Client::new().post(format!("{}/v1/worker/read", world.served.url));
        let asked = asked.bearer_auth(&token).header("content-type", "application/json");
        let text = asked.body(body).send().await.expect("an answer").text().await;
        serde_json::from_str(&text.expect("a body")).expect("JSON")
    };
    assert_eq!(ask(0).await["found"][0], serde_json::json!([]), "it does not wait unasked");
    let ground = world.owner.ground();
    let begun = semel_store::conformance::run_of("v", "k", 7, &ground);
    let starts = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        commit(&world.owner, vec![start(&begun, &world.owner)]).await.expect("it starts");
    };
    let (answer, ()) = tokio::join!(ask(20_000), starts);
    assert_eq!(answer["found"][0][0][1]["key"], "k", "{answer}");
}

fn code(answer: Result<(), CommitError>) -> Code {
    match answer {
        Err(CommitError::Failed(error)) => error.code(),
        other => panic!("it is not refused: {other:?}"),
    }
}
