//! What others wrote is shown as text, whatever it is.

use semel_core::effect::approve::Ask;
use semel_core::effect::{Report, Settle};
use semel_core::json::Json;
use semel_core::key::Namespace;
use semel_core::record::Answer as Word;
use semel_core::wire_ask::{BeginAsk, person};
use semel_engine::{Answer, Start};
use serde_json::json;

use crate::stage::{Stage, check_markup};

/// Ways by which text became markup or script somewhere.
const CORPUS: [&str; 50] = [
    "<script>alert(1)</script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "<script/src=//x></script>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "</title><script>x</script>",
    "</pre><script>x</script>",
    "</textarea><script>x</script>",
    "</code><svg/onload=x>",
    "<img src=x onerror=alert(1)>",
    "<img src=\"x\" onerror=\"x\">",
    "<svg onload=alert(1)>",
    "<svg><script>x</script></svg>",
    "<body onload=x>",
    "<iframe src=javascript:x>",
    "<iframe srcdoc='<script>x</script>'>",
    "<a href=\"javascript:x\">x</a>",
    "<math><mi//xlink>",
    "<object data=x>",
    "<embed src=x>",
    "<link rel=stylesheet href=//x>",
    "<base href=//x>",
    "<meta http-equiv=refresh content=0>",
    "<form action=//x><button>",
    "<input autofocus onfocus=x>",
    "<details open ontoggle=x>",
    "<video><source onerror=x>",
    "<marquee onstart=x>",
    "<style>@import '//x'</style>",
    "<table background=javascript:x>",
    "<!--<script>x</script>-->",
    "<![CDATA[<script>x</script>]]>",
    "<?xml version='1.0'?>",
    "<template><script>x</script>",
    "\" onmouseover=\"x",
    "' onmouseover='x",
    "` onmouseover=`x",
    "\" autofocus onfocus=\"x",
    "javascript:alert(1)",
    "data:text/html,<script>x</script>",
    "&lt;script&gt;x&lt;/script&gt;",
    "&#60;script&#62;",
    "&#x3c;script>",
    "%3Cscript%3E",
    "\\u003cscript\\u003e",
    "<scr\u{0}ipt>",
    "\u{ff1c}script\u{ff1e}",
    "<\u{202e}script>",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "=HYPERLINK(\"x\")",
];

#[tokio::test]
async fn sec_50_nothing_that_others_wrote_becomes_markup_on_any_page() {
    let stage = Stage::new().await;
    let mut paths = vec!["/console".to_owned(), "/console/effects".to_owned()];
    for (number, evil) in CORPUS.into_iter().enumerate() {
        let plain: String = evil.chars().filter(|c| !c.is_control()).collect();
        let ask =
            Ask { requester: Some(evil.to_owned()), note: Some(evil.to_owned()), ..Ask::default() };
        let key = format!("{number} {plain}");
        let held = stage.held_with(&key, json!({ evil: [evil, { "x": evil }] }), ask).await;
        let way = stage.link(&held, &plain).await;
        let id = stage.view(&held).await.id;
        if number % 2 == 1 {
            let effect = stage.effect(&held).await;
            let digest = effect.approval.as_ref().unwrap().digest.clone();
            let person = person(evil, evil, effect.version);
            stage.engine.judge(&held, &person, Word::Denied, &digest).await.unwrap();
        }
        paths.extend([way, format!("/console/effects/{id}")]);
        let done = done(&stage, &format!("{number} {plain}"), evil).await;
        paths.push(format!("/console/effects/{done}"));
        let start = Start {
            namespace: Namespace::default(),
            workflow: semel_core::key::Action::new("flow").unwrap(),
            key: Some(semel_core::key::Key::from_text(&key).unwrap()),
            input: Json::of(&json!({ evil: evil })).unwrap(),
            window_ms: 60_000,
            deadline_ms: None,
            release: None,
            parent: None,
        };
        let run = stage.engine.start_run(start).await.unwrap().run.id;
        stage.engine.cancel_run(&Namespace::default(), &run, evil, evil).await.unwrap();
        paths.push(format!("/console/runs/{run}"));
    }
    paths.push("/console/runs".to_owned());
    for evil in CORPUS {
        let query: String = evil.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for list in ["effects", "runs"] {
            paths.push(format!("/console/{list}?key={query}&state={query}"));
        }
    }
    for path in &paths {
        let page = stage.get(path).await;
        assert!(page.status.is_success() || path.contains('?'), "{path}: {}", page.text);
        check_markup(&page.text, path);
        // What somebody searches for stands in the search field as they wrote it.
        let is_search = path.contains('?');
        for hidden in ['\u{0}', '\u{202e}'] {
            assert!(is_search || !page.text.contains(hidden), "{path} hides something");
        }
    }
    assert!(paths.len() > 250, "all were looked at");
}

/// An effect with a receipt and a reason that somebody else worded.
async fn done(stage: &Stage, key: &str, evil: &str) -> String {
    let begin = json!({ "action": "mail", "key": key, "input": evil });
    let begin: BeginAsk = serde_json::from_value(begin).unwrap();
    let begin = begin.begin(&Namespace::default(), evil).unwrap();
    let address = begin.address.clone();
    let again = begin.clone();
    let Ok(Answer::Attempt(armed)) = stage.engine.begin(begin, 0).await else { panic!("no go") };
    let (fence, reason) = (armed.permit.fence, evil.to_owned());
    let report = Report::NotApplied { reason, last: false };
    let settle = Settle { fence, report, retry_after_ms: None };
    stage.engine.settle(&address, &settle).await.unwrap();
    let Ok(Answer::Attempt(armed)) = stage.engine.begin(again, 0).await else { panic!("no go") };
    let report = Report::Receipt(Json::of(&json!({ "id": evil })).unwrap());
    let settle = Settle { fence: armed.permit.fence, report, retry_after_ms: None };
    stage.engine.settle(&address, &settle).await.unwrap();
    stage.view(&address).await.id
}
