//! Declared secrets of a worker that reaches its store through a server: taken out by whichever of
//! the two knows them.

use semel::{Code, Context, Error, Failure, NativeKey, Retry, Semel};
use semel_core::redact::Redactor;
use semel_store::Veil;
use serde_json::{Value, json};

use crate::served::Served;

const SECRET: &str = "sk_live/\"zq8\"";
const SHOWN: &str = "[redacted:API]";

fn telling(text: &str) -> Value {
    json!(format!("{text} {SECRET}"))
}

fn shown(text: &str) -> Value {
    json!(format!("{text} {SHOWN}"))
}

fn knowing() -> Veil {
    let redactor = Redactor::new([("API".to_owned(), SECRET.to_owned())]).expect("a secret");
    Veil::new(None, redactor)
}

/// One effect that is done, and one whose error tells the secret.
async fn effects(semel: &Semel) {
    let effect =
        || semel.effect("mail").key("k").input(&telling("Bearer")).contract(NativeKey::hours(24));
    let sent: Value = effect()
        .call(|intent| {
            let _key = intent.downstream_key();
            async { Ok::<_, Failure>(telling("M-1")) }
        })
        .await
        .expect("sent");
    let again: Value =
        effect().call(|_| async { Err(Failure::refused("not again")) }).await.expect("a replay");
    assert_eq!(again, shown("M-1"), "first {sent}");
    let doubt = semel.effect("mail").key("doubt").input(&telling("Bearer")).retry(Retry::NONE);
    let cut = Failure::unknown(format!("cut {SECRET}"));
    let error = doubt.call(move |_| std::future::ready(Err::<Value, _>(cut.clone()))).await;
    assert_eq!(error.expect_err("in doubt").code(), Code::InDoubt);
}

fn check_files(folder: &std::path::Path) {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_file() {
            all += &String::from_utf8_lossy(&std::fs::read(entry.path()).expect("a file"));
        }
    }
    assert!(!all.contains("sk_live") && !all.contains("zq8"), "the secret is kept");
    assert!(all.contains(SHOWN), "nothing was told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i23_a_remote_worker_keeps_no_secret_that_it_or_its_server_knows() {
    for (here, there) in [(knowing(), Veil::default()), (Veil::default(), knowing())] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = format!("sqlite:{}", folder.path().join("semel.db").display());
        let served = Served::veiled(&store, there).await;
        let semel = Semel::open_veiled(&served.url, here).await.expect("the server answers");
        effects(&semel).await;
        check_files(folder.path());
    }
}

/// The worker knows it, so runs go on with what is kept, as beside the store itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i23_a_run_of_a_remote_worker_sees_and_keeps_what_was_redacted() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("semel.db").display());
    let served = Served::veiled(&store, Veil::default()).await;
    let semel = Semel::open_veiled(&served.url, knowing()).await.expect("the server answers");
    let code = |ctx: Context, input: Value| async move {
        let told: Value = ctx.step("tell", || async { Ok(telling("step")) }).await?;
        Ok::<_, Error>(json!([input, told]))
    };
    let _working = semel.worker().workflow("tell", code).start().expect("offered");
    let run = semel.start("tell").key(["1"]).input(&telling("input")).run().await.expect("a run");
    let result: Value = run.result().await.expect("done");
    assert_eq!(result, json!([shown("input"), shown("step")]));
    check_files(folder.path());
}
