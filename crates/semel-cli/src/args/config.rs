//! `semel config …`, and the flags that are settings.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::{Args, Command};
use crate::config::Files;

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every setting as it counts here, secrets masked
    Show(ConfigShow),
    /// Print the JSON Schema of the file
    Schema,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigShow {
    /// Say of each setting where it came from
    #[arg(long)]
    pub(crate) origin: bool,
    #[command(flatten)]
    pub(crate) flags: ConfigFlags,
}

/// Settings on the line, for commands that use more than store and namespace.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct ConfigFlags {
    /// Where the server listens
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// How lines on stderr are written: text or json
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Any other setting, such as limits.hold=10s; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) pairs: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write KEY=VALUE, such as limits.hold=10s")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Args {
    /// What this very line says, by key.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let mut said = match &self.command {
            Command::Config(Config::Show(options)) => options.flags.settings(),
            Command::Serve(options) => options.flags.settings(),
            Command::Dev(options) => options.flags.settings(),
            _ => Vec::new(),
        };
        for (key, is_named, value) in [
            ("store", self.store_is_named, &self.store),
            ("namespace", self.namespace_is_named, &self.namespace),
        ] {
            if is_named {
                said.push((key.to_owned(), value.clone()));
            }
        }
        let key_file = self.key_file.iter();
        let key_file = key_file.map(|path| path.to_string_lossy().into_owned());
        said.extend(key_file.map(|path| ("encryption.key_file".to_owned(), path)));
        said
    }
}

impl ConfigFlags {
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let mut said = self.pairs.clone();
        for (key, value) in [("listen", &self.listen), ("log.format", &self.log_format)] {
            said.extend(value.iter().map(|value| (key.to_owned(), value.clone())));
        }
        said
    }
}

impl Command {
    /// Which files with settings concern it: none where there is no place to work in, so that the
    /// demo plays and the schema is printed beside a file that is wrong.
    pub(crate) fn files(&self, named: Option<PathBuf>) -> Files {
        match self {
            Command::Demo(_)
            | Command::Bench(_)
            | Command::Double(_)
            | Command::Keys(_)
            | Command::Completions { .. }
            | Command::Config(Config::Schema)
            | Command::DemoCrm { .. }
            | Command::DemoModel { .. }
            | Command::DemoMail { .. }
            | Command::DemoTriageWorker(_)
            | Command::DemoWorker(_)
            | Command::BenchWorker { .. }
            | Command::BenchPostgres(_) => Files::None,
            _ => Files::Layered { named },
        }
    }
}
