//! `semel keys`: the file with the keys that payload is encrypted with. No command shows a key.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use semel_store::{KeyInfo, Keyring, StoreError};
use serde_json::json;

use crate::args::Keys;
use crate::exit::Failed;
use crate::print::Printer;

pub(crate) fn run(command: Keys, printer: &Printer) -> Result<(), Failed> {
    match command {
        Keys::New { file, id, only_for } => new(&file, id.as_deref(), only_for.as_deref(), printer),
        Keys::Ls { file } => ls(&file, printer),
        Keys::Drop { file, id, for_ever: _ } => forget(&file, &id, printer),
    }
}

fn new(
    file: &Path,
    id: Option<&str>,
    namespace: Option<&str>,
    printer: &Printer,
) -> Result<(), Failed> {
    let text = match file.exists() {
        true => Keyring::read(file).map_err(Failed::from).and_then(|_| read(file))?,
        false => String::new(),
    };
    let line = Keyring::new_line(id, namespace)?;
    // The first one writes, among those for all and among those of one namespace.
    let whole = format!("{}\n{text}", *line);
    let keys = Keyring::parse(&whole).map_err(|why| invalid(file, &why))?.keys();
    let id = keys.into_iter().next().map(|key| key.id).unwrap_or_default();
    write(file, &whole)?;
    if printer.wants_json() {
        return printer.json(&json!({ "id": id, "namespace": namespace }));
    }
    let whose = namespace.map_or_else(String::new, |name| format!(" for the namespace {name}"));
    printer.line(&format!("the key {id} writes from now on{whose}"));
    printer.talk("keep a copy of the file elsewhere: what it encrypts cannot be read without it");
    Ok(())
}

fn ls(file: &Path, printer: &Printer) -> Result<(), Failed> {
    let keys = Keyring::read(file)?.keys();
    if printer.wants_json() {
        let one = |key: &KeyInfo| {
            let KeyInfo { id, namespace, is_dropped } = key;
            json!({ "id": id, "namespace": namespace, "dropped": is_dropped })
        };
        return printer.json(&json!({ "items": keys.iter().map(one).collect::<Vec<_>>() }));
    }
    let row = |key: &KeyInfo| {
        let namespace = key.namespace.clone().unwrap_or_else(|| "all".to_owned());
        vec![key.id.clone(), namespace, if key.is_dropped { "dropped" } else { "" }.to_owned()]
    };
    printer.table(&["ID", "NAMESPACE", ""], &keys.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

fn forget(file: &Path, id: &str, printer: &Printer) -> Result<(), Failed> {
    let keys = Keyring::read(file)?.keys();
    let found = keys.iter().find(|key| key.id == id);
    let found = found.ok_or_else(|| Failed::not_found(format!("there is no key {id}")))?;
    let Some(namespace) = &found.namespace else {
        return Err(Failed::refused(format!("the key {id} is for all namespaces"))
            .hint("only a key of one namespace is dropped: it takes nobody else's rows with it"));
    };
    let dropped = format!("{id} {namespace}: dropped");
    let is_it = |line: &str| {
        let name = line.split(':').next().unwrap_or_default();
        name.split_whitespace().next() == Some(id)
    };
    let lines = read(file)?;
    let lines = lines.lines().map(|line| if is_it(line) { &*dropped } else { line });
    write(file, &(lines.collect::<Vec<_>>().join("\n") + "\n"))?;
    printer.line(&format!("the key {id} was dropped: what {namespace} wrote with it is gone"));
    printer
        .talk("workers that are running know it until they end; copies of the file know it, too");
    Ok(())
}

fn read(file: &Path) -> Result<String, Failed> {
    std::fs::read_to_string(file).map_err(|error| invalid(file, &error.to_string()))
}

/// All of it or nothing, and for its owner only.
fn write(file: &Path, text: &str) -> Result<(), Failed> {
    let failed = |error: std::io::Error| invalid(file, &error.to_string());
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = std::path::PathBuf::from(beside);
    let mut options = std::fs::File::options();
    let mut new = options.write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
    let written = new.write_all(text.as_bytes()).and_then(|()| new.sync_all());
    let moved = written.and_then(|()| std::fs::rename(&beside, file));
    if moved.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    moved.map_err(failed)
}

fn invalid(file: &Path, why: &str) -> Failed {
    StoreError::KeyFileInvalid(format!("the key file {}: {why}", file.display())).into()
}
