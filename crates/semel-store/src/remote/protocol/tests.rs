//! What goes over the wire comes back as it was, and what is none is refused.

use semel_core::effect::{Ground, Quarantine, Rows};
use semel_core::journal::Link;
use semel_core::limits;
use semel_core::time::{Moment, Steady, Wall};

use super::*;
use crate::conformance::{
    address, appends, armed, card, delivery, done, drop_card, finished, new_run, parked, queued,
    taken,
};
use crate::{Batch, Row, RunRow, Write};

fn ground() -> Ground {
    let steady = Steady { boot: 3, ms: 60_000 };
    let now = Moment { wall: Wall(1_790_000_000_000), steady, wall_is_behind: true };
    let quarantine =
        Some(Quarantine { opened: Wall(1), recovered: Wall(2), rows: Rows::MayHaveStayed });
    Ground { now, epoch: 9, quarantine }
}

/// One write of each kind, and rows in each of the states that they may be in.
fn writes() -> Vec<Write> {
    let ground = ground();
    let address = address("mail", "a,%25\u{e9}");
    let first = Row::new(&armed(&address, "1", &ground), &ground.now);
    let settled = done(&armed(&address, "1", &ground), "{\"n\": 1.50}", &ground);
    let start = new_run("k\"\\", i64::MIN, &ground);
    let held = taken(&start, &ground);
    let rows = [&held, &parked(&held, Some(5), &ground), &queued(&held, "mail")];
    let mut writes = vec![
        Write::InEpoch(4),
        Write::Insert(first),
        Write::Update(Row::new(&settled, &ground.now)),
        Write::Remove { address, generation: 2, version: 7 },
        Write::StartRun(RunRow::new(&start, &ground.now)),
        Write::Holds { run: 1, fence: 2, seq: 3, link: Link([0xa5; 32]) },
        Write::Deliver(delivery(&start, "d", "{}")),
        Write::Consume { run: 1, identity: "d".into() },
        Write::Touch { namespace: "n".into(), id: "i".into(), at: ground.now.steady },
        Write::Card(card("gate", "mail")),
        Write::Card(crate::Card { due: Some(Wall(-1)), ..card("schedule", "s") }),
        drop_card(&card("gate", "mail")),
    ];
    writes.extend(rows.map(|run| Write::UpdateRun(RunRow::new(run, &ground.now))));
    writes.extend(appends(&start, &["one", "\u{1}two"]).into_iter().map(Write::Append));
    let end = finished(&held, &ground);
    for row in [None, Some(RunRow::new(&end, &ground.now))] {
        let (namespace, id) = (end.namespace.clone(), end.id.clone());
        writes.push(Write::DropRun { namespace, id, number: end.number, version: 3, row });
    }
    let (namespace, digest, text) = ("n".into(), "d".into(), "\u{1f600} large".into());
    writes.push(Write::Blob { namespace, digest, text, run: 1 });
    writes
}

#[test]
fn every_kind_of_write_comes_back_as_it_was_written() {
    let writes = writes();
    let kinds: std::collections::HashSet<_> = writes.iter().map(std::mem::discriminant).collect();
    assert_eq!(kinds.len(), 15, "one of each kind");
    for write in &writes {
        let batch = Batch::from(write.clone());
        assert_eq!(WriteShape::decode(&WriteShape::encode(&batch), &ground().now), Ok(batch));
    }
    let batch = Batch { writes: writes.into() };
    assert_eq!(WriteShape::decode(&WriteShape::encode(&batch), &ground().now), Ok(batch));
}

#[test]
fn sec_45_a_zero_byte_is_refused_wherever_it_stands() {
    let mut run = new_run("k", 1, &ground());
    run.id = "a\0b".into();
    let zero = || "\0".to_owned();
    let card = |kind: &str, name: &str, record: &str| {
        Write::Card(crate::Card { record: record.into(), ..card(kind, name) })
    };
    let writes = [
        card("gate", "\0", ""),
        card("\0", "g", ""),
        card("gate", "g", "\0"),
        Write::StartRun(RunRow::new(&run, &ground().now)),
        Write::Deliver(delivery(&new_run("k", 1, &ground()), "\0", "1")),
        Write::Consume { run: 1, identity: zero() },
        Write::Blob { namespace: "n".into(), digest: "d".into(), text: zero(), run: 1 },
        Write::Append(appends(&new_run("k", 1, &ground()), &["\0"])[0].clone()),
    ];
    for write in writes {
        let refused =
            WriteShape::decode(&WriteShape::encode(&Batch::from(write.clone())), &ground().now);
        assert_eq!(refused, Err(Malformed("a text has a zero byte".into())), "{write:?}");
    }
}

