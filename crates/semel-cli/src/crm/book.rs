//! What the CRM knows: tickets, events and scripts. Its caller holds it alone, so that deciding,
//! writing and remembering are one step.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use axum::http::StatusCode;
use serde::Deserialize;
use tokio::sync::watch;

use super::lines;
use super::{Event, Kind, Ticket};

pub(super) const TICKETS: &str = "tickets.jsonl";
const EVENTS: &str = "events.jsonl";

/// The longest scripted wait: long enough for any lease or deadline under test.
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;

/// A create request.
pub(super) struct Wish {
    pub(super) rule: Rule,
    pub(super) reference: String,
    pub(super) subject: String,
    pub(super) key: Option<String>,
    pub(super) worker: Option<String>,
}

/// What a repeat of a create request means.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    Always,
    OncePerKey,
    IfAbsent,
}

pub(super) enum Write {
    Created(Ticket),
    Replayed(Ticket),
    Exists,
}

/// What follows a write, recorded in the same step.
#[derive(Clone, Copy)]
pub(super) enum Then {
    Answer,
    Hold,
}

/// How one create request is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Answer {
    Ok,
    /// Write, then never answer.
    Hold,
    /// Never write, never answer.
    HoldBefore,
    /// Answer this, write nothing.
    Status(StatusCode),
    /// Write, then answer this.
    WriteStatus(StatusCode),
    /// Write, then cut the connection.
    Reset,
    /// Wait, then write, also when the client has gone: a request that lands late.
    Delay(Duration),
    /// Write, then wait, then answer.
    Slow(Duration),
}

impl TryFrom<String> for Answer {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text.as_str(), None),
        };
        match (name, argument) {
            ("ok", None) => Ok(Self::Ok),
            ("hold", None) => Ok(Self::Hold),
            ("hold_before", None) => Ok(Self::HoldBefore),
            ("reset", None) => Ok(Self::Reset),
            ("status", Some(status)) => Ok(Self::Status(parse_status(status)?)),
            ("write_status", Some(status)) => Ok(Self::WriteStatus(parse_status(status)?)),
            ("delay", Some(ms)) => Ok(Self::Delay(parse_wait(ms)?)),
            ("slow", Some(ms)) => Ok(Self::Slow(parse_wait(ms)?)),
            _ => Err(anyhow!("no answer is called `{text}`")),
        }
    }
}

pub(super) struct Book {
    tickets: Vec<Ticket>,
    tickets_file: File,
    events: Vec<Event>,
    events_file: File,
    last_event: watch::Sender<u64>,
    scripts: HashMap<String, VecDeque<Answer>>,
    default: Option<Every>,
}

/// Every `every`th create request without a script of its own takes `answer`.
struct Every {
    every: u64,
    answer: Answer,
    request_count: u64,
}

