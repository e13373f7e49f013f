//! Servers that are full, foreign or away, and what a store over HTTP cannot do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel::{Code, Semel};
use semel_store::remote::Remote;
use semel_store::{Access, Clock, Opened, StoreError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::served::Served;

/// Somebody else's server: it gives these answers, the last one for ever.
async fn foreign(answers: Vec<String>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let number = counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ = stream.write_all(answers[number].as_bytes()).await;
        }
    });
    (url, asked)
}

fn answer(status: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{more}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

async fn open(url: &str) -> Result<Remote, StoreError> {
    Remote::open(url, Some("semel_secret"), Access::ReadWrite, Clock::Real).await
}

const HELLO: &str = r#"{"protocol":1,"semel":"0","record_format":9,"journal_format":9,
    "namespace":"n","ground":{"wall":5,"steady":{"boot":1,"ms":5},"epoch":0}}"#;

#[tokio::test]
async fn what_is_no_semel_server_is_told_by_a_code() {
    let problem = r#"{"code":"forbidden","detail":"not you"}"#;
    for (said, code) in [
        (answer("401 Unauthorized", "", ""), Code::Unauthenticated),
        (answer("403 Forbidden", "", "<html>"), Code::Forbidden),
        (answer("403 Forbidden", "", problem), Code::Forbidden),
        (answer("404 Not Found", "", "nothing"), Code::StoreMissing),
        (answer("302 Found", "location: http://127.0.0.1:1/\r\n", ""), Code::StoreMissing),
        (answer("502 Bad Gateway", "", ""), Code::StoreUnavailable),
        (answer("200 OK", "", "<html>"), Code::StoreCorrupt),
        (
            answer("200 OK", "", &HELLO.replace("\"protocol\":1", "\"protocol\":2")),
            Code::StoreNewer,
        ),
        (
            answer("200 OK", "", &HELLO.replace("\"protocol\":1", "\"protocol\":0")),
            Code::StoreOlder,
        ),
        (answer("200 OK", "", &HELLO.replace("_format\":9", "_format\":0")), Code::StoreOlder),
        (String::new(), Code::StoreUnavailable),
    ] {
        let (url, _) = foreign(vec![said.clone()]).await;
        let error = open(&url).await.err().expect("it is refused");
        assert_eq!(error.code(), code, "{said}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", nobody.local_addr().expect("an address"));
    drop(nobody);
    assert_eq!(open(&url).await.err().map(|error| error.code()), Some(Code::StoreUnavailable));
}

#[tokio::test]
async fn a_server_without_room_is_asked_again_when_it_says_so() {
    let full = answer("429 Too Many Requests", "retry-after-ms: 60\r\n", "");
    let away = answer("503 Service Unavailable", "retry-after: 0\r\n", "");
    let (url, asked) = foreign(vec![full, away, answer("200 OK", "", HELLO)]).await;
    let began = std::time::Instant::now();
    let remote = open(&url).await.expect("it has room in the end");
    assert_eq!((remote.namespace(), asked.load(Ordering::SeqCst)), ("n", 3));
    assert!(began.elapsed() >= Duration::from_millis(100), "it was not asked at once");
    // Without a time to come again it is told at once.
    let (url, asked) = foreign(vec![answer("429 Too Many Requests", "", "")]).await;
    assert_eq!(open(&url).await.err().map(|error| error.code()), Some(Code::StoreBusy));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_needs_the_store_itself_is_refused_and_says_where_to_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::quiet(&format!("sqlite:{}/semel.db", folder.path().display())).await;
    let opened = Opened::open(&served.url, Access::ReadOnly, Clock::Real).await.expect("open");
    let error = opened.upkeep().err().expect("refused");
    assert_eq!(error.code(), Code::StoreUrlInvalid);
    assert!(error.to_string().contains("beside the server"), "{error}");
    let migrated = Opened::migrate(&served.url).await;
    assert_eq!(migrated.err().map(|error| error.code()), Some(Code::StoreUrlInvalid));
    let semel = Semel::open(&served.url).await.expect("open");
    let transaction =
        semel.transaction("book").key("k").input(&1).run(|_| Ok::<_, String>(1)).await;
    assert_eq!(transaction.err().map(|error| error.code()), Some(Code::TransactionUnsupported));
    let token = Opened::open_as("memory:", Some("t"), Access::ReadWrite, Clock::Real).await;
    assert_eq!(token.err().map(|error| error.code()), Some(Code::StoreUrlInvalid));
}

#[tokio::test]
async fn the_sdk_works_in_the_namespace_of_its_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::quiet(&format!("sqlite:{}/semel.db", folder.path().display())).await;
    let token = served.token("acme", semel_core::access::Role::Worker).await;
    let semel = Semel::open_with_token(&served.url, &token).await.expect("open");
    assert_eq!(semel.namespace_of().as_str(), "acme");
    let made = semel.effect("ticket").key("k").call(|_| async { Ok::<_, semel::Failure>(1) });
    assert_eq!(made.await.expect("done"), 1);
    let inside = semel.find("ticket", "k").await.expect("read").expect("it is there");
    assert_eq!(inside.address.namespace.as_str(), "acme");
    let elsewhere = semel.namespace("default").expect("a name");
    let refused = elsewhere.effect("ticket").key("k");
    let refused = refused.call(|_| async { Ok::<_, semel::Failure>(1) }).await;
    assert_eq!(refused.err().map(|error| error.code()), Some(Code::Forbidden));
}