#[test]
fn every_result_and_error_comes_back_by_its_code() {
    let ground = ground();
    let effect = armed(&address("mail", "k"), "1", &ground);
    let text = || "why".to_owned();
    let errors = [
        StoreError::Unavailable(text()),
        StoreError::Busy(text()),
        StoreError::Full(text()),
        StoreError::Corrupt(text()),
        StoreError::Refused(Code::Forbidden, text()),
    ];
    let mut results: Vec<Result<(), CommitError>> = vec![
        Ok(()),
        Err(CommitError::Stale(vec![])),
        Err(CommitError::Stale(vec![None, Some(effect)])),
        Err(CommitError::Unknown),
    ];
    results.extend(errors.map(|error| Err(error.into())));
    for result in results {
        let text = serde_json::to_string(&ResultShape::from(result.clone())).expect("plain data");
        let shape: ResultShape = serde_json::from_str(&text).expect("what was written");
        assert_eq!(Result::from(shape), result);
    }
    for error in [StoreError::Newer { found: 9, known: 8 }, StoreError::Missing(text())] {
        let read = StoreError::from(ErrorShape::from(&error));
        assert_eq!((read.code(), read.to_string()), (error.code(), error.to_string()));
    }
    let newer = ErrorShape { code: "of_tomorrow".into(), detail: text() };
    assert_eq!(StoreError::from(newer).to_string(), "of_tomorrow: why");
}

#[test]
fn the_ground_comes_back() {
    for ground in [ground(), Ground { quarantine: None, ..ground() }] {
        let text = serde_json::to_string(&GroundShape::from(ground)).expect("plain data");
        let shape: GroundShape = serde_json::from_str(&text).expect("what was written");
        assert_eq!(Ground::from(shape), ground);
    }
}

#[test]
fn what_no_store_may_be_handed_is_refused() {
    let ground = ground();
    let run = new_run("k", 1, &ground);
    let stone = Write::DropRun {
        namespace: "other".into(),
        id: run.id.clone(),
        number: 1,
        version: 1,
        row: Some(RunRow::new(&run, &ground.now)),
    };
    let huge = Write::Holds { run: 1, fence: u64::MAX, seq: 0, link: Link([0; 32]) };
    for write in [stone, huge] {
        let text = WriteShape::encode(&write.into());
        assert!(WriteShape::decode(&text, &ground.now).is_err(), "{text}");
    }
    let many = vec!["{\"in_epoch\":0}"; limits::BATCH_WRITES_MAX + 1].join(",");
    assert!(WriteShape::decode(&format!("[{many}]"), &ground.now).is_err());
    for text in [
        "",
        "{}",
        "[{}]",
        "[\"insert\"]",
        r#"[{"wipe":1}]"#,
        r#"[{"in_epoch":-1}]"#,
        r#"[{"insert":{"record":"{}","state":"done","alarmed":false,"held":false}}]"#,
        r#"[{"remove":{"address":["a~b","c","d"],"generation":1,"version":1}}]"#,
        r#"[{"holds":{"run":1,"fence":1,"seq":1,"link":"zz"}}]"#,
    ] {
        assert!(WriteShape::decode(text, &ground.now).is_err(), "{text}");
    }
}

#[test]
fn sec_6_the_columns_of_a_row_are_derived_by_whoever_reads_it() {
    let ground = ground();
    let long_ago = Steady { boot: ground.now.steady.boot, ms: -1 };
    let effect = armed(&address("mail", "k"), "1", &ground);
    let honest = Row::new(&effect, &ground.now);
    let forged = Row {
        state: semel_core::effect::State::Done,
        due: Some(long_ago),
        sweep_at: Some(Wall(0)),
        alarmed: true,
        held: true,
        ..honest.clone()
    };
    let run = new_run("k", 1, &ground);
    let row = RunRow::new(&run, &ground.now);
    let late = RunRow { wake_at: Some(long_ago), ..row.clone() };
    let touch = |at| Write::Touch { namespace: "n".into(), id: "i".into(), at };
    for (sent, read) in [
        (Write::Insert(forged.clone()), Write::Insert(honest.clone())),
        (Write::Update(forged), Write::Update(honest)),
        (Write::StartRun(late.clone()), Write::StartRun(row.clone())),
        (Write::UpdateRun(late), Write::UpdateRun(row)),
        (touch(long_ago), touch(ground.now.steady)),
    ] {
        let text = WriteShape::encode(&Batch::from(sent));
        assert_eq!(WriteShape::decode(&text, &ground.now), Ok(Batch::from(read)));
    }
}
