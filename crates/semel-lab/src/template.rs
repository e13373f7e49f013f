//! A cluster made once per machine, account and version, and copied for each test.
//!
//! `initdb` costs a second or more of work, a copy a fraction. It is kept as one file: systems
//! sweep their temporary folder, and of a folder's files they would leave some.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::account::Account;
use crate::installation;

/// Counts the ways a template was made; another way is another folder.
const SHAPE: u32 = 3;

/// Two databases instead of four to copy, which is most of the time a cluster takes to start.
/// `template1` stays: it is what `CREATE DATABASE` copies.
const STATEMENTS: &str = "\
ALTER DATABASE postgres RENAME TO semel
UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'
DROP DATABASE template0
";

/// Puts a copy of the template, made first if there is none, into a server's folder as `data`.
pub(crate) fn copy_into(folder: &Path, account: Account) -> Result<()> {
    let template = find_or_make(account)?;
    run(tar(account, folder).arg("-xf").arg(template))
}

/// A new folder for one server, with a name that nobody else picks.
pub(crate) fn folder(account: Account, what: &str) -> Result<PathBuf> {
    let name = format!("semel-lab-{what}-{}-{}", std::process::id(), random_name()?);
    let folder = account.folder().join(name);
    make_folder(&folder, account)?;
    Ok(folder)
}

pub(crate) fn random_name() -> Result<String> {
    Ok(format!("{:08x}", getrandom::u32().context("asking for a random number")?))
}

/// Runs a command to its end; when it fails, what it said is the error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| program.clone())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program}: {}: {}", output.status, said.trim());
    }
    Ok(())
}

fn make_folder(folder: &Path, account: Account) -> Result<()> {
    fs::create_dir(folder).with_context(|| format!("making {}", folder.display()))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    account.own(folder)
}

fn find_or_make(account: Account) -> Result<PathBuf> {
    let binaries = installation::folder()?;
    let version = installation::version(&binaries.join("postgres"))?;
    let version: String = version.chars().filter(char::is_ascii_alphanumeric).collect();
    let own = rustix::process::geteuid().as_raw();
    let name = format!("semel-lab-template-{SHAPE}-{version}-{own}-{}", account.uid);
    let template = account.folder().join(name).with_extension("tar");
    if is_ours(&template, account)? {
        return Ok(template);
    }
    // Many processes start at once: one works, the others wait for it. The rename alone keeps
    // the template whole.
    let lock = template.with_extension("lock");
    let lock = File::create(&lock).with_context(|| format!("making {}", lock.display()))?;
    lock.lock().context("waiting for the template")?;
    if !is_ours(&template, account)? {
        // Only who holds the lock works here, so what lies there was left by a killed process.
        let making = template.with_extension("making");
        let _ = fs::remove_dir_all(&making);
        make_folder(&making, account)?;
        let made = make(&making, &binaries, account);
        let moved = made.and_then(|made| Ok(fs::rename(made, &template)?));
        let _ = fs::remove_dir_all(&making);
        moved.context("making the template cluster")?;
    }
    Ok(template)
}

/// In a folder open to all, a name proves nothing about who made what it names.
fn is_ours(template: &Path, account: Account) -> Result<bool> {
    match fs::symlink_metadata(template) {
        Ok(metadata) if metadata.is_file() && metadata.uid() == account.uid => Ok(true),
        Ok(_) => bail!("{} belongs to somebody else", template.display()),
        Err(_) => Ok(false),
    }
}

/// Makes the template in an empty folder, and answers where it is.
fn make(folder: &Path, binaries: &Path, account: Account) -> Result<PathBuf> {
    let data = folder.join("data");
    let mut initdb = account.command(&binaries.join("initdb"));
    initdb.arg("-D").arg(&data).args(["-U", "semel", "--auth", "trust", "-E", "UTF8"]);
    run(initdb.args(["--locale", "C", "--no-sync"]))?;

    // A single process without a port is enough.
    let mut single = account.command(&binaries.join("postgres"));
    single.args(["--single", "-c", "fsync=off", "-D"]).arg(&data).arg("template1");
    single.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = single.spawn().context("starting postgres --single")?;
    let mut input = child.stdin.take().context("postgres --single has no input")?;
    input.write_all(STATEMENTS.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || said.contains("ERROR") || said.contains("FATAL") {
        bail!("postgres --single: {}: {}", output.status, said.trim());
    }
    let made = folder.join("template.tar");
    run(tar(account, folder).arg("-cf").arg(&made).arg("data"))?;
    Ok(made)
}

fn tar(account: Account, folder: &Path) -> Command {
    let mut command = account.command(Path::new("tar"));
    command.arg("-C").arg(folder);
    command
}
