//! The console: who gets in, what it shows, and the decisions it takes.

use std::time::{Duration, Instant};

use reqwest::Method;
use semel::{Code, Context, Error, Failure, NativeKey, Semel};
use semel_core::access::Role;
use semel_core::effect::approve::Ask;
use semel_core::effect::{Report, Settle};
use semel_core::json::Json;
use semel_core::key::{Address, Namespace};
use semel_core::repeats::{Door, Subject};
use semel_core::retry::Retry;
use semel_core::wire_ask::BeginAsk;
use semel_engine::Answer;
use serde_json::json;

use crate::stage::{Stage, check_markup, seen};

/// An effect of which nobody knows whether it happened.
async fn doubted(stage: &Stage, key: &str) -> Address {
    doubted_returning(stage, key, None).await
}

async fn doubted_returning(stage: &Stage, key: &str, shape: Option<&str>) -> Address {
    let begin = json!({ "action": "mail", "key": key, "input": { "n": 1 } });
    let begin: BeginAsk = serde_json::from_value(begin).unwrap();
    let mut begin = begin.begin(&Namespace::default(), "w").unwrap();
    begin.shape = shape.map(|shape| Json::from_text(shape).unwrap());
    let address = begin.address.clone();
    let Ok(Answer::Attempt(armed)) = stage.engine.begin(begin, 0).await else { panic!("no go") };
    let report = Report::Unknown { reason: "cut".to_owned(), key_not_used: false };
    let settle = Settle { fence: armed.permit.fence, report, retry_after_ms: None };
    stage.engine.settle(&address, &settle).await.unwrap();
    address
}

#[tokio::test]
async fn sec_14_a_token_becomes_a_cookie_that_no_script_and_no_other_site_can_use() {
    let stage = Stage::new().await;
    let token = stage.token("vera", Role::Viewer).await;
    let closed = stage.get("/console").await.expect(303);
    assert_eq!(closed.header("location"), "/console/login");
    let value = stage.get("/console/login").await.form_value("/console/login");
    let fields = [("form_value", value.as_str()), ("token", token.as_str())];
    let signed = stage.post("/console/login", &fields).await.expect(303);
    let cookie = signed.header("set-cookie").to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/console", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(token.rsplit('.').next().unwrap()), "not the token itself");
    let first = cookie.split(';').next().unwrap().to_owned();
    stage.get_as(&first, "/console").await.expect(200).says(&["vera", "viewer", "Overview"]);
    let post = stage.form("/console/login", &fields).header("origin", &stage.url);
    let again = seen(post.header("cookie", &first)).await.expect(303);
    let second = again.header("set-cookie").split(';').next().unwrap().to_owned();
    assert_ne!(first, second, "the id rotates");
    stage.get_as(&first, "/console").await.expect(303);
    let doubled = format!("{second}; {second}");
    stage.get_as(&doubled, "/console").await.expect(303);
    let value = stage.get_as(&second, "/console").await.form_value("/console/logout");
    stage.post_as(&second, "/console/logout", &[("form_value", "x")]).await.expect(403);
    stage.post_as(&second, "/console/logout", &[("form_value", &value)]).await.expect(303);
    stage.get_as(&second, "/console").await.expect(303);
}

#[tokio::test]
async fn sec_16_wrong_tokens_are_told_alike_and_slowed_down() {
    let stage = Stage::new().await;
    let token = stage.token("vera", Role::Viewer).await;
    let value = stage.get("/console/login").await.form_value("/console/login");
    let wrong = format!("{}0", &token[..token.len() - 1]);
    let wrong = if wrong == token { format!("{}1", &token[..token.len() - 1]) } else { wrong };
    let try_one = |token: &str| {
        let fields = [("form_value", value.as_str()), ("token", token)];
        let form = stage.form("/console/login", &fields).header("origin", &stage.url);
        async move { seen(form).await }
    };
    for token in ["", "x", "semel_default.1.2"] {
        try_one(token).await.expect(401).says(&["not known here"]);
    }
    for _ in 0..10 {
        try_one(&wrong).await.expect(401).says(&["not known here"]);
    }
    let slowed = try_one(&wrong).await.expect(429);
    assert_eq!(slowed.header("retry-after"), "60");
    let other = stage.token("otto", Role::Viewer).await;
    try_one(&other).await.expect(303);
}

