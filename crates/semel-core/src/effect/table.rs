//! Every situation times every wish, as data. The test compares it with what the rules answer, and
//! draws `docs/machines/effect.md` from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::State;
use super::testing::Desk;

/// How a key got into each situation. The name begins with the state.
const SITUATIONS: &[(&str, &str, &str)] = &[
    ("absent once", "at_most_once", ""),
    ("absent native", "native_key", ""),
    ("absent conditional", "conditional", ""),
    ("absent probe", "probe", ""),
    ("absent probe_first", "probe_first", ""),
    ("absent harmless", "harmless", ""),
    ("planned once", "at_most_once", "begin; not_applied 1"),
    ("planned native", "native_key", "begin; not_applied 1"),
    ("planned conditional", "conditional", "begin; not_applied 1"),
    ("planned probe", "probe", "begin; not_applied 1"),
    ("planned probe_first", "probe_first", "begin; not_applied 1"),
    ("planned harmless", "harmless", "begin; not_applied 1"),
    ("planned waiting", "native_key", "begin; not_applied 1 after=5s"),
    ("planned exhausted", "native_key attempts=1", "begin; not_applied 1"),
    ("planned generation", "native_key", "begin; receipt 1 \"0\"; supersede"),
    ("planned intended", "native_key", "intend"),
    ("planned held", "native_key", "begin ask"),
    ("planned expiring", "native_key", "begin expires=10s"),
    ("planned approved", "native_key", "begin ask; approve"),
    ("pending once", "at_most_once", "begin; wait 1s"),
    ("pending native", "native_key", "begin; wait 1s"),
    ("pending second", "native_key", "begin; unknown 1; begin; wait 1s"),
    ("pending look", "probe", "begin; unknown 1; wait 2m; begin; wait 1s"),
    (
        "pending overdue",
        "native_key",
        "begin; wait 29s; renew_endless 1; wait 29s; \
      renew_endless 1; wait 10s",
    ),
    ("done worker", "at_most_once", "begin; receipt 1 \"0\""),
    ("done late", "native_key", "begin; wait 30s; begin; receipt 1 \"0\""),
    ("done person", "at_most_once", "begin; unknown 1; done \"0\""),
    ("failed proof", "at_most_once", "begin; refused 1"),
    ("failed person", "at_most_once", "begin; unknown 1; failed"),
    ("failed denied", "native_key", "begin ask; deny"),
    ("failed returned", "native_key", "begin ask; return"),
    ("failed unanswered", "native_key", "begin expires=10s; wait 10s; lapse"),
    ("failed disputed", "at_most_once", "begin; unknown 1; failed; receipt 1 \"0\""),
    ("in_doubt once early", "at_most_once", "begin; unknown 1"),
    ("in_doubt once late", "at_most_once", "begin; unknown 1; wait 2m"),
    ("in_doubt once lapsed", "at_most_once", "begin; wait 30s"),
    ("in_doubt native fresh", "native_key", "begin; unknown 1"),
    ("in_doubt native horizon", "native_key", "begin; unknown 1; wait 58m"),
    ("in_doubt native keyless", "native_key", "begin; unknown 1 key_not_used; wait 2m"),
    ("in_doubt conditional cut", "conditional", "begin; unknown 1; wait 2m"),
    ("in_doubt conditional exists", "conditional", "begin; unknown 1; begin; refused 2"),
    ("in_doubt probe early", "probe", "begin; unknown 1"),
    ("in_doubt probe late", "probe", "begin; unknown 1; wait 2m"),
    ("in_doubt harmless", "harmless", "begin; unknown 1; wait 2m"),
    ("in_doubt imported", "at_most_once", "import pending"),
    ("void looked", "probe_first", "begin; not_applied 1; void"),
    ("void generation", "native_key", "begin; receipt 1 \"0\"; supersede; void"),
    ("void intended", "native_key", "intend; void"),
    ("void held", "native_key", "begin ask; void"),
    ("expired done", "native_key", "begin; receipt 1 \"0\"; wait 30d; sweep"),
];

