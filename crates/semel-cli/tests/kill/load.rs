//! The load: several workers at once on one store, each killed sooner or later, until there were
//! enough kills; then everything is brought to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Event, Line, Worker, World};

/// How many workers at once.
const WORKERS: usize = 3;
/// The settle window: long enough for the CRM of a busy machine to do what has arrived.
const SETTLE_MS: u64 = 1_500;
/// Between the insert and the commit: long enough to be killed in, shorter than a transaction may
/// take.
const PAUSE_MS: &str = "700";
const TIME_MAX: Duration = Duration::from_secs(150);

pub(crate) struct Load {
    pub(crate) world: World,
    pub(crate) contract: &'static str,
    pub(crate) seed: u64,
    /// Every ticket that was ever asked for.
    pub(crate) references: Vec<String>,
    /// Killed processes, and what each was proven to have done without our record of it.
    pub(crate) killed: BTreeMap<u32, BTreeSet<String>>,
    /// What every worker printed.
    pub(crate) lines: Vec<Line>,
    /// How often a person said "send it again".
    pub(crate) retries: BTreeMap<String, usize>,
    open: BTreeSet<String>,
    written: BTreeSet<(u32, String)>,
    slots: Vec<Slot>,
    tail: Tail,
    chance: Chance,
    started: Instant,
}

struct Slot {
    worker: Worker,
    fate: Fate,
    kill_at: Option<Instant>,
}

/// When a worker is killed. One whose request is held by the CRM is killed at once, whoever it is.
enum Fate {
    AtHeld,
    /// When its request for this ticket has arrived, which the CRM carries out only later.
    AtArrived(String),
    /// This transaction stops between insert and commit.
    AtInserted(String),
    /// So long after the first ticket is written, that is, around our record of it.
    AfterWrite(Duration),
    After(Duration),
    Never,
}

impl Load {
    pub(crate) fn new(contract: &'static str) -> Load {
        let seed = std::env::var("SEMEL_SEED")
            .ok()
            .map_or_else(seed_of_now, |text| text.parse().expect("SEMEL_SEED is a number"));
        println!("kill {contract}: SEMEL_SEED={seed}");
        let world = World::new();
        let tail = Tail::new(world.dir.path().join("events.jsonl"));
        Load {
            world,
            contract,
            seed,
            references: Vec::new(),
            killed: BTreeMap::new(),
            lines: Vec::new(),
            retries: BTreeMap::new(),
            open: BTreeSet::new(),
            written: BTreeSet::new(),
            slots: Vec::new(),
            tail,
            chance: Chance(seed),
            started: Instant::now(),
        }
    }

