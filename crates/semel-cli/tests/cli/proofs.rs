//! `semel proof`: what is proven, how a script hears of it, and that a proof cannot be changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::checks::tamper;
use crate::common::World;
use crate::run_checks::with_runs;

fn path(world: &World, name: &str) -> String {
    world.dir.path().join(name).to_str().expect("a path").to_owned()
}

fn finding(proof: &Value) -> &str {
    proof["proof"]["statement"]["verdict"]["finding"].as_str().expect("a finding")
}

#[test]
fn req_v2_each_state_has_its_finding_and_its_exit_code() {
    let world = World::with_all_states();
    for (key, want, code) in
        [("ok", "done", 0), ("no", "not_done", 0), ("hm", "in_doubt", 5), ("later", "not_done", 0)]
    {
        let name = format!("crm-ticket/{key}");
        let proof = world.semel(&["proof", &name, "--json"]).expect(code).json();
        assert_eq!(finding(&proof), want);
        let text = world.semel(&["proof", &name]).expect(code);
        crate::assert_plain(&text.stdout);
        assert!(text.stdout.contains("\nnot proven\n"), "{}", text.stdout);
    }
    let missing = world.semel(&["proof", "crm-ticket/nobody"]).expect(3);
    assert!(missing.stderr.contains("hint: check it"), "{missing:?}");
    world.semel(&["proof"]).expect(2);
}

#[test]
fn an_effect_is_found_by_its_id_too() {
    let world = World::new();
    world.put_done("ok");
    let id = world.show("ok")["id"].as_str().expect("an id").to_owned();
    let proof = world.semel(&["proof", &id, "--json"]).expect(0).json();
    assert_eq!(proof["proof"]["statement"]["name"], "crm-ticket/ok");
    world.semel(&["proof", "00000000-0000-8000-8000-000000000000"]).expect(3);
}

#[test]
fn req_v5_a_signed_proof_is_checked_far_from_its_store() {
    let world = World::new();
    world.put_done("ok");
    let [key, public, file] = ["k", "k.pub", "proof.json"].map(|name| path(&world, name));
    world.semel(&["proof", "keygen", &key]).expect(0);
    let mode = fs::metadata(&key).expect("the key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    world.semel(&["proof", "keygen", &key]).expect(1);
    world.semel(&["proof", "crm-ticket/ok", "--key", &key, "-o", &file]).expect(0);
    let page = path(&world, "proof.html");
    world.semel(&["proof", "crm-ticket/ok", "--html", &page]).expect(0);
    assert!(fs::read_to_string(&page).expect("a page").starts_with("<!DOCTYPE html>"));

    let elsewhere = tempfile::tempdir().expect("a folder");
    let verify =
        |args: &[&str]| crate::semel_in(elsewhere.path(), &[&["proof", "verify"], args].concat());
    let held = verify(&[&file, "--public-key", &public]).expect(0);
    assert!(held.stdout.contains("holds  signature"), "{}", held.stdout);
    assert_eq!(verify(&[&file, "--json"]).expect(0).json()["holds"], true);

    let other = path(&world, "other");
    world.semel(&["proof", "keygen", &other]).expect(0);
    verify(&[&file, "--public-key", &format!("{other}.pub")]).expect(1);
    let text = fs::read_to_string(&file).expect("the proof");
    fs::write(&file, text.replace("T-ok", "T-no")).expect("it is changed");
    let failed = verify(&[&file, "--public-key", &public]).expect(1);
    assert!(failed.stderr.contains("digest"), "{failed:?}");
    fs::write(&file, "{}").expect("it is changed");
    verify(&[&file]).expect(1);
}

#[test]
fn an_unsigned_proof_will_not_do_where_a_key_is_asked_for() {
    let world = World::new();
    world.put_done("ok");
    let [key, file] = ["k", "proof.json"].map(|name| path(&world, name));
    world.semel(&["proof", "keygen", &key]).expect(0);
    world.semel(&["proof", "crm-ticket/ok", "-o", &file]).expect(0);
    let held = world.semel(&["proof", "verify", &file]).expect(0);
    assert!(held.stdout.contains("anybody may have made it"), "{}", held.stdout);
    world.semel(&["proof", "verify", &file, "--public-key", &format!("{key}.pub")]).expect(1);
}

#[test]
fn a_private_key_that_others_may_read_is_refused() {
    let world = World::new();
    world.put_done("ok");
    let key = path(&world, "k");
    world.semel(&["proof", "keygen", &key]).expect(0);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("it is opened up");
    let refused = world.semel(&["proof", "crm-ticket/ok", "--key", &key]).expect(1);
    assert!(refused.stderr.contains("chmod 600"), "{refused:?}");
    let public = format!("{key}.pub");
    world.semel(&["proof", "crm-ticket/ok", "--key", &public]).expect(1);
}

#[test]
fn a_row_that_was_changed_proves_nothing() {
    let world = World::new();
    world.put_done("ok");
    tamper(&world, "UPDATE effects SET record = replace(record, 'T-ok', 'T-no')");
    let broken = world.semel(&["proof", "crm-ticket/ok"]).expect(1);
    assert!(broken.stderr.contains("store_corrupt"), "{broken:?}");
}

#[test]
fn a_row_with_the_record_of_another_proves_nothing() {
    let world = World::new();
    for key in ["ok", "other"] {
        world.put_done(key);
    }
    let other = "SELECT record, sum FROM effects WHERE key = 'other'";
    tamper(&world, &format!("UPDATE effects SET (record, sum) = ({other}) WHERE key = 'ok'"));
    let broken = world.semel(&["proof", "crm-ticket/ok"]).expect(1);
    assert!(broken.stderr.contains("has the record of"), "{broken:?}");
}

#[test]
fn a_journal_that_was_changed_is_told_with_where_it_breaks() {
    let world = with_runs();
    let whole = world.semel(&["proof", "add/e-1", "--json"]).expect(0).json();
    assert_eq!(
        (whole["proof"]["statement"]["about"].as_str(), finding(&whole)),
        (Some("run"), "done")
    );
    // What waits for a doubt proves no more than that.
    assert_eq!(
        finding(&world.semel(&["proof", "doubtful/e-1", "--json"]).expect(5).json()),
        "in_doubt"
    );
    tamper(&world, "UPDATE journal SET entry = replace(entry, '[1, 2]', '[1, 3]')");
    let broken = world.semel(&["proof", "add/e-1"]).expect(1);
    assert!(broken.stdout.contains("BROKEN after 0 entries: entry 0"), "{}", broken.stdout);
    assert!(broken.stderr.contains("store_corrupt"), "{broken:?}");
}

#[test]
fn req_v4_repeats_of_other_processes_are_in_the_proof() {
    let world = World::new();
    world.put_done("ok");
    world.sdk(async |semel| {
        for _ in 0..3 {
            let says = Ok(crate::receipt("ok"));
            let settle = std::time::Duration::from_millis(1);
            crate::call(&semel, "ok", settle, says).await.expect("the first receipt");
        }
        let proof = semel.proof("crm-ticket", ["ok"]).await.expect("a proof");
        assert_eq!(proof.finding(), semel::Finding::Done);
    });
    let proof = world.semel(&["proof", "crm-ticket/ok", "--json"]).expect(0).json();
    let repeats = &proof["proof"]["statement"]["effects"][0]["repeats"];
    assert_eq!((&repeats[0]["door"], &repeats[0]["at_least"]), (&"call".into(), &3.into()));
}
