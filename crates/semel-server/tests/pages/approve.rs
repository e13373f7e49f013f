//! Answering by a link.

use reqwest::Method;
use semel_core::access::Role;
use semel_core::effect::approve::Ask;
use semel_core::key::Namespace;
use serde_json::json;

use crate::stage::{Seen, Stage, check_markup, logs, seen};

fn asked() -> Ask {
    let (requester, note) = (Some("ada".to_owned()), Some("new prices".to_owned()));
    Ask { requester, note, ..Ask::default() }
}

async fn answer(stage: &Stage, path: &str, decision: &str, note: &str) -> Seen {
    let value = stage.get(path).await.form_value("/approve/");
    let fields = [("form_value", value.as_str()), ("decision", decision), ("note", note)];
    stage.post(path, &fields).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_39_bug_activepieces_14024_two_thousand_looks_decide_nothing() {
    let stage = Stage::new().await;
    let address = stage.held("scanned", asked()).await;
    let path = stage.link(&address, "bob").await;
    let before = stage.effect(&address).await;
    let chain = stage.engine.audit_entries(&Namespace::default(), None, 50).await.unwrap();
    for round in 0..1_000 {
        let path = match round % 3 {
            0 => path.clone(),
            1 => format!("{path}?approved=true&decision=approve"),
            _ => format!("{path}?form_value=x&decision=deny&note=y"),
        };
        for method in [Method::GET, Method::HEAD] {
            let look = stage.request(method, &path);
            let look =
                look.header("sec-purpose", "prefetch;prerender").header("purpose", "prefetch");
            seen(look.header("x-moz", "prefetch")).await.expect(200);
        }
    }
    assert_eq!(stage.effect(&address).await, before);
    let after = stage.engine.audit_entries(&Namespace::default(), None, 50).await.unwrap();
    assert_eq!(after, chain);
    answer(&stage, &path, "approve", "").await.expect(200).says(&["Your answer stands"]);
}

#[tokio::test]
async fn sec_42_the_page_shows_all_that_decides_and_nothing_from_elsewhere() {
    let stage = Stage::new().await;
    let input = json!({ "to": "bob@example.com", "text": "<script>alert(1)</script>", "n": 12 });
    let address = stage.held_with("o-7", input, asked()).await;
    let path = stage.link(&address, "bob").await;
    let view = stage.view(&address).await;
    let page = stage.get(&path).await.expect(200);
    check_markup(&page.text, "approval");
    let promise = view.contract.as_ref().unwrap().promise;
    let escaped = "&quot;&lt;script&gt;alert(1)&lt;/script&gt;&quot;";
    let digest = view.approval.as_ref().unwrap().digest.as_str();
    let page = page.says(&[
        "payment",
        "o-7",
        "ada",
        "new prices",
        "native_key",
        promise,
        digest,
        escaped,
        "bob",
        "2023-11-14T22:13:20Z",
        "&quot;n&quot;: 12",
    ]);
    assert!(!page.text.contains("checked"), "nothing is chosen beforehand");
    assert!(!page.text.contains("http"), "nothing from elsewhere");
    let policy = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; \
                  frame-ancestors 'none'";
    for (name, value) in [
        ("content-security-policy", policy),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("content-type", "text/html; charset=utf-8"),
    ] {
        assert_eq!(page.header(name), value, "{name}");
    }
    stage.get("/pages/style.css").await.expect(200).says(&[".badge"]);
}

#[tokio::test]
async fn sec_15_bug_fusionauth_2922_only_a_chosen_answer_of_our_own_page_decides() {
    let stage = Stage::new().await;
    let address = stage.held("o-1", asked()).await;
    let path = stage.link(&address, "bob").await;
    let before = stage.effect(&address).await;
    let value = stage.get(&path).await.form_value("/approve/");
    let right = [("form_value", value.as_str()), ("decision", "approve"), ("note", "")];
    let no_choice = [("form_value", value.as_str()), ("note", "x"), ("approved", "true")];
    stage.post(&path, &no_choice).await.expect(400).says(&["choose one"]);
    for decision in ["", "expired", "approved", "APPROVE"] {
        let fields = [("form_value", value.as_str()), ("decision", decision)];
        stage.post(&path, &fields).await.expect(400).says(&["Nothing was decided"]);
    }
    for decision in ["deny", "return"] {
        let fields = [("form_value", value.as_str()), ("decision", decision), ("note", " \n")];
        stage.post(&path, &fields).await.expect(400).says(&["needs a note"]);
    }
    for wrong in ["", "0", &value[1..], &value.replace(&value[..1], "z")] {
        let fields = [("form_value", wrong), ("decision", "approve")];
        stage.post(&path, &fields).await.expect(403).says(&["not from a page"]);
    }
    let foreign = [
        ("https://evil.example", None),
        ("http://127.0.0.1:1", None),
        ("null", None),
        ("null", Some("cross-site")),
        (stage.url.as_str(), Some("cross-site")),
        (stage.url.as_str(), Some("same-site")),
    ];
    for (origin, site) in foreign {
        let mut post = stage.form(&path, &right).header("origin", origin);
        if let Some(site) = site {
            post = post.header("sec-fetch-site", site);
        }
        seen(post).await.expect(403);
    }
    for kind in ["application/json", "text/plain", "multipart/form-data; boundary=x", ""] {
        let post = stage.request(Method::POST, &path).header("content-type", kind);
        let body = format!("form_value={value}&decision=approve");
        seen(post.body(body).header("origin", &stage.url)).await.expect(415);
    }
    let twice = format!("form_value={value}&decision=deny&note=x&decision=approve");
    let post = stage.form(&path, &[]).body(twice).header("origin", &stage.url);
    seen(post).await.expect(400);
    for method in [Method::PUT, Method::DELETE, Method::PATCH] {
        seen(stage.request(method, &path)).await.expect(405);
    }
    assert_eq!(stage.effect(&address).await, before, "nothing was decided by all this");
    // What a browser sends from a page without referrer.
    let post = stage.form(&path, &right).header("origin", "null");
    seen(post.header("sec-fetch-site", "same-origin")).await.expect(200).says(&["stands"]);
}

#[tokio::test]
async fn sec_40_a_link_is_good_for_one_decision_and_shows_it_afterwards() {
    let stage = Stage::new().await;
    let address = stage.held("o-2", asked()).await;
    let (path, other) = (stage.link(&address, "bob").await, stage.link(&address, "eve").await);
    let value = stage.get(&path).await.form_value("/approve/");
    let wrong_link = [("form_value", value.as_str()), ("decision", "approve")];
    stage.post(&other, &wrong_link).await.expect(403);
    let deny = [("form_value", value.as_str()), ("decision", "deny"), ("note", "too dear")];
    stage.post(&path, &deny).await.expect(200).says(&["Your answer stands", "denied", "bob"]);
    stage.post(&path, &deny).await.expect(200).says(&["answered before, in the same way"]);
    let approve = [("form_value", value.as_str()), ("decision", "approve"), ("note", "")];
    let late = stage.post(&path, &approve).await.expect(409);
    late.says(&["Yours changed nothing", "denied", "too dear"]);
    for path in [&path, &other] {
        let page = stage.get(path).await.expect(200).says(&["Answered", "denied", "too dear"]);
        assert!(!page.text.contains("<form"), "nothing to fill in");
    }
    let view = stage.view(&address).await;
    assert_eq!(view.approval.unwrap().answered_by.as_deref(), Some("bob"));
    assert_eq!(view.state, "failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_41_of_two_approvers_at_once_one_decides_and_both_are_told() {
    let stage = Stage::new().await;
    for round in 0..12 {
        let address = stage.held(&format!("race-{round}"), asked()).await;
        let (one, two) = (stage.link(&address, "bob").await, stage.link(&address, "eve").await);
        // Both have the page before either has decided.
        let values = [stage.get(&one).await, stage.get(&two).await];
        let values = values.map(|page| page.form_value("/approve/"));
        let yes = [("form_value", values[0].as_str()), ("decision", "approve"), ("note", "fine")];
        let no = [("form_value", values[1].as_str()), ("decision", "deny"), ("note", "never")];
        let (yes, no) = tokio::join!(stage.post(&one, &yes), stage.post(&two, &no));
        let judgement = stage.view(&address).await.approval.unwrap();
        let stands = judgement.answer.expect("decided");
        let mut statuses = [yes.status.as_u16(), no.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{stands}");
        for told in [yes, no] {
            told.says(&[&format!("badge {stands}"), judgement.answered_by.as_ref().unwrap()]);
        }
    }
}

#[tokio::test]
async fn sec_41_after_its_time_neither_link_nor_question_can_be_answered() {
    let stage = Stage::new().await;
    let open = stage.held("o-3", asked()).await;
    let short = Ask { expires_ms: Some(1_800_000), ..asked() };
    let silent = stage.held("o-4", short).await;
    let (ended, silence) = (stage.link(&open, "bob").await, stage.link(&silent, "bob").await);
    let value = stage.get(&ended).await.form_value("/approve/");
    let silent_value = stage.get(&silence).await.form_value("/approve/");
    stage.clock.advance_ms(1_800_000);
    let approve = [("form_value", silent_value.as_str()), ("decision", "approve")];
    stage.post(&silence, &approve).await.expect(409).says(&["expired", "Yours changed nothing"]);
    stage.get(&silence).await.expect(200).says(&["expired", "nobody decided in time"]);
    stage.clock.advance_ms(1_800_000);
    let page = stage.get(&ended).await.expect(200).says(&["This link ended"]);
    assert!(!page.text.contains("<form"));
    let approve = [("form_value", value.as_str()), ("decision", "approve")];
    stage.post(&ended, &approve).await.expect(410).says(&["This link ended"]);
    assert!(stage.view(&open).await.approval.unwrap().held, "the question is open");
    answer(&stage, &stage.link(&open, "bob").await, "approve", "").await.expect(200);
}

#[tokio::test]
async fn sec_3_a_link_with_any_part_swapped_is_the_same_404() {
    let stage = Stage::new().await;
    let (one, two) = (stage.held("o-5", asked()).await, stage.held("o-6", asked()).await);
    let (path, _) = (stage.link(&one, "bob").await, stage.link(&two, "bob").await);
    let token = path.strip_prefix("/approve/").unwrap();
    let secret = token.strip_prefix("default.").unwrap();
    let flipped = if secret.starts_with('0') { "1" } else { "0" };
    let swapped = [
        format!("other.{secret}"),
        format!("default~draft.{secret}"),
        format!("default.{flipped}{}", &secret[1..]),
        format!("default.{}", secret.to_uppercase()),
        format!("default.{}", &secret[1..]),
        format!("default.{}", "0".repeat(64)),
        secret.to_owned(),
        "x".to_owned(),
    ];
    let plain = |page: &Seen| page.text.replace(page.header("x-request-id"), "");
    let first = plain(&stage.get("/approve/nothing.at-all").await.expect(404));
    for token in swapped.iter().filter(|swapped| *swapped != token) {
        let path = format!("/approve/{token}");
        let page = stage.get(&path).await.expect(404);
        assert_eq!(plain(&page), first, "{token}");
        let fields = [("form_value", "x"), ("decision", "approve")];
        let page = stage.post(&path, &fields).await.expect(404);
        assert_eq!(plain(&page), first, "POST {token}");
    }
    assert!(stage.view(&one).await.approval.unwrap().held);
}

#[tokio::test]
async fn sec_40_42_the_token_is_neither_in_the_store_nor_in_any_log() {
    let stage = Stage::new().await;
    let address = stage.held("o-8", asked()).await;
    let path = stage.link(&address, "bob").await;
    answer(&stage, &path, "approve", "").await.expect(200);
    stage.get(&format!("{path}x")).await.expect(404);
    let secret = path.rsplit('.').next().unwrap();
    assert_eq!(secret.len(), 64);
    let logged = logs();
    assert!(logged.contains("/approve/{token}"), "the route is logged");
    assert!(!logged.contains(secret), "the token is not");
    for file in std::fs::read_dir(stage.folder.path()).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let bytes = std::fs::read(path).unwrap();
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "in the store");
    }
}

#[tokio::test]
async fn sec_43_links_are_made_by_those_who_may_decide_and_not_by_the_requester() {
    let stage = Stage::new().await;
    let eyes = Ask { four_eyes: true, ..asked() };
    let address = stage.held("o-9", eyes).await;
    let id = stage.view(&address).await.id;
    let path = format!("/v1/approvals/{id}/links");
    let ask = |token: String, approver: &str| {
        let body = json!({ "approver": approver, "expires_in": "1h" });
        let post = stage.request(Method::POST, &path).bearer_auth(token).json(&body);
        async move { seen(post).await }
    };
    for role in Role::ALL {
        let token = stage.token(&format!("t-{}", role.as_str()), role).await;
        let want = if matches!(role, Role::Admin | Role::Approver) { 201 } else { 403 };
        ask(token, "bob").await.expect(want);
    }
    let own = stage.token("ada", Role::Approver).await;
    ask(own, "bob").await.expect(403).says(&["four_eyes"]);
    let admin = stage.token("root", Role::Admin).await;
    ask(admin.clone(), " Ada").await.expect(403).says(&["four_eyes"]);
    ask(admin.clone(), "").await.expect(400).says(&["terms_invalid"]);
    let foreign = stage.token_in(&Namespace::new("other").unwrap(), "x", Role::Admin).await;
    ask(foreign, "bob").await.expect(404);
    let made = ask(admin.clone(), "bob").await.expect(201);
    let made: serde_json::Value = serde_json::from_str(&made.text).unwrap();
    answer(&stage, made["path"].as_str().unwrap(), "approve", "").await.expect(200);
    ask(admin, "bob").await.expect(409).says(&["not_held"]);
    let chain = stage.engine.audit_entries(&Namespace::default(), None, 50).await.unwrap();
    let verbs: Vec<_> = chain.entries.iter().map(|entry| entry.verb.as_str()).collect();
    assert_eq!(verbs.iter().filter(|verb| **verb == "create_approval_link").count(), 3);
    assert_eq!(verbs[0], "approve", "by the link, in bob's name");
    assert_eq!(chain.entries[0].actor, "bob");
}