impl Book {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        let (tickets_file, tickets) = lines::open(&dir.join(TICKETS), parse_tickets)?;
        let (events_file, events) = lines::open(&dir.join(EVENTS), lines::parse::<Event>)?;
        let last_event = watch::Sender::new(events.len() as u64);
        Ok(Self {
            tickets,
            tickets_file,
            events,
            events_file,
            last_event,
            scripts: HashMap::new(),
            default: None,
        })
    }

    pub(super) fn last_event(&self) -> watch::Receiver<u64> {
        self.last_event.subscribe()
    }

    pub(super) fn events_after(&self, after: u64) -> Vec<Event> {
        self.events.iter().filter(|event| event.n > after).cloned().collect()
    }

    pub(super) fn push_script(&mut self, reference: String, answers: Vec<Answer>) {
        self.scripts.entry(reference).or_default().extend(answers);
    }

    /// Counts from anew; 0 switches the default off.
    pub(super) fn set_default(&mut self, every: u64, answer: Answer) {
        self.default = (every > 0).then_some(Every { every, answer, request_count: 0 });
    }

    /// Records the arrival and takes the next answer, in one step: scripts follow arrival.
    pub(super) fn arrive(&mut self, wish: &Wish) -> anyhow::Result<Answer> {
        self.record(Kind::Arrived, wish, None)?;
        Ok(self.next_answer(&wish.reference))
    }

    /// Applies the wish. The ticket is on the disk before anything is recorded or answered.
    pub(super) fn write(&mut self, wish: &Wish, then: Then) -> anyhow::Result<Write> {
        let (write, kind, id) = match self.earlier(wish).cloned() {
            None => {
                let ticket = self.append_ticket(wish)?;
                let id = ticket.id.clone();
                (Write::Created(ticket), Kind::Written, id)
            }
            Some(ticket) => {
                let id = ticket.id.clone();
                match wish.rule {
                    Rule::IfAbsent => (Write::Exists, Kind::Refused, id),
                    Rule::Always | Rule::OncePerKey => {
                        (Write::Replayed(ticket), Kind::Replayed, id)
                    }
                }
            }
        };
        self.record(kind, wish, Some(id.clone()))?;
        match then {
            Then::Answer => {}
            Then::Hold => self.record(Kind::Held, wish, Some(id))?,
        }
        Ok(write)
    }

    pub(super) fn look(
        &mut self,
        reference: &str,
        worker: Option<String>,
    ) -> anyhow::Result<Vec<Ticket>> {
        let found: Vec<Ticket> =
            self.tickets.iter().filter(|ticket| ticket.reference == reference).cloned().collect();
        self.append_event(Event {
            n: self.next_event(),
            kind: Kind::Looked,
            reference: reference.to_owned(),
            key: None,
            worker,
            ticket: found.first().map(|ticket| ticket.id.clone()),
        })?;
        Ok(found)
    }

    pub(super) fn record(
        &mut self,
        kind: Kind,
        wish: &Wish,
        ticket: Option<String>,
    ) -> anyhow::Result<()> {
        self.append_event(Event {
            n: self.next_event(),
            kind,
            reference: wish.reference.clone(),
            key: wish.key.clone(),
            worker: wish.worker.clone(),
            ticket,
        })
    }

    /// A reference that ever had a script of its own never takes the default.
    fn next_answer(&mut self, reference: &str) -> Answer {
        if let Some(script) = self.scripts.get_mut(reference) {
            return script.pop_front().unwrap_or(Answer::Ok);
        }
        let Some(default) = &mut self.default else { return Answer::Ok };
        default.request_count += 1;
        if default.request_count.is_multiple_of(default.every) {
            default.answer
        } else {
            Answer::Ok
        }
    }

    /// The ticket that makes this wish a repeat, by the rule of its path.
    fn earlier(&self, wish: &Wish) -> Option<&Ticket> {
        match wish.rule {
            Rule::Always => None,
            Rule::OncePerKey => {
                let key = wish.key.as_deref()?;
                self.tickets.iter().find(|ticket| ticket.key.as_deref() == Some(key))
            }
            Rule::IfAbsent => self.tickets.iter().find(|ticket| ticket.reference == wish.reference),
        }
    }

    fn append_ticket(&mut self, wish: &Wish) -> anyhow::Result<Ticket> {
        let seq = self.tickets.len() as u64 + 1;
        let ticket = Ticket {
            id: format!("T-{seq}"),
            reference: wish.reference.clone(),
            subject: wish.subject.clone(),
            key: match wish.rule {
                Rule::OncePerKey => wish.key.clone(),
                // A ticket's key is one that was honoured, so that `native` finds only its own.
                Rule::Always | Rule::IfAbsent => None,
            },
            worker: wish.worker.clone(),
            seq,
        };
        lines::append(&mut self.tickets_file, &ticket)?;
        self.tickets_file.sync_data()?;
        self.tickets.push(ticket.clone());
        Ok(ticket)
    }

    /// Not synced: events tell what happened, tickets prove it.
    fn append_event(&mut self, event: Event) -> anyhow::Result<()> {
        lines::append(&mut self.events_file, &event)?;
        self.last_event.send_replace(event.n);
        self.events.push(event);
        Ok(())
    }

    fn next_event(&self) -> u64 {
        self.events.len() as u64 + 1
    }
}

/// Reads the tickets and checks that none is missing or double: a gap means that two servers wrote
/// or that a write failed half-way.
pub(super) fn parse_tickets(text: &[u8]) -> anyhow::Result<Vec<Ticket>> {
    let tickets: Vec<Ticket> = lines::parse(text)?;
    for (ticket, seq) in tickets.iter().zip(1..) {
        ensure!(ticket.seq == seq, "ticket {} stands at place {seq}", ticket.id);
    }
    Ok(tickets)
}

fn parse_status(text: &str) -> anyhow::Result<StatusCode> {
    let status: StatusCode = text.parse().with_context(|| format!("`{text}` is no status"))?;
    // 1xx is no final answer, and HTTP ends at 599.
    ensure!((200..600).contains(&status.as_u16()), "status {text} is not within 200 and 599");
    Ok(status)
}

fn parse_wait(text: &str) -> anyhow::Result<Duration> {
    let ms: u64 = text.parse().with_context(|| format!("`{text}` is no number of milliseconds"))?;
    ensure!(ms <= WAIT_MS_MAX, "{ms} ms is longer than {WAIT_MS_MAX} ms");
    Ok(Duration::from_millis(ms))
}
