//! Tables: genuine deliveries of each scheme, and everything near them that is not.

mod keys;
mod plans;
mod signatures;

use super::*;
use crate::time::Wall;

/// When all deliveries here were signed, in seconds.
const AT: i64 = 1_614_265_330;
const BODY: &str = r#"{"id":"evt_1","event_id":"Ev1","type":"order.paid","n":7}"#;

/// One delivery, by itself.
#[derive(Clone, Debug)]
struct Sent {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Sent {
    fn new(headers: &[(&str, &str)], body: &str) -> Sent {
        let line = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        Sent { headers: headers.iter().map(line).collect(), body: body.as_bytes().to_vec() }
    }

    fn request(&self) -> Request<'_> {
        Request { headers: &self.headers, body: &self.body }
    }
}

fn seconds(at: i64) -> Wall {
    Wall(at * 1_000)
}

fn secret(text: &str) -> Secret {
    Secret { bytes: text.as_bytes().to_vec(), until: None }
}

fn plan(declared: &str) -> Plan {
    let content = parse(declared).expect("a content");
    check("orders", &content).expect("a plan")
}

/// What the signer of a scheme writes into a header.
fn signed(encoding: Encoding, secret: &[u8], pieces: &[&[u8]]) -> String {
    signature::write(encoding, &signature::sign(Algorithm::Sha256, secret, pieces))
}

/// A genuine delivery of each scheme: its plan, its secret and what was sent.
fn genuine() -> Vec<(Plan, Secret, Sent)> {
    let at = AT.to_string();
    let shared = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let key = signature::decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("base64");
    let (time, body) = (at.as_bytes(), BODY.as_bytes());
    let standard = signed(Encoding::Base64, &key, &[b"msg_1.", time, b".", body]);
    let stripe = signed(Encoding::Hex, b"whsec_x", &[time, b".", body]);
    let github = signed(Encoding::Hex, b"s", &[body]);
    let slack = signed(Encoding::Hex, b"s", &[b"v0:", time, b":", body]);
    let own = signed(Encoding::Base64, b"s", &[time, b"/", b"r-1", b"/", body]);
    let standard = format!("v1,{standard}");
    let sent = |headers: &[(&str, &str)]| Sent::new(headers, BODY);
    let of = |scheme: &str| plan(&format!(r#"{{"workflow":"w","secret":"env:S",{scheme}}}"#));
    vec![
        (
            of(r#""scheme":"standard""#),
            secret(shared),
            sent(&[
                ("webhook-id", "msg_1"),
                ("webhook-timestamp", &at),
                ("webhook-signature", &standard),
            ]),
        ),
        (
            of(r#""scheme":"stripe""#),
            secret("whsec_x"),
            sent(&[("stripe-signature", &format!("t={at},v1={stripe}"))]),
        ),
        (
            of(r#""scheme":"github""#),
            secret("s"),
            sent(&[
                ("x-hub-signature-256", &format!("sha256={github}")),
                ("x-github-delivery", "72d3162e"),
            ]),
        ),
        (
            of(r#""scheme":"slack""#),
            secret("s"),
            sent(&[
                ("x-slack-request-timestamp", &at),
                ("x-slack-signature", &format!("v0={slack}")),
            ]),
        ),
        (
            of(r#""scheme":"hmac","header":"X-Sig","encoding":"base64","prefix":"b64 ",
                  "timestamp_header":"X-Time","signed":"{timestamp}/{header:X-Id}/{body}",
                  "key":"{header:X-Id}""#),
            secret("s"),
            sent(&[("x-sig", &format!("b64 {own}")), ("x-time", &at), ("x-id", "r-1")]),
        ),
        (
            of(r#""scheme":"bearer","header":"x-token","key":"{body:/id}""#),
            secret("token-1"),
            sent(&[("x-token", "token-1")]),
        ),
        (
            of(r#""scheme":"cloudevents","auth":"hmac","header":"x-sig""#),
            secret("s"),
            sent(&[("x-sig", &github)]),
        ),
    ]
}
