//! A real client against a real socket: what `?` makes of every way to fail.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel::{Code, Contract, Effect, Failure, NativeKey, Retry, Semel, classify};
use semel_core::effect::State;

use crate::common::{Ledger, QUICK, state};

/// What the server does with its next connection.
#[derive(Clone, Copy)]
enum Then {
    Answer(u16),
    /// Reads the request and closes.
    Close,
    /// Reads a little and closes with the rest unread: a reset.
    Reset,
    Hang,
    /// Answers half of the body.
    Half,
}

struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves by the list, then answers 200.
    fn start(list: impl IntoIterator<Item = Then>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, list) = (requests.clone(), list.into_iter().collect::<Vec<_>>());
        std::thread::spawn(move || {
            let mut list = list.into_iter();
            for stream in listener.incoming() {
                let then = list.next().unwrap_or(Then::Answer(200));
                serve(stream.unwrap(), then, &seen);
            }
        });
        Server { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/charges", self.address)
    }

    /// The idempotency keys that came, in order.
    fn keys(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let key = |request: &String| {
            let line = request.lines().find(|line| line.starts_with("idempotency-key: "));
            line.map(|line| line["idempotency-key: ".len()..].to_owned())
        };
        requests.iter().filter_map(key).collect()
    }
}

fn serve(mut stream: TcpStream, then: Then, seen: &Mutex<Vec<String>>) {
    if let Then::Reset = then {
        stream.read_exact(&mut [0; 16]).unwrap();
        return;
    }
    let mut text = String::new();
    while !text.contains("\r\n\r\n") || !text.ends_with('}') {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the client left");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    seen.lock().unwrap().push(text);
    let body = r#"{"id":"ch-1"}"#;
    let head = |status: u16, length: usize| {
        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")
    };
    let answer = match then {
        Then::Answer(status) => head(status, body.len()) + body,
        Then::Half => head(200, body.len()) + &body[..5],
        Then::Close | Then::Reset => return,
        Then::Hang => {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 1]);
            });
            return;
        }
    };
    stream.write_all(answer.as_bytes()).unwrap();
}

/// Calls the server as the documentation says.
async fn charge(effect: Effect<'_>, url: String) -> Result<serde_json::Value, semel::Error> {
    let effect = effect.call(move |intent| {
        let url = url.clone();
        async move {
            let client = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .timeout(Duration::from_millis(500))
                .build()?;
            let request = client
                .post(url)
                .header("Idempotency-Key", intent.downstream_key())
                .body(format!(r#"{{"amount":7,"pad":"{}"}}"#, "x".repeat(300)));
            let response = classify::send(request).await?;
            Ok(serde_json::from_slice(&response.bytes().await?)?)
        }
    });
    effect.await
}

async fn once(semel: &Semel, key: &str, url: String) -> (Result<serde_json::Value, Code>, State) {
    let effect = semel.effect("charge").key(key).retry(Retry::NONE);
    let answer = charge(effect, url).await.map_err(|error| error.code());
    (answer, state(semel, "charge", key).await)
}

#[tokio::test]
async fn a_refused_connection_is_not_applied() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (answer, state) = once(&semel, "k", format!("http://{nobody}/")).await;
    assert_eq!((answer, state), (Err(Code::NotApplied), State::Planned));
}

/// Posts, and then asks somebody else.
async fn charge_then_ask(
    semel: &Semel,
    key: &str,
    url: String,
    other: String,
) -> Result<String, Code> {
    let effect = semel.effect("charge").key(key).retry(Retry::NONE).call(move |_intent| {
        let (url, other) = (url.clone(), other.clone());
        async move {
            let client = reqwest::Client::new();
            classify::send(client.post(url).body("{}".to_owned())).await?;
            let answer = classify::send(client.post(other).body("{}".to_owned())).await?;
            Ok(answer.text().await?)
        }
    });
    effect.await.map_err(|error| error.code())
}

#[tokio::test]
async fn req_o8_a_refusal_after_an_answered_request_is_unknown() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let live = Server::start(vec![Then::Answer(200)]);
    let asked = charge_then_ask(&semel, "k", live.url(), format!("http://{nobody}/")).await;
    assert_eq!(asked, Err(Code::InDoubt), "a refused connection");
    let live = Server::start(vec![Then::Answer(200), Then::Answer(404)]);
    let asked = charge_then_ask(&semel, "l", live.url(), live.url()).await;
    assert_eq!(asked, Err(Code::InDoubt), "a status");
    let asked = charge_then_ask(&semel, "m", format!("http://{nobody}/"), live.url()).await;
    assert_eq!(asked, Err(Code::NotApplied), "nothing went out before");
}