/// The wishes that make sense without a row.
const FOR_ABSENT: [&str; 6] =
    ["begin", "begin asking", "begin look", "begin, quarantine", "begin, clock behind", "intend"];

/// All wishes; the file says how it is read.
const TABLE: &str = include_str!("table.txt");

struct Wish {
    name: String,
    story: String,
    /// Patterns and their answer.
    answers: Vec<(Vec<String>, String)>,
}

fn wishes() -> Vec<Wish> {
    let mut wishes: Vec<Wish> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if let Some((patterns, answer)) = line.strip_prefix("  ").and_then(|l| l.split_once("->")) {
            let patterns = patterns.split('|').map(|pattern| pattern.trim().to_owned());
            let answers = &mut wishes.last_mut().expect("a wish comes first").answers;
            answers.push((patterns.collect(), answer.trim().to_owned()));
        } else {
            let (name, story) = line.split_once('=').expect("name = story");
            let (name, story) = (name.trim().to_owned(), story.trim().to_owned());
            wishes.push(Wish { name, story, answers: Vec::new() });
        }
    }
    wishes
}

fn fits(pattern: &str, situation: &str) -> bool {
    let is_prefix = situation.strip_prefix(pattern).is_some_and(|rest| rest.starts_with(' '));
    pattern == "*" || pattern == situation || is_prefix
}

/// One row of the drawn page.
struct Seen {
    situation: &'static str,
    /// The situation's state.
    before: &'static str,
    wish: String,
    answer: String,
    from: &'static str,
    to: &'static str,
}

/// Plays every situation and every wish.
fn play_all() -> Vec<Seen> {
    let mut seen = Vec::new();
    for (situation, terms, story) in SITUATIONS {
        let mut desk = Desk::new(terms);
        for line in story.split(';').map(str::trim).filter(|line| !line.is_empty()) {
            let answer = desk.run(line);
            assert!(!answer.starts_with('!'), "{situation}: `{line}` was refused: {answer}");
        }
        let before = desk.state();
        assert!(fits(before, situation), "{situation} is {before}");
        for wish in wishes() {
            if before == "absent" && !FOR_ABSENT.contains(&wish.name.as_str()) {
                continue;
            }
            let mut desk = desk.clone();
            let (first, last) = wish.story.rsplit_once(';').unwrap_or(("", &wish.story));
            for line in first.split(';').filter(|line| !line.is_empty()) {
                desk.run(line.trim());
            }
            // An arrow starts where the wish itself begins, unless the wish is that time passes.
            let from = if last.trim() == "state" { before } else { desk.state() };
            let answer = without_number(&desk.run(last.trim()));
            let to = desk.state();
            seen.push(Seen { situation, before, wish: wish.name, answer, from, to });
        }
    }
    seen
}

/// `send 2` is `send`: which number it is belongs to the situation.
fn without_number(answer: &str) -> String {
    match answer.rsplit_once(' ') {
        Some((kind, number)) if kind.ends_with("send") || kind.ends_with("look") => {
            assert!(number.parse::<u32>().is_ok(), "{answer}");
            kind.to_owned()
        }
        Some(_) | None => answer.to_owned(),
    }
}

