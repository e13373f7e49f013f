//! Twenty secrets through every door there is: none of them lies anywhere afterwards (I23).

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use semel::{Context, Error, Failure, Retry, Semel};
use semel_core::redact::Redactor;
use semel_core::run::State;
use semel_store::Veil;
use serde_json::{Value, json};
use std::time::Duration;

use crate::common::{Ended, World, run, semel, until};
use crate::is_open_here;

/// Values of every shape, each with signs that someone escapes.
fn canaries() -> Vec<(String, String)> {
    let shapes = ["sk_live_", "p\"a/ss\\", "grüße-€ ", "xoxb-1-", "-----KEY-----\n"];
    (0..20).map(|n| (format!("CANARY_{n}"), format!("{}{n:02}zqj{n}", shapes[n % 5]))).collect()
}

fn value(number: usize) -> String {
    canaries()[number].1.clone()
}

/// How programs write a value into texts: each of these stands in each of the places below.
fn forms(value: &str) -> Vec<String> {
    let json = |text: &str| serde_json::to_string(text).expect("JSON");
    let quote = |safe: &str| {
        let one = |byte: u8| match byte.is_ascii_alphanumeric() || safe.contains(char::from(byte)) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        value.bytes().map(one).collect::<String>()
    };
    let html = |sign: char| match sign {
        '"' => "&quot;".to_owned(),
        '/' | '\'' | '\n' => format!("&#{};", u32::from(sign)),
        sign if sign.is_ascii() => sign.to_string(),
        sign => format!("&#x{:x};", u32::from(sign)),
    };
    let mail = STANDARD.encode(format!("{}{value}", "a line before it, ".repeat(9)));
    let lines: Vec<&str> =
        mail.as_bytes().chunks(76).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let credentials = json!({ "type": "service", "private_key": value }).to_string();
    vec![
        value.to_owned(),
        quote("/_-"),
        quote("_- \"").replace(' ', "+"),
        value.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        json(value),
        json(&json(value)),
        format!("'{}'", value.escape_default()),
        format!("{:?}", format!("KeyError({value:?})")),
        value.chars().map(html).collect(),
        STANDARD.encode(value),
        URL_SAFE.encode(value).trim_end_matches('=').to_owned(),
        lines.join("\r\n"),
        STANDARD.encode(&credentials),
        format!("Basic {}", STANDARD.encode(format!("user:{value}"))),
        value.bytes().map(|byte| format!("{byte:02x}")).collect(),
        STANDARD.encode(quote("/")),
    ]
}

/// All forms of a secret, in one text.
fn written(number: usize) -> String {
    forms(&value(number)).join(" | ")
}

/// A step that tells one secret, an effect that gets and tells others, a signal, and an error.
async fn leaky(ctx: Context, input: Value) -> Result<Value, Error> {
    let told = ctx.step("tell", || async { Ok(json!({ "told": written(1) })) }).await?;
    ctx.step("large", || async { Ok("x".repeat(300_000) + &written(2)) }).await?;
    let effect = ctx.effect("send").key(["1"]).input(&json!({ "header": written(3) }));
    let receipt: Value = effect
        .retry(Retry::NONE)
        .call(|_| async { Ok::<_, Failure>(json!({ "basic": written(4) })) })
        .await?;
    let signal: Value = ctx.wait_for_signal("go").await?;
    let seen = json!([input, told, receipt, signal]);
    let kept = seen.clone();
    let kept = ctx.step("seen", move || std::future::ready(Ok(kept.clone()))).await?;
    assert_eq!(kept, seen, "a workflow sees what is kept, before a crash and after it");
    ctx.step("fail", || async { Err::<(), _>(Failure::unknown(format!("no: {}", written(5)))) })
        .retry(Retry::NONE)
        .await?;
    Ok(Value::Null)
}

