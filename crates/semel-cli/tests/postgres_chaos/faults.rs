//! The faults, each until there were enough of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::chance::Chance;
use crate::common::lines;
use crate::stage::Stage;

/// Crashes the server again and again; now and then it stays away for longer than a lease.
pub(crate) fn restart(stage: &Stage, chance: &mut Chance, count: usize) -> usize {
    for number in 0..count {
        chance.nap(150, 900);
        stage.cluster.stop_immediately();
        match number % 10 {
            9 => chance.nap(3_000, 3_500),
            _ => chance.nap(1, 300),
        }
        stage.cluster.start_again();
    }
    count
}

/// Kills workers, half of them when the destination has just written something for them, and stops
/// others beyond their leases.
pub(crate) fn kill_and_pause(
    stage: &mut Stage,
    chance: &mut Chance,
    kills_wanted: usize,
    pauses_wanted: usize,
) -> (usize, usize) {
    let (mut kills, mut pauses) = (0, 0);
    let mut stopped: Vec<Option<Instant>> = vec![None; stage.workers.len()];
    while kills < kills_wanted || pauses < pauses_wanted {
        for (place, until) in stopped.iter_mut().enumerate() {
            if until.is_some_and(|until| Instant::now() >= until) {
                stage.workers[place].go_on();
                *until = None;
                pauses += 1;
            }
        }
        let place = chance.index(stage.workers.len());
        let is_still = stopped[place].is_some();
        let still = stopped.iter().flatten().count();
        if !is_still && still < 2 && pauses + still < pauses_wanted && chance.below(4) == 0 {
            stage.workers[place].stop();
            let pause = Duration::from_millis(2_000 + chance.below(1_500));
            stopped[place] = Some(Instant::now() + pause);
        } else if kills < kills_wanted {
            let place = match chance.below(2) {
                0 => just_written(stage).unwrap_or(place),
                _ => place,
            };
            if stopped[place].is_none() {
                chance.nap(0, 8);
                stage.replace(place);
                kills += 1;
            }
        }
        chance.nap(20, 220);
    }
    (kills, pauses)
}

/// The worker for which the destination has written last, if it does so soon.
fn just_written(stage: &Stage) -> Option<usize> {
    let count = || lines::<serde_json::Value>(&stage.crm.dir.join("tickets.jsonl")).len();
    let (before, until) = (count(), Instant::now() + Duration::from_millis(400));
    while Instant::now() < until {
        if count() > before {
            let last = stage.crm.events().into_iter().rev().find(|event| event.kind == "written");
            let pid: u32 = last?.worker?.parse().ok()?;
            return stage.workers.iter().position(|worker| worker.id() == pid);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Cuts a worker's wire after its COMMIT has arrived and before the answer.
pub(crate) fn cut_commits(stage: &Stage, chance: &mut Chance, count: u64) -> u64 {
    let mut cuts = 0;
    let until = Instant::now() + Duration::from_secs(2 * count);
    while cuts < count && Instant::now() < until {
        let proxy = &stage.proxies[chance.index(stage.proxies.len())];
        let before = proxy.cuts();
        proxy.cut_before_answer(b"COMMIT\0");
        let patience = Instant::now() + Duration::from_secs(2);
        while proxy.cuts() == before && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(2));
        }
        proxy.pass();
        cuts += proxy.cuts() - before;
        chance.nap(20, 250);
    }
    cuts
}

/// Ends whoever is just committing, as soon as somebody is.
const END_COMMITTING: &str = "CREATE TEMP TABLE ended (n int);
DO $$ DECLARE found int; BEGIN
    FOR turn IN 1..3000 LOOP
        PERFORM pg_stat_clear_snapshot();
        SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) INTO found FROM pg_stat_activity
            WHERE application_name = 'semel' AND state = 'active' AND query = 'COMMIT';
        IF found > 0 THEN INSERT INTO ended VALUES (found); EXIT; END IF;
    END LOOP;
END $$;
SELECT coalesce(sum(n), 0) FROM ended";

/// Ends connections on the server's side: at COMMIT, in the middle of a transaction, anywhere.
pub(crate) fn end_backends(stage: &Stage, chance: &mut Chance, count: usize) -> usize {
    let mut ended = 0;
    let until = Instant::now() + Duration::from_secs(2 * count as u64);
    while ended < count && Instant::now() < until {
        ended += match chance.below(4) {
            0 => stage.cluster.terminate_backends("application_name = 'semel' AND random() < 0.2"),
            1 => stage.cluster.terminate_backends("state LIKE 'idle in transaction%'"),
            _ => stage.cluster.psql(END_COMMITTING).parse().expect("a count"),
        };
        chance.nap(20, 200);
    }
    ended
}

/// Takes every connection that the server has, for seconds, while workers need new ones. Returns
/// how many were refused.
pub(crate) fn exhaust(stage: &Stage, rounds: usize) -> usize {
    let mut refused = 0;
    for _ in 0..rounds {
        let mut taken = Vec::new();
        let until = Instant::now() + Duration::from_secs(4);
        while Instant::now() < until {
            match connect(stage.cluster.port()) {
                Some(stream) => taken.push(stream),
                None => {
                    refused += 1;
                    // Whatever they let go of is taken first, mostly.
                    stage.proxies.iter().for_each(semel_lab::Proxy::cut_all);
                }
            }
        }
        drop(taken);
        std::thread::sleep(Duration::from_secs(1));
    }
    refused
}

/// A connection that does nothing. `None`: the server has none left.
fn connect(port: u16) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let words = b"\0\x03\0\0user\0semel\0database\0semel\0\0";
    let length = u32::try_from(words.len() + 4).expect("it is short");
    stream.write_all(&[&length.to_be_bytes()[..], words].concat()).ok()?;
    let mut kind = [0];
    stream.read_exact(&mut kind).ok()?;
    // `R` is the word that lets in, `E` an error.
    (kind[0] == b'R').then_some(stream)
}
