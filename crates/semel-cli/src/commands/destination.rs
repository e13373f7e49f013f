//! `semel check destination`: which contract a destination really honours.

use std::fs;
use std::io::{IsTerminal, Write};

use clap::Args as ClapArgs;
use semel_check::destination::{Trouble, Wish, try_out};
use semel_core::claim::{Answer, Claim, Judgement, Seen, Trial, Verdict, Word, judge};
use semel_core::time::parse_duration_ms;
use serde_json::{Value, json};

use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

#[derive(Debug, ClapArgs)]
pub(crate) struct Options {
    /// Where the request goes; `{reference}` stands for a name that is new for each trial
    url: String,
    #[arg(long, default_value = "POST")]
    method: String,
    /// The request as JSON, or the file that has it; `{reference}` as in the address
    #[arg(long, value_name = "JSON|FILE", default_value = "{}")]
    body: String,
    /// Another body under the same key; without it, the same with another reference
    #[arg(long, value_name = "JSON|FILE")]
    other_body: Option<String>,
    /// A header of every request, such as 'Authorization: Bearer …'
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// The header that carries the key
    #[arg(long, value_name = "NAME", default_value = "Idempotency-Key")]
    key_header: String,
    /// Where an answer names its object; without it /id, or the whole answer is compared
    #[arg(long, value_name = "POINTER")]
    id: Option<String>,
    /// An address that finds what was created under {reference}
    #[arg(long, value_name = "URL")]
    lookup: Option<String>,
    /// Where the lookup's answer has its list or number; without it the answer is the list
    #[arg(long, value_name = "POINTER", default_value = "", hide_default_value = true)]
    found: String,
    /// An address that says how many objects there are
    #[arg(long, value_name = "URL", conflicts_with = "lookup")]
    count: Option<String>,
    /// Where the count's answer has its list or number
    #[arg(long, value_name = "POINTER", default_value = "", hide_default_value = true)]
    counted: String,
    /// Also try creation that is conditional on absence: `If-None-Match: *`, no key
    #[arg(long)]
    conditional: bool,
    /// How many requests are sent at once
    #[arg(long, value_name = "N", default_value_t = 5)]
    at_once: usize,
    /// Repeat once more after this pause, such as 5m: does it still know the key?
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    wait: Option<u64>,
    /// What its vendor claims: native_key, conditional, probe or at_most_once; ends with 1 when
    /// that was not shown
    #[arg(long, value_name = "CONTRACT", value_parser = parse_claim)]
    claims: Option<Claim>,
    /// This is a sandbox: real requests may be sent to it
    #[arg(long)]
    sandbox_yes: bool,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is NAME: VALUE")?;
    let is_clean = |part: &str| !part.chars().any(|c| c.is_control());
    if name.trim().is_empty() || !is_clean(name) || !is_clean(value) {
        return Err("a header is NAME: VALUE, on one line".into());
    }
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn parse_wait(text: &str) -> Result<u64, String> {
    parse_duration_ms(text).map_err(|error| error.to_string())
}

fn parse_claim(text: &str) -> Result<Claim, String> {
    let found = Claim::ALL.into_iter().find(|claim| claim.name() == text);
    found.ok_or_else(|| format!("there are {}", Claim::ALL.map(Claim::name).join(", ")))
}

pub(crate) async fn run(options: &Options, printer: &Printer) -> Result<(), Failed> {
    let wish = options.wish()?;
    wish.check().map_err(told)?;
    agree(&wish, options.sandbox_yes, printer)?;
    let seen = try_out(&wish, |trial| printer.talk(&format!("trying: {trial}"))).await;
    let seen = seen.map_err(told)?;
    let judgement = judge(&seen);
    if printer.wants_json() {
        printer.json(&as_json(options, &seen, &judgement))?;
    } else {
        show(options, &seen, &judgement, printer);
    }
    let claimed = options.claims.and_then(|claim| judgement.verdict(claim));
    match claimed {
        Some(Verdict { word: Word::Holds, .. }) | None => Ok(()),
        Some(verdict) => {
            let (claim, honours) = (verdict.claim.name(), judgement.honours.name());
            let what = match verdict.word {
                Word::Broken => "is broken",
                Word::NotShown | Word::Holds => "was not shown",
            };
            let hint = format!("declare its effects `{honours}`, or ask its vendor");
            Err(Failed::new(format!("the claim {claim} {what}")).hint(hint))
        }
    }
}

impl Options {
    fn wish(&self) -> Result<Wish, Failed> {
        Ok(Wish {
            method: self.method.to_ascii_uppercase(),
            url: self.url.clone(),
            body: read(&self.body)?,
            other_body: self.other_body.as_deref().map(read).transpose()?,
            headers: self.header.clone(),
            key_header: self.key_header.clone(),
            id: self.id.clone(),
            lookup: self.lookup.clone(),
            found: self.found.clone(),
            count: self.count.clone(),
            counted: self.counted.clone(),
            conditional: self.conditional,
            at_once: self.at_once,
            wait_ms: self.wait.unwrap_or_default(),
        })
    }
}

/// A body is what looks like JSON; everything else names a file.
fn read(text: &str) -> Result<String, Failed> {
    if text.is_empty() || text.trim_start().starts_with(['{', '[', '"']) {
        return Ok(text.to_owned());
    }
    fs::read_to_string(text).map_err(|error| Failed::usage(format!("cannot read {text}: {error}")))
}

fn told(trouble: Trouble) -> Failed {
    match trouble {
        Trouble::Usage(fact) => Failed::usage(fact),
        Trouble::Unreachable(_) => Failed::later(trouble.to_string()),
    }
}

/// Nobody finds out afterwards that it was the real account.
fn agree(wish: &Wish, is_sandbox: bool, printer: &Printer) -> Result<(), Failed> {
    let count = 8 + wish.at_once * if wish.conditional { 2 } else { 1 };
    printer.talk(&format!("this sends about {count} real requests to {}", plain(&wish.url)));
    if wish.is_local() || is_sandbox {
        return Ok(());
    }
    let refused = || Failed::usage("nothing was sent").hint("--sandbox-yes says it is a sandbox");
    if !std::io::stdin().is_terminal() {
        return Err(refused());
    }
    let _ = write!(std::io::stderr(), "is this a sandbox, and shall they be sent? (yes/no) ");
    let mut said = String::new();
    let read = std::io::stdin().read_line(&mut said);
    if read.is_ok() && said.trim() == "yes" { Ok(()) } else { Err(refused()) }
}

fn show(options: &Options, seen: &Seen, judgement: &Judgement, printer: &Printer) {
    let rows: Vec<Vec<String>> = seen.trials.iter().map(trial_row).collect();
    printer.table(&["trial", "answers", "objects made"], &rows);
    printer.line("");
    let rows: Vec<Vec<String>> = judgement.verdicts.iter().flat_map(verdict_rows).collect();
    printer.table(&["contract", "verdict", "trial", "what was seen"], &rows);
    printer.line("");
    let honours = judgement.honours;
    printer.line(&format!("honours {}", printer.paint(Tone::Strong, honours.name())));
    printer.line(&format!("  {}", honours.promise()));
    if let Some(verdict) = options.claims.and_then(|claim| judgement.verdict(claim)) {
        let tone = match verdict.word {
            Word::Holds => Tone::Good,
            Word::Broken => Tone::Bad,
            Word::NotShown => Tone::Doubt,
        };
        let word = printer.paint(tone, word(verdict.word));
        printer.line(&format!("claim   {}: {word}", verdict.claim.name()));
    }
    if !judgement.not_shown.is_empty() {
        printer.line("not shown:");
        judgement.not_shown.iter().for_each(|fact| printer.line(&format!("  {fact}")));
    }
}

fn word(word: Word) -> &'static str {
    match word {
        Word::Holds => "holds",
        Word::Broken => "broken",
        Word::NotShown => "not shown",
    }
}

