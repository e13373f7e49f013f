//! Contracts: what may be promised depends on the destination. And the times that go with them.

use crate::gate::{PolicyInvalid, Rate};
use crate::limits;
use crate::record::{Contract, Terms};
use crate::retry::Retry;
use crate::time::{Wall, format_duration_ms};

impl Contract {
    /// The contract's name, as it is written everywhere.
    pub fn name(&self) -> &'static str {
        match self {
            Contract::Transaction => "transaction",
            Contract::NativeKey { .. } => "native_key",
            Contract::Conditional => "conditional",
            Contract::Probe { .. } => "probe",
            Contract::AtMostOnce => "at_most_once",
            Contract::Harmless => "harmless",
        }
    }

    /// The promise, word for word, wherever it is printed.
    pub fn promise(&self) -> &'static str {
        match self {
            Contract::Transaction => "exactly once: rows and receipt in one commit",
            Contract::NativeKey { .. } => {
                "effectively once, while every send is before first_sent + retention - settle \
                 window; at that horizon it stops and stays in doubt"
            }
            Contract::Conditional => {
                "final state as if once; on a resend \"exists\" is unknown until read back"
            }
            Contract::Probe { .. } => {
                "effectively once, assuming no stopped process sends after the settle window: \
                 wait, look, resend only if absent"
            }
            Contract::AtMostOnce => {
                "at most once per authorisation, assuming no stopped process sends after the \
                 settle window; a cut attempt is in doubt until a person or late evidence decides"
            }
            Contract::Harmless => "at least once; duplicates are possible and do no harm",
        }
    }

    /// What happens after a crash between the call and its record, word for word, wherever it is
    /// printed.
    pub fn after_crash(&self) -> &'static str {
        match self {
            Contract::Transaction => {
                "a crash cannot come between: either rows and receipt are both there and the \
                 receipt is returned, or neither is and it runs anew"
            }
            Contract::NativeKey { .. } => {
                "it is sent again at once under the same downstream key, and the destination \
                 answers with the first object; at the horizon it stops and stays in doubt"
            }
            Contract::Conditional => {
                "it is sent again under the same id or version guard, and an answer \"exists\" is \
                 read back before it counts"
            }
            Contract::Probe { .. } => {
                "nothing is sent before the settle window is over; then the destination is asked \
                 for our reference: what is found is the receipt, what is absent is sent again"
            }
            Contract::AtMostOnce => {
                "nothing is sent again; it is in doubt, listed and alarmed, until a named person \
                 decides or late evidence arrives"
            }
            Contract::Harmless => "it is sent again at once; the destination may see it twice",
        }
    }

    /// Whether two contracts promise the same, whatever their times.
    pub fn same_kind(&self, other: &Contract) -> bool {
        self.name() == other.name()
    }

    /// Until when a send under this contract is safe: the `native_key` horizon.
    pub fn horizon(&self, first_sent: Wall, settle_ms: u64) -> Option<Wall> {
        self.horizon_ms(settle_ms).map(|ms| first_sent.plus(ms))
    }

    /// How long after the first send the `native_key` horizon is.
    pub fn horizon_ms(&self, settle_ms: u64) -> Option<u64> {
        match self {
            Contract::NativeKey { retention_ms } => Some(retention_ms.saturating_sub(settle_ms)),
            Contract::Transaction
            | Contract::Conditional
            | Contract::Probe { .. }
            | Contract::AtMostOnce
            | Contract::Harmless => None,
        }
    }
}

/// Terms as an author declares them. What is left out gets its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    pub contract: Option<Contract>,
    pub lease_ms: Option<u64>,
    pub deadline_ms: Option<u64>,
    pub settle_ms: Option<u64>,
    pub window_ms: Option<u64>,
    pub attempts_max: Option<u32>,
    /// How often and how long it is tried. Left out: whoever begins it retries by themselves.
    pub retry: Option<Retry>,
    /// At most so many sends of the action in so long.
    pub rate: Option<Rate>,
}

/// Terms that cannot keep their own promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermsRefusal {
    /// One value is out of its range; the text says which.
    Invalid(String),
    /// Retries could outlive the memory that makes them safe.
    RetryBeyondRetention(String),
}

impl Declared {
    /// Fills in the defaults and checks that the terms can be kept. A short retention shortens the
    /// default deadline and settle window; declared ones must fit as they are.
    pub fn terms(&self) -> Result<Terms, TermsRefusal> {
        let contract = self.contract.unwrap_or(Contract::AtMostOnce);
        let retention_ms = match contract {
            Contract::NativeKey { retention_ms } => retention_ms,
            Contract::Transaction
            | Contract::Conditional
            | Contract::Probe { .. }
            | Contract::AtMostOnce
            | Contract::Harmless => u64::MAX,
        };
        let window_ms = self.window_ms.unwrap_or(limits::WINDOW_MS);
        let room_ms = retention_ms.min(window_ms) / 4;
        let deadline_ms = self.deadline_ms.unwrap_or(limits::DEADLINE_MS.min(room_ms));
        let terms = Terms {
            contract,
            lease_ms: self.lease_ms.unwrap_or(limits::LEASE_MS),
            deadline_ms,
            settle_ms: self.settle_ms.unwrap_or(limits::SETTLE_MS.min(room_ms)),
            window_ms,
            attempts_max: self.attempts_max.unwrap_or_else(|| {
                self.retry.map_or(limits::ATTEMPTS_MAX, |retry| retry.attempts())
            }),
            retry: self.retry,
            rate: self.rate,
        };
        terms.check()?;
        Ok(terms)
    }
}

