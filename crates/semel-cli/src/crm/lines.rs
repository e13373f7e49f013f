//! Files of JSON lines that only grow: what the servers of the demo keep, and what oracles count.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Opens for this process alone, and cuts off an unfinished last line.
pub(crate) fn open<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> anyhow::Result<Vec<T>>,
) -> anyhow::Result<(File, Vec<T>)> {
    let name = || path.display().to_string();
    let mut file =
        File::options().read(true).append(true).create(true).open(path).with_context(name)?;
    file.try_lock().with_context(|| format!("another server holds {}", name()))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).with_context(name)?;
    let entries = parse(&text).with_context(name)?;
    file.set_len(whole(&text).len() as u64).with_context(name)?;
    Ok((file, entries))
}

/// All lines, straight from a file. No file is an error: a count of nothing at the wrong place
/// would pass for a proof.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("cannot trust {}", path.display()))
}

/// One write call, so that a kill leaves the line whole or absent.
pub(crate) fn append(file: &mut File, entry: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    file.write_all(&line)?;
    Ok(())
}

pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> anyhow::Result<Vec<T>> {
    let lines = whole(text).split_inclusive(|byte| *byte == b'\n').zip(1..);
    lines
        .map(|(line, number)| {
            serde_json::from_slice(line).with_context(|| format!("line {number} is malformed"))
        })
        .collect()
}

/// Without the unfinished line at the end, which was never answered.
fn whole(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    &text[..end]
}

/// Says where a server listens, in one step: whoever reads the file reads all of it.
pub(crate) fn publish(path: &Path, address: &str) -> anyhow::Result<()> {
    let draft = path.with_extension("tmp");
    fs::write(&draft, address)?;
    fs::rename(&draft, path)?;
    Ok(())
}
