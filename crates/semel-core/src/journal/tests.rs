use super::*;

fn texts() -> Vec<String> {
    let at = At(Wall(7), Steady { boot: 1, ms: 9 });
    let started = Event::Started {
        workflow: "triage".into(),
        input: Value::Json(Json::from_text("{\"n\": 1.0}").unwrap()),
    };
    let taken = Event::Taken { fence: 1, worker: "w".into(), release: "1".into(), hears: false };
    let fired = Event::Fired { id: "sleep#0".into(), what: "sleep 1s".into() };
    [started, taken, fired]
        .into_iter()
        .map(|event| encode(&Entry { format: FORMAT, at, event }))
        .collect()
}

fn chain() -> Vec<(u64, Link, String)> {
    let mut link = Link::of_run("default", "r");
    let mut chain = Vec::new();
    for (seq, text) in texts().into_iter().enumerate() {
        link = link.then(&text);
        chain.push((seq as u64, link, text));
    }
    chain
}

fn check(chain: &[(u64, Link, String)]) -> Result<Link, String> {
    let entries = chain.iter().map(|(seq, link, text)| (*seq, *link, text.as_str()));
    check_chain(Link::of_run("default", "r"), entries)
}

#[test]
fn entries_read_back_byte_for_byte() {
    for text in texts() {
        assert_eq!(decode(&text).map(|entry| encode(&entry)), Ok(text));
    }
    assert!(texts()[0].contains("{\"n\": 1.0}"), "{}", texts()[0]);
}

/// The stored form is frozen: an entry of today must be readable for ever.
#[test]
fn the_form_at_rest_is_frozen() {
    let head = r#"{"v":1,"at":[7,{"boot":1,"ms":9}],"event":"#;
    let event = r#"{"fired":{"id":"sleep#0","what":"sleep 1s"}}}"#;
    assert_eq!(texts()[2], format!("{head}{event}"));
    let last = check(&chain()).unwrap();
    assert_eq!(format!("{:02x}{:02x}", last.0[0], last.0[1]), "c71c");
}

fn step_failed(raised: Option<Box<Raised>>) -> String {
    let at = At(Wall(7), Steady { boot: 1, ms: 9 });
    let fault = Fault::new(Code::StepFailed, "no").with(raised);
    let (id, what) = ("a#0".into(), "step".into());
    let event = Event::StepFailed { id, what, attempt: 1, fault, retry_at: None };
    encode(&Entry { format: FORMAT, at, event })
}

fn raised() -> Raised {
    let (kind, trace) = ("shop.errors:NoStock".into(), "line 1\nline 2".into());
    Raised { kind, args: Some(Json::from_text("[ 7.0]").unwrap()), trace }
}

/// Journals from before exceptions were kept have no such member, and get none.
#[test]
fn an_exception_is_a_member_that_may_be_missing() {
    let head = r#"{"v":1,"at":[7,{"boot":1,"ms":9}],"event":{"step_failed":{"id":"a#0","#;
    let fault = r#""what":"step","attempt":1,"fault":{"code":"step_failed","detail":"no""#;
    let kept = r#","raised":{"kind":"shop.errors:NoStock","args":[ 7.0],"trace":"line 1\nline 2"}"#;
    let tail = r#"},"retry_at":null}}}"#;
    for (entry, member) in [(None, ""), (Some(Box::new(raised())), kept)] {
        let text = format!("{head}{fault}{member}{tail}");
        assert_eq!(step_failed(entry.clone()), text);
        let read = decode(&text).unwrap();
        assert_eq!(read.event.fault().unwrap().raised, entry);
        assert_eq!(encode(&read), text);
    }
}

#[test]
fn of_a_long_trace_the_end_is_kept_and_of_large_args_nothing() {
    let sized = |kind: usize, args: usize, trace: &str| {
        let args = Some(Json::of(&"x".repeat(args - 2)).unwrap());
        Raised { kind: "k".repeat(kind), args, trace: trace.to_owned() }
    };
    let (kind, args) = (limits::RAISED_KIND_BYTES_MAX, limits::RAISED_ARGS_BYTES_MAX);
    let trace = format!("{}last", "x".repeat(limits::RAISED_TRACE_BYTES_MAX - 4));
    let most = sized(kind, args, &trace);
    assert_eq!(most.clone().bounded(), most, "the limits themselves pass");
    let longer = sized(kind, args, &format!("first{trace}")).bounded();
    assert_eq!(longer, most);
    assert_eq!(sized(kind, args + 1, &trace).bounded(), Raised { args: None, ..most.clone() });
    // Cut, it names another class, of which these are not the arguments.
    assert_eq!(sized(kind + 1, args, &trace).bounded(), Raised { args: None, ..most });
    let umlauts = sized(1, 2, &format!("{}x", "ä".repeat(limits::RAISED_TRACE_BYTES_MAX)));
    let cut = umlauts.bounded().trace;
    assert!(cut.len() <= limits::RAISED_TRACE_BYTES_MAX && cut.ends_with("äx"), "{}", cut.len());
}

#[test]
fn a_newer_entry_is_refused() {
    let newer = texts()[2].replacen("\"v\":1", "\"v\":2", 1);
    assert!(decode(&newer).unwrap_err().contains("format 2"));
    assert!(decode("{}").is_err());
}

#[test]
fn inv_i11_editing_dropping_or_swapping_an_entry_breaks_the_chain() {
    assert!(check(&chain()).is_ok());
    for place in 0..3 {
        let mut edited = chain();
        edited[place].2 = edited[place].2.replacen("7", "8", 1);
        assert!(check(&edited).is_err(), "edit {place}");
        let mut dropped = chain();
        dropped.remove(place);
        assert_eq!(check(&dropped).is_err(), place < 2, "drop {place}");
    }
    let mut swapped = chain();
    swapped.swap(1, 2);
    assert!(check(&swapped).is_err());
    let entries = chain();
    let entries = entries.iter().map(|(seq, link, text)| (*seq, *link, text.as_str()));
    assert!(check_chain(Link::of_run("default", "other"), entries).is_err());
}

#[test]
fn a_due_time_counts_on_the_steady_clock_and_after_a_reboot_on_the_wall() {
    let due = At(Wall(1_000), Steady { boot: 1, ms: 50 }).plus(100);
    let now = |wall, boot, ms| Moment {
        wall: Wall(wall),
        steady: Steady { boot, ms },
        wall_is_behind: false,
    };
    assert!(!due.is_reached(&now(9_999, 1, 149)), "a wall clock that jumps fires nothing");
    assert!(due.is_reached(&now(0, 1, 150)));
    assert!(!due.is_reached(&now(1_099, 2, 9_999)));
    assert!(due.is_reached(&now(1_100, 2, 0)));
    assert_eq!(due.on_steady(&now(1_000, 2, 7)), Steady { boot: 2, ms: 107 });
    assert_eq!(due.elapsed_ms(&now(9_999, 1, 151)), 1);
    assert_eq!(due.elapsed_ms(&now(1_102, 2, 9_999)), 2);
    assert_eq!(due.elapsed_ms(&now(0, 2, 0)), 0);
}
