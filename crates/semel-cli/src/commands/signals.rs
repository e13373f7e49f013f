//! `semel signals`: what a run waits for, from a person's hand.

use semel_engine::Signal;
use serde_json::json;

use super::open::Place;
use super::runs::json_of;
use crate::args;
use crate::exit::Failed;
use crate::print::{Printer, plain};

pub(crate) async fn send(
    place: &Place,
    options: &args::SignalSend,
    printer: &Printer,
) -> Result<(), Failed> {
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
