//! `semel.intend`: the same names as in Rust, and no more rights than it needs.

use semel::Key;
use semel_lab::psql;

use crate::kit::Ledger;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_encoded_and_refused_as_in_rust() {
    let ledger = Ledger::new().await;
    let client = ledger.client().await;
    let long = "ä".repeat(128);
    let plain = ["a", "a,b", "100%", "%2C", "a:b", " x ", "ключ", "\u{2028}x", &long[..254]];
    let edge = "%".repeat(86);
    let wrong = ["", " ", "\u{3000}\u{a0}", "a\nb", "a\u{7f}", "a\u{85}b", &long, &edge];
    for key in plain.into_iter().chain(wrong) {
        let intended = client.query_one("SELECT intend('mail', $1, 'null')", &[&key]).await;
        match (Key::from_text(key), intended) {
            (Ok(encoded), Ok(row)) => {
                let text = "SELECT key FROM outbox WHERE id = $1";
                let stored = client.query_one(text, &[&row.get::<_, i64>(0)]).await.unwrap();
                assert_eq!(stored.get::<_, &str>(0), encoded.as_str());
            }
            (Err(why), Err(error)) => {
                let said = error.as_db_error().expect("SQL").message().to_owned();
                assert_eq!(said, format!("semel: key_invalid: {why}"));
            }
            (rust, sql) => panic!("{key:?}: {rust:?}, {sql:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_sizes_are_checked_where_they_are_written() {
    let ledger = Ledger::new().await;
    let client = ledger.client().await;
    let long = "x".repeat(101);
    let large = format!("\"{}\"", "x".repeat(1_048_575));
    for (action, namespace, input, code) in [
        ("", "default", "1", "name_invalid"),
        ("a b", "default", "1", "name_invalid"),
        ("a\u{a0}b", "default", "1", "name_invalid"),
        ("a/b", "default", "1", "name_invalid"),
        (long.as_str(), "default", "1", "name_invalid"),
        ("mail", "x~draft", "1", "name_invalid"),
        ("mail", "", "1", "name_invalid"),
        ("mail", long.as_str(), "1", "name_invalid"),
        ("mail", "default", large.as_str(), "input_invalid"),
    ] {
        let text = "SELECT intend($1, 'k', $2::text::json, $3)";
        let error = client.query_one(text, &[&action, &input, &namespace]).await.unwrap_err();
        let said = error.as_db_error().expect("SQL").message().to_owned();
        assert!(said.starts_with(&format!("semel: {code}: ")), "{action} {namespace}: {said}");
    }
    let count = client.query_one("SELECT count(*) FROM outbox", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 0);
}

/// The right to call the function is all that a user's role needs, and nobody has it unasked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_needs_only_the_right_to_intend() {
    let ledger = Ledger::new().await;
    let schema = ledger.database.schema();
    let role = format!("app_{schema}");
    let admin = ledger.database.admin_url();
    psql(admin, &[&format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}")])
        .unwrap();
    let as_role = |sql: &str| psql(admin, &[&format!("SET ROLE {role}"), sql]);
    let intend = format!("SELECT {schema}.intend('mail', 'k', '1')");
    as_role(&intend).expect_err("nobody has it unasked");
    let grant = format!("GRANT EXECUTE ON FUNCTION {schema}.intend TO {role}");
    psql(admin, &[&grant]).unwrap();
    let id = as_role(&intend).expect("an intent");
    assert_eq!(ledger.lines("SELECT id FROM outbox"), [id]);
    for sql in
        ["SELECT * FROM SCHEMA.outbox", "DELETE FROM SCHEMA.outbox", "SELECT * FROM SCHEMA.meta"]
    {
        as_role(&sql.replace("SCHEMA", schema)).expect_err(sql);
    }
    let drop = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    psql(admin, &[&drop]).unwrap();
}
