use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{PATIENCE, Stage, answer, client};
use crate::double::{Applied, Fault, Kind, Mode, Script, When};

/// Sends one request that meets a fault; says what its client saw.
async fn meet(stage: &Stage, fault: Fault) -> String {
    stage.double.arm(fault).unwrap();
    match stage.keyed("a").send().await {
        Ok(response) => {
            let status = response.status().as_u16();
            match response.json::<Value>().await {
                Ok(_) => format!("{status}"),
                Err(_) => format!("{status} broken"),
            }
        }
        Err(error) if error.is_timeout() => "silence".into(),
        Err(_) => "cut".into(),
    }
}

#[tokio::test]
async fn every_fault_applies_or_not_as_it_says_and_fires_once() {
    let error = |kind, status| Fault { status: Some(status), ..Fault::next(kind) };
    let cases = [
        (Fault::next(Kind::CutBefore), "cut", "nothing - cut_before", None),
        (Fault::next(Kind::CutAfter), "cut", "created tickets-1 cut_after", None),
        (Fault::next(Kind::ErrorBefore), "500", "nothing - error_before", Some(500)),
        (Fault::next(Kind::ErrorAfter), "500", "created tickets-1 error_after", Some(500)),
        (error(Kind::ErrorAfter, 502), "502", "created tickets-1 error_after", Some(502)),
        (Fault::next(Kind::TooManyAfter), "429", "created tickets-1 429_after", Some(429)),
        (Fault::next(Kind::Garbage), "200 broken", "created tickets-1 garbage", Some(200)),
        (Fault::next(Kind::Delay).ms(1), "201", "created tickets-1 delay", Some(201)),
    ];
    for (fault, seen, booked, status) in cases {
        let stage = Stage::new(Mode::Keys);
        assert_eq!(meet(&stage, fault.clone()).await, seen, "{fault:?}");
        assert_eq!(stage.story(), [format!("POST /tickets {booked}")]);
        assert_eq!(stage.double.book()[0].status, status);
        // The repeat under the same key is met by nothing, and there is one object in the end.
        assert_eq!(answer(stage.keyed("a")).await.1["id"], "tickets-1");
        let counts = stage.double.counts();
        assert_eq!((counts.objects, counts.faults_fired, counts.faults_armed), (1, 1, 0));
    }
}

#[tokio::test]
async fn faults_meet_the_request_and_the_route_they_name() {
    let stage = Stage::new(Mode::Plain);
    stage.double.arm(Fault::at(Kind::ErrorBefore, 2)).unwrap();
    stage.double.arm(Fault::at(Kind::ErrorBefore, 2).route("POST /mails")).unwrap();
    let twice = Fault { times: 2, ..Fault::next(Kind::ErrorBefore) };
    stage.double.arm(twice.route("POST /late")).unwrap();
    let mut seen = Vec::new();
    for path in ["/mails", "/tickets", "/tickets", "/mails", "/mails", "/late", "/late", "/late"] {
        seen.push(answer(stage.post(path, &json!({}))).await.0);
    }
    assert_eq!(seen, [201, 500, 201, 500, 201, 500, 500, 201]);
}

#[tokio::test]
async fn a_request_that_hangs_is_applied_or_not_and_let_go() {
    for (when, applied, seen) in
        [(When::After, Applied::Created, "201"), (When::Before, Applied::Nothing, "cut")]
    {
        let stage = Stage::new(Mode::Plain);
        let (met, ()) = tokio::join!(meet(&stage, Fault::next(Kind::Hang).when(when)), async {
            stage.double.until(|book| book.iter().any(|e| e.applied == applied)).await;
            stage.double.release();
        });
        assert_eq!(met, seen);
    }
}

#[tokio::test]
async fn a_client_that_gives_up_leaves_its_request_applied() {
    let stage = Stage::new(Mode::Plain);
    stage.double.arm(Fault::next(Kind::Hang)).unwrap();
    let short = stage.keyed("a").timeout(Duration::from_secs(1)).send().await;
    assert!(short.unwrap_err().is_timeout());
    assert_eq!(stage.double.counts().objects, 1);
    // And the double is as well as before.
    assert_eq!(answer(stage.keyed("a")).await.0, 201);
}

#[tokio::test]
async fn a_late_request_lands_after_its_client_was_cut() {
    let stage = Stage::new(Mode::Lookup);
    assert_eq!(meet(&stage, Fault::next(Kind::Late).ms(1_500)).await, "cut");
    assert_eq!(stage.get("/tickets?subject=Help").await.1, json!([]), "nothing landed yet");
    assert_eq!(stage.double.counts().open, 1);
    let landed = stage.double.until(|book| book[0].applied == Applied::Created);
    timeout(PATIENCE, landed).await.unwrap();
    assert_eq!(stage.get("/tickets?subject=Help").await.1[0]["id"], "tickets-1");
}

