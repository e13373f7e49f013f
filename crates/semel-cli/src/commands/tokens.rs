//! `semel tokens`: who may ask the server what.

use semel_core::access::{Role, Token};
use semel_core::time::parse_duration_ms;
use semel_core::wire::rfc3339;
use serde_json::{Value, json};

use super::effects::{listed, tell_unreadable};
use super::open::Place;
use crate::args::{TokenCreate, Tokens};
use crate::exit::Failed;
use crate::print::{Printer, plain};

pub(crate) async fn run(place: &Place, command: Tokens, printer: &Printer) -> Result<(), Failed> {
    place.needs_the_store("tokens are made")?;
    match command {
        Tokens::Create(options) => create(place, &options, printer).await,
        Tokens::Ls => ls(place, printer).await,
        Tokens::Revoke { id, actor } => revoke(place, &id, &actor, printer).await,
    }
}

async fn create(place: &Place, options: &TokenCreate, printer: &Printer) -> Result<(), Failed> {
    let role = Role::parse(&options.role).ok_or_else(|| {
        let all = Role::ALL.map(Role::as_str).join(", ");
        Failed::usage(format!("`{}` is no role; there are {all}", options.role))
    })?;
    let expires_ms = options.expires_in.as_deref().map(parse_duration_ms).transpose();
    let expires_ms = expires_ms.map_err(|_| Failed::usage("--expires-in is no duration"))?;
    let label = options.label.as_deref().unwrap_or(role.as_str());
    let namespace = place.namespace_to_begin()?;
    // The first token is often made before anything else is: the store may be new.
    let engine = place.semel().await?.engine().clone();
    let made = engine.create_token(&namespace, (label, role), expires_ms, &options.actor).await?;
    let (text, token) = made;
    if printer.wants_json() {
        let mut shown = document(&token);
        shown["token"] = json!(text);
        return printer.json(&shown);
    }
    printer.line(&text);
    printer.talk(&format!(
        "a token of the role {} in the namespace {namespace}; it is not shown again",
        role.as_str()
    ));
    Ok(())
}

async fn ls(place: &Place, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let tokens = engine.tokens(&place.namespace()?).await?;
    if printer.wants_json() {
        let items: Vec<_> = tokens.found.iter().map(document).collect();
        return printer.json(&listed(&items, None::<String>, &tokens.unreadable));
    }
    let rows: Vec<_> = tokens.found.iter().map(row).collect();
    printer.table(&["ID", "LABEL", "ROLE", "CREATED", "EXPIRES", "REVOKED"], &rows);
    tell_unreadable(&tokens.unreadable, printer);
    if rows.is_empty() && tokens.unreadable.is_empty() {
        printer.talk("no tokens: whoever reaches the server on the loopback is admin");
    }
    Ok(())
}

async fn revoke(place: &Place, id: &str, actor: &str, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_decide().await?;
    let token = engine.revoke_token(&place.namespace()?, id, actor).await?;
    if printer.wants_json() {
        return printer.json(&document(&token));
    }
    printer.line(&format!("{} is revoked; servers refuse it within a second", plain(&token.id)));
    Ok(())
}

fn document(token: &Token) -> Value {
    json!({
        "id": token.id,
        "label": token.label,
        "role": token.role,
        "created_at": rfc3339(token.created),
        "expires_at": token.expires.map(rfc3339),
        "revoked_at": token.revoked.map(rfc3339),
    })
}

fn row(token: &Token) -> Vec<String> {
    let time = |at: Option<semel_core::time::Wall>| at.map(rfc3339).unwrap_or_default();
    vec![
        token.id.clone(),
        plain(&token.label),
        token.role.as_str().to_owned(),
        rfc3339(token.created),
        time(token.expires),
        time(token.revoked),
    ]
}