#[tokio::test]
async fn sec_11_a_revoked_token_ends_its_sessions() {
    let stage = Stage::new().await;
    let token = stage.token("vera", Role::Viewer).await;
    let cookie = stage.sign_in(&token).await;
    stage.get_as(&cookie, "/console").await.expect(200);
    let id = token.split('.').nth(1).unwrap();
    stage.engine.revoke_token(&Namespace::default(), id, "root").await.unwrap();
    let revoked = Instant::now();
    while stage.get_as(&cookie, "/console").await.status != 303 {
        assert!(revoked.elapsed() < Duration::from_secs(20), "still signed in");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn sec_6_the_console_decides_for_roles_that_may_and_only_by_its_own_forms() {
    let stage = Stage::new().await;
    let eyes = Ask { requester: Some("carl".into()), four_eyes: true, ..Ask::default() };
    let held = stage.held("o-1", eyes).await;
    let doubt = doubted(&stage, "m-1").await;
    let (held_id, doubt_id) = (stage.view(&held).await.id, stage.view(&doubt).await.id);
    let digest = stage.view(&held).await.approval.unwrap().digest;
    let judge = format!("/console/effects/{held_id}/approval/{digest}");
    let resolve = format!("/console/effects/{doubt_id}/resolve");
    let answers = |value: &str| [("form_value", value.to_owned()), ("decision", "approve".into())];
    for (role, may_judge, may_resolve) in [
        (Role::Viewer, false, false),
        (Role::Worker, false, false),
        (Role::Operator, false, true),
        (Role::Approver, true, false),
    ] {
        let cookie = stage.sign_in(&stage.token(role.as_str(), role).await).await;
        let page = stage.get_as(&cookie, &format!("/console/effects/{held_id}")).await.expect(200);
        assert_eq!(page.text.contains(&judge), may_judge, "{role:?}");
        let page = stage.get_as(&cookie, &format!("/console/effects/{doubt_id}")).await.expect(200);
        assert_eq!(page.text.contains(&resolve), may_resolve, "{role:?}");
        let value = page.form_value("/console/logout");
        if !may_judge {
            let fields = answers(&value);
            let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
            stage.post_as(&cookie, &judge, &fields).await.expect(403).says(&["lacks"]);
        }
        if !may_resolve {
            stage.post_as(&cookie, &resolve, &[("form_value", &value)]).await.expect(403);
        }
    }
    let trigger = stage.sign_in(&stage.token("t", Role::Trigger).await).await;
    stage.get_as(&trigger, "/console").await.expect(403);
    // The requester under four eyes, a wrong form, then somebody who may.
    let carl = stage.sign_in(&stage.token("carl", Role::Approver).await).await;
    let value = stage.get_as(&carl, "/console").await.form_value("/console/logout");
    let yes = [("form_value", value.as_str()), ("decision", "approve")];
    let refused = stage.post_as(&carl, &judge, &yes).await.expect(403);
    refused.says(&["Somebody else has to decide", "four_eyes"]);
    let root = stage.sign_in(&stage.token("root", Role::Admin).await).await;
    let value = stage.get_as(&root, "/console").await.form_value("/console/logout");
    let value = value.as_str();
    stage.post_as(&root, &judge, &[("form_value", "x"), ("decision", "approve")]).await.expect(403);
    stage.post_as(&root, &judge, &[("form_value", value)]).await.expect(409).says(&["choose"]);
    let other = judge.replace(&digest[..4], "0000");
    let yes = [("form_value", value), ("decision", "approve")];
    stage.post_as(&root, &other, &yes).await.expect(409);
    assert!(stage.view(&held).await.approval.unwrap().held, "not decided yet");
    stage.post_as(&root, &judge, &yes).await.expect(303);
    let no = [("form_value", value), ("decision", "deny"), ("note", "late")];
    stage.post_as(&root, &judge, &no).await.expect(409).says(&["the first answer stands"]);
    assert_eq!(stage.view(&held).await.approval.unwrap().answered_by.as_deref(), Some("root"));
}

#[tokio::test]
async fn req_o8_the_console_takes_no_receipt_that_does_not_fit_and_keeps_what_was_typed() {
    let stage = Stage::new().await;
    let shape = r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}"#;
    let doubt = doubted_returning(&stage, "m-1", Some(shape)).await;
    let doubt_id = stage.view(&doubt).await.id;
    let resolve = format!("/console/effects/{doubt_id}/resolve");
    let version = stage.view(&doubt).await.version.to_string();
    let root = stage.sign_in(&stage.token("root", Role::Admin).await).await;
    let page = stage.get_as(&root, &format!("/console/effects/{doubt_id}")).await.expect(200);
    page.says(&["What fits"]);
    let value = stage.get_as(&root, "/console").await.form_value("/console/logout");
    let way = |receipt| {
        [
            ("form_value", value.as_str()),
            ("decision", "done"),
            ("receipt", receipt),
            ("reason", "seen in the outbox"),
            ("version", version.as_str()),
        ]
    };
    let empty = stage.post_as(&root, &resolve, &way("")).await.expect(409);
    empty.says(&["it is null, not object", "seen in the outbox"]);
    let other = stage.post_as(&root, &resolve, &way("{\"no\": 7}")).await.expect(409);
    other.says(&["it has no `id`", "{&quot;no&quot;: 7}"]);
    assert_eq!(stage.view(&doubt).await.state, "in_doubt");
    stage.post_as(&root, &resolve, &way("{\"id\": \"m-7\"}")).await.expect(303);
    assert_eq!(stage.view(&doubt).await.state, "done");
}

#[tokio::test]
async fn a_doubt_is_settled_in_the_console_on_the_version_that_was_seen() {
    let stage = Stage::new().await;
    let doubt = doubted(&stage, "m-1").await;
    let doubt_id = stage.view(&doubt).await.id;
    let resolve = format!("/console/effects/{doubt_id}/resolve");
    let version = stage.view(&doubt).await.version.to_string();
    let root = stage.sign_in(&stage.token("root", Role::Admin).await).await;
    let value = stage.get_as(&root, "/console").await.form_value("/console/logout");
    let value = value.as_str();
    let way = |decision, receipt, reason| {
        let version = ("version", version.as_str());
        [
            ("form_value", value),
            ("decision", decision),
            ("receipt", receipt),
            ("reason", reason),
            version,
        ]
    };
    for (fields, says) in [
        (way("", "", "r"), "choose what you found"),
        (way("done", "{", "r"), "not JSON"),
        (way("failed", "{}", "r"), "only"),
        (way("done", "", ""), "Nothing was decided"),
        (way("done", "", "r"), "type null"),
        (way("retry", "", "r"), "Nothing was decided"),
    ] {
        stage.post_as(&root, &resolve, &fields).await.expect(409).says(&[says]);
    }
    assert_eq!(stage.view(&doubt).await.state, "in_doubt");
    let done = way("done", "{\"id\": 7}", "seen in the outbox");
    stage.post_as(&root, &resolve, &done).await.expect(303);
    stage.post_as(&root, &resolve, &done).await.expect(409);
    let page = stage.get_as(&root, &format!("/console/effects/{doubt_id}")).await.expect(200);
    page.says(&["&quot;id&quot;: 7", "seen in the outbox", "root"]);
}

/// An effect whose budget of one attempt is used up.
async fn exhausted(stage: &Stage, key: &str) -> Address {
    let address = mail(key);
    let begin = begin_of(key);
    let mut begin = begin.begin(&Namespace::default(), "w").unwrap();
    let once = Retry { attempts_max: 1, total_ms: 60_000, delay_ms: 1, delay_ms_max: 1 };
    begin.declared.retry = Some(once);
    let Ok(Answer::Attempt(armed)) = stage.engine.begin(begin, 0).await else { panic!("no go") };
    let report = Report::NotApplied { reason: "refused".to_owned(), last: false };
    let settle = Settle { fence: armed.permit.fence, report, retry_after_ms: None };
    stage.engine.settle(&address, &settle).await.unwrap();
    address
}

fn begin_of(key: &str) -> BeginAsk {
    serde_json::from_value(json!({ "action": "mail", "key": key, "input": { "n": 1 } })).unwrap()
}

fn mail(key: &str) -> Address {
    begin_of(key).begin(&Namespace::default(), "w").unwrap().address
}

/// The form that grants another budget: for whom, on which version, and what it then allows.
#[tokio::test]
async fn req_r10_the_console_grants_another_budget_to_roles_that_may_and_once() {
    let stage = Stage::new().await;
    let address = exhausted(&stage, "m-1").await;
    let before = stage.view(&address).await;
    let (page, path) = {
        let page = format!("/console/effects/{}", before.id);
        (page.clone(), format!("{page}/grant"))
    };
    let begin = async || {
        let begin = begin_of("m-1").begin(&Namespace::default(), "w").unwrap();
        stage.engine.begin(begin, 0).await
    };
    assert_eq!(begin().await.unwrap_err().code().as_str(), "retries_exhausted");
    let version = before.version.to_string();
    for (role, may) in [(Role::Viewer, false), (Role::Approver, false), (Role::Operator, true)] {
        let cookie = stage.sign_in(&stage.token(role.as_str(), role).await).await;
        let seen = stage.get_as(&cookie, &page).await.expect(200).says(&["Grant another retry"]);
        assert_eq!(seen.text.contains(&path), may, "{role:?}");
        if !may {
            let value = seen.form_value("/console/logout");
            let fields = [("form_value", &*value), ("version", &*version), ("reason", "r")];
            stage.post_as(&cookie, &path, &fields).await.expect(403).says(&["lacks"]);
        }
    }
    let root = stage.sign_in(&stage.token("root", Role::Admin).await).await;
    let value = stage.get_as(&root, &page).await.form_value(&path);
    let way =
        |value, version, reason| [("form_value", value), ("version", version), ("reason", reason)];
    stage.post_as(&root, &path, &way("x", &version, "r")).await.expect(403);
    stage.post_as(&root, &path, &way(&value, "", "r")).await.expect(400);
    let none = stage.post_as(&root, &path, &way(&value, &version, "")).await.expect(409);
    none.says(&["Nothing was decided"]);
    let stale = stage.post_as(&root, &path, &way(&value, "99", "r")).await.expect(409);
    stale.says(&["Nothing was decided"]);
    assert_eq!(begin().await.unwrap_err().code().as_str(), "retries_exhausted");
    let right = way(&value, &version, "the relay is back");
    stage.post_as(&root, &path, &right).await.expect(303);
    stage.post_as(&root, &path, &right).await.expect(409);
    let granted = stage.view(&address).await;
    assert_eq!(granted.downstream_key, before.downstream_key);
    let words: Vec<_> =
        granted.decisions.iter().map(|one| (one.actor.as_str(), one.reason.as_str())).collect();
    assert_eq!(words, [("root", "the relay is back")]);
    stage.clock.advance_ms(10);
    let Ok(Answer::Attempt(armed)) = begin().await else { panic!("it was granted") };
    let key = armed.permit.downstream_key.clone();
    assert_eq!(Some(key), before.downstream_key);
}

/// What a person types into the console is kept without the secret, and so is what it shows.
#[tokio::test]
async fn inv_i23_nothing_that_is_typed_into_the_console_is_kept_or_shown_with_a_secret() {
    let secret = "sk_live/\"zq8\"";
    let stage = Stage::with_secret("API", secret).await;
    let root = stage.sign_in(&stage.token("root", Role::Admin).await).await;
    let value = stage.get_as(&root, "/console").await.form_value("/console/logout");
    let held = stage.held_with("o-1", json!({ "header": secret }), Ask::default()).await;
    let view = stage.view(&held).await;
    let note = format!("it says {secret}");
    let (effect, digest) = (format!("/console/effects/{}", view.id), view.approval.unwrap().digest);
    let fields = [("form_value", &*value), ("decision", "deny"), ("note", &note)];
    stage.post_as(&root, &format!("{effect}/approval/{digest}"), &fields).await.expect(303);
    let mut pages = vec![stage.get_as(&root, &effect).await.expect(200)];
    let doubt = doubted(&stage, "m-1").await;
    let view = stage.view(&doubt).await;
    let (effect, version) = (format!("/console/effects/{}", view.id), view.version.to_string());
    let receipt = json!({ "id": secret }).to_string();
    let fields = [
        ("form_value", &*value),
        ("decision", "done"),
        ("receipt", &receipt),
        ("reason", &note),
        ("version", &version),
    ];
    stage.post_as(&root, &format!("{effect}/resolve"), &fields).await.expect(303);
    pages.push(stage.get_as(&root, &effect).await.expect(200));
    pages.push(stage.get_as(&root, "/console/effects").await.expect(200));
    for page in &pages {
        let leaks = page.text.contains("sk_live") || page.text.contains("zq8");
        assert!(!leaks, "{}", page.text);
    }
    assert!(pages[..2].iter().all(|page| page.text.matches("[redacted:API]").count() >= 2));
    let mut all = String::new();
    for entry in std::fs::read_dir(stage.folder.path()).unwrap().flatten() {
        if entry.path().is_file() {
            all += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap());
        }
    }
    assert!(!all.contains("sk_live") && !all.contains("zq8"), "the secret is kept");
}

