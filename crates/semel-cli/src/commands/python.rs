//! Commands on code in Python: `python3 -m semel` does them, in the place of this process, so that
//! signals and exit codes are its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::config::Config;
use crate::exit::Failed;

/// Names the interpreter to use instead of the first `python3` on the path.
const INTERPRETER: &str = "SEMEL_PYTHON";
/// The process that became Python.
const ASKED: &str = "SEMEL_PYTHON_ASKED";
/// What an interpreter ends with that does not have the package; Python itself ends with 1 or 2.
const HAS_NO_SEMEL: i32 = 9;
const LOOK: &str =
    "import importlib.util, sys; sys.exit(9 if importlib.util.find_spec('semel') is None else 0)";

/// What this very line says for all commands, and what files say where nobody else does. What the
/// environment says reaches Python by itself.
pub(crate) struct Named {
    store: Option<String>,
    namespace: Option<String>,
    json: bool,
    by_files: Vec<(String, String)>,
}

impl Named {
    pub(crate) fn on(args: &Args, config: &Config) -> Named {
        Named {
            store: args.store_is_named.then(|| args.store.clone()),
            namespace: args.namespace_is_named.then(|| args.namespace.clone()),
            json: args.json,
            by_files: by_files(config),
        }
    }
}

/// What Python must hear of: the key file also when this very line names it, and all secrets.
fn by_files(config: &Config) -> Vec<(String, String)> {
    let mut said = config.by_files(&["store", "namespace"]);
    let key_file = config.set.encryption.key_file.iter();
    let key_file = key_file.map(|path| path.to_string_lossy().into_owned());
    said.extend(key_file.map(|path| ("SEMEL_ENCRYPTION_KEY_FILE".to_owned(), path)));
    let named = std::env::var("SEMEL_SECRETS").unwrap_or_default();
    let declared = crate::veil::declared(config, &named);
    said.extend(Some(("SEMEL_SECRETS".to_owned(), declared)).filter(|(_, it)| !it.is_empty()));
    said
}

/// Becomes `python3 -m semel COMMAND …`. Returns only if that fails.
pub(crate) fn become_python(command: &[&str], named: Named, rest: Vec<OsString>) -> Failed {
    let python = interpreter();
    if let Err(failed) = look_for_semel(&python) {
        return failed;
    }
    // The process stays the same: had Python handed the line back to us, it would for ever.
    let own = std::process::id().to_string();
    if std::env::var(ASKED).is_ok_and(|asked| asked == own) {
        return Failed::internal("the Python package does not know this command");
    }
    let mut line = Command::new(&python);
    line.env(ASKED, own).envs(named.by_files).args(["-m", "semel"]).args(command);
    for (option, value) in [("--store", named.store), ("--namespace", named.namespace)] {
        if let Some(value) = value {
            line.args([option, &value]);
        }
    }
    if named.json {
        line.arg("--json");
    }
    let error = line.args(rest).exec();
    unusable(&python, &error.to_string())
}

/// The interpreter that is named, or else the first on the path.
pub(crate) fn interpreter() -> OsString {
    let python = std::env::var_os(INTERPRETER).filter(|name| !name.is_empty());
    python.unwrap_or_else(|| "python3".into())
}

/// Python would say only that there is no such module.
pub(crate) fn look_for_semel(python: &OsString) -> Result<(), Failed> {
    let looked = Command::new(python).args(["-c", LOOK]).stdin(Stdio::null()).output();
    let looked = looked.map_err(|error| unusable(python, &error.to_string()))?;
    match looked.status.code() {
        Some(0) => Ok(()),
        Some(HAS_NO_SEMEL) => {
            let message = format!("`{}` has no package semel", python.display());
            let hint = format!("pip install semel, or name another interpreter by {INTERPRETER}");
            Err(Failed::new(message).hint(hint))
        }
        Some(_) | None => {
            let said = String::from_utf8_lossy(&looked.stderr);
            let last = said.lines().last().unwrap_or("it says nothing");
            Err(unusable(python, &format!("{}; {last}", looked.status)))
        }
    }
}

fn unusable(python: &OsString, why: &str) -> Failed {
    let message = format!("`{}` cannot be run: {why}", python.display());
    Failed::new(message).hint(format!("install Python 3, or name an interpreter by {INTERPRETER}"))
}
