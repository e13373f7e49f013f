//! `conditional`: the destination creates only what is not there.

use super::{Answer, Evidence, Kind, Seen, Trial};

pub(super) fn evidence(seen: &Seen) -> Vec<Evidence> {
    let Some(twice) = seen.trial(Kind::CreateTwice) else {
        let fact = "conditions: not tried (--conditional)";
        return vec![Evidence::open(Kind::CreateTwice.name(), fact)];
    };
    let mut all = vec![judge_twice(twice)];
    all.extend(seen.trial(Kind::CreateAtOnce).map(judge_at_once));
    all
}

fn judge_twice(twice: &Trial) -> Evidence {
    let name = Kind::CreateTwice.name();
    let [first, repeat] = twice.answers.as_slice() else {
        return Evidence::open(name, "conditions: the request was not sent twice");
    };
    if !first.is_success() {
        return Evidence::open(name, format!("conditions: the request gets {}", first.told()));
    }
    if twice.made_several() {
        let count = twice.objects.unwrap_or_default();
        return Evidence::broken(name, format!("the repeat made another: {count} objects"));
    }
    match repeat.status {
        Some(status @ (409 | 412)) => {
            Evidence::holds(name, format!("the repeat is refused: it exists (status {status})"))
        }
        Some(200..=299) if first.object != repeat.object => {
            Evidence::broken(name, "the repeat made another object")
        }
        Some(200..=299) if twice.objects == Some(1) => {
            Evidence::holds(name, "the repeat changed nothing; one object")
        }
        Some(200..=299) => Evidence::open(
            name,
            "conditions: the repeat succeeds like the first; a count would show what it did \
             (--count)",
        ),
        _ => {
            let told = repeat.told();
            Evidence::open(name, format!("conditions: the repeat gets {told}, which says nothing"))
        }
    }
}

fn judge_at_once(trial: &Trial) -> Evidence {
    let name = Kind::CreateAtOnce.name();
    let (sent, won) = (trial.answers.len(), trial.successes().count());
    let count = trial.objects.unwrap_or(trial.named().len() as u64);
    if count > 1 {
        return Evidence::broken(name, format!("{sent} at once made {count} objects"));
    }
    let mut others = trial.answers.iter().filter(|answer| !answer.is_success());
    let others_know = others.all(Answer::is_refusal);
    if won == 0 || !others_know {
        return Evidence::open(name, format!("conditions: {won} of {sent} at once succeeded"));
    }
    Evidence::holds(name, format!("{sent} at once made one object; {won} got a success"))
}
