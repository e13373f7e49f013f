//! What was set, and by whom: flags before the environment, that before the project's file, that
//! before the user's, and all of them before the defaults.

mod file;
pub(crate) mod keys;
pub(crate) mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use semel_core::code::Code;
use semel_core::time::parse_duration_ms;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::exit::Failed;
use keys::{KEYS, Key};

/// The file of a project, in the folder where the command is called.
const PROJECT_FILE: &str = "semel.toml";
/// Names another file.
const FILE_VARIABLE: &str = "SEMEL_CONFIG";

/// All settings of one process.
pub(crate) struct Config {
    /// Ready to be used.
    pub(crate) set: Set,
    /// One by one, in the order of [`KEYS`], with where each came from.
    pub(crate) settings: Vec<Setting>,
    /// The files that were read, the strongest first.
    pub(crate) files: Vec<PathBuf>,
}

/// The values. Each field is a key, each table of the file a struct.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    pub(crate) store: String,
    pub(crate) namespace: String,
    pub(crate) listen: String,
    pub(crate) public_url: Option<String>,
    #[serde(default)]
    pub(crate) hosts: Vec<String>,
    #[serde(default)]
    pub(crate) tls: Tls,
    pub(crate) log: Log,
    pub(crate) limits: Limits,
    #[serde(default)]
    pub(crate) otlp: Otlp,
    #[serde(default)]
    pub(crate) encryption: Encryption,
    pub(crate) metrics: Metrics,
    #[serde(default)]
    pub(crate) secrets: BTreeMap<String, String>,
    /// One table for each trigger, as it stands in the file.
    #[serde(default)]
    pub(crate) triggers: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) filter: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) body_bytes: usize,
    pub(crate) requests_in_flight: usize,
    pub(crate) requests_per_namespace: usize,
    pub(crate) new_keys_per_second: Option<u32>,
    #[serde(rename = "hold", deserialize_with = "duration_ms")]
    pub(crate) hold_ms: u64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Otlp {
    pub(crate) endpoint: Option<String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Encryption {
    pub(crate) key_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    pub(crate) token_required: bool,
}

/// One value and where it came from.
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    /// `Null`: it is not set.
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// Who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment { variable: String },
    ProjectFile { path: PathBuf, line: usize },
    UserFile { path: PathBuf, line: usize },
    Default,
}

/// Which files are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// None: the command has nothing to do with a place.
    None,
    /// The project's, or the one that the line names, above the user's.
    Layered { named: Option<PathBuf> },
}

/// Where to look.
pub(crate) struct Sources<'a> {
    pub(crate) files: Files,
    /// What the line says, by key.
    pub(crate) flags: Vec<(String, String)>,
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    /// The folder that the project's file is in.
    pub(crate) folder: &'a Path,
}

/// Why a setting is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invalid(pub(crate) String);

impl From<Invalid> for Failed {
    fn from(invalid: Invalid) -> Failed {
        Failed::coded(Code::ConfigInvalid, invalid.0)
    }
}

impl Config {
    /// Reads all layers. The first thing wrong is refused: half of the settings is none.
    pub(crate) fn load(sources: &Sources<'_>) -> Result<Config, Invalid> {
        let mut layers = vec![from_flags(&sources.flags)?, from_environment(sources.environment)?];
        let mut files = Vec::new();
        if let Files::Layered { named } = &sources.files {
            for (path, text, layer) in sources.texts(named.as_deref())? {
                let origin = |line| match layer {
                    Layer::Project => Origin::ProjectFile { path: path.clone(), line },
                    Layer::User => Origin::UserFile { path: path.clone(), line },
                };
                layers.push(file::read(&path, &text, origin)?);
                files.push(path);
            }
        }
        let settings: Vec<Setting> = KEYS.iter().map(|key| strongest(key, &mut layers)).collect();
        let set = serde_json::from_value(nested(&settings))
            .map_err(|error| Invalid(format!("the settings do not fit: {error}")))?;
        let config = Config { set, settings, files };
        config.check_together()?;
        Ok(config)
    }

    /// What each value alone cannot say.
    fn check_together(&self) -> Result<(), Invalid> {
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.set.log.filter) {
            return Err(Invalid(format!("`log.filter` is no filter: {error}")));
        }
        match (&self.set.tls.cert, &self.set.tls.key) {
            (Some(_), None) => Err(Invalid("`tls.cert` needs `tls.key` beside it".into())),
            (None, Some(_)) => Err(Invalid("`tls.key` needs `tls.cert` beside it".into())),
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }

    /// What files say of these settings, as variables for another program that reads no files.
    pub(crate) fn by_files(&self, names: &[&str]) -> Vec<(String, String)> {
        let said = |setting: &&Setting| match setting.origin {
            Origin::ProjectFile { .. } | Origin::UserFile { .. } => true,
            Origin::Flag | Origin::Environment { .. } | Origin::Default => false,
        };
        let named = self.settings.iter().filter(|it| names.contains(&it.key.name)).filter(said);
        named.filter_map(|it| Some((it.key.variable()?, it.value.as_str()?.to_owned()))).collect()
    }