#[tokio::test]
async fn sec_1_another_namespace_has_the_same_404_for_everything() {
    let stage = Stage::new().await;
    let address = stage.held("o-1", Ask::default()).await;
    let id = stage.view(&address).await.id;
    let foreign = stage.token_in(&Namespace::new("other").unwrap(), "x", Role::Admin).await;
    let cookie = stage.sign_in(&foreign).await;
    stage.get_as(&cookie, "/console/effects").await.expect(200).says(&["No such effect"]);
    let value = stage.get_as(&cookie, "/console").await.form_value("/console/logout");
    let page = stage.get_as(&cookie, "/console/effects/AAAA").await.expect(404);
    let plain = page.text.replace(page.header("x-request-id"), "");
    for path in [format!("/console/effects/{id}"), "/console/runs/nothing".to_owned()] {
        let seen = stage.get_as(&cookie, &path).await.expect(404);
        assert_eq!(seen.text.replace(seen.header("x-request-id"), ""), plain, "{path}");
    }
    for verb in ["approval/x", "resolve"] {
        let path = format!("/console/effects/{id}/{verb}");
        let fields = [("form_value", value.as_str()), ("decision", "approve"), ("version", "1")];
        stage.post_as(&cookie, &path, &fields).await.expect(404);
    }
}