    /// Kills until there were enough, then lets the rest finish.
    pub(crate) fn run(&mut self, kills: usize, between: usize) {
        loop {
            let is_enough = self.killed.len() >= kills && self.proven() >= between;
            if is_enough && self.slots.is_empty() {
                if self.open.is_empty() {
                    // What the dead have sent lands, too, before anybody counts.
                    std::thread::sleep(Duration::from_millis(SETTLE_MS));
                    return;
                }
                self.finish();
            }
            while !is_enough && self.slots.len() < WORKERS {
                self.start();
            }
            self.turn();
            assert!(self.started.elapsed() < TIME_MAX, "no end: {}", self.figures());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn figures(&self) -> String {
        format!(
            "{} kills, {} of them proven between write and record, {} effects, {} calls answered, \
             the slowest in {} ms, {:.1} s",
            self.killed.len(),
            self.proven(),
            self.references.len(),
            self.lines.len(),
            self.lines.iter().map(|line| line.ms).max().unwrap_or_default(),
            self.started.elapsed().as_secs_f64()
        )
    }

    pub(crate) fn proven(&self) -> usize {
        self.killed.values().filter(|references| !references.is_empty()).count()
    }

    /// A new worker, with new tickets, unfinished ones and a finished one.
    fn start(&mut self) {
        let fresh: Vec<String> = (0..3).map(|_| self.fresh()).collect();
        let fate = self.fate(&fresh[0]);
        let mut batch = fresh;
        let open: Vec<_> = self.open.iter().cloned().collect();
        batch.extend((0..5).filter_map(|_| self.chance.pick(&open)));
        batch.extend(self.chance.pick(&self.references));
        batch.sort_unstable_by_key(|_| self.chance.next());
        self.open.extend(batch.iter().cloned());
        self.spawn(&batch, fate);
    }

    fn fresh(&mut self) -> String {
        let reference = format!("r{}", self.references.len());
        self.references.push(reference.clone());
        reference
    }

    fn fate(&mut self, reference: &str) -> Fate {
        let choice = self.chance.below(14);
        let after = Duration::from_millis(self.chance.below(120));
        let around = Duration::from_micros(self.chance.below(8_000));
        if self.contract == "transaction" {
            return match choice {
                0..8 => Fate::AtInserted(reference.to_owned()),
                8..12 => Fate::After(after),
                _ => Fate::Never,
            };
        }
        if matches!(choice, 9..11) {
            self.world.crm.script(reference, &["delay:500"]);
            return Fate::AtArrived(reference.to_owned());
        }
        let script: &[&str] = match choice {
            0..7 => &["hold"],
            7 => &["hold", "hold"],
            8 => &["hold_before"],
            _ => &[],
        };
        if !script.is_empty() {
            self.world.crm.script(reference, script);
            return Fate::AtHeld;
        }
        match choice {
            11 => Fate::AfterWrite(around),
            12 => Fate::After(after),
            _ => Fate::Never,
        }
    }

    fn spawn(&mut self, batch: &[String], fate: Fate) {
        let callers = if batch.len() > 20 { "16" } else { "4" };
        let settle = SETTLE_MS.to_string();
        let mut args = vec!["--callers", callers, "--settle-ms", &settle];
        if let Fate::AtInserted(reference) = &fate {
            args.extend(["--pause-ms", PAUSE_MS, "--pause-on", reference]);
        }
        args.extend(batch.iter().map(String::as_str));
        let worker = self.world.worker(self.contract, &args);
        let kill_at = match fate {
            Fate::After(wait) => Some(Instant::now() + wait),
            Fate::AtHeld
            | Fate::AtArrived(_)
            | Fate::AtInserted(_)
            | Fate::AfterWrite(_)
            | Fate::Never => None,
        };
        self.slots.push(Slot { worker, fate, kill_at });
    }

    /// Hears what the CRM and the workers say, and kills whoever is due.
    fn turn(&mut self) {
        let mut held = BTreeSet::new();
        for event in self.tail.read() {
            let Some(pid) = event.worker.as_ref().and_then(|pid| pid.parse().ok()) else {
                continue;
            };
            match event.kind.as_str() {
                "arrived" => self.schedule(pid, |fate| match fate {
                    Fate::AtArrived(awaited) => {
                        (*awaited == event.reference).then_some(Duration::ZERO)
                    }
                    _ => None,
                }),
                "written" => {
                    self.written.insert((pid, event.reference));
                    self.schedule(pid, |fate| match fate {
                        Fate::AfterWrite(wait) => Some(*wait),
                        _ => None,
                    });
                }
                "held" => {
                    held.insert(pid);
                }
                _ => {}
            }
        }
        for mut slot in std::mem::take(&mut self.slots) {
            let pid = slot.worker.pid;
            let is_due = slot.kill_at.is_some_and(|at| Instant::now() >= at);
            if is_due || held.contains(&pid) || slot.has_inserted() {
                self.kill(slot);
            } else if slot.worker.child.try_wait().expect("a worker").is_some() {
                self.take_words(&slot.worker);
            } else {
                self.slots.push(slot);
            }
        }
    }

    fn schedule(&mut self, pid: u32, wait: impl Fn(&Fate) -> Option<Duration>) {
        for slot in self.slots.iter_mut().filter(|slot| slot.worker.pid == pid) {
            slot.kill_at = slot.kill_at.or(wait(&slot.fate).map(|wait| Instant::now() + wait));
        }
    }

    fn kill(&mut self, mut slot: Slot) {
        let pid = slot.worker.pid;
        slot.worker.child.kill().expect("SIGKILL");
        let status = slot.worker.child.wait().expect("it ends");
        self.take_words(&slot.worker);
        if status.signal() != Some(9) {
            return; // it had ended by itself
        }
        let proven = match slot.fate {
            // It said so; whether it was committed all the same the user's table will tell.
            Fate::AtInserted(reference) if slot.worker.says(&format!("inserted {reference}")) => {
                BTreeSet::from([reference])
            }
            _ => self.written_without_answer(pid),
        };
        self.killed.insert(pid, proven);
    }

    /// The CRM wrote these for the process, and never answered.
    fn written_without_answer(&self, pid: u32) -> BTreeSet<String> {
        let held = self.world.crm.events().into_iter().filter(|event| {
            event.kind == "held" && event.worker.as_deref() == Some(&pid.to_string())
        });
        held.map(|event| event.reference)
            .filter(|reference| self.written.contains(&(pid, reference.clone())))
            .collect()
    }

    /// Keeps what a worker printed; a receipt ends its ticket, and so does a final failure.
    fn take_words(&mut self, worker: &Worker) {
        for line in worker.lines() {
            if line.receipt.is_some() || line.error.as_deref() == Some("effect_failed") {
                self.open.remove(&line.reference);
            }
            self.lines.push(line);
        }
    }

    /// One worker for all that is open. What a person must settle is settled first.
    fn finish(&mut self) {
        if self.contract == "at_most_once" {
            self.settle_doubts();
        }
        let batch: Vec<_> = self.open.iter().cloned().collect();
        self.spawn(&batch, Fate::Never);
    }

    /// The settle window of a dead worker's attempt runs from when somebody recorded the death. The
    /// other workers do so within a second, but the last one has nobody left.
    fn record_deaths(&self) {
        let url = format!("sqlite:{}", self.world.store().display());
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let semel = semel::Semel::open(&url).await.expect("the store opens");
            semel.engine().turn().await.expect("a turn of the job");
        });
    }

