//! A resend that fails proves nothing about the send before it. And of two who look, one looks.

use std::fs::File;
use std::net::TcpListener;

use serde_json::json;

use crate::cases::told;
use crate::common::{Line, World, until};

/// Kills the first send, lets the resends of `second` fail until the effect's retry budget is used
/// up, and sees that the doubt stays; then the destination is well again, and a person grants more.
fn check(contract: &str, script: &[&str], second: &[&str], tickets_before: usize) {
    let world = World::new();
    world.crm.script("again", script);
    // The window is over at once: only the proof itself could close the doubt.
    let declared = ["--settle-ms", "1", "--attempts", "3", "--delay-ms", "20"];
    world.kill_at_held(contract, &[&declared[..], &["again"]].concat());
    let args = [&declared[..], second, &["again"]].concat();
    let (code, error) = world.work(contract, &args);
    assert_eq!((code, error), (Some(5), json!("in_doubt")));
    let effect = world.show("again");
    assert_eq!(effect["state"], "in_doubt", "{effect}");
    assert_eq!(told(&effect), "send unknown, send not_applied, send not_applied");
    assert_eq!(world.crm.applied("again").len(), tickets_before);
    let why = ["--reason", "the destination is well", "--actor", "ada"];
    world.semel(&[&["effects", "grant", "crm-ticket/again"], &why[..]].concat()).expect(0);
    let (code, receipt) = world.work(contract, &["again"]);
    assert_eq!(code, Some(0), "{receipt}");
    assert_eq!(receipt["id"], world.crm.applied("again")[0].id);
    assert_eq!(world.crm.applied("again").len(), 1);
    world.verify();
}

#[test]
fn inv_i8_a_412_on_the_resend_leaves_the_first_send_in_doubt() {
    check("conditional", &["hold_before", "status:412", "status:412"], &[], 0);
}

#[test]
fn inv_i8_a_401_on_the_resend_leaves_the_first_send_in_doubt() {
    check("native_key", &["hold", "status:401", "status:401"], &[], 1);
}

#[test]
fn inv_i8_a_refused_connection_on_the_resend_leaves_the_first_send_in_doubt() {
    // Nobody listens where somebody has just listened.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = format!("http://{}", listener.local_addr().expect("its address"));
    drop(listener);
    check("native_key", &["hold"], &["--crm", &nobody], 1);
}

/// Six doubts, three of them about tickets that exist; two processes start at the same instant.
#[test]
fn inv_i4_two_probers_look_one_at_a_time_and_have_one_outcome() {
    let world = World::new();
    let references = ["l0", "l1", "l2", "l3", "l4", "l5"];
    let exists = |number: usize| number.is_multiple_of(2);
    for (number, reference) in references.iter().enumerate() {
        world.crm.script(reference, &[if exists(number) { "hold" } else { "hold_before" }]);
    }
    let settle = ["--settle-ms", "600", "--callers", "6"];
    let mut first = world.worker("probe", &[&settle[..], &references].concat());
    until("the CRM holds all requests", || {
        let held = world.crm.events().into_iter().filter(|event| event.kind == "held").count();
        (held == references.len()).then_some(())
    });
    first.kill();
    let gate = world.dir.path().join("gate");
    let gated = ["--gate", gate.to_str().expect("a path")];
    let args = [&settle[..], &gated, &references].concat();
    let mut probers = [world.worker("probe", &args), world.worker("probe", &args)];
    File::create(&gate).expect("the gate opens");
    assert_eq!(probers.each_mut().map(|prober| prober.end()), [Some(0), Some(0)]);
    let [one, other] = probers.map(|prober| {
        let mut lines = prober.lines();
        lines.sort_by(|a: &Line, b: &Line| a.reference.cmp(&b.reference));
        lines.into_iter().map(|line| line.receipt).collect::<Vec<_>>()
    });
    assert_eq!(one, other, "one outcome");
    for (number, reference) in references.iter().enumerate() {
        assert_eq!(world.crm.did("looked", reference).len(), 1, "one look at {reference}");
        assert_eq!(world.crm.applied(reference).len(), 1);
        let story = if exists(number) {
            "send unknown, look found"
        } else {
            "send not_applied, look absent, send applied"
        };
        assert_eq!(told(&world.show(reference)), story);
    }
    world.verify();
}
