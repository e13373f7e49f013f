//! `semel proof verify`: a proof is checked without its store.

use std::fs;

use semel_core::proof::{Check, Document};
use serde_json::json;

use super::sign;
use crate::args::ProofVerify;
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

/// A proof of a long run may be large; what is larger than this is none.
const FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

pub(super) fn verify(options: &ProofVerify, printer: &Printer) -> Result<(), Failed> {
    let file = options.file.display();
    let unreadable = |error: std::io::Error| Failed::new(format!("{file} cannot be read: {error}"));
    if fs::metadata(&options.file).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(Failed::new(format!("{file} is too large to be a proof")));
    }
    let text = fs::read_to_string(&options.file).map_err(unreadable)?;
    let wanted = options.public_key.as_deref().map(sign::read_public).transpose()?;
    let document = Document::read(&text).map_err(|error| {
        Failed::new(format!("{file} is {error}")).hint("`semel proof … -o FILE` writes one")
    })?;
    let (mut checks, statement) = document.check();
    checks.push(signature(&document, wanted.as_ref()));
    let holds = checks.iter().all(|check| check.holds);
    if printer.wants_json() {
        let verdict = statement.as_ref().map(|statement| &statement.verdict);
        let about = statement.as_ref().map(|statement| &statement.name);
        let shown = json!({ "holds": holds, "about": about, "checks": checks, "verdict": verdict });
        printer.json(&shown)?;
    } else {
        checks.iter().for_each(|check| printer.line(&line(check, printer)));
        if let Some(statement) = statement.filter(|_| holds) {
            let says = format!("{}: {}", statement.name, statement.verdict.says);
            printer.line(&format!("\n{}", plain(&says)));
        }
    }
    if holds {
        return Ok(());
    }
    let failed: Vec<_> =
        checks.iter().filter(|check| !check.holds).map(|check| check.what).collect();
    let text = format!("{file} does not hold: {}", failed.join(", "));
    Err(Failed::new(text).hint("ask whoever gave it to you for one that was made anew"))
}

/// Unsigned, a proof shows that it fits together, and not who made it.
fn signature(document: &Document, wanted: Option<&ed25519_dalek::VerifyingKey>) -> Check {
    let check = |holds, detail: String| Check { what: "signature", holds, detail };
    let Some(signature) = &document.signature else {
        return match wanted {
            None => check(true, "none: it fits together, but anybody may have made it".into()),
            Some(_) => check(false, "there is none".into()),
        };
    };
    match (sign::check(document, signature), wanted) {
        (Err(why), _) => check(false, why),
        (Ok(key), Some(wanted)) if key != *wanted => check(false, "it is by another key".into()),
        (Ok(_), Some(_)) => check(true, format!("by the key {}", signature.public_key)),
        (Ok(_), None) => {
            let key = &signature.public_key;
            check(
                true,
                format!("by the key {key}; --public-key says whether that is the right one"),
            )
        }
    }
}

fn line(check: &Check, printer: &Printer) -> String {
    let word = match check.holds {
        true => printer.paint(Tone::Good, "holds"),
        false => printer.paint(Tone::Bad, "FAILS"),
    };
    format!("{word}  {:<15} {}", check.what, plain(&check.detail))
}