    /// Variables that look like settings and are none.
    pub(crate) fn misspelt(names: impl Iterator<Item = String>) -> Vec<(String, String)> {
        let known: Vec<String> = KEYS.iter().filter_map(Key::variable).collect();
        let known = || known.iter().map(String::as_str);
        let near = |name: String| {
            let is_alias = KEYS.iter().any(|key| key.alias == Some(&name));
            let is_known = known().any(|other| other == name) || name == FILE_VARIABLE || is_alias;
            let near = keys::nearest(name.strip_prefix("SEMEL_")?, known().map(|it| &it[6..]))?;
            (!is_known).then(|| (name.clone(), format!("SEMEL_{near}")))
        };
        names.filter_map(near).collect()
    }
}

#[derive(Clone, Copy)]
enum Layer {
    Project,
    User,
}

impl Sources<'_> {
    /// The files that are there, the strongest first.
    fn texts(&self, named: Option<&Path>) -> Result<Vec<(PathBuf, String, Layer)>, Invalid> {
        let named = named.map(Path::to_owned).or_else(|| self.variable(FILE_VARIABLE));
        let mut found = Vec::new();
        let path = named.clone().unwrap_or_else(|| PathBuf::from(PROJECT_FILE));
        match file::text(&self.folder.join(&path))? {
            Some(text) => found.push((path, text, Layer::Project)),
            // Whoever names a file means it.
            None if named.is_some() => {
                return Err(Invalid(format!("{}: there is no such file", path.display())));
            }
            None => {}
        }
        if let Some(path) = self.user_file()
            && let Some(text) = file::text(&path)?
        {
            found.push((path, text, Layer::User));
        }
        Ok(found)
    }

    fn user_file(&self) -> Option<PathBuf> {
        let own = || self.variable("HOME").map(|home| home.join(".config"));
        let folder = self.variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        folder.or_else(own).map(|folder| folder.join("semel").join("config.toml"))
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        (self.environment)(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}

fn from_flags(flags: &[(String, String)]) -> Result<Vec<Setting>, Invalid> {
    let read = |(name, text): &(String, String)| {
        let key = keys::find(name).ok_or_else(|| Invalid(file::unknown(name)))?;
        let value = key.read(text).map_err(|why| Invalid(format!("`{name}` {why}")))?;
        Ok(Setting { key, value, origin: Origin::Flag })
    };
    // The last one on the line counts, as everywhere.
    flags.iter().rev().map(read).collect()
}

fn from_environment(get: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Setting>, Invalid> {
    let mut found = Vec::new();
    for key in KEYS {
        let own = key.variable().into_iter().chain(key.alias.map(str::to_owned));
        for variable in own {
            // A variable that is empty counts as one that is not there.
            let Some(text) = get(&variable).filter(|text| !text.is_empty()) else { continue };
            let value = key.read(&text).map_err(|why| Invalid(format!("`{variable}` {why}")))?;
            found.push(Setting { key, value, origin: Origin::Environment { variable } });
        }
    }
    Ok(found)
}

/// The value of the first layer that has one.
fn strongest(key: &'static Key, layers: &mut [Vec<Setting>]) -> Setting {
    for layer in layers {
        if let Some(place) = layer.iter().position(|setting| setting.key.name == key.name) {
            return layer.remove(place);
        }
    }
    let value = key.default.map_or(Value::Null, |text| {
        key.read(text).expect("every default is a value for its key: a test holds it")
    });
    Setting { key, value, origin: Origin::Default }
}

/// The values as one document, without those that are not set.
fn nested(settings: &[Setting]) -> Value {
    let mut whole = Map::new();
    for setting in settings.iter().filter(|setting| !setting.value.is_null()) {
        match setting.key.name.split_once('.') {
            None => drop(whole.insert(setting.key.name.to_owned(), setting.value.clone())),
            Some((group, name)) => {
                let group = whole.entry(group).or_insert_with(|| Value::Object(Map::new()));
                group[name] = setting.value.clone();
            }
        }
    }
    Value::Object(whole)
}

fn duration_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration_ms(&text).map_err(|_| serde::de::Error::custom("no duration"))
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => out.write_str("flag"),
            Origin::Environment { variable } => write!(out, "environment: {variable}"),
            Origin::ProjectFile { path, line } | Origin::UserFile { path, line } => {
                write!(out, "{}:{line}", path.display())
            }
            Origin::Default => out.write_str("default"),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(&self.settings).finish()
    }
}

impl fmt::Debug for Setting {
    /// Masked: nothing that debugs us may show a secret.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} = {} ({})", self.key.name, self.key.masked(&self.value), self.origin)
    }
}
