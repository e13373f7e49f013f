//! Layers, origins and refusals, on real files in a folder that is thrown away.

use std::collections::BTreeMap;
use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::{Config, Files, Invalid, Sources, keys, schema};

/// A folder with files and an environment of its own.
struct Place {
    folder: TempDir,
    variables: BTreeMap<String, String>,
    flags: Vec<(String, String)>,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let home = folder.path().display().to_string();
        Place { folder, variables: BTreeMap::from([("HOME".into(), home)]), flags: Vec::new() }
    }

    fn variable(mut self, name: &str, value: &str) -> Place {
        self.variables.insert(name.into(), value.into());
        self
    }

    fn flag(mut self, name: &str, value: &str) -> Place {
        self.flags.push((name.into(), value.into()));
        self
    }

    fn load(&self) -> Result<Config, Invalid> {
        Config::load(&Sources {
            files: Files::Layered { named: None },
            flags: self.flags.clone(),
            environment: &|name| self.variables.get(name).cloned(),
            folder: self.folder.path(),
        })
    }

    fn check(&self, key: &str, value: &str, origin: &str) {
        let config = self.load().expect("good settings");
        let found = config.settings.iter().find(|setting| setting.key.name == key).expect("it");
        let home = self.folder.path().display().to_string();
        let from = found.origin.to_string().replace(&home, "~");
        assert_eq!((found.value.to_string().as_str(), from.as_str()), (value, origin), "{key}");
    }

    fn refuse(&self, want: &str) {
        let Invalid(why) = self.load().expect_err(want);
        assert_eq!(why.replace(&self.folder.path().display().to_string(), "~"), want);
    }
}

const USER: &str = ".config/semel/config.toml";

#[test]
fn flags_stand_before_environment_project_user_and_default() {
    let files =
        [("semel.toml", "store = \"sqlite:project.db\""), (USER, "store = \"sqlite:u.db\"")];
    Place::new(&[]).check("store", "\"sqlite:semel.db\"", "default");
    Place::new(&files[1..]).check("store", "\"sqlite:u.db\"", "~/.config/semel/config.toml:1");
    Place::new(&files).check("store", "\"sqlite:project.db\"", "semel.toml:1");
    let place = Place::new(&files).variable("SEMEL_STORE", "sqlite:env.db");
    place.check("store", "\"sqlite:env.db\"", "environment: SEMEL_STORE");
    let place = place.flag("store", "sqlite:one.db").flag("store", "sqlite:two.db");
    place.check("store", "\"sqlite:two.db\"", "flag");
}

#[test]
fn each_key_comes_from_its_own_strongest_layer() {
    let place = Place::new(&[
        ("semel.toml", "# ours\n[log]\nformat = \"json\"\n\n[limits]\nhold = \"10s\"\n"),
        (USER, "listen = \"127.0.0.1:1\"\nlog.filter = \"info\"\nlimits.hold = \"1s\"\n"),
    ])
    .variable("RUST_LOG", "debug")
    .variable("SEMEL_LISTEN", "");
    place.check("log.format", "\"json\"", "semel.toml:3");
    place.check("limits.hold", "\"10s\"", "semel.toml:6");
    place.check("log.filter", "\"debug\"", "environment: RUST_LOG");
    // An empty variable says nothing.
    place.check("listen", "\"127.0.0.1:1\"", "~/.config/semel/config.toml:1");
    let set = place.load().expect("good settings").set;
    assert_eq!((set.limits.hold_ms, set.limits.new_keys_per_second), (10_000, None));
    let own = place.variable("SEMEL_LOG_FILTER", "error");
    own.check("log.filter", "\"error\"", "environment: SEMEL_LOG_FILTER");
}

#[test]
fn another_file_is_named_and_must_be_there() {
    let files = [("semel.toml", "namespace = \"a\""), ("other.toml", "namespace = \"b\"")];
    let place = Place::new(&files).variable("SEMEL_CONFIG", "other.toml");
    place.check("namespace", "\"b\"", "other.toml:1");
    let place = Place::new(&files).variable("SEMEL_CONFIG", "gone.toml");
    place.refuse("gone.toml: there is no such file");
}

#[test]
fn what_is_wrong_is_refused_with_file_line_and_the_nearest_name() {
    let check = |text: &str, want: &str| Place::new(&[("semel.toml", text)]).refuse(want);
    check("\nstroe = \"a\"", "semel.toml:2: `stroe` is no setting; did you mean `store`?");
    check(
        "[limits]\nbody_byte = 1",
        "semel.toml:2: `limits.body_byte` is no setting; did you mean `limits.body_bytes`?",
    );
    check("[limit]\nhold = \"1s\"", "semel.toml:1: `limit` is no setting; did you mean `limits`?");
    check(
        "colour = 1",
        "semel.toml:1: `colour` is no setting; `semel config show` lists all there are",
    );
    check("store = 1", "semel.toml:1: `store` must be a text");
    check("[log]\nformat = \"xml\"", "semel.toml:2: `log.format` must be text or json");
    check("tls.cert = \"a.pem\"", "`tls.cert` needs `tls.key` beside it");
    let refused = Place::new(&[("semel.toml", "log.filter = \"a=b=c\"")]).load();
    assert!(refused.expect_err("no filter").0.starts_with("`log.filter` is no filter: "));
    check(
        "[secrets]\ncrm = \"sk_live_1\"",
        "semel.toml:1: `secrets` must be a table of references, `env:NAME` or `file:PATH`, \
         never the secret itself",
    );
    let refused = Place::new(&[("semel.toml", "store = \"a\nb = 1")]).load();
    assert!(refused.expect_err("no TOML").0.starts_with("semel.toml:1: "));
    let place = Place::new(&[]).variable("SEMEL_LIMITS_BODY_BYTES", "lots");
    place.refuse("`SEMEL_LIMITS_BODY_BYTES` must be a whole number from 1 to 67108864");
    let place = Place::new(&[]).flag("limits.hodl", "1s");
    place.refuse("`limits.hodl` is no setting; did you mean `limits.hold`?");
}