fn trial_row(trial: &Trial) -> Vec<String> {
    let mut told: Vec<(String, u32)> = Vec::new();
    for answer in trial.answers.iter().map(answer_text) {
        match told.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, count)) => *count += 1,
            None => told.push((answer, 1)),
        }
    }
    let told = told.into_iter().map(|(answer, count)| match count {
        1 => answer,
        count => format!("{count} x {answer}"),
    });
    let objects = trial.objects.map_or_else(|| "not counted".into(), |count| count.to_string());
    vec![trial.kind.name().into(), told.collect::<Vec<_>>().join(", "), objects]
}

/// Of what did not succeed only the status is of interest.
fn answer_text(answer: &Answer) -> String {
    let status = answer.status.map_or_else(|| "no answer".into(), |status| status.to_string());
    let is_success = answer.status.is_some_and(|status| (200..300).contains(&status));
    match &answer.object {
        Some(object) if is_success => format!("{status} {}", plain(object)),
        Some(_) | None => status,
    }
}

fn verdict_rows(verdict: &Verdict) -> Vec<Vec<String>> {
    let head = [verdict.claim.name(), word(verdict.word)].map(String::from);
    let rows = verdict.evidence.iter().enumerate().map(|(at, evidence)| {
        let [claim, said] = if at == 0 { head.clone() } else { [String::new(), String::new()] };
        let fact = match evidence.word {
            Word::Broken => format!("BROKEN: {}", evidence.fact),
            Word::Holds | Word::NotShown => evidence.fact.clone(),
        };
        vec![claim, said, evidence.trial.into(), plain(&fact)]
    });
    rows.collect()
}

fn as_json(options: &Options, seen: &Seen, judgement: &Judgement) -> Value {
    let claim = options.claims.and_then(|claim| judgement.verdict(claim));
    let search = seen.search.as_ref().map(|search| {
        let visible_ms = search.visible_ms;
        json!({ "before": search.before, "after": search.after, "visible_ms": visible_ms })
    });
    json!({
        "url": options.url,
        "method": options.method.to_ascii_uppercase(),
        "honours": judgement.honours.name(),
        "promise": judgement.honours.promise(),
        "claim": claim.map(|verdict| {
            json!({ "contract": verdict.claim.name(), "verdict": verdict.word.name() })
        }),
        "verdicts": judgement.verdicts.iter().map(verdict_json).collect::<Vec<_>>(),
        "trials": seen.trials.iter().map(trial_json).collect::<Vec<_>>(),
        "search": search,
        "not_shown": judgement.not_shown,
    })
}

fn verdict_json(verdict: &Verdict) -> Value {
    let evidence = verdict.evidence.iter().map(|evidence| {
        json!({
            "trial": evidence.trial,
            "verdict": evidence.word.name(),
            "fact": evidence.fact,
            "needed": evidence.is_needed,
        })
    });
    json!({
        "contract": verdict.claim.name(),
        "verdict": verdict.word.name(),
        "evidence": evidence.collect::<Vec<_>>(),
    })
}

fn trial_json(trial: &Trial) -> Value {
    let answers = trial.answers.iter();
    let answers = answers.map(|one| json!({ "status": one.status, "object": one.object }));
    json!({
        "trial": trial.kind.name(),
        "answers": answers.collect::<Vec<_>>(),
        "objects": trial.objects,
    })
}
