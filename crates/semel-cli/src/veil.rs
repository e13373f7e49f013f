//! Keys and secrets, as the settings name them; and lines of the log without secrets.

use std::io::Write;
use std::sync::Arc;

use semel_core::redact::Redactor;
use semel_store::{Veil, read_secrets};
use tracing_subscriber::fmt::MakeWriter;

use crate::args::Command;
use crate::config::Config;
use crate::exit::Failed;

/// What stands between this process and its store. `SEMEL_SECRETS` must be there, whatever it
/// names; of the secrets in files those count that this machine has. `semel keys` opens no store:
/// the file that the settings name may be the one that it is to make or to mend.
pub(crate) fn of(config: &Config, command: &Command) -> Result<Veil, Failed> {
    let named = std::env::var("SEMEL_SECRETS").unwrap_or_default();
    let declared = declared(config, &named);
    let key_file = match command {
        Command::Keys(_) => None,
        _ => config.set.encryption.key_file.as_deref(),
    };
    Ok(Veil::read(key_file, Some(&declared))?)
}

/// All declared secrets, as `SEMEL_SECRETS` would name them.
pub(crate) fn declared(config: &Config, named: &str) -> String {
    let by_files = config.set.secrets.iter().map(|(name, place)| format!("{name}={place}"));
    let there = by_files.filter(|one| is_there(one));
    let named = Some(named.to_owned()).filter(|named| !named.is_empty());
    there.chain(named).collect::<Vec<_>>().join(",")
}

/// A value that this process does not have cannot be written by it.
fn is_there(reference: &str) -> bool {
    match reference.split_once('=').and_then(|(_, place)| place.split_once(':')) {
        Some(("env", name)) => std::env::var_os(name).is_some_and(|value| !value.is_empty()),
        Some(("file", path)) => std::path::Path::new(path).exists(),
        // Whatever else it is, it is wrong, and told so.
        Some(_) | None => read_secrets(reference).is_err(),
    }
}

/// Writes lines to stderr, without secrets.
#[derive(Clone)]
pub(crate) struct Redacted(pub(crate) Arc<Redactor>);

impl<'a> MakeWriter<'a> for Redacted {
    type Writer = Redacted;

    fn make_writer(&'a self) -> Redacted {
        self.clone()
    }
}

impl Write for Redacted {
    /// A line comes in one piece.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        std::io::stderr().write_all(self.0.text(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
