//! The console: who gets in, what it shows, and the decisions it takes.

use std::time::{Duration, Instant};

use reqwest::Method;
use semel::{Context, Error, Semel};
use semel_core::access::Role;
use semel_core::effect::approve::Ask;
use semel_core::effect::{Report, Settle};
use semel_core::json::Json;
use semel_core::key::{Address, Namespace};
use semel_core::repeats::{Door, Subject};
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
