//! The throw-away server: it starts, crashes, comes back, and never outlives its process.

use semel_lab::{Cluster, database};

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
        database.psql(&format!("CREATE SCHEMA {schema}; CREATE TABLE here (n int)"));
    }
    let gone = one.schema().to_owned();
    drop(one);
    let count = |schema: &str| {
        other.psql(&format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'"))
    };
    assert_eq!(count(&gone), "0");
    assert_eq!(count(other.schema()), "1");
}
