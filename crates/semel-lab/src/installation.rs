//! Finding the machine's Postgres, newest version first, and its PgBouncer.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Where Debian keeps one folder per major version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Debian's bouncer lies where a user's PATH may not lead.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

const MISSING: &str = "no Postgres found: run `make setup`, install the package `postgresql`, \
                       or name a server in SEMEL_TEST_POSTGRES";

/// The folder that holds `initdb`, `postgres`, `psql` and their like.
pub(crate) fn folder() -> Result<PathBuf> {
    let debian = newest(Path::new(VERSIONS)).map(|version| version.join("bin"));
    // A link on the path leads to where its siblings are.
    let linked = || on_path("initdb")?.canonicalize().ok()?.parent().map(Path::to_owned);
    debian.or_else(linked).or_else(by_pg_config).context(MISSING)
}

/// A client may be installed without any server.
pub(crate) fn psql() -> Result<PathBuf> {
    let beside_server = folder().map(|folder| folder.join("psql")).ok();
    beside_server
        .filter(|psql| psql.is_file())
        .or_else(|| on_path("psql"))
        .context("no psql found: install the package `postgresql-client`")
}

pub(crate) fn pgbouncer() -> Result<PathBuf> {
    on_path("pgbouncer")
        .context("no PgBouncer found: run `make setup`, or install the package `pgbouncer`")
}

/// The version in full, as the program itself says it.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("asking {} for its version", program.display()))?;
    if !output.status.success() {
        bail!("{} --version: {}", program.display(), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn newest(versions: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(versions).ok()?;
    let numbered = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        path.join("bin/initdb").is_file().then_some((number, path))
    });
    numbered.max().map(|(_, path)| path)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = SYSTEM_FOLDERS.iter().map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(system).map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}

fn by_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    folder.join("initdb").is_file().then_some(folder)
}
