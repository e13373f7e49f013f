//! `native_key`: the destination remembers a key, and answers every repeat as it did the first
//! time.

use super::{Answer, Evidence, Kind, Seen, Trial, list};
use crate::time::format_duration_ms;

pub(super) fn evidence(seen: &Seen) -> Vec<Evidence> {
    let Some(twice) = seen.trial(Kind::Twice) else {
        return vec![Evidence::open("twice", "keys: no request was repeated under its key")];
    };
    let fresh = seen.trial(Kind::FreshKey).and_then(|trial| trial.answers.first());
    let mut all = vec![judge_twice(twice, fresh), judge_fresh(seen, twice)];
    all.push(judge_at_once(seen.trial(Kind::AtOnce)));
    all.push(judge_cut(seen.trial(Kind::Cut), fresh));
    all.push(judge_other_body(seen.trial(Kind::OtherBody), twice));
    all.extend(seen.trial(Kind::Later).map(|later| judge_later(later, twice, seen.paused_ms)));
    all.extend(seen.trial(Kind::NoKey).map(|bare| tell_no_key(bare, twice)));
    all
}

fn judge_twice(twice: &Trial, fresh: Option<&Answer>) -> Evidence {
    let name = Kind::Twice.name();
    let [first, repeat] = twice.answers.as_slice() else {
        return Evidence::open(name, "keys: the request was not sent twice");
    };
    let fresh_works = fresh.is_some_and(Answer::is_success);
    match (first.is_success(), repeat.is_success()) {
        (false, false) if fresh_works && first.status == repeat.status => {
            let fact = format!(
                "an error is kept under its key: {} twice, and a fresh key works; no repeat \
                 would ever bring the receipt",
                first.told()
            );
            Evidence::broken(name, fact)
        }
        (false, false) => {
            Evidence::open(name, format!("keys: the request itself gets {}", first.told()))
        }
        // What failed was not kept: the repeat is the first that was carried out.
        (false, true) if !twice.made_several() => {
            Evidence::open(name, format!("keys: the first try got {}", first.told()))
        }
        (true, false) => {
            let fact = format!("the repeat gets {}, not the first answer", repeat.told());
            Evidence::broken(name, fact)
        }
        (true, true) if first.object != repeat.object => {
            let told = |answer: &Answer| answer.object.clone().unwrap_or_else(|| "-".into());
            let fact = format!("the repeat made another: {}, then {}", told(first), told(repeat));
            Evidence::broken(name, fact)
        }
        (_, true) => match twice.objects {
            None => Evidence::holds(name, "the repeat got the first answer"),
            Some(1) => Evidence::holds(name, "the repeat got the first answer; one object"),
            Some(0) => Evidence::open(name, "keys: the count did not move with the first request"),
            Some(count) => {
                Evidence::broken(name, format!("one answer, but {count} objects were made"))
            }
        },
    }
}

/// Without this the others show nothing: equal answers may be equal for any key.
fn judge_fresh(seen: &Seen, twice: &Trial) -> Evidence {
    let name = Kind::FreshKey.name();
    let Some(trial) = seen.trial(Kind::FreshKey) else {
        return Evidence::open(name, "keys: no fresh key was tried");
    };
    let Some(answer) = trial.answers.first().filter(|answer| answer.is_success()) else {
        let told = trial.answers.first().map_or_else(|| "no answer".into(), Answer::told);
        return Evidence::open(name, format!("keys: a fresh key gets {told}"));
    };
    let names_another = twice.successes().all(|first| first.object != answer.object);
    match (names_another, trial.objects) {
        (_, Some(0)) => Evidence::broken(
            name,
            "a fresh key made nothing new: it goes by the content, and would swallow an intent",
        ),
        (_, Some(_)) | (true, None) => Evidence::holds(name, "a fresh key made another object"),
        (false, None) => Evidence::open(
            name,
            "keys: a fresh key gets the same answer; name what tells objects apart (--id) or a \
             count (--count)",
        ),
    }
}