#[tokio::test]
async fn a_reset_is_a_fresh_start_for_what_is_still_on_its_way_too() {
    let stage = Stage::new(Mode::Plain);
    assert_eq!(meet(&stage, Fault::next(Kind::Late).ms(50)).await, "cut");
    stage.double.arm(Fault::next(Kind::ErrorBefore)).unwrap();
    stage.double.reset();
    assert_eq!(stage.double.counts(), crate::double::Counts::default());
    // Behind the late one in time: what comes after it can be told apart from it.
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert_eq!(answer(stage.keyed("a")).await.1["id"], "tickets-1");
    assert_eq!(stage.story(), ["POST /tickets created tickets-1 -"]);
}

#[tokio::test]
async fn a_kill_is_a_real_death_before_or_after() {
    for when in [When::Before, When::After] {
        let stage = Stage::new(Mode::Plain);
        let mut victim = std::process::Command::new("sleep");
        let mut victim = victim.arg("600").stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(victim.id()).unwrap();
        let kill = Fault { pid: Some(pid), ..Fault::next(Kind::Kill).when(when) };
        assert_eq!(meet(&stage, kill).await, "201");
        let status = victim.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        // Here the client lives, so its request is applied either way.
        assert_eq!(stage.story(), ["POST /tickets created tickets-1 kill"]);
    }
}

#[test]
fn faults_that_could_do_harm_or_nothing_are_refused() {
    let stage = Stage::new(Mode::Plain);
    let kill = |pid| Fault { pid, ..Fault::next(Kind::Kill) };
    let own = i32::try_from(std::process::id()).unwrap();
    for pid in [None, Some(0), Some(-1), Some(1), Some(own)] {
        assert!(stage.double.arm(kill(pid)).is_err(), "{pid:?}");
    }
    let refused = [
        Fault { times: 0, ..Fault::next(Kind::Late) },
        Fault { request: Some(0), ..Fault::next(Kind::Late) },
        Fault { pid: Some(77), ..Fault::next(Kind::Late) },
        Fault { status: Some(500), ..Fault::next(Kind::Late) },
        Fault { status: Some(99), ..Fault::next(Kind::ErrorAfter) },
        Fault::next(Kind::CutAfter).when(When::Before),
        Fault::next(Kind::Late).ms(u64::MAX),
    ];
    for fault in refused {
        assert!(stage.double.arm(fault.clone()).is_err(), "{fault:?}");
    }
    assert_eq!(stage.double.counts().faults_armed, 0);
}

#[tokio::test]
async fn the_controls_work_over_http_and_name_every_slip() {
    let stage = Stage::new(Script::from(Mode::Plain));
    let control = |path: &str, body: Value| stage.post(&format!("/__double__/{path}"), &body);
    let armed = answer(control("faults", json!({ "fault": "cut_after", "request": 2 }))).await;
    assert_eq!(armed, (200, json!([{ "fault": "cut_after", "request": 2, "times": 1 }])));
    let more = json!([{ "fault": "429_after" }, { "fault": "hang", "when": "before" }]);
    assert_eq!(answer(control("faults", more)).await.1.as_array().unwrap().len(), 3);
    let slip = answer(control("faults", json!({ "fault": "cut_after", "reqest": 2 }))).await;
    assert_eq!(slip.0, 400);
    assert!(slip.1["error"].as_str().unwrap().contains("reqest"), "{slip:?}");
    assert_eq!(answer(control("faults", json!({ "fault": "explode" }))).await.0, 400);
    assert_eq!(answer(stage.keyed("a")).await.0, 429);
    assert_eq!(stage.get("/__double__/counts").await.1["applied"], 1);
    let book = stage.get("/__double__/book").await.1;
    assert_eq!(book["entries"][0]["key"], "a");
    assert_eq!(book["objects"][0]["shown"]["id"], "tickets-1");
    assert_eq!(answer(control("release", json!({}))).await.0, 200);
    assert_eq!(answer(control("reset", json!({}))).await.0, 200);
    assert_eq!(stage.get("/__double__/counts").await.1["requests"], 0);
    assert_eq!(stage.get("/__double__/faults").await.1, json!([]));
    assert_eq!(stage.get("/__double__/none").await.0, 404);
}

#[tokio::test]
async fn the_book_can_be_waited_for_over_http() {
    let stage = Stage::new(Mode::Plain);
    let news = stage.get("/__double__/book?after=0&wait_ms=10000");
    let start = Instant::now();
    let (news, sent) = tokio::join!(news, answer(stage.keyed("a")));
    assert_eq!(sent.0, 201);
    assert_eq!(news.1["entries"][0]["n"], 1);
    assert!(start.elapsed() < Duration::from_secs(10), "it waited to the end");
    assert_eq!(stage.get("/__double__/book?after=1").await.1["entries"], json!([]));
}

#[tokio::test]
async fn pages_in_a_browser_reach_no_controls() {
    let stage = Stage::new(Mode::Plain);
    let url = format!("{}/__double__/reset", stage.double.url());
    for (name, value) in [("origin", "https://example.com"), ("host", "example.com")] {
        let answer = client().post(&url).header(name, value).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{name}");
    }
}
