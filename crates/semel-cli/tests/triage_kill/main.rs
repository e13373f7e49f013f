//! The example workflow, killed before and after every commit and every word on the wire. After
//! each kill two workers go on at once; the destinations' own files say what the customer got.

#![expect(clippy::print_stdout, reason = "each point is printed with its outcome")]

#[path = "../common/mod.rs"]
mod common;
mod ledger;
mod stage;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use semel_core::effect::State;

use ledger::Ledger;
use stage::{Case, Servers};

/// Points at a time: most of a point's time is waiting.
const THREADS: usize = 6;
/// Fewer mean that the worker did not tell of all.
const POINTS_MIN: usize = 28;

/// What the contracts promise for a kill at one point.
struct Promise {
    model_calls: usize,
    crm_arrivals: usize,
    /// The mail is in doubt, and the mail server has so many.
    doubt: Option<usize>,
}

impl Promise {
    fn at(point: &str) -> Promise {
        // An answer of the model that was not recorded is paid for again.
        let pays_again = ["after answer 1 of the model", "before step classify"].contains(&point);
        // The same key is sent again, and the CRM answers with the first ticket.
        let sends_again = ["after answer 1 of the CRM", "before crm-ticket done"].contains(&point);
        let answer =
            point.strip_prefix("after answer ").and_then(|rest| rest.split_once(" of mail"));
        let answer: Option<u32> = answer.map(|(number, _)| number.parse().expect("a number"));
        let doubt = match (point, answer) {
            ("after ack-mail pending" | "before the call of mail", _) => Some(0),
            // The greeting, EHLO, MAIL, RCPT and DATA come first; the sixth answer accepts.
            (_, Some(1..=5)) => Some(0),
            ("before ack-mail done", _) | (_, Some(_)) => Some(1),
            (_, None) => None,
        };
        Promise {
            model_calls: 1 + usize::from(pays_again),
            crm_arrivals: 1 + usize::from(sends_again),
            doubt,
        }
    }
}

/// Every point that a worker passes when nobody kills it.
fn points(servers: &Servers) -> Vec<String> {
    let case = Case::new(servers, "nowhere");
    let mut worker = case.worker(Some("nowhere"));
    assert_eq!(worker.end(), Some(0), "{}", worker.words());
    check(&case, &Promise { model_calls: 1, crm_arrivals: 1, doubt: None }, 1);
    let mut points: Vec<String> = Vec::new();
    for point in worker.points() {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    assert!(points.len() >= POINTS_MIN, "{points:?}");
    points
}

/// Kills a worker at one point, and the next as soon as it has the run; then two at once finish.
fn play(servers: &Servers, number: usize, point: &str) -> String {
    let started = Instant::now();
    let promise = Promise::at(point);
    let case = Case::new(servers, &format!("request-{number}"));
    let mut killed = case.worker(Some(point));
    assert_eq!(killed.end(), None, "{point} was not reached: {}", killed.words());
    assert_eq!(killed.points().last().map(String::as_str), Some(point));
    // Only a take-over writes this: a run that has ended is not taken, a new one is begun with it.
    let mut second = case.worker(Some("after run running"));
    let ended = second.end();
    match point {
        // One of the two triggers may have got through before the other died.
        "before started" => assert!([None, Some(0)].contains(&ended), "{}", second.words()),
        "after effect ack-mail" => assert_eq!(ended, Some(0), "{}", second.words()),
        _ => assert_eq!(ended, None, "{point}: {}", second.words()),
    }
    let mut workers = [case.worker(None), case.worker(None)];
    if let Some(mails) = promise.doubt {
        case.until_in_doubt(&mut workers);
        assert_eq!(case.mails(), mails, "{point}: in doubt");
        case.resolve();
    }
    for worker in &mut workers {
        assert_eq!(worker.end(), Some(0), "{point}: {}", worker.words());
    }
    assert_eq!(workers[0].said(), workers[1].said(), "{point}: both got one outcome of one run");
    // Two that died and one that finished; with a doubt the run is let go and taken up in between.
    let takes = check(&case, &promise, 3 + 3 * usize::from(promise.doubt.is_some()));
    let doubt = match promise.doubt {
        None => "",
        Some(0) => ", in doubt, not there: sent again by a person's word",
        Some(_) => ", in doubt, there: settled by a person's word",
    };
    format!(
        "triage killed {point}: {} model calls, {} requests for 1 ticket, 1 mail, {takes} takes\
         {doubt}, {:.1} s",
        promise.model_calls,
        promise.crm_arrivals,
        started.elapsed().as_secs_f64()
    )
}

/// Counts what the destinations have, and looks at the run. Returns how often it was taken.
fn check(case: &Case, promise: &Promise, takes_max: usize) -> usize {
    let name = &case.request;
    assert_eq!(case.crm_arrivals(), promise.crm_arrivals, "{name}: requests at the CRM");
    assert_eq!(case.model_calls(), promise.model_calls, "{name}: model calls");
    check_end(case, takes_max)
}

/// What holds at the end wherever a worker died.
fn check_end(case: &Case, takes_max: usize) -> usize {
    let name = &case.request;
    assert_eq!(case.tickets(), 1, "{name}: tickets");
    assert_eq!(case.mails(), 1, "{name}: mails");
    let ledger = Ledger::open(&case.store());
    for action in ["crm-ticket", "ack-mail"] {
        assert_eq!(ledger.state(&case.address(action)), Some(State::Done), "{name}: {action}");
    }
    let (told, takes) = ledger.only_run();
    let want = ["started", "step", "planned", "effect", "planned", "effect", "finished"];
    assert_eq!(told, want, "{name}: the journal");
    assert!((1..=takes_max).contains(&takes), "{name}: taken {takes} times");
    let verified = case.semel(&["verify", "--json"]).expect(0).json();
    assert_eq!(verified["violations"], serde_json::json!([]), "{name}");
    takes
}

#[test]
fn req_r9_triage_killed_at_every_point_is_one_run_one_ticket_and_one_mail() {
    let started = Instant::now();
    let servers = Servers::start();
    let points = points(&servers);
    each(&points, |number, point| println!("{}", play(&servers, number, point)));
    println!("triage: {} points in {:.1} s", points.len(), started.elapsed().as_secs_f64());
}

/// Does the same for all, several at a time.
fn each<T: Sync>(all: &[T], act: impl Fn(usize, &T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(number) else { break };
                    act(number, one);
                }
            });
        }
    });
}