#[tokio::test]
async fn sec_15_without_tokens_nobody_signs_in_and_forms_are_still_guarded() {
    let stage = Stage::new().await;
    stage.get("/console").await.expect(200).says(&["local", "Nothing is in doubt"]);
    let login = stage.get("/console/login").await.expect(303);
    assert_eq!(login.header("location"), "/console");
    let address = stage.held("o-1", Ask::default()).await;
    let id = stage.view(&address).await.id;
    let page = stage.get(&format!("/console/effects/{id}")).await.expect(200);
    let action = format!("/console/effects/{id}/approval/");
    let digest = stage.view(&address).await.approval.unwrap().digest;
    let value = page.form_value(&action);
    let path = format!("{action}{digest}");
    stage.post(&path, &[("form_value", "x"), ("decision", "approve")]).await.expect(403);
    let right = [("form_value", value.as_str()), ("decision", "approve")];
    for origin in ["http://evil.example", "http://localhost:1", "null"] {
        seen(stage.form(&path, &right).header("origin", origin)).await.expect(403);
    }
    let rebound = stage.form(&path, &right).header("host", "evil.example");
    seen(rebound).await.expect(403);
    stage.post(&path, &right).await.expect(303);
    stage.post("/console/logout", &[("form_value", &value)]).await.expect(303);
}

