use super::*;

/// What the tests of each scheme change: the headers that are part of the signature.
fn is_signed(plan: &Plan, header: &str) -> bool {
    // GitHub does not sign its delivery id.
    !(plan.scheme == Scheme::GitHub && header == "x-github-delivery")
}

#[track_caller]
fn check_refused(plan: &Plan, secret: &Secret, sent: &Sent, now: i64, want: Refused) {
    let found = verify(&plan.scheme, std::slice::from_ref(secret), &sent.request(), seconds(now));
    assert_eq!(found, Err(want), "{:?} {sent:?}", plan.scheme);
}

fn with_header(sent: &Sent, name: &str, value: &str) -> Sent {
    let mut changed = sent.clone();
    changed.headers.retain(|(known, _)| known != name);
    changed.headers.push((name.to_owned(), value.as_bytes().to_vec()));
    changed
}

#[test]
fn published_vectors_of_the_senders_are_accepted() {
    let check = |declared: &str, text: &str, sent: &Sent, at: i64| {
        let plan = plan(declared);
        assert_eq!(verify(&plan.scheme, &[secret(text)], &sent.request(), seconds(at)), Ok(()));
    };
    let headers = |prefix: &str| {
        let named = |rest: &str| format!("{prefix}-{rest}");
        Sent::new(
            &[
                (&named("id"), "msg_p5jXN8AQM9LWM0D4loKWxJek"),
                (&named("timestamp"), "1614265330"),
                (&named("signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ],
            r#"{"test": 2432232314}"#,
        )
    };
    let standard = r#"{"workflow":"w","scheme":"standard","secret":"env:S"}"#;
    for prefix in ["webhook", "svix"] {
        check(standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &headers(prefix), AT);
        check(standard, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &headers(prefix), AT);
    }
    let github = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    check(
        r#"{"workflow":"w","scheme":"github","secret":"env:S"}"#,
        "It's a Secret to Everybody",
        &Sent::new(&[("x-hub-signature-256", github)], "Hello, World!"),
        AT,
    );
    let slack = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    let body = concat!(
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=",
        "G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook",
        "-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F3977",
        "00885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d1",
        "0d2c447fce8b6703c",
    );
    let headers = [("x-slack-request-timestamp", "1531420618"), ("x-slack-signature", slack)];
    check(
        r#"{"workflow":"w","scheme":"slack","secret":"env:S"}"#,
        "8f742231b10e8888abcd99yyyzzz85a5",
        &Sent::new(&headers, body),
        1_531_420_618,
    );
}

#[test]
fn sec_17_one_flipped_bit_at_any_position_is_refused() {
    for (plan, secret, sent) in genuine() {
        let secrets = [secret];
        let is_good =
            |sent: &Sent| verify(&plan.scheme, &secrets, &sent.request(), seconds(AT)).is_ok();
        assert!(is_good(&sent), "{:?}", plan.scheme);
        let mut flips = 0;
        for line in 0..sent.headers.len() {
            if !is_signed(&plan, &sent.headers[line].0) {
                continue;
            }
            for bit in 0..sent.headers[line].1.len() * 8 {
                let mut flipped = sent.clone();
                flipped.headers[line].1[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_good(&flipped), "{:?} bit {bit} of {flipped:?}", plan.scheme);
                flips += 1;
            }
        }
        // A token says nothing about the body.
        let body_bits =
            if matches!(plan.scheme, Scheme::Bearer { .. }) { 0 } else { sent.body.len() * 8 };
        for bit in 0..body_bits {
            let mut flipped = sent.clone();
            flipped.body[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_good(&flipped), "{:?} bit {bit} of the body", plan.scheme);
            flips += 1;
        }
        assert!(flips >= 56, "{flips} flips of {:?}", plan.scheme);
    }
}

#[test]
fn case_w4_a_body_that_was_written_anew_is_refused() {
    let parsed: serde_json::Value = serde_json::from_str(BODY).expect("JSON");
    let spaced = serde_json::to_string_pretty(&parsed).expect("JSON");
    for (plan, secret, sent) in genuine() {
        if matches!(plan.scheme, Scheme::Bearer { .. }) {
            continue;
        }
        let anew = Sent { body: spaced.clone().into_bytes(), ..sent };
        check_refused(&plan, &secret, &anew, AT, Refused::Wrong);
    }
}

#[test]
fn case_w2_and_sec_18_the_window_is_five_minutes_on_both_sides() {
    for (plan, secret, sent) in genuine() {
        let verdict =
            |now| verify(&plan.scheme, std::slice::from_ref(&secret), &sent.request(), now);
        let has_a_time = match &plan.scheme {
            Scheme::Standard | Scheme::Stripe | Scheme::Slack => true,
            Scheme::Hmac(hmac) => hmac.timestamp_header.is_some(),
            _ => false,
        };
        let (old, new) = match has_a_time {
            true => (Err(Refused::TooOld), Err(Refused::TooNew)),
            false => (Ok(()), Ok(())),
        };
        assert_eq!(verdict(seconds(AT + 300)), Ok(()), "{:?}", plan.scheme);
        assert_eq!(verdict(seconds(AT - 300)), Ok(()), "{:?}", plan.scheme);
        assert_eq!(verdict(Wall((AT + 300) * 1_000 + 1)), old, "{:?}", plan.scheme);
        assert_eq!(verdict(seconds(AT + 301)), old, "{:?}", plan.scheme);
        assert_eq!(verdict(seconds(AT - 301)), new, "{:?}", plan.scheme);
    }
}

#[test]
fn sec_18_missing_repeated_and_malformed_headers_are_refused() {
    for (plan, secret, sent) in genuine() {
        for line in 0..sent.headers.len() {
            let (name, value) = sent.headers[line].clone();
            if !is_signed(&plan, &name) {
                continue;
            }
            let mut without = sent.clone();
            without.headers.remove(line);
            check_refused(&plan, &secret, &without, AT, Refused::Missing);
            check_refused(&plan, &secret, &with_header(&sent, &name, ""), AT, Refused::Missing);
            let mut twice = sent.clone();
            twice.headers.push((name.clone(), value));
            check_refused(&plan, &secret, &twice, AT, Refused::Repeated);
            if name.ends_with("timestamp") || name == "x-time" {
                let odd = ["-5", "+1614265330", "1614265330.0", "0x60", "1e9", "9999999999999999"];
                for time in odd.into_iter().chain(["١٦١٤", "now", "1614265330,1614265330"]) {
                    let changed = with_header(&sent, &name, time);
                    check_refused(&plan, &secret, &changed, AT, Refused::Malformed);
                }
            }
        }
    }
    let (plan, secret, _) = genuine().swap_remove(1);
    for header in ["v1=00", "t=1614265330", "t=,v1=0", "t=-1,v1=0", "t=1614265330,t=1614265330"] {
        let sent = Sent::new(&[("stripe-signature", header)], BODY);
        let found =
            verify(&plan.scheme, std::slice::from_ref(&secret), &sent.request(), seconds(AT));
        assert!(matches!(found, Err(Refused::Malformed | Refused::Wrong)), "{header} {found:?}");
    }
}

#[test]
fn case_w3_one_good_signature_among_several_is_enough_and_unknown_entries_are_ignored() {
    let all = genuine();
    let (standard, secret, sent) = &all[0];
    let good = str::from_utf8(&sent.headers[2].1).expect("text").to_owned();
    let signature = good.strip_prefix("v1,").expect("v1").to_owned();
    let with = |text: &str| {
        let sent = with_header(sent, "webhook-signature", text);
        verify(&standard.scheme, std::slice::from_ref(secret), &sent.request(), seconds(AT))
    };
    assert_eq!(with(&format!("v1,AAAA v9,zzz {good} v1a,BBBB nothing")), Ok(()));
    assert_eq!(with(&format!("v2,{signature}")), Err(Refused::Wrong));
    assert_eq!(with(&format!("v1a,{signature}")), Err(Refused::Wrong));
    assert_eq!(with(&format!("{good} ").repeat(21)), Err(Refused::Malformed), "a flood");
    let (stripe, secret, sent) = &all[1];
    let good = str::from_utf8(&sent.headers[0].1).expect("text").to_owned();
    let with = |text: String| {
        let sent = with_header(sent, "stripe-signature", &text);
        verify(&stripe.scheme, std::slice::from_ref(secret), &sent.request(), seconds(AT))
    };
    assert_eq!(with(format!("v0=aa,x,v1=bb,{good}")), Ok(()));
    assert_eq!(with(good.replace("v1=", "v0=")), Err(Refused::Wrong));
}

#[test]
fn sec_20_two_secrets_count_and_the_old_one_dies_at_its_date() {
    for (plan, old, sent) in genuine() {
        let (until, new) = (seconds(AT + 10), secret("d2hhdGV2ZXIK"));
        let old = Secret { until: Some(until), ..old };
        let both = [new.clone(), old.clone()];
        let verdict = |secrets: &[Secret], now| verify(&plan.scheme, secrets, &sent.request(), now);
        assert_eq!(verdict(&both, seconds(AT)), Ok(()), "{:?}", plan.scheme);
        assert_eq!(verdict(&both, Wall(until.0 - 1)), Ok(()), "{:?}", plan.scheme);
        assert_eq!(verdict(&both, until), Err(Refused::Wrong), "{:?}", plan.scheme);
        assert_eq!(verdict(&[old], until), Err(Refused::NoSecret), "{:?}", plan.scheme);
        assert_eq!(verdict(&[new], seconds(AT)), Err(Refused::Wrong), "{:?}", plan.scheme);
        assert_eq!(verdict(&[], seconds(AT)), Err(Refused::NoSecret), "{:?}", plan.scheme);
        assert_eq!(verdict(&[secret("")], seconds(AT)), Err(Refused::NoSecret));
    }
}

#[test]
fn an_empty_secret_beside_a_good_one_signs_nothing() {
    for (plan, good, sent) in genuine() {
        let (at, body) = (AT.to_string(), sent.body.as_slice());
        let forged = match &plan.scheme {
            Scheme::GitHub => signed(Encoding::Hex, b"", &[body]),
            Scheme::Slack => signed(Encoding::Hex, b"", &[b"v0:", at.as_bytes(), b":", body]),
            _ => continue,
        };
        let (name, prefix) = match &plan.scheme {
            Scheme::GitHub => ("x-hub-signature-256", "sha256="),
            _ => ("x-slack-signature", "v0="),
        };
        let sent = with_header(&sent, name, &format!("{prefix}{forged}"));
        let found = verify(&plan.scheme, &[good, secret("")], &sent.request(), seconds(AT));
        assert_eq!(found, Err(Refused::Wrong), "{name}");
    }
}

#[test]
fn sec_21_the_algorithm_is_that_of_the_trigger_whatever_the_header_says() {
    let body = BODY.as_bytes();
    let sha512 = |secret: &[u8]| {
        signature::write(Encoding::Hex, &signature::sign(Algorithm::Sha512, secret, &[body]))
    };
    let declared = |algorithm: &str| {
        plan(&format!(
            r#"{{"workflow":"w","secret":"env:S","scheme":"hmac","header":"x-sig",
                "algorithm":"{algorithm}","key":"{{body:/id}}"}}"#
        ))
    };
    let sent = Sent::new(&[("x-sig", &sha512(b"s"))], BODY);
    let verdict = |plan: &Plan, sent: &Sent| {
        verify(&plan.scheme, &[secret("s")], &sent.request(), seconds(AT))
    };
    assert_eq!(verdict(&declared("sha512"), &sent), Ok(()));
    assert_eq!(verdict(&declared("sha256"), &sent), Err(Refused::Wrong));
    let github = plan(r#"{"workflow":"w","secret":"env:S","scheme":"github"}"#);
    for header in [format!("sha512={}", sha512(b"s")), "none=".into(), sha512(b"s")] {
        let sent = Sent::new(&[("x-hub-signature-256", &header)], BODY);
        assert_eq!(verdict(&github, &sent), Err(Refused::Malformed), "{header}");
    }
    // The old header of GitHub has SHA-1 in it, and is not looked at.
    let sent = Sent::new(&[("x-hub-signature", "sha1=aa")], BODY);
    assert_eq!(verdict(&github, &sent), Err(Refused::Missing));
}

#[test]
fn a_public_key_accepts_only_ed25519_and_a_shared_secret_only_hmac() {
    use base64::Engine as _;
    use ed25519_dalek::Signer as _;
    let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let public = base64(key.verifying_key().as_bytes());
    let content = format!("msg_1.{AT}.{BODY}");
    let signature = base64(&key.sign(content.as_bytes()).to_bytes());
    let (standard, shared, sent) = genuine().swap_remove(0);
    let hmac = str::from_utf8(&sent.headers[2].1).expect("text").to_owned();
    let verdict = |secret: &Secret, header: &str| {
        let sent = with_header(&sent, "webhook-signature", header);
        verify(&standard.scheme, std::slice::from_ref(secret), &sent.request(), seconds(AT))
    };
    let public_key = secret(&format!("whpk_{public}"));
    assert_eq!(verdict(&public_key, &format!("{hmac} v1a,{signature}")), Ok(()));
    assert_eq!(verdict(&public_key, &format!("v1,{signature}")), Err(Refused::Wrong));
    assert_eq!(verdict(&shared, &format!("v1a,{signature}")), Err(Refused::Wrong));
    // A public key is known to all: an HMAC under it proves nothing.
    let bytes = signature::decode(&public).expect("base64");
    let forged = signed(Encoding::Base64, &bytes, &[content.as_bytes()]);
    assert_eq!(verdict(&public_key, &format!("v1,{forged} v1a,{forged}")), Err(Refused::Wrong));
}

#[test]
fn two_deliveries_never_share_what_is_signed() {
    let (plan, secret, sent) = genuine().swap_remove(0);
    let key = signature::decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("base64");
    // Signed as (a, AT, "AT.x"), sent as ("a.AT", AT, "x").
    let text = format!("a.{AT}.{AT}.x");
    let good = format!("v1,{}", signed(Encoding::Base64, &key, &[text.as_bytes()]));
    let mut moved = with_header(&sent, "webhook-id", &format!("a.{AT}"));
    moved = with_header(&moved, "webhook-signature", &good);
    moved.body = b"x".to_vec();
    check_refused(&plan, &secret, &moved, AT, Refused::Malformed);
}

#[test]
fn a_bearer_token_comes_in_authorization_or_alone() {
    let plan = plan(r#"{"workflow":"w","secret":"env:S","scheme":"bearer","key":"{body:/id}"}"#);
    let verdict = |value: &str| {
        let sent = Sent::new(&[("authorization", value)], BODY);
        verify(&plan.scheme, &[secret("tok")], &sent.request(), seconds(AT))
    };
    assert_eq!(verdict("Bearer tok"), Ok(()));
    assert_eq!(verdict("bearer tok"), Ok(()));
    for value in ["tok", "Basic tok", "Bearer", "Bearertok"] {
        assert_eq!(verdict(value), Err(Refused::Malformed), "{value}");
    }
    for value in ["Bearer to", "Bearer tokk", "Bearer tok tok", "Bearer TOK", "Bearer  tok"] {
        assert_eq!(verdict(value), Err(Refused::Wrong), "{value}");
    }
}
