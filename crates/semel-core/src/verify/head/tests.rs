//! Heads: read back whole or refused; what a row may have become since, and what not.

use super::*;
use crate::effect::testing::Desk;

fn lines() -> Vec<Line> {
    let store = StoreLine {
        format: FORMAT,
        store: "s".into(),
        epoch: 0,
        commits: Some(7),
        wall_high: Wall(9),
        at: Wall(10),
    };
    let end = audit::End { seq: 3, hash: "ab".into() };
    vec![
        Line::Store(store),
        Line::Audit { namespace: "default".into(), end },
        Line::Return { epoch: 1, closed: true },
    ]
}

fn text() -> String {
    let mut writer = Writer::default();
    let mut text: String = lines().iter().map(|line| writer.line(line)).collect();
    text.push_str(&writer.end());
    text
}

fn read(text: &str) -> Result<Vec<Line>, String> {
    let mut reader = Reader::default();
    let read = text.lines().map(|line| reader.line(line)).collect::<Result<Vec<_>, _>>()?;
    reader.finish().map(|()| read)
}

#[test]
fn inv_i22_a_head_is_read_back_whole_or_refused() {
    let whole = text();
    let found = read(&whole).expect("whole");
    assert_eq!(found[..3], lines()[..]);
    for cut in 0..whole.lines().count() {
        let shorter: Vec<&str> = whole.lines().take(cut).collect();
        assert!(read(&shorter.join("\n")).is_err(), "cut after {cut} lines");
        let without: Vec<&str> =
            whole.lines().enumerate().filter(|(at, _)| *at != cut).map(|(_, line)| line).collect();
        assert!(read(&without.join("\n")).is_err(), "without line {cut}");
    }
    assert!(read(&format!("{whole}{}", whole.lines().next().unwrap())).is_err(), "more behind it");
    for place in 0..whole.len() {
        let mut bytes = whole.clone().into_bytes();
        if bytes[place] == b'\n' {
            continue;
        }
        bytes[place] ^= 1;
        let changed = String::from_utf8(bytes).expect("it was ASCII");
        assert!(read(&changed).is_err(), "byte {place} of {whole}");
    }
    let newer = whole.replace("\"format\":1", "\"format\":2");
    assert_eq!(read(&newer), Err("it has format 2, this Semel knows 1".into()));
}

fn effect_line() -> (EffectLine, Effect) {
    let mut desk = Desk::new("at_most_once window=1h");
    desk.run("begin");
    desk.run(r#"receipt 1 "ticket-7""#);
    assert_eq!(desk.state(), "done");
    let effect = desk.effect().expect("it is there").clone();
    let line = EffectLine::of(&effect, "r".into(), Wall(5));
    (line, effect)
}

#[test]
fn inv_i22_an_effect_that_was_deleted_put_back_or_given_another_receipt_is_found() {
    let (line, effect) = effect_line();
    let soon = effect.created.plus(1_000);
    assert_eq!(line.problem(Some((&effect, "r")), soon), None);
    assert_eq!(line.problem(None, soon).as_deref(), Some("it was deleted"));
    assert_eq!(line.problem(None, line.gone_after), None, "its tombstone may be gone by now");
    let older = Effect { version: effect.version - 1, ..effect.clone() };
    assert!(line.problem(Some((&older, "x")), soon).expect("older").contains("went back"));
    let changed = line.problem(Some((&effect, "x")), soon).expect("changed");
    assert!(changed.contains("changed afterwards"), "{changed}");
    let bare = Effect { version: effect.version + 1, attempts: Vec::new(), ..effect.clone() };
    assert!(line.problem(Some((&bare, "y")), soon).expect("bare").contains("receipt"));
    let tombstone = Effect { expired: Some(line.kept_until), ..bare };
    assert!(line.problem(Some((&tombstone, "y")), soon).is_some(), "before its window is over");
    assert_eq!(line.problem(Some((&tombstone, "y")), line.kept_until), None);
}

#[test]
fn a_superseded_generation_may_go_with_the_newest_of_its_key() {
    let (line, effect) = effect_line();
    let old = Effect { superseded: Some(effect.created), ..effect.clone() };
    let old = EffectLine::of(&old, "r".into(), Wall(5));
    assert_eq!(old.gone_after, effect.created.plus(limits::TOMBSTONE_MS));
    assert!(old.gone_after < line.gone_after);
}

#[test]
fn cards_that_come_and_go_may_be_gone_when_they_are_due() {
    let card = |kind: &str, due: Option<i64>| {
        CardLine::of(("default", kind, "n"), (2, due.map(Wall), "{}"), Wall(5))
    };
    assert_eq!(card("callback", Some(9)).gone_after, Wall(9));
    assert_eq!(card("gate", None).gone_after, Wall(i64::MAX));
    let gate = card("gate", None);
    assert_eq!(gate.problem(Some((2, "{}")), Wall(6)), None);
    assert_eq!(gate.problem(Some((3, "{1}")), Wall(6)), None, "it moved on");
    assert!(gate.problem(Some((2, "{1}")), Wall(6)).is_some());
    assert!(gate.problem(Some((1, "{}")), Wall(6)).is_some());
    assert!(gate.problem(None, Wall(6)).is_some());
}
