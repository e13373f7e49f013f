//! The throw-away server: it starts, crashes, comes back, and never outlives its process.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use semel_lab::{Cluster, database};

/// Tells the test below that it is the child.
const CHILD: &str = "SEMEL_LAB_CHILD";

#[test]
fn a_cluster_answers_and_takes_settings() {
    let cluster = Cluster::with(&[("max_connections", "17")]);
    assert_eq!(cluster.psql("SELECT current_user, current_database()"), "semel|semel");
    assert_eq!(cluster.psql("SHOW max_connections"), "17");
    assert_eq!(cluster.psql("SHOW fsync"), "off");
    assert_eq!(cluster.psql("SHOW server_encoding"), "UTF8");
    assert!(cluster.url().ends_with(&format!("@127.0.0.1:{}/semel", cluster.port())));
    assert!(cluster.try_psql("SELECT nothing").is_err());
    assert!(cluster.log().contains("\"nothing\" does not exist"));
}

#[test]
fn a_crash_keeps_what_was_committed_and_nothing_else() {
    let cluster = Cluster::durable();
    assert_eq!(cluster.psql("SHOW fsync"), "on");
    cluster.psql("CREATE TABLE kept (n int)");
    cluster.psql("INSERT INTO kept SELECT generate_series(1, 1000)");
    let log_before = cluster.log().len();
    cluster.stop_immediately();
    assert!(cluster.try_psql("SELECT 1").is_err(), "a stopped server does not answer");
    cluster.start_again();
    assert_eq!(cluster.psql("SELECT count(*) FROM kept"), "1000");
    assert!(cluster.log()[log_before..].contains("not properly shut down"), "it was a crash");

    // Its children may still be dying.
    cluster.kill();
    cluster.start_again();
    assert_eq!(cluster.psql("SELECT count(*) FROM kept"), "1000");

    cluster.stop_fast();
    let log_before = cluster.log().len();
    cluster.start_again();
    assert_eq!(cluster.psql("SELECT count(*) FROM kept"), "1000");
    assert!(!cluster.log()[log_before..].contains("not properly shut down"), "no crash this time");
}

#[test]
fn each_database_is_a_schema_of_its_own_and_goes_with_its_value() {
    let (one, other) = (database(), database());
    assert_ne!(one.schema(), other.schema());
    assert!(one.url().ends_with(&format!("schema={}", one.schema())));
    for database in [&one, &other] {
        let schema = database.schema();
        database.psql(&format!("CREATE SCHEMA {schema}"));
        database.psql("CREATE TABLE here (n int)");
    }
    let gone = one.schema().to_owned();
    drop(one);
    let count = |schema: &str| {
        other.psql(&format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'"))
    };
    assert_eq!(count(&gone), "0");
    assert_eq!(count(other.schema()), "1");
}

#[test]
fn a_server_does_not_outlive_a_process_that_is_killed() {
    if std::env::var_os(CHILD).is_some() {
        return be_a_child_until_killed();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_does_not_outlive_a_process_that_is_killed", "--nocapture"])
        .env(CHILD, "1")
        // As the test runner does, which then kills the whole group.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut word = |name: &str| {
        lines.find_map(|line| line.split_once(name).map(|(_, rest)| rest.to_owned())).unwrap()
    };
    let port: u16 = word("port=").parse().unwrap();
    let folder = PathBuf::from(word("folder="));
    assert!(folder.join("data/postmaster.pid").exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());

    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_until_gone(&folder);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the server is gone");
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn be_a_child_until_killed() {
    let cluster = Cluster::start();
    println!("\nport={}\nfolder={}", cluster.port(), cluster.folder().display());
    // Ends by itself too, should the parent die.
    let _ = std::io::stdin().read(&mut [0]);
}

/// The folder goes last, after the server.
fn wait_until_gone(folder: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    while folder.exists() {
        assert!(Instant::now() < until, "{} is still there", folder.display());
        sleep(Duration::from_millis(10));
    }
}