/// The one that recovers may die anywhere, too.
#[test]
fn slow_triage_killed_at_every_pair_of_points_is_one_run_one_ticket_and_one_mail() {
    let started = Instant::now();
    let servers = Servers::start();
    let mut firsts = points(&servers);
    // Between two answers of the mail server the ledger knows the same; two stand for all.
    let alike = [2, 3, 4, 5, 7].map(|number| format!("after answer {number} of mail"));
    firsts.retain(|point| !alike.contains(point));
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (number, first) in firsts.iter().enumerate() {
        // What lies before the first kill is replayed, and passes no point again.
        let after = firsts[number..].iter().cloned();
        let seconds = ["before", "after"].map(|side| format!("{side} run running"));
        pairs.extend(after.chain(seconds).map(|second| (first.clone(), second)));
    }
    let (reached, doubts) = (AtomicUsize::new(0), AtomicUsize::new(0));
    each(&pairs, |number, (first, second)| {
        let case = Case::new(&servers, &format!("pair-{number}"));
        let mut doubt_count = 0;
        let mut died = 0;
        for die_at in [Some(first.as_str()), Some(second.as_str()), None] {
            let mut worker = case.worker(die_at);
            let (code, doubts) = case.finish(&mut worker);
            let words = worker.words();
            assert!([None, Some(0)].contains(&code), "{first}, {second}: {words}");
            died += usize::from(code.is_none());
            doubt_count += doubts;
        }
        reached.fetch_add(usize::from(died == 2), Ordering::Relaxed);
        doubts.fetch_add(doubt_count, Ordering::Relaxed);
        let [one, other] = [Promise::at(first), Promise::at(second)];
        let most = |count: fn(&Promise) -> usize| 1..count(&one) + count(&other);
        assert!(most(|p| p.model_calls).contains(&case.model_calls()), "{first}, {second}");
        assert!(most(|p| p.crm_arrivals).contains(&case.crm_arrivals()), "{first}, {second}");
        check_end(&case, 3 + 3 * doubt_count);
    });
    // The others end before their second point: the run was over, or had not begun.
    let reached = reached.into_inner();
    assert!(reached * 10 >= pairs.len() * 9, "only {reached} of {} had two kills", pairs.len());
    println!(
        "triage: {} pairs of points, {reached} with two kills, {} doubts, {:.1} s",
        pairs.len(),
        doubts.into_inner(),
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn req_m2_a_model_call_that_was_recorded_is_not_paid_for_again() {
    println!("{}", play(&Servers::start(), 0, "after step classify"));
}

#[test]
fn req_l2_a_receipt_that_was_recorded_is_replayed_without_a_call() {
    println!("{}", play(&Servers::start(), 0, "after crm-ticket done"));
}

/// The run is parked: its worker dies, a person decides, and whoever comes next finishes it.
#[test]
fn a_run_that_waits_for_a_person_needs_no_worker_meanwhile() {
    let servers = Servers::start();
    for (request, point, mails) in
        [("there", "after answer 6 of mail", 1), ("not-there", "before the call of mail", 0)]
    {
        let case = Case::new(&servers, request);
        assert_eq!(case.worker(Some(point)).end(), None, "{request}");
        let mut parked = case.worker(Some("after run waiting"));
        assert_eq!(parked.end(), None, "{request}: {}", parked.words());
        assert!(case.is_in_doubt(), "{request}");
        assert_eq!(case.mails(), mails, "{request}: in doubt");
        case.resolve();
        let mut last = case.worker(None);
        assert_eq!(last.end(), Some(0), "{request}: {}", last.words());
        let takes = check(&case, &Promise::at(point), 3);
        println!("triage waits for a person, mail {request}: 1 mail, {takes} takes");
    }
}
