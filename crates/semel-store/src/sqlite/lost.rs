//! What processes remember to have written and the file has forgotten: lines in a file beside it,
//! so that no restore takes them away.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::time::Wall;

use super::io_error;
use crate::written::Written;
use crate::{Lost, LostRow, StoreError};

const NAME: &str = "lost";

/// Adds rows that are gone since an epoch. Names hold no control characters, so a tab ends them.
pub(super) fn append(folder: &Path, epoch: u64, gone: &[&Written]) -> Result<(), StoreError> {
    if gone.is_empty() {
        return Ok(());
    }
    let worker = std::process::id();
    let mut lines = String::new();
    for row in gone {
        let Written { namespace, action, name, generation, version, state, at, .. } = row;
        let (action, state) = (action.as_deref().unwrap_or_default(), state.unwrap_or_default());
        let generation = generation.unwrap_or_default();
        lines += &format!(
            "{epoch}\t{namespace}\t{action}\t{name}\t{generation}\t{version}\t{state}\t{}\t\
             process {worker}\n",
            at.0
        );
    }
    let mut options = std::fs::File::options();
    let file = options.create(true).append(true).mode(0o600).open(folder.join(NAME));
    let written = file.and_then(|mut file| {
        file.write_all(lines.as_bytes())?;
        file.sync_data()
    });
    written.map_err(|error| io_error("the list of lost rows beside the store", &error))
}

/// The rows after a cursor. A line that cannot be read is left out.
pub(super) fn read(folder: &Path, after: i64, limit: usize) -> Result<Vec<Lost>, StoreError> {
    let text = match std::fs::read_to_string(folder.join(NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error("the list of lost rows beside the store", &error)),
    };
    let rows = (1..).zip(text.lines()).filter(|(cursor, _)| *cursor > after);
    Ok(rows.filter_map(|(cursor, line)| parse(cursor, line)).take(limit).collect())
}

fn parse(cursor: i64, line: &str) -> Option<Lost> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [epoch, namespace, action, name, generation, version, state, at, worker] =
        fields[..].try_into().ok()?;
    let what = match action {
        "" => LostRow::Run { namespace: namespace.to_owned(), id: name.to_owned() },
        action => LostRow::Effect {
            address: Address {
                namespace: Namespace::stored(namespace).ok()?,
                action: Action::new(action).ok()?,
                key: Key::parse(name).ok()?,
            },
            generation: generation.parse().ok()?,
        },
    };
    Some(Lost {
        cursor,
        epoch: epoch.parse().ok()?,
        what,
        version: version.parse().ok()?,
        state: state.to_owned(),
        written: Wall(at.parse().ok()?),
        worker: worker.to_owned(),
    })
}
