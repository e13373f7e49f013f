//! Text that would be a statement, a path or a pattern if anybody read it as one.

use serde_json::{Value, json};

use crate::door::{on_both, send};

/// Beginnings that end a text, and what would then be carried out.
const ENDS: [&str; 10] = ["'", "\"", "')", "\\'", "';", "`", "]", "*/", "--", "%"];
const DEEDS: [&str; 12] = [
    " OR 1=1 --",
    " OR 'a'='a",
    " UNION SELECT record FROM effects --",
    "; DROP TABLE effects; --",
    "; UPDATE effects SET state='done'; --",
    " AND (SELECT 1 FROM pg_sleep(5)) --",
    "||(SELECT version())||'",
    " LIMIT 0 OFFSET 0 --",
    "; ATTACH DATABASE 'x' AS x; --",
    "; COPY effects TO '/tmp/x'; --",
    "{$ne:null}",
    "../../etc/passwd",
];

fn corpus() -> Vec<String> {
    let with = |end: &&str| DEEDS.map(|deed| format!("{end}{deed}")).to_vec();
    ENDS.iter().flat_map(with).collect()
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_48_no_parameter_is_ever_read_as_a_statement() {
    on_both(async |door| {
        door.done("kept", json!(1), json!("R")).await;
        let lists = [
            ("effects", "key"),
            ("effects", "action"),
            ("effects", "state"),
            ("effects", "after"),
            ("runs", "key"),
            ("runs", "workflow"),
            ("schedules", "after"),
            ("triggers", "after"),
            ("audit", "after"),
        ];
        for text in corpus() {
            let evil = escaped(&text);
            for (list, name) in lists {
                let answer = door.get(&format!("/v1/{list}?{name}={evil}")).await;
                assert!(answer.status < 500, "{list} {name} {text}: {}", answer.text);
                let items = answer.json()["items"].clone();
                assert!(items.is_null() || items == json!([]), "{list} {name} {text}: {items}");
            }
            for path in ["runs", "effects", "schedules", "triggers", "approvals"] {
                door.get(&format!("/v1/{path}/{evil}")).await.refused(404, "not_found");
            }
            door.post(&format!("/hooks/{evil}"), &json!(1)).await.refused(401, "signature_invalid");
        }
        // As a key it is a name like any other.
        let evil = &corpus()[0];
        door.done(evil, json!(evil), json!(evil)).await;
        let again = json!({ "action": "mail", "key": evil, "input": evil });
        assert_eq!(door.begin(again).await.is(200).json()["receipt"], json!(evil));
        let kept = json!({ "action": "mail", "key": "kept", "input": 1 });
        assert_eq!(door.begin(kept).await.is(200).json()["receipt"], "R");
        let all: Value = send(door.request("GET", "/v1/effects")).await.is(200).json();
        assert_eq!(all["items"].as_array().unwrap().len(), 2);
    })
    .await;
}