impl Terms {
    fn check(&self) -> Result<(), TermsRefusal> {
        let invalid = |text: String| Err(TermsRefusal::Invalid(text));
        if self.lease_ms < limits::LEASE_MS_MIN {
            return invalid(format!("lease {} is too short", format_duration_ms(self.lease_ms)));
        }
        if self.deadline_ms == 0 {
            return invalid("the deadline is zero".into());
        }
        if self.attempts_max == 0 || self.attempts_max > limits::ATTEMPTS_MAX {
            return invalid(format!("attempts must be 1 to {}", limits::ATTEMPTS_MAX));
        }
        if let Some(Err(PolicyInvalid(text))) = self.rate.map(|rate| rate.check()) {
            return invalid(text);
        }
        let durations = [self.lease_ms, self.deadline_ms, self.settle_ms, self.window_ms];
        if durations.iter().any(|ms| *ms > limits::DURATION_MS_MAX) {
            return invalid("a declared time is over a hundred years".into());
        }
        self.check_retention(0)
    }

    /// Refuses terms whose retries, deadline and settle window outlast what remembers them: the
    /// provider's retention, or our own replay window.
    pub fn check_retry(&self, retry: &Retry) -> Result<(), TermsRefusal> {
        let retries = if retry.attempts_max <= 1 { 0 } else { retry.total_ms };
        self.check_retention(retries)
    }

    fn check_retention(&self, retry_total_ms: u64) -> Result<(), TermsRefusal> {
        let needed = retry_total_ms.saturating_add(self.deadline_ms).saturating_add(self.settle_ms);
        let refuse = |name: &str, kept: u64| {
            Err(TermsRefusal::RetryBeyondRetention(format!(
                "retries {} + deadline {} + settle window {} exceed the {name} of {}",
                format_duration_ms(retry_total_ms),
                format_duration_ms(self.deadline_ms),
                format_duration_ms(self.settle_ms),
                format_duration_ms(kept),
            )))
        };
        match self.contract {
            Contract::NativeKey { retention_ms } if needed > retention_ms => {
                refuse("provider's retention", retention_ms)
            }
            Contract::NativeKey { .. }
            | Contract::Transaction
            | Contract::Conditional
            | Contract::Probe { .. }
            | Contract::AtMostOnce
            | Contract::Harmless => {
                if needed > self.window_ms {
                    return refuse("replay window", self.window_ms);
                }
                Ok(())
            }
        }
    }

    /// How long before the lease's end the permit to send ends.
    pub fn margin_ms(&self) -> u64 {
        limits::MARGIN_MS.min(self.lease_ms.min(self.deadline_ms) / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn defaults_are_those_of_the_design() {
        let terms = Declared::default().terms().expect("defaults are sound");
        assert_eq!(terms.contract, Contract::AtMostOnce);
        assert_eq!((terms.lease_ms, terms.deadline_ms), (30_000, 60_000));
        assert_eq!((terms.settle_ms, terms.margin_ms()), (120_000, 2_000));
        assert_eq!(terms.window_ms, 30 * 24 * HOUR);
    }

    #[test]
    fn req_r4_retries_beyond_the_providers_retention_are_refused() {
        let native = |hours| Declared {
            contract: Some(Contract::NativeKey { retention_ms: hours * HOUR }),
            ..Declared::default()
        };
        let retry = |total_ms| Retry { total_ms, ..Retry::default() };
        let terms = native(24).terms().expect("a day is enough");
        let fits = 24 * HOUR - terms.deadline_ms - terms.settle_ms;
        assert_eq!(terms.check_retry(&retry(fits)), Ok(()));
        assert!(matches!(
            terms.check_retry(&retry(fits + 1)),
            Err(TermsRefusal::RetryBeyondRetention(_))
        ));
    }

    #[test]
    fn req_e2_retries_beyond_the_replay_window_are_refused() {
        let terms = Declared { window_ms: Some(HOUR), ..Declared::default() }.terms().expect("ok");
        let fits = HOUR - terms.deadline_ms - terms.settle_ms;
        assert_eq!(terms.check_retry(&Retry { total_ms: fits, ..Retry::default() }), Ok(()));
        assert!(terms.check_retry(&Retry { total_ms: fits + 1, ..Retry::default() }).is_err());
    }

    #[test]
    fn declared_times_that_outlast_the_retention_are_refused() {
        let declared = Declared {
            contract: Some(Contract::NativeKey { retention_ms: 1_000 }),
            settle_ms: Some(1_000),
            deadline_ms: Some(1),
            ..Declared::default()
        };
        assert!(matches!(declared.terms(), Err(TermsRefusal::RetryBeyondRetention(_))));
        let undeclared = Declared { settle_ms: None, deadline_ms: None, ..declared };
        let terms = undeclared.terms().expect("defaults shrink to fit");
        assert_eq!((terms.deadline_ms, terms.settle_ms), (250, 250));
    }

    #[test]
    fn a_deadline_shorter_than_the_margin_leaves_time_to_send() {
        for (lease_ms, deadline_ms, margin_ms) in
            [(30_000, 60_000, 2_000), (30_000, 2_000, 500), (30_000, 500, 125), (400, 60_000, 100)]
        {
            let declared = Declared {
                lease_ms: Some(lease_ms),
                deadline_ms: Some(deadline_ms),
                ..Declared::default()
            };
            assert_eq!(declared.terms().map(|terms| terms.margin_ms()), Ok(margin_ms));
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for declared in [
            Declared { lease_ms: Some(99), ..Declared::default() },
            Declared { deadline_ms: Some(0), ..Declared::default() },
            Declared { attempts_max: Some(0), ..Declared::default() },
            Declared { attempts_max: Some(101), ..Declared::default() },
            Declared { window_ms: Some(u64::MAX), ..Declared::default() },
        ] {
            assert!(matches!(declared.terms(), Err(TermsRefusal::Invalid(_))), "{declared:?}");
        }
    }
}