#[test]
fn every_key_reaches_the_program() {
    let text = r#"
        store = "sqlite:a.db"
        namespace = "shop"
        listen = "[::1]:7000"
        public_url = "https://semel.example"
        hosts = ["semel.example"]
        tls = { cert = "cert.pem", key = "key.pem" }
        log = { format = "json", filter = "info" }
        encryption = { key_file = "key" }
        metrics = { token_required = false }
        [limits]
        body_bytes = 10
        requests_in_flight = 11
        requests_per_namespace = 12
        new_keys_per_second = 13
        hold = "14s"
        [otlp]
        endpoint = "http://127.0.0.1:4318"
        headers = { authorization = "Bearer canary" }
        [secrets]
        crm = "env:CRM"
        [triggers.orders]
        anything = [1, { goes = true }]
    "#;
    let config = Place::new(&[("semel.toml", text)]).load().expect("good settings");
    for setting in &config.settings {
        assert_eq!(setting.origin.to_string().split(':').next(), Some("semel.toml"));
    }
    assert_eq!(config.settings.len(), keys::KEYS.len());
    assert!(!format!("{config:?}").contains("canary"), "{config:?}");
    let set = config.set;
    assert_eq!((set.store.as_str(), set.namespace.as_str()), ("sqlite:a.db", "shop"));
    assert_eq!((set.listen.as_str(), set.hosts.len()), ("[::1]:7000", 1));
    assert_eq!(set.public_url.as_deref(), Some("https://semel.example"));
    assert!(set.tls.cert.is_some() && set.tls.key.is_some());
    assert_eq!((set.log.format, set.log.filter.as_str()), (super::LogFormat::Json, "info"));
    let limits = set.limits;
    assert_eq!((limits.body_bytes, limits.requests_in_flight), (10, 11));
    assert_eq!((limits.requests_per_namespace, limits.new_keys_per_second), (12, Some(13)));
    assert_eq!((limits.hold_ms, set.metrics.token_required), (14_000, false));
    assert_eq!(set.otlp.endpoint.as_deref(), Some("http://127.0.0.1:4318"));
    assert_eq!(set.otlp.headers["authorization"], "Bearer canary");
    assert_eq!(set.encryption.key_file.as_deref(), Some("key".as_ref()));
    assert_eq!(set.secrets["crm"], "env:CRM");
    assert_eq!(set.triggers["orders"], json!({ "anything": [1, { "goes": true }] }));
}

#[test]
fn what_nobody_set_is_what_a_server_takes_by_itself() {
    let config = Place::new(&[]).load().expect("good settings");
    let (set, own) = (config.set.limits, semel_server::Limits::default());
    assert_eq!(set.body_bytes, own.body_bytes);
    assert_eq!(set.requests_in_flight, own.requests_in_flight);
    assert_eq!(set.requests_per_namespace, own.requests_per_namespace);
    assert_eq!(set.new_keys_per_second, own.new_keys_per_second);
    assert_eq!(set.hold_ms, own.hold_ms);
}

#[test]
fn misspelt_variables_are_told_and_others_left_alone() {
    let names = ["SEMEL_LIMITS_HOLDS", "SEMEL_STORE", "SEMEL_PYTHON", "SEMEL_CONFIG", "PATH"];
    let told = Config::misspelt(names.into_iter().map(str::to_owned));
    assert_eq!(told, [("SEMEL_LIMITS_HOLDS".to_owned(), "SEMEL_LIMITS_HOLD".to_owned())]);
}

/// `SEMEL_BLESS=1` writes both anew.
#[test]
fn schema_and_page_for_users_are_those_of_the_table() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let schema = serde_json::to_string_pretty(&schema::json_schema()).expect("JSON") + "\n";
    let (schema_path, page_path) =
        (format!("{docs}/config.schema.json"), format!("{docs}/config.md"));
    let page = fs::read_to_string(&page_path).expect("the page");
    let (before, rest) = page.split_once("<!-- keys -->\n").expect("a mark before the table");
    let (_, after) = rest.split_once("<!-- end of keys -->").expect("a mark behind it");
    let wanted =
        format!("{before}<!-- keys -->\n{}<!-- end of keys -->{after}", schema::markdown());
    if std::env::var_os("SEMEL_BLESS").is_some() {
        fs::write(&schema_path, &schema).expect("written");
        fs::write(&page_path, &wanted).expect("written");
    }
    assert_eq!(fs::read_to_string(&schema_path).expect("the schema"), schema);
    assert_eq!(fs::read_to_string(&page_path).expect("the page"), wanted);
}