#[test]
fn every_situation_answers_every_wish_as_the_table_says() {
    let wishes = wishes();
    let mut used = BTreeSet::new();
    let mut wrong = String::new();
    for Seen { situation, wish, answer, .. } in play_all() {
        let wish = wishes.iter().find(|one| one.name == wish).expect("played from the table");
        let fitting = wish
            .answers
            .iter()
            .enumerate()
            .find(|(_, (patterns, _))| patterns.iter().any(|pattern| fits(pattern, situation)));
        let want = fitting.map_or("(no row)", |(_, (_, want))| want);
        if let Some((index, _)) = fitting {
            used.insert((wish.name.clone(), index));
        }
        if want != answer {
            writeln!(wrong, "{}: {situation} -> {answer}   (want {want})", wish.name).unwrap();
        }
    }
    for wish in &wishes {
        for (index, (patterns, _)) in wish.answers.iter().enumerate() {
            if !used.contains(&(wish.name.clone(), index)) {
                writeln!(wrong, "{}: no situation fits {patterns:?}", wish.name).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_state_is_among_the_situations() {
    for state in State::ALL {
        let found = SITUATIONS.iter().any(|(name, ..)| fits(state.as_str(), name));
        assert!(found, "{state}");
    }
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machines/effect.md");

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test holds a committed page against the rules, and rewrites it when asked"
)]
fn the_committed_page_shows_what_the_rules_do() {
    let page = draw(&play_all());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        committed == page,
        "docs/machines/effect.md is stale: run `UPDATE_DOCS=1 cargo test -p semel-core table`"
    );
}

const INTRO: &str = "\
# The effect machine

Drawn by `crates/semel-core/src/effect/table.rs` from what the rules answer; do not edit.
`UPDATE_DOCS=1 cargo test -p semel-core table` draws it anew.

The state is derived from attempts and decisions, never set. The arrows below are all that were seen
when every situation of the table met every wish. A refused wish changes nothing.

";

/// The page: a diagram of the arrows, then state times wish.
fn draw(seen: &[Seen]) -> String {
    let mut page = String::from(INTRO);
    page.push_str("```mermaid\nstateDiagram-v2\n");
    let mut arrows: BTreeMap<(usize, usize), BTreeSet<&str>> = BTreeMap::new();
    for one in seen.iter().filter(|one| one.from != one.to) {
        arrows.entry((place(one.from), place(one.to))).or_default().insert(label(&one.wish));
    }
    for ((from, to), labels) in &arrows {
        let labels: Vec<&str> = labels.iter().copied().collect();
        let (from, to) = (node(*from), node(*to));
        writeln!(page, "    {from} --> {to}: {}", labels.join(", ")).unwrap();
    }
    page.push_str("```\n");
    for state in std::iter::once("absent").chain(State::ALL.map(State::as_str)) {
        writeln!(page, "\n## {state}\n").unwrap();
        let names = SITUATIONS.iter().filter(|(name, ..)| fits(state, name));
        for (name, terms, story) in names {
            let story = if story.is_empty() { "nothing yet" } else { story };
            writeln!(page, "- *{name}* (`{terms}`): {story}").unwrap();
        }
        page.push_str("\n| wish | answer | in |\n|---|---|---|\n");
        let rows: Vec<_> = seen.iter().filter(|one| one.before == state).collect();
        draw_rows(&rows, &mut page);
    }
    page
}

fn draw_rows(rows: &[&Seen], page: &mut String) {
    for wish in wishes() {
        let mut answers: Vec<(&str, Vec<&str>)> = Vec::new();
        for one in rows.iter().filter(|one| one.wish == wish.name) {
            let name = one.situation.split_once(' ').map_or("", |(_, name)| name);
            match answers.iter_mut().find(|(answer, _)| *answer == one.answer) {
                Some((_, names)) => names.push(name),
                None => answers.push((&one.answer, vec![name])),
            }
        }
        let all = answers.len() == 1;
        for (answer, names) in answers {
            let names = if all { "all".to_owned() } else { names.join(", ") };
            let answer = answer
                .strip_prefix("! ")
                .map_or_else(|| answer.to_owned(), |code| format!("refused: `{code}`"));
            writeln!(page, "| {} | {answer} | {names} |", wish.name).unwrap();
        }
    }
}

/// The wish without its circumstances.
fn label(wish: &str) -> &str {
    ["begin", "receipt"]
        .into_iter()
        .find(|word| wish.starts_with(word))
        .unwrap_or_else(|| wish.split(',').next().unwrap_or_default())
}

fn place(state: &str) -> usize {
    State::ALL.iter().position(|one| one.as_str() == state).map_or(0, |index| index + 1)
}

fn node(place: usize) -> &'static str {
    place.checked_sub(1).map_or("[*]", |index| State::ALL[index].as_str())
}
