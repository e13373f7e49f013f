//! The files of the project, read once, so that every check is a function over text.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that hold what tools make, not what people write.
const FOLDERS_SKIPPED: [&str; 6] =
    ["target", ".git", ".tools", ".venv", "node_modules", "__pycache__"];

/// Larger files are data.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

pub(crate) struct Source {
    /// From the workspace's folder, with `/` on every system.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every text file of the project, sorted by path.
pub(crate) fn load(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder));
        for entry in entries.with_context(|| format!("listing `{folder}`"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() && !FOLDERS_SKIPPED.contains(&name.as_str()) {
                folders.push(path);
            } else if kind.is_file() {
                let text = read_text(&entry.path()).with_context(|| format!("reading {path}"))?;
                sources.extend(text.map(|text| Source { path, text }));
            }
        }
    }
    sources.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(sources)
}

/// The file's text; nothing when it is data, or an editor's file that was gone before we came.
fn read_text(path: &Path) -> io::Result<Option<String>> {
    let bytes = match fs::metadata(path) {
        Ok(about) if about.len() > FILE_BYTES_MAX => return Ok(None),
        Ok(_) => fs::read(path),
        Err(error) => Err(error),
    };
    match bytes {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_sources_are_found_and_made_files_are_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let sources = load(root).unwrap();
        let has = |path: &str| sources.iter().any(|source| source.path == path);
        assert!(has("Cargo.toml") && has("xtask/src/tree.rs") && has(".cargo/config.toml"));
        assert!(!sources.iter().any(|source| source.path.starts_with("target/")));
    }
}