    /// A person waits for the settle window, looks at the CRM, and says what is true.
    fn settle_doubts(&mut self) {
        self.record_deaths();
        let doubts = self.world.doubts();
        if doubts.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(SETTLE_MS + 200));
        for effect in doubts {
            let reference = effect["key"].as_str().expect("a key").to_owned();
            let tickets = self.world.crm.applied(&reference);
            let decision = match tickets.first() {
                Some(ticket) => vec!["--done".to_owned(), "--receipt".to_owned(), ticket.receipt()],
                None if self.chance.below(3) == 0 => vec!["--failed".to_owned()],
                None => {
                    *self.retries.entry(reference.clone()).or_default() += 1;
                    vec!["--retry".to_owned()]
                }
            };
            let version = effect["version"].to_string();
            let decision: Vec<_> = decision.iter().map(String::as_str).collect();
            self.world.resolve(&reference, &version, &decision).expect(0);
        }
    }
}

impl Slot {
    fn has_inserted(&self) -> bool {
        match &self.fate {
            Fate::AtInserted(reference) => self.worker.says(&format!("inserted {reference}")),
            Fate::AtHeld
            | Fate::AtArrived(_)
            | Fate::AfterWrite(_)
            | Fate::After(_)
            | Fate::Never => false,
        }
    }
}

/// The CRM's events, as they come.
struct Tail {
    path: PathBuf,
    file: Option<File>,
    rest: String,
}

impl Tail {
    fn new(path: PathBuf) -> Tail {
        Tail { path, file: None, rest: String::new() }
    }

    fn read(&mut self) -> Vec<Event> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Vec::new() };
        file.read_to_string(&mut self.rest).expect("the events of the CRM");
        let whole = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        let text = std::mem::replace(&mut self.rest, rest);
        text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
    }
}

/// Numbers from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick(&mut self, from: &[String]) -> Option<String> {
        let index = self.next() as usize % from.len().max(1);
        from.get(index).cloned()
    }
}

fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    now.as_nanos() as u64 % 1_000_000_000
}
