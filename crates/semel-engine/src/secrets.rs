//! Secrets by reference: looked up when they are needed, kept by nobody.

use std::io::Read;

use semel_core::hook::{Plan, Secret, Source};
use semel_core::limits;

/// The secrets of a trigger that can be read now. One that cannot is told to the log, by where it
/// should be; a delivery is then judged by the others.
pub async fn secrets_of(plan: &Plan) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for (source, until) in &plan.secrets {
        let read = match source {
            Source::Environment(name) => of_environment(name),
            Source::File(path) => of_file(path.clone()).await,
        };
        match read {
            Ok(bytes) => secrets.push(Secret { bytes, until: *until }),
            Err(why) => {
                let trigger = &plan.name;
                tracing::warn!(%trigger, why, "a secret cannot be read");
            }
        }
    }
    secrets
}

fn of_environment(name: &str) -> Result<Vec<u8>, String> {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => Ok(text.into_bytes()),
        Ok(_) => Err(format!("the variable {name} is empty")),
        Err(_) => Err(format!("there is no variable {name}")),
    }
}

async fn of_file(path: String) -> Result<Vec<u8>, String> {
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    read.unwrap_or_else(|_| Err("the file was not read".into()))
}

/// A file's content without the line end that editors add.
fn read(path: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("the file {path}: {error}");
    // A pipe or a device could keep a delivery waiting for ever, already by being opened.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(format!("{path} is no plain file"));
    }
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let most = limits::HOOK_SECRET_BYTES_MAX;
    let mut bytes = Vec::new();
    file.by_ref().take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > most {
        return Err(format!("the file {path} is longer than a secret"));
    }
    let end = bytes.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
    bytes.truncate(end.map_or(0, |end| end + 1));
    if bytes.is_empty() { Err(format!("the file {path} is empty")) } else { Ok(bytes) }
}