/// The process works the run until it stands still on its error.
fn work(store: &Path, veil: Veil) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let url = format!("sqlite:{}", store.display());
        let semel = Semel::open_veiled(&url, veil).await.expect("a store");
        semel.worker().workflow("leaky", leaky).start().expect("it is offered");
        let handle = semel.start("leaky").key(["1"]).input(&json!({ "password": written(0) }));
        let handle = handle.run().await.expect("a run");
        semel
            .run(handle.id())
            .signal("go", "s1", &json!({ "code": written(6) }))
            .await
            .expect("sent");
        let error = semel.effect("refused").key(["2"]).input(&json!(written(7))).retry(Retry::NONE);
        let refused = Failure::refused(format!("url ?key={}", written(8)));
        let error: Result<Value, Error> =
            error.call(move |_| std::future::ready(Err(refused.clone()))).await;
        error.expect_err("refused");
        while handle.state().await.expect("a state") != State::Paused {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    drop(runtime);
    until("the store is closed", || (!is_open_here(store)).then_some(()));
}

/// A command with all canaries declared, that logs all it can.
fn declared(world: &World, words: &[&str]) -> Ended {
    let names = canaries();
    let all: Vec<String> = names.iter().map(|(name, _)| format!("env:{name}")).collect();
    let store = format!("sqlite:{}", world.store().display());
    let mut command = semel();
    command.envs(names).env("SEMEL_SECRETS", all.join(",")).env("RUST_LOG", "trace");
    run(command.args(["--store", &store]).args(words))
}

#[test]
fn sec_32_twenty_canaries_in_every_form_leave_no_trace_in_store_log_backup_and_errors() {
    let world = World::new();
    let veil = Veil::new(None, Redactor::new(canaries()).expect("twenty secrets"));
    work(&world.store(), veil);
    let mut said = Vec::new();
    for (number, (_, value)) in canaries().into_iter().enumerate().skip(9) {
        let input = json!({ "in": [value, written(number)], "url": format!("?a={value}") });
        let key = format!("k{number}");
        let words = ["runs", "start", "other", "--key", &key, "--input", &input.to_string()];
        said.push(declared(&world, &words).expect(0));
        let words = ["runs", "start", "other", "--key", &format!("x{value}"), "--input", "1"];
        let refused = declared(&world, &words);
        assert_ne!(refused.code, Some(0), "a key cannot be redacted: {refused:?}");
        said.push(refused);
    }
    said.push(declared(&world, &["runs", "show", "leaky/1", "--json"]).expect(0));
    said.push(declared(&world, &["runs", "show", "leaky/1"]).expect(0));
    said.push(declared(&world, &["effects", "show", "send/1", "--json"]).expect(0));
    said.push(declared(&world, &["proof", "leaky/1"]).expect(0));
    said.push(declared(&world, &["proof", "refused/2", "--json"]));
    let backup = world.dir.path().join("all.semel");
    said.push(declared(&world, &["backup", backup.to_str().expect("a path")]).expect(0));
    said.push(declared(&world, &["verify"]).expect(0));

    let mut all = Vec::new();
    let mut folders = vec![world.dir.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => all.extend(fs::read(entry.path()).expect("a file")),
            }
        }
    }
    for ended in said {
        all.extend(ended.stdout.into_bytes());
        all.extend(ended.stderr.into_bytes());
    }
    let all = String::from_utf8_lossy(&all);
    for (name, value) in canaries() {
        for form in forms(&value) {
            let json = serde_json::to_string(&form).expect("JSON");
            assert!(
                !all.contains(&form) && !all.contains(json.trim_matches('"')),
                "{name}: {form}"
            );
            // Of base64 every line, of a long one each part.
            let parts = form.split(['\r', '\n', ' ']).filter(|part| part.len() >= 16);
            let mut parts = parts.filter(|part| !part.contains("YSBsaW5lIGJlZm9yZ"));
            assert!(parts.all(|part| !all.contains(part)), "{name}: a part of {form}");
        }
        let tail = &value[value.len() - 6..];
        assert!(!all.contains(tail), "{name}: a part of it");
    }
    for number in [0, 1, 3, 4, 6, 7, 9, 19] {
        assert!(all.contains(&format!("[redacted:CANARY_{number}]")), "CANARY_{number} came by");
    }
}