fn judge_at_once(trial: Option<&Trial>) -> Evidence {
    let name = Kind::AtOnce.name();
    let Some(trial) = trial else {
        return Evidence::open(name, "keys: nothing was sent at once");
    };
    let (sent, named) = (trial.answers.len(), trial.named());
    if named.len() > 1 || trial.made_several() {
        let count = trial.objects.unwrap_or(named.len() as u64);
        return Evidence::broken(name, format!("{sent} at once made {count} objects"));
    }
    if named.is_empty() {
        return Evidence::open(name, format!("keys: none of {sent} at once succeeded"));
    }
    let refusals = trial.refusals();
    let fact = if refusals.is_empty() {
        format!("{sent} at once made one object, all got its answer")
    } else {
        let list = list(&refusals);
        format!("{sent} at once made one object, the others got {list} while it was under way")
    };
    Evidence::holds(name, fact)
}

fn judge_cut(trial: Option<&Trial>, fresh: Option<&Answer>) -> Evidence {
    let name = Kind::Cut.name();
    let Some(trial) = trial else {
        return Evidence::open(name, "keys: no answer was cut");
    };
    let named = trial.named();
    let last = trial.answers.last();
    match (last.is_some_and(Answer::is_success), trial.objects) {
        // Where nothing succeeds, the cut is not to blame.
        (false, _) if !fresh.is_some_and(Answer::is_success) => {
            Evidence::open(name, "keys: nothing succeeds after a cut answer, nor otherwise")
        }
        (false, _) => {
            let told = last.map_or_else(|| "no answer".into(), Answer::told);
            Evidence::broken(name, format!("after a cut answer the repeat gets {told}"))
        }
        (true, Some(count)) if count > 1 || named.len() > 1 => {
            let fact = format!("after a cut answer the repeats left {count} objects");
            Evidence::broken(name, fact)
        }
        (true, None) if named.len() > 1 => {
            Evidence::broken(name, "after a cut answer two repeats made two objects")
        }
        (true, Some(_)) => {
            Evidence::holds(name, "after a cut answer the repeats got one answer; one object")
        }
        // The cut request itself names nothing; only a count would show an object of its own.
        (true, None) => Evidence::holds(name, "after a cut answer two repeats got the same answer"),
    }
}

fn judge_other_body(trial: Option<&Trial>, twice: &Trial) -> Evidence {
    let name = Kind::OtherBody.name();
    let Some(answer) = trial.and_then(|trial| trial.answers.first()) else {
        return Evidence::open(name, "keys: no other body was tried under a key").aside();
    };
    if answer.is_refusal() && twice.successes().next().is_some() {
        return Evidence::holds(name, format!("another body is refused ({})", answer.told()));
    }
    if !answer.is_success() {
        let fact = format!("keys: another body gets {}", answer.told());
        return Evidence::open(name, fact).aside();
    }
    let made = trial.and_then(|trial| trial.objects);
    let names_first = twice.successes().any(|first| first.object == answer.object);
    if made.is_some_and(|count| count > 0) || !names_first {
        let fact = "another body under the same key made another object: a retry that is worded \
                    differently would be a second one";
        return Evidence::broken(name, fact);
    }
    Evidence::holds(name, "another body gets the first answer")
}

fn judge_later(later: &Trial, twice: &Trial, paused_ms: u64) -> Evidence {
    let name = Kind::Later.name();
    let pause = format_duration_ms(paused_ms);
    let answer = later.answers.first();
    let is_same = answer.is_some_and(|answer| {
        answer.is_success() && twice.successes().any(|first| first.object == answer.object)
    });
    if is_same && later.objects.is_none_or(|count| count == 0) {
        return Evidence::holds(name, format!("after {pause} the key is still known"));
    }
    let told = answer.map_or_else(|| "no answer".into(), Answer::told);
    Evidence::broken(name, format!("after {pause} the key is not known any more ({told})"))
}

fn tell_no_key(bare: &Trial, twice: &Trial) -> Evidence {
    let name = Kind::NoKey.name();
    let answer = bare.answers.first();
    let names_first = |answer: &Answer| twice.successes().any(|one| one.object == answer.object);
    let fact = match answer {
        Some(answer) if answer.is_refusal() => {
            format!("without a key it refuses ({})", answer.told())
        }
        Some(answer) if answer.is_success() && !names_first(answer) => {
            "without a key it creates: no path may leave the key out".into()
        }
        Some(answer) => format!("without a key: {}", answer.told()),
        None => "without a key: no answer".into(),
    };
    Evidence::holds(name, fact).aside()
}
