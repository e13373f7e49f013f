//! Which way a list goes through its table: along an index that has what is asked for, or along the
//! table itself. What an index does not know is compared row by row, and a page passes over a
//! bounded number of rows.

use rusqlite::{Connection, Row as SqlRow};
use semel_core::effect::State;
use semel_core::limits;

use crate::{Query, RunQuery};

/// Which way a list of effects goes. Each is one text: what is asked for decides which index
/// serves, never a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// All generations of one key.
    Named,
    /// Those written as pending or in doubt.
    Unsettled,
    Held,
    Alarmed,
    /// Those of one state that needs a person.
    Attention(State),
    Pending,
    /// All, the newest first.
    Rows,
}

/// Word for word as in the partial index, or SQLite would not know that it serves.
const ATTENTION: &str = "state <> 'pending' AND state <> 'done' AND state <> 'expired'";

const COLUMNS: &str =
    "row, namespace, action, key, state, alarmed, generation, version, record, sum";

impl Walk {
    pub(super) fn of(connection: &Connection, query: &Query) -> rusqlite::Result<Walk> {
        let walk = Walk::wanted(query);
        let is_sorted = matches!(walk, Walk::Unsettled | Walk::Pending);
        Ok(if is_sorted && are_many(connection)? { Walk::Rows } else { walk })
    }

    fn wanted(query: &Query) -> Walk {
        let is_named = query.namespace.is_some() && query.action.is_some() && query.key.is_some();
        match query.state {
            _ if is_named => Walk::Named,
            _ if query.unsettled => Walk::Unsettled,
            _ if query.held => Walk::Held,
            _ if query.alarmed => Walk::Alarmed,
            Some(state @ (State::InDoubt | State::Failed | State::Planned | State::Void)) => {
                Walk::Attention(state)
            }
            Some(State::Pending) => Walk::Pending,
            Some(State::Done | State::Expired) | None => Walk::Rows,
        }
    }

    /// Left to itself SQLite would sort a whole namespace for each page.
    pub(super) fn text(self, query: &Query) -> String {
        let (from, which) = match self {
            Walk::Named => ("effects", "namespace = ?2 AND action = ?3 AND key = ?4".to_owned()),
            Walk::Unsettled => (
                "effects",
                format!(
                    "row IN (SELECT row FROM effects INDEXED BY effects_attention \
                     WHERE state = 'in_doubt' AND {ATTENTION} \
                     UNION ALL SELECT row FROM effects INDEXED BY effects_due \
                     WHERE state = 'pending' AND due_at IS NOT NULL)"
                ),
            ),
            Walk::Held => ("effects INDEXED BY effects_held", "held = 1".to_owned()),
            Walk::Alarmed => ("effects INDEXED BY effects_alarmed", "alarmed = 1".to_owned()),
            Walk::Attention(state) => (
                "effects INDEXED BY effects_attention",
                format!("state = '{state}' AND {ATTENTION}"),
            ),
            Walk::Pending => (
                "effects INDEXED BY effects_due",
                "state = 'pending' AND due_at IS NOT NULL".to_owned(),
            ),
            Walk::Rows => ("effects NOT INDEXED", "true".to_owned()),
        };
        // A file of an older format, which is only looked at, has no such column.
        let held = if query.held { "AND held = 1" } else { "" };
        format!("SELECT {COLUMNS} FROM {from} WHERE row < ?1 AND {which} {held} ORDER BY row DESC")
    }
}

/// What is in doubt or due is sorted for each page: where there is much of it, it is not.
fn are_many(connection: &Connection) -> rusqlite::Result<bool> {
    let text = format!(
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM effects INDEXED BY effects_due \
         WHERE due_at IS NOT NULL LIMIT ?1)) + (SELECT count(*) FROM (SELECT 1 FROM effects \
         INDEXED BY effects_attention WHERE state = 'in_doubt' AND {ATTENTION} LIMIT ?1))"
    );
    let most = i64::try_from(limits::LIST_ROWS_MAX).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(&text)?;
    statement.query_row([most], |row| Ok(row.get::<_, i64>(0)? >= most))
}

/// Whether a row is what is asked for, by its columns.
pub(super) fn is_asked(row: &SqlRow<'_>, query: &Query) -> rusqlite::Result<bool> {
    let text = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    let state = text(4)?;
    Ok(query.namespace.as_ref().is_none_or(|asked| text(1) == Ok(asked.as_str()))
        && query.action.as_ref().is_none_or(|asked| text(2) == Ok(asked.as_str()))
        && query.key.as_ref().is_none_or(|asked| text(3) == Ok(asked.as_str()))
        && query.state.is_none_or(|asked| state == asked.as_str())
        && (!query.unsettled || matches!(state, "pending" | "in_doubt"))
        && (!query.alarmed || row.get(5)?))
}

/// Word for word as in the partial index, or SQLite would not know that it serves.
const OPEN: &str = "state <> 'done' AND state <> 'failed' AND state <> 'cancelled' \
     AND state <> 'expired'";

/// The way of a list of runs: those of an open state are few, all others lie in the table.
pub(super) fn runs_text(query: &RunQuery) -> String {
    let (from, which) = match query.state {
        Some(state) if !state.is_final() => {
            ("runs INDEXED BY runs_open", format!("state = '{state}' AND {OPEN}"))
        }
        Some(_) | None => ("runs NOT INDEXED", "true".to_owned()),
    };
    format!(
        "SELECT number, namespace, workflow, key, state, version, fence, record, sum, id \
         FROM {from} WHERE number < ?1 AND {which} ORDER BY number DESC"
    )
}

