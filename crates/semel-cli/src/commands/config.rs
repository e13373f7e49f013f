//! `semel config`: what is set, and by whom.

use serde_json::{Value, json};

use crate::args::ConfigShow;
use crate::config::{Config, Origin, Setting, schema};
use crate::exit::Failed;
use crate::print::Printer;

/// Prints every setting, secrets masked.
pub(crate) fn show(config: &Config, options: &ConfigShow, printer: &Printer) -> Result<(), Failed> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (name, near) in Config::misspelt(names) {
        printer.talk(&format!("warning: nobody reads {name}; did you mean {near}?"));
    }
    if printer.wants_json() {
        let values: Vec<Value> = config.settings.iter().map(view).collect();
        let files: Vec<String> =
            config.files.iter().map(|path| path.display().to_string()).collect();
        return printer.json(&json!({ "files": files, "settings": values }));
    }
    if options.origin {
        let row = |it: &Setting| vec![it.key.name.to_owned(), text(it), it.origin.to_string()];
        let rows: Vec<Vec<String>> = config.settings.iter().map(row).collect();
        printer.table(&["KEY", "VALUE", "ORIGIN"], &rows);
    } else {
        let row = |it: &Setting| vec![it.key.name.to_owned(), text(it)];
        let rows: Vec<Vec<String>> = config.settings.iter().map(row).collect();
        printer.table(&["KEY", "VALUE"], &rows);
    }
    Ok(())
}

/// Prints the JSON Schema of the file.
pub(crate) fn schema(printer: &Printer) -> Result<(), Failed> {
    printer.json(&schema::json_schema())
}

fn text(setting: &Setting) -> String {
    match setting.key.masked(&setting.value) {
        Value::Null => "-".into(),
        Value::String(text) => text,
        value => value.to_string(),
    }
}

fn view(setting: &Setting) -> Value {
    let (kind, name) = match &setting.origin {
        Origin::Flag => ("flag", None),
        Origin::Environment { variable } => ("environment", Some(variable.clone())),
        Origin::ProjectFile { .. } => ("project_file", Some(setting.origin.to_string())),
        Origin::UserFile { .. } => ("user_file", Some(setting.origin.to_string())),
        Origin::Default => ("default", None),
    };
    json!({
        "key": setting.key.name,
        "value": setting.key.masked(&setting.value),
        "origin": { "kind": kind, "name": name },
    })
}
