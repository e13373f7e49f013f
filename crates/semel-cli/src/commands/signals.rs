//! `semel signals`: what a run waits for, from a person's hand.

use std::path::Path;

use semel_engine::Signal;
use serde_json::json;

use super::open::Place;
use super::runs::{json_of, read_input};
use crate::args::{self, Signals};
use crate::exit::Failed;
use crate::print::{Printer, plain};

pub(crate) async fn run(place: &Place, command: Signals, printer: &Printer) -> Result<(), Failed> {
    match command {
        Signals::Send(options) => send(place, &options, printer).await,
        Signals::Callback(options) => callback(place, &options, printer).await,
    }
}

async fn send(place: &Place, options: &args::SignalSend, printer: &Printer) -> Result<(), Failed> {
    let signal = Signal {
        namespace: place.namespace()?,
        run: place.run_id(&options.run)?,
        name: options.name.clone(),
        identity: options.id.clone(),
        payload: json_of(&options.payload)?,
    };
    let (run, name) = (signal.run.clone(), &options.name);
    let engine = place.engine_to_decide().await?;
    let signalled = engine.signal(signal).await.map_err(Failed::about_run)?;
    engine.write_repeats().await;
    let (identity, repeated) = (signalled.identity, signalled.repeated);
    if printer.wants_json() {
        let answer =
            json!({ "run": run, "name": name, "identity": identity, "repeated": repeated });
        return printer.json(&answer);
    }
    let done = if repeated { "repeated: it had been delivered as" } else { "delivered as" };
    printer.line(&format!("{} {done} {}", plain(name), plain(&identity)));
    Ok(())
}

/// The token says in which namespace its run is. It is as good as a password: nothing prints it.
async fn callback(
    place: &Place,
    options: &args::SignalCallback,
    printer: &Printer,
) -> Result<(), Failed> {
    let payload = json_of(&options.payload)?;
    let token = match options.token.as_str() {
        "-" => read_input(Path::new("-"))?.trim().to_owned(),
        token => token.to_owned(),
    };
    let engine = place.engine_to_decide().await?;
    let answered = engine.call_back(&token, payload).await.map_err(Failed::about_callback)?;
    engine.write_repeats().await;
    if printer.wants_json() {
        let (identity, repeated) = (answered.identity, answered.repeated);
        return printer.json(&json!({ "identity": identity, "repeated": repeated }));
    }
    printer.line(match answered.repeated {
        true => "repeated: the same answer had come before",
        false => "answered",
    });
    Ok(())
}