/// Whether a run is what is asked for, by its columns.
pub(super) fn is_asked_run(row: &SqlRow<'_>, query: &RunQuery) -> rusqlite::Result<bool> {
    let text = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    let state = text(4)?;
    Ok(query.namespace.as_ref().is_none_or(|asked| text(1) == Ok(asked.as_str()))
        && query.workflow.as_ref().is_none_or(|asked| text(2) == Ok(asked.as_str()))
        && query.key.as_ref().is_none_or(|asked| text(3) == Ok(asked.as_str()))
        && query.state.is_none_or(|asked| state == asked.as_str()))
}

/// The rows of a page as they are passed over.
pub(super) struct Passed {
    limit: usize,
    found: usize,
    seen: usize,
    last: Option<i64>,
}

/// What to do with the next row.
pub(super) enum Step {
    Show,
    PassOver,
    /// The page ends before it: here the next one begins.
    End(Option<i64>),
}

impl Passed {
    pub(super) fn up_to(limit: usize) -> Passed {
        Passed { limit, found: 0, seen: 0, last: None }
    }

    pub(super) fn step(&mut self, place: i64, is_asked: bool) -> Step {
        if self.seen == limits::LIST_ROWS_MAX || (is_asked && self.found == self.limit) {
            return Step::End(self.last);
        }
        (self.seen, self.last) = (self.seen + 1, Some(place));
        if !is_asked {
            return Step::PassOver;
        }
        self.found += 1;
        Step::Show
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::key::{Action, Key, Namespace};
    use semel_core::run;

    /// Every combination of filters that any door offers.
    fn queries() -> Vec<Query> {
        let namespace = || Namespace::new("acme").ok();
        let states = State::ALL.into_iter().map(Some).chain([None]);
        let mut all = Vec::new();
        for state in states {
            for bits in 0..64_u8 {
                let is = |bit: u8| bits & (1 << bit) != 0;
                all.push(Query {
                    namespace: if is(0) { namespace() } else { None },
                    action: if is(1) { Action::new("mail").ok() } else { None },
                    key: if is(2) { Key::from_text("k").ok() } else { None },
                    state,
                    unsettled: is(3),
                    alarmed: is(4),
                    held: is(5),
                    ..Query::everywhere(10)
                });
            }
        }
        all
    }

    fn file() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        super::super::seals::register(&connection).expect("a function");
        for text in [
            include_str!("migrations/001_ledger.sql"),
            include_str!("migrations/002_runs.sql"),
            include_str!("migrations/003_returns.sql"),
            include_str!("migrations/004_cards.sql"),
            include_str!("migrations/005_seals.sql"),
        ] {
            connection.execute_batch(text).expect("a migration");
        }
        connection
    }

    fn plan(connection: &Connection, text: &str) -> String {
        let mut statement =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("a statement");
        let places = statement.parameter_count();
        let asked = rusqlite::params_from_iter(vec!["1"; places]);
        let lines = statement.query_map(asked, |row| row.get::<_, String>(3)).expect("a plan");
        lines.collect::<Result<Vec<_>, _>>().expect("lines").join("; ")
    }

    #[test]
    fn each_filter_is_served_by_an_index_or_by_a_walk_that_needs_no_sort() {
        let connection = file();
        for query in queries() {
            let walk = Walk::of(&connection, &query).expect("a walk");
            let plan = plan(&connection, &walk.text(&query));
            // What is in doubt or pending is sorted, and only where there is little of it; all
            // generations of a key are few.
            let may_sort = matches!(walk, Walk::Named | Walk::Pending);
            assert!(may_sort || !plan.contains("TEMP B-TREE"), "{query:?}: {plan}");
            let serves = match walk {
                Walk::Named => "sqlite_autoindex_effects",
                Walk::Unsettled => "effects_attention",
                Walk::Held => "effects_held",
                Walk::Alarmed => "effects_alarmed",
                Walk::Attention(_) => "effects_attention (state=? AND rowid<?)",
                Walk::Pending => "effects_due",
                Walk::Rows => "PRIMARY KEY (rowid<?)",
            };
            assert!(plan.contains(serves), "{query:?}: {plan}");
        }
        for state in run::State::ALL.into_iter().map(Some).chain([None]) {
            let query = RunQuery { state, ..RunQuery::everywhere(10) };
            let plan = plan(&connection, &runs_text(&query));
            assert!(!plan.contains("TEMP B-TREE"), "{query:?}: {plan}");
        }
    }

    #[test]
    fn a_page_ends_when_it_is_full_or_has_passed_over_enough() {
        let mut passed = Passed::up_to(1);
        assert!(matches!(passed.step(9, true), Step::Show));
        assert!(matches!(passed.step(8, false), Step::PassOver));
        assert!(matches!(passed.step(7, true), Step::End(Some(8))));
        let mut passed = Passed::up_to(1);
        for place in 0..limits::LIST_ROWS_MAX {
            let place = -i64::try_from(place).expect("a place");
            assert!(matches!(passed.step(place, false), Step::PassOver));
        }
        let last = 1 - i64::try_from(limits::LIST_ROWS_MAX).expect("a place");
        assert!(matches!(passed.step(i64::MIN, true), Step::End(Some(next)) if next == last));
    }
}
