//! `semel triggers test`: a delivery judged as the server would, with the secrets of this shell.

use semel_core::derive;
use semel_core::hook::{self, Event, Plan, Request};
use semel_core::key::Namespace;
use semel_core::wire_trigger::trigger_view;
use semel_engine::{Engine, secrets_of};
use serde_json::{Value, json};

use super::read_bytes;
use crate::args::TriggerTest;
use crate::commands::open::Place;
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

pub(super) async fn run(
    place: &Place,
    options: &TriggerTest,
    printer: &Printer,
) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let namespace = place.namespace()?;
    let found = engine.trigger(&namespace, &options.name).await.map_err(Failed::about_trigger)?;
    let plan = hook::check(&options.name, &found.trigger.content).map_err(semel::Error::from)?;
    let body = read_bytes(&options.body)?;
    let headers = options.headers.iter().map(|line| header(line)).collect::<Result<Vec<_>, _>>()?;
    let request = Request { headers: &headers, body: &body };
    let now = engine.store().ground().now.wall;
    let verdict = hook::verify(&plan.scheme, &secrets_of(&plan).await, &request, now);
    let signature = verdict.err().map_or("genuine", hook::Refused::as_str);
    let wish = wish(&engine, &namespace, &plan, request).await?;
    let path =
        trigger_view((namespace.as_str(), &options.name, found.version), &found.trigger).path;
    if printer.wants_json() {
        let mut answer = json!({ "signature": signature, "path": path });
        answer.as_object_mut().expect("an object").extend(wish.as_object().cloned().expect("one"));
        printer.json(&answer)?;
    } else {
        print(signature, &wish, printer);
    }
    if verdict.is_err() {
        let text = format!("the delivery would be refused: {signature}");
        let error = semel::Error::new(semel::Code::SignatureInvalid, text);
        return Err(Failed::from(error).hint(
            "give the headers of a real delivery, not older than five minutes, and its secret",
        ));
    }
    if let Some(problem) = wish["problem"].as_str() {
        let error = semel::Error::new(semel::Code::InputInvalid, problem);
        return Err(Failed::from(error).hint("correct the `key` or the `input` of the trigger"));
    }
    Ok(())
}

/// Which run the delivery is and what that would get; or why none can be made of it.
async fn wish(
    engine: &Engine,
    namespace: &Namespace,
    plan: &Plan,
    request: Request<'_>,
) -> Result<Value, Failed> {
    let made = Event::read(&plan.scheme, request)
        .and_then(|event| Ok((plan.key(&event)?, plan.input(&event)?)));
    let (key, input) = match made {
        Ok(made) => made,
        Err(unusable) => return Ok(json!({ "problem": unusable.to_string() })),
    };
    let id = derive::run_id(namespace, plan.workflow.as_str(), &key).to_string();
    let is_there = engine.store().run(namespace.as_str(), &id).await?.is_some();
    let then = if is_there { "repeated" } else { "started" };
    Ok(json!({ "key": key.as_str(), "input": input, "run": id, "then": then }))
}

fn header(line: &str) -> Result<(String, Vec<u8>), Failed> {
    let Some((name, value)) = line.split_once(':') else {
        return Err(Failed::usage(format!("`{}` is not NAME: VALUE", plain(line))));
    };
    Ok((name.trim().to_ascii_lowercase(), value.trim().as_bytes().to_vec()))
}

fn print(signature: &str, wish: &Value, printer: &Printer) {
    let field = |name: &str, value: &str| {
        let name = printer.paint(Tone::Quiet, &format!("{name:10}"));
        printer.line(&format!("{name} {}", plain(value)));
    };
    field("signature", signature);
    for (name, value) in wish.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        field(name, &text);
    }
}
