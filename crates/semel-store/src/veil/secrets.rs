//! Declared secrets: named by where their values are, never by the values themselves.

use std::path::Path;

use semel_core::limits;
use semel_core::redact::Redactor;

use crate::StoreError;

/// Reads `env:NAME,file:path/to/secret`, each perhaps behind the name to show in its place
/// (`API=env:NAME`), and looks the values up.
pub fn read(declared: &str) -> Result<Redactor, StoreError> {
    let names = declared.split([',', '\n']).map(str::trim).filter(|name| !name.is_empty());
    let secrets = names.map(secret).collect::<Result<Vec<_>, _>>()?;
    if secrets.len() > limits::SECRETS_MAX {
        let most = limits::SECRETS_MAX;
        return Err(StoreError::SecretInvalid(format!("more than {most} secrets are declared")));
    }
    Redactor::new(secrets).map_err(|invalid| {
        StoreError::SecretInvalid(format!("the secret {}: {}", invalid.name, invalid.why))
    })
}

fn secret(declared: &str) -> Result<(String, String), StoreError> {
    let (shown, reference) = match declared.split_once('=') {
        Some((name, reference)) if !name.contains(':') => (Some(name), reference),
        Some(_) | None => (None, declared),
    };
    let named = |name: &str| shown.unwrap_or(name).to_owned();
    let invalid = |why: String| StoreError::SecretInvalid(format!("the secret {reference}: {why}"));
    match reference.split_once(':') {
        Some(("env", name)) => {
            let value = std::env::var(name);
            // A missing one would be written in clear as soon as it is there.
            let value =
                value.map_err(|_| invalid("the environment has no such text".to_owned()))?;
            Ok((named(name), value))
        }
        Some(("file", path)) => {
            let value =
                std::fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
            let name = Path::new(path).file_stem().unwrap_or_default();
            Ok((named(&name.to_string_lossy()), value.trim_end_matches(['\r', '\n']).to_owned()))
        }
        Some(_) | None => Err(StoreError::SecretInvalid(
            "a secret is declared as env:NAME or file:path, never by its value".to_owned(),
        )),
    }
}
