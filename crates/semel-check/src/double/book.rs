//! The book: everything that arrived, in its order, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// 1 for the first since the last reset, without gaps.
    pub n: u64,
    /// RFC 3339.
    pub at: String,
    pub method: String,
    pub path: String,
    /// How faults and counts call it: `POST /tickets`.
    pub route: String,
    /// The idempotency key as sent, honoured or not.
    pub key: Option<String>,
    /// Digest of the body; equal for equal JSON.
    pub body: String,
    pub applied: Applied,
    /// The object that was made, changed, removed or told again.
    pub object: Option<String>,
    /// What was answered; none for a connection that was cut.
    pub status: Option<u16>,
    /// The fault that met it.
    pub fault: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applied {
    /// Still under way.
    Open,
    Created,
    Changed,
    Removed,
    /// Seen before: the first answer again.
    Replayed,
    /// Not applied, and the client was told.
    Refused,
    Looked,
    /// A model was asked.
    Called,
    /// Not applied: a fault came first.
    Nothing,
}

impl Applied {
    /// Whether the destination's state has changed by it.
    pub fn is_write(self) -> bool {
        match self {
            Applied::Created | Applied::Changed | Applied::Removed => true,
            Applied::Open
            | Applied::Replayed
            | Applied::Refused
            | Applied::Looked
            | Applied::Called
            | Applied::Nothing => false,
        }
    }
}

/// What there is, and how it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub requests: u64,
    /// Writes that took effect: the number that one intent may raise by one.
    pub applied: u64,
    pub objects: u64,
    pub replayed: u64,
    pub refused: u64,
    pub looks: u64,
    pub model_calls: u64,
    /// Requests that have arrived and are not settled: late ones, and those that hang.
    pub open: u64,
    pub faults_fired: u64,
    pub faults_armed: u64,
    pub routes: BTreeMap<String, RouteCounts>,
}

/// The same for one route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteCounts {
    pub requests: u64,
    pub applied: u64,
    pub objects: u64,
    pub model_calls: u64,
}

/// Counts a book; objects and armed faults are not in it.
pub(super) fn count(entries: &[Entry]) -> Counts {
    let mut counts = Counts::default();
    for entry in entries {
        let route = counts.routes.entry(entry.route.clone()).or_default();
        counts.requests += 1;
        route.requests += 1;
        counts.faults_fired += u64::from(entry.fault.is_some());
        match entry.applied {
            Applied::Created | Applied::Changed | Applied::Removed => {
                counts.applied += 1;
                route.applied += 1;
            }
            Applied::Called => {
                counts.model_calls += 1;
                route.model_calls += 1;
            }
            Applied::Replayed => counts.replayed += 1,
            Applied::Refused => counts.refused += 1,
            Applied::Looked => counts.looks += 1,
            Applied::Open => counts.open += 1,
            Applied::Nothing => {}
        }
    }
    counts
}