#[tokio::test]
async fn req_o8_a_post_that_was_accepted_is_sent_once_when_what_follows_is_refused() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for by in ["send", "unseen", "half seen"] {
        let crm = Server::start([]);
        let (url, other) = (crm.url(), format!("http://{nobody}/"));
        let effect = semel.effect("ticket").key(by).contract(Contract::AtMostOnce).retry(QUICK);
        let effect = effect.call(move |_intent| {
            let client = reqwest::Client::new();
            let post = client.post(url.clone()).body("{}".to_owned());
            let get = client.get(other.clone());
            async move {
                match by {
                    "send" => drop(classify::send(post).await?),
                    _ => drop(post.send().await?),
                }
                let read = match by {
                    "half seen" => classify::response(get.send().await?)?,
                    "unseen" => get.send().await?,
                    _ => classify::send(get).await?,
                };
                Ok(read.text().await?)
            }
        });
        assert_eq!(effect.await.unwrap_err().code(), Code::InDoubt, "{by}");
        assert_eq!(crm.requests.lock().unwrap().len(), 1, "{by}: one ticket");
    }
}

#[tokio::test]
async fn req_o8_a_status_after_a_request_that_was_not_seen_proves_nothing() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let crm = Server::start([Then::Answer(200), Then::Answer(404)]);
    let url = crm.url();
    let effect = semel.effect("ticket").key("k").retry(QUICK).call(move |_intent| {
        let request = || reqwest::Client::new().post(url.clone()).body("{}".to_owned());
        let (write, read) = (request(), request());
        async move {
            write.send().await?;
            Ok(classify::response(read.send().await?)?.text().await?)
        }
    });
    assert_eq!(effect.await.unwrap_err().code(), Code::InDoubt);
}

#[tokio::test]
async fn whatever_is_cut_after_bytes_went_out_is_unknown() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    for (key, then) in [
        ("closed", Then::Close),
        ("reset", Then::Reset),
        ("timeout", Then::Hang),
        ("half", Then::Half),
        ("500", Then::Answer(500)),
        ("503", Then::Answer(503)),
        ("429", Then::Answer(429)),
        ("409", Then::Answer(409)),
        ("302", Then::Answer(302)),
    ] {
        let server = Server::start([then]);
        let (answer, state) = once(&semel, key, server.url()).await;
        assert_eq!((answer, state), (Err(Code::InDoubt), State::InDoubt), "{key}");
    }
}

#[tokio::test]
async fn a_refusal_by_status_is_final_and_missing_credentials_are_not() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let server = Server::start([Then::Answer(422), Then::Answer(401)]);
    let (answer, state) = once(&semel, "invalid", server.url()).await;
    assert_eq!((answer, state), (Err(Code::EffectFailed), State::Failed));
    let (answer, state) = once(&semel, "unknown", server.url()).await;
    assert_eq!((answer, state), (Err(Code::NotApplied), State::Planned));
    let (answer, _) = once(&semel, "unknown", server.url()).await;
    assert_eq!(answer.unwrap()["id"], "ch-1", "with credentials it works");
}

#[tokio::test]
async fn req_l17_the_provider_gets_the_same_key_in_its_header_in_every_attempt() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let server = Server::start([Then::Close, Then::Answer(500), Then::Half]);
    let effect = || {
        let effect = semel.effect("charge").key("order-7").contract(NativeKey::hours(24));
        effect.retry(QUICK)
    };
    assert_eq!(charge(effect(), server.url()).await.unwrap()["id"], "ch-1");
    let keys = server.keys();
    let plan = semel.find("charge", "order-7").await.unwrap().unwrap().plan.unwrap();
    assert_eq!(keys, vec![plan.downstream_key; 4]);
    assert_eq!(charge(effect(), server.url()).await.unwrap()["id"], "ch-1");
    assert_eq!(server.keys().len(), 4, "a replay called out");
}

#[tokio::test]
async fn a_proof_is_retried_until_the_server_is_there() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let server = Server::start([Then::Answer(401), Then::Answer(403)]);
    let effect = semel.effect("charge").key("k").contract(Contract::AtMostOnce).retry(QUICK);
    assert_eq!(charge(effect, server.url()).await.unwrap()["id"], "ch-1");
    assert_eq!(server.keys().len(), 3);
}

#[tokio::test]
async fn a_request_that_cannot_be_built_is_not_applied() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let (answer, state) = once(&semel, "k", "not a url".into()).await;
    assert_eq!((answer, state), (Err(Code::NotApplied), State::Planned));
}

#[tokio::test]
async fn an_error_for_status_is_classified_like_the_status() {
    let server = Server::start([Then::Answer(422), Then::Answer(503)]);
    for is_proof in [true, false] {
        let response = reqwest::Client::new().post(server.url()).body("{}").send().await.unwrap();
        let failure = Failure::from(response.error_for_status().unwrap_err());
        assert_eq!(failure.is_proof(), is_proof, "{failure:?}");
    }
}
