//! `semel effects suspects`: the radar over a ledger of real calls.

use semel::{Context, Failure, Semel};
use serde_json::{Value, json};

use crate::common::World;

async fn put(semel: &Semel, action: &str, key: &[&str], input: &Value) {
    let effect = semel.effect(action).key(key).input(input);
    let made = effect.call(|_| async { Ok::<_, Failure>(json!({ "id": 1 })) }).await;
    made.expect("it works");
}

#[test]
fn req_k15_a_fresh_key_for_an_unchanged_wish_is_found_in_the_ledger() {
    let world = World::new();
    world.sdk(async |semel| {
        // One wish, tried three times under a key of its own each time.
        for key in ["k-a", "k-b", "k-c"] {
            put(&semel, "ticket", &[key], &json!({ "subject": "fire" })).await;
        }
        for (at, subject) in [(1_763_301_600_123_u64, "x"), (1_763_301_700_123, "y")] {
            put(&semel, "mail", &[&at.to_string()], &json!({ "subject": subject })).await;
        }
        // What repeats under its own key, and what differs, is as it should be.
        for (key, subject) in [("1", "a"), ("1", "a"), ("2", "b")] {
            put(&semel, "good", &[key], &json!({ "subject": subject })).await;
        }
    });
    let found = world.semel(&["effects", "suspects", "--json"]).expect(1).json();
    let told: Vec<_> = found["suspects"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["action"].as_str(), one["sign"].as_str(), one["keys"].as_u64()))
        .collect();
    let want =
        [(Some("ticket"), Some("same_input"), Some(3)), (Some("mail"), Some("time"), Some(2))];
    assert_eq!(told, want, "{found}");
    assert_eq!((&found["rows"], &found["is_cut"]), (&json!(7), &json!(false)));

    let ended = world.semel(&["effects", "suspects"]).expect(1);
    let first = ended.stdout.lines().next().expect("a suspect");
    assert_eq!(
        first,
        "likely ticket same_input: the same input came under 3 keys: each was acted on"
    );
    assert!(ended.stdout.contains("  keys    k-"), "{}", ended.stdout);
    assert!(ended.stderr.contains("2 likely suspects"), "{}", ended.stderr);

    let quiet = world.semel(&["effects", "suspects", "--action", "good"]).expect(0);
    assert_eq!(quiet.stdout.trim(), "no suspects among 2 effects of the last 7d");
    world.semel(&["effects", "suspects", "--since", "1ms"]).expect(0);
    world.semel(&["effects", "suspects", "--since", "soon"]).expect(2);
}

/// Two runs with inputs of their own send the same words to two people: the effect's input does not
/// tell them apart, what the runs were started with does.
#[test]
fn what_runs_were_started_with_is_looked_at() {
    let world = World::new();
    world.sdk(async |semel| {
        let code = |ctx: Context, input: Value| async move {
            let (own, drawn) = (input["order"].as_str().unwrap_or_default().to_owned(), ctx.uuid());
            for (action, key) in [("thanks", own), ("drawn", drawn.to_string())] {
                let effect = ctx.effect(action).key([key]).input(&json!({ "template": "t" }));
                effect.call(|_| async { Ok::<_, Failure>(1) }).await?;
            }
            Ok(1)
        };
        semel.worker().workflow("w", code).start().expect("a worker");
        for order in ["o-1", "o-2"] {
            let start = semel.start("w").key([order]).input(&json!({ "order": order }));
            let run = start.run().await.expect("a run");
            assert_eq!(run.result::<u32>().await, Ok(1));
        }
    });
    let found = world.semel(&["effects", "suspects", "--json"]).expect(1).json();
    let level = |action: &str| {
        let all = found["suspects"].as_array().expect("a list");
        let mut one = all.iter().filter(|one| one["action"] == action);
        one.find(|one| one["sign"] == "same_input").expect("a suspect")["level"].clone()
    };
    assert_eq!((level("thanks"), level("drawn")), (json!("perhaps"), json!("likely")), "{found}");
}