async fn greet(ctx: Context, name: String) -> Result<String, Error> {
    let greeting = ctx.step("choose", || async { Ok("Salve".to_owned()) }).await?;
    let sent: String = ctx
        .effect("greet-mail")
        .key([name.clone()])
        .call(|_| async { Ok("m-1".to_owned()) })
        .await?;
    Ok(format!("{greeting}, {name}: {sent}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_shows_a_run_with_its_journal_and_an_effect_with_its_repeats() {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("semel.db").display());
    let semel = Semel::open(&store).await.unwrap();
    let working = semel.worker().workflow("greet", greet).start().unwrap();
    let run = semel.start("greet").key(["event-7"]).input("Ada").run().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "Salve, Ada: m-1");
    drop(working);
    let settings = semel_server::Settings::new(&store, "127.0.0.1:0".parse().unwrap());
    let server = semel_server::Server::bind(settings).await.unwrap();
    let engine = server.app().engine().clone();
    let stage = Stage { url: format!("http://{}", server.address().unwrap()), ..stage };
    tokio::spawn(server.run(std::future::pending()));
    let list = stage.get("/console/runs?workflow=greet").await.expect(200);
    check_markup(&list.text, "runs");
    let list = list.says(&["greet/event-7", "badge done"]);
    let path = list.text.split("href=\"/console/runs/").nth(1).unwrap().split('"').next().unwrap();
    let page = stage.get(&format!("/console/runs/{path}")).await.expect(200);
    check_markup(&page.text, "run");
    let page = page.says(&["choose", "greet-mail/Ada", "Salve", "badge done", "Took", "Release"]);
    let effect = page.text.split("href=\"/console/effects/").nth(1).unwrap();
    let effect = format!("/console/effects/{}", effect.split('"').next().unwrap());
    stage.get(&effect).await.expect(200).says(&["m-1", "Nobody has asked", "curl -H"]);
    let action = semel_core::key::Action::new("greet-mail").unwrap();
    let key = semel_core::key::Key::from_text("Ada").unwrap();
    let address = Address { namespace: Namespace::default(), action, key };
    for _ in 0..3 {
        engine.note_repeat(Subject::Effect(address.clone()), Door::Http);
    }
    let page = stage.get(&effect).await.expect(200);
    check_markup(&page.text, "effect");
    page.says(&["at least <b>3</b>", "http", "at_most_once", "applied", "run "]);
    stage.get("/console/runs?state=paused").await.expect(200).says(&["No such run"]);
    let found = stage.get("/console/effects?action=greet-mail&key=Ada&state=done").await;
    found.expect(200).says(&["greet-mail/Ada"]);
    stage.get("/console/effects?action=%00").await.expect(400);
    for path in ["/console/runs/x", "/console/effects/x"] {
        seen(stage.request(Method::HEAD, path)).await.expect(404);
    }
}

/// Charges, then fails, so that the charge is undone.
async fn order(ctx: Context, (): ()) -> Result<(), Error> {
    let undo = ctx.undo("refund").key(["7"]).contract(NativeKey::hours(24));
    let charge = ctx.effect("charge").key(["7"]).contract(NativeKey::hours(24));
    let charge = charge
        .compensate_with(undo, |_, _: String| async { Ok::<_, Failure>("refunded".to_owned()) });
    charge.call(|_| async { Ok::<_, Failure>("ch_1".to_owned()) }).await?;
    Err(Error::new(Code::RunFailed, "nothing left to ship"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_was_undone_is_not_shown_as_done() {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("semel.db").display());
    let semel = Semel::open(&store).await.unwrap();
    let working = semel.worker().workflow("order", order).start().unwrap();
    let run = semel.start("order").key(["7"]).run().await.unwrap();
    run.result::<()>().await.unwrap_err();
    drop(working);
    let settings = semel_server::Settings::new(&store, "127.0.0.1:0".parse().unwrap());
    let server = semel_server::Server::bind(settings).await.unwrap();
    let stage = Stage { url: format!("http://{}", server.address().unwrap()), ..stage };
    tokio::spawn(server.run(std::future::pending()));
    let list = stage.get("/console/effects?action=charge").await.expect(200);
    let id = list.text.split("href=\"/console/effects/").nth(1).unwrap().split('"').next().unwrap();
    let page = stage.get(&format!("/console/effects/{id}")).await.expect(200);
    check_markup(&page.text, "effect");
    let title = page.text.split("<h1>").nth(1).unwrap().split("</h1>").next().unwrap();
    assert!(title.contains("badge undone") && !title.contains("badge done"), "{title}");
    page.says(&["done and then undone", "both receipts"]);
}

#[tokio::test]
async fn an_attempt_whose_code_never_read_the_key_says_so() {
    let stage = Stage::new().await;
    let begin = json!({ "action": "mail", "key": "m-1", "input": { "n": 1 },
        "contract": { "native_key": { "retention": "24h" } } });
    let begin: BeginAsk = serde_json::from_value(begin).unwrap();
    let begin = begin.begin(&Namespace::default(), "w").unwrap();
    let address = begin.address.clone();
    let Ok(Answer::Attempt(armed)) = stage.engine.begin(begin, 0).await else { panic!("no go") };
    let report = Report::Unknown { reason: "cut".to_owned(), key_not_used: true };
    let settle = Settle { fence: armed.permit.fence, report, retry_after_ms: None };
    stage.engine.settle(&address, &settle).await.unwrap();
    let page = stage.get(&format!("/console/effects/{}", stage.view(&address).await.id)).await;
    page.expect(200).says(&["never read the downstream key"]);
}
