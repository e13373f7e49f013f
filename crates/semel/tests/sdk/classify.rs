//! What errors and statuses prove.

use semel::{Failure, NotApplied, Refused, classify};

#[test]
fn failures_say_what_they_prove() {
    let proof = Failure::not_applied("down");
    assert!(proof.is_proof() && !proof.is_final());
    assert_eq!(proof, Failure::from(NotApplied("down".into())));
    let refused = Failure::refused("no");
    assert!(refused.is_proof() && refused.is_final());
    assert_eq!(refused, Failure::from(Refused("no".into())));
    let unknown = Failure::unknown("cut");
    assert!(!unknown.is_proof() && !unknown.is_final());
    assert_eq!(unknown.reason(), "cut");
}

#[test]
fn an_error_is_told_with_its_causes() {
    #[derive(Debug)]
    struct Outer(std::io::Error);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("sending")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let of = |kind: std::io::ErrorKind| classify::error(&Outer(std::io::Error::new(kind, "cause")));
    assert_eq!(of(std::io::ErrorKind::ConnectionReset).reason(), "sending: cause");
    assert!(!of(std::io::ErrorKind::ConnectionReset).is_proof());
    assert!(of(std::io::ErrorKind::ConnectionRefused).is_proof());
    assert!(!of(std::io::ErrorKind::ConnectionRefused).is_final());
}

#[test]
fn a_status_is_a_proof_only_where_nothing_can_have_happened() {
    assert!(classify::status(201).is_none());
    for (status, is_proof, is_final) in
        [(422, true, true), (401, true, false), (429, false, false), (500, false, false)]
    {
        let failure = classify::status(status).unwrap();
        assert_eq!((failure.is_proof(), failure.is_final()), (is_proof, is_final), "{status}");
        assert!(failure.reason().contains(&status.to_string()));
    }
}
