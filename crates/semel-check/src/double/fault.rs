//! Faults: what goes wrong between a client and its destination, armed ahead for a request.

use serde::{Deserialize, Serialize};

use super::script::SPAN_MS_MAX;

/// More armed faults than this are a loop that went wrong.
pub(super) const ARMED_MAX: usize = 1_000;

/// One fault, as it is armed: `{"fault": "cut_after", "request": 2}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub fault: Kind,
    /// The number of the request: among all since the last reset, or among those of `route`.
    /// Without it, the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// `POST /tickets`, as the book calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// For how many requests in a row.
    #[serde(default = "one")]
    pub times: u32,
    /// Of `delay` and `late`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ms: u64,
    /// Of `error_before` and `error_after`; 500 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Of `hang`, `delay` and `kill`: before or after the request is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// Of `kill`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The connection is closed, nothing is applied.
    CutBefore,
    /// Applied, then the connection is closed without an answer.
    CutAfter,
    /// 500, nothing is applied.
    ErrorBefore,
    /// Applied, then 500.
    ErrorAfter,
    /// No answer until the client gives up, or until `release`.
    Hang,
    /// A late answer.
    Delay,
    /// The connection is closed at once, and the request is applied later.
    Late,
    /// Applied, then 429: a destination that says "not now" after it did.
    #[serde(rename = "429_after")]
    TooManyAfter,
    /// Applied, then 200 with a body that ends in the middle.
    Garbage,
    /// A SIGKILL for the process `pid`.
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    Before,
    After,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::CutBefore => "cut_before",
            Kind::CutAfter => "cut_after",
            Kind::ErrorBefore => "error_before",
            Kind::ErrorAfter => "error_after",
            Kind::Hang => "hang",
            Kind::Delay => "delay",
            Kind::Late => "late",
            Kind::TooManyAfter => "429_after",
            Kind::Garbage => "garbage",
            Kind::Kill => "kill",
        }
    }
}

impl Fault {
    /// For the next request, once.
    pub fn next(fault: Kind) -> Fault {
        Fault {
            fault,
            request: None,
            route: None,
            times: 1,
            ms: 0,
            status: None,
            when: None,
            pid: None,
        }
    }

    /// For the request with this number, counted from the last reset.
    pub fn at(fault: Kind, request: u64) -> Fault {
        Fault { request: Some(request), ..Fault::next(fault) }
    }

    /// Only for this route; a number then counts its requests alone.
    #[must_use]
    pub fn route(mut self, route: &str) -> Fault {
        self.route = Some(route.to_owned());
        self
    }

    #[must_use]
    pub fn ms(mut self, ms: u64) -> Fault {
        self.ms = ms;
        self
    }

    #[must_use]
    pub fn when(mut self, when: When) -> Fault {
        self.when = Some(when);
        self
    }

    /// Refuses what could never fire, or would do harm.
    pub(super) fn check(&self) -> Result<(), String> {
        let name = self.fault.name();
        if self.times == 0 || self.request == Some(0) {
            return Err("`times` and `request` count from 1".into());
        }
        if self.ms > SPAN_MS_MAX {
            return Err(format!("{} ms is over half an hour", self.ms));
        }
        if self.status.is_some_and(|status| !(200..=599).contains(&status)) {
            return Err("a status is 200 to 599".into());
        }
        let takes_when = matches!(self.fault, Kind::Hang | Kind::Delay | Kind::Kill);
        if self.when.is_some() && !takes_when {
            return Err(format!("`{name}` says itself whether it is before or after"));
        }
        let takes_status = matches!(self.fault, Kind::ErrorBefore | Kind::ErrorAfter);
        if self.status.is_some() && !takes_status {
            return Err(format!("`{name}` takes no status"));
        }
        match (self.fault, self.pid) {
            // 0 and below are groups of processes, 1 is the mother of all.
            (Kind::Kill, Some(pid)) if pid > 1 && pid.cast_unsigned() != std::process::id() => {
                Ok(())
            }
            (Kind::Kill, _) => Err("`kill` needs the `pid` of one process, not of this one".into()),
            (_, Some(_)) => Err(format!("`{name}` takes no pid")),
            (_, None) => Ok(()),
        }
    }

    /// Whether this is the request it waits for.
    pub(super) fn meets(&self, route: &str, number: u64, number_of_route: u64) -> bool {
        let counted = if self.route.is_some() { number_of_route } else { number };
        let last = |first: u64| first.saturating_add(u64::from(self.times));
        self.route.as_ref().is_none_or(|wanted| wanted == route)
            && self.request.is_none_or(|first| (first..last(first)).contains(&counted))
    }
}

fn one() -> u32 {
    1
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}
