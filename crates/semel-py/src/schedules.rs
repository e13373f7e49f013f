//! Runs that start by the clock, for Python.

use semel::{CatchUp, Code, Error, Json, Scheduled, Semel};
use semel_core::limits;
use semel_core::schedule::Content;
use semel_core::wire_schedule::{ScheduleView, schedule_view};

use crate::mailbox::Told;

/// The next ticks that a view shows.
const TICKS: usize = 5;

/// What an author says of a schedule.
pub(crate) fn content(
    workflow: String,
    input: Json,
    (cron, zone): (String, String),
    catch_up: &str,
    window_ms: Option<u64>,
) -> Result<Content, Error> {
    let catch_up = CatchUp::parse(catch_up).ok_or_else(|| {
        let all = CatchUp::ALL.map(CatchUp::as_str).join(", ");
        let text = format!("`{catch_up}` is no way to catch up; there are {all}");
        Error::new(Code::ScheduleInvalid, text)
    })?;
    let window_ms = window_ms.unwrap_or(limits::WINDOW_MS);
    Ok(Content { workflow, input, cron, zone, catch_up, window_ms })
}

/// Puts a schedule; tells it as it stands, as JSON.
pub(crate) async fn put(semel: Semel, name: String, content: Content) -> Result<Told, Error> {
    let put = semel.engine().put_schedule(semel.namespace_of(), &name, content).await?;
    Ok(Told::Text(Json::of(&view(&semel, &put.0)?)?.text().to_owned()))
}

/// Stops a schedule, lets it go on, or removes it.
pub(crate) async fn steer(
    semel: Semel,
    name: String,
    verb: String,
    (actor, reason): (String, String),
) -> Result<Told, Error> {
    let schedule = semel.schedule(&name);
    match verb.as_str() {
        "pause" => schedule.pause(&actor, &reason).await.map(drop)?,
        "resume" => schedule.resume().await.map(drop)?,
        _ => schedule.remove().await?,
    }
    Ok(Told::Nothing)
}

/// Tells all schedules of the namespace, as JSON.
pub(crate) async fn list(semel: Semel) -> Result<Told, Error> {
    let (mut views, mut after) = (Vec::new(), None);
    loop {
        let most = limits::PAGE_ROWS_MAX;
        let page = semel.engine().schedules(semel.namespace_of(), after, most).await?;
        for one in &page.schedules {
            views.push(view(&semel, one)?);
        }
        after = page.next;
        if after.is_none() {
            return Ok(Told::Text(Json::of(&views)?.text().to_owned()));
        }
    }
}

fn view(semel: &Semel, found: &Scheduled) -> Result<ScheduleView, Error> {
    let now = semel.engine().store().ground().now;
    let named = (found.namespace.as_str(), found.name.as_str(), found.version);
    Ok(schedule_view(named, &found.schedule, &now, TICKS)?)
}
