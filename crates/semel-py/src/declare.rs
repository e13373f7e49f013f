//! What an author declares about an effect or a step.

use std::sync::OnceLock;

use pyo3::prelude::*;
use semel::{Action, Address, Code, Contract, Error, Json, Namespace, Retry};
use semel_core::contract::Declared;
use semel_core::effect::{Abort, Refusal};
use semel_core::fingerprint::Rule;
use semel_core::gate::{PolicyInvalid, Rate};
use semel_core::limits;
use semel_engine::Call;

use crate::convert;
use crate::error::raise;

/// How often and how long to try again.
#[pyclass(frozen)]
pub(crate) struct Again {
    pub(crate) retry: Retry,
}

#[pymethods]
impl Again {
    /// What is left out gets its default.
    #[new]
    #[pyo3(signature = (attempts=None, first_ms=None, longest_ms=None, total_ms=None))]
    fn new(
        attempts: Option<u32>,
        first_ms: Option<u64>,
        longest_ms: Option<u64>,
        total_ms: Option<u64>,
    ) -> Again {
        let usual = Retry::default();
        let delay_ms = first_ms.unwrap_or(usual.delay_ms);
        Again {
            retry: Retry {
                attempts_max: attempts.unwrap_or(usual.attempts_max),
                total_ms: total_ms.unwrap_or(usual.total_ms),
                delay_ms,
                delay_ms_max: longest_ms.unwrap_or(usual.delay_ms_max.max(delay_ms)),
            },
        }
    }

    /// How many tries in all, the first included.
    #[getter]
    fn attempts(&self) -> u32 {
        self.retry.attempts_max
    }

    /// No try starts later than this after the first.
    #[getter]
    fn total_ms(&self) -> u64 {
        self.retry.total_ms
    }
}

/// An effect as its author declared it.
#[pyclass(frozen)]
pub(crate) struct Declaration {
    pub(crate) action: Action,
    pub(crate) declared: Declared,
    pub(crate) rule: Rule,
    pub(crate) retry: Retry,
    pub(crate) abort: Abort,
    /// In doubt the run goes on.
    pub(crate) goes_on: bool,
    hold_ms: u64,
    /// How the key is made, as its author wrote it.
    derived: Option<String>,
    /// The shape of what it returns.
    shape: OnceLock<Json>,
}

#[pymethods]
impl Declaration {
    /// Times are in milliseconds; what is left out gets its default.
    #[new]
    #[pyo3(signature = (
        action, *, again, can_abort, goes_on=false, contract=None, retention_ms=None,
        look_first=false, members=None, lease_ms=None, deadline_ms=None, settle_ms=None,
        window_ms=None, hold_ms=None, rate=None, derived=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "an effect has that many terms")]
    fn new(
        action: &str,
        again: &Again,
        can_abort: bool,
        goes_on: bool,
        contract: Option<&str>,
        retention_ms: Option<u64>,
        look_first: bool,
        members: Option<Vec<String>>,
        lease_ms: Option<u64>,
        deadline_ms: Option<u64>,
        settle_ms: Option<u64>,
        window_ms: Option<u64>,
        hold_ms: Option<u64>,
        rate: Option<(u32, u64)>,
        derived: Option<String>,
    ) -> PyResult<Declaration> {
        let contract = contract.map(|name| match (name, retention_ms) {
            ("native_key", Some(retention_ms)) => Contract::NativeKey { retention_ms },
            ("probe", _) => Contract::Probe { first: look_first },
            ("conditional", _) => Contract::Conditional,
            ("harmless", _) => Contract::Harmless,
            ("transaction", _) => Contract::Transaction,
            _ => Contract::AtMostOnce,
        });
        let rate = rate.map(|(count, per_ms)| Rate { count, per_ms });
        let declared = Declared {
            contract,
            lease_ms,
            deadline_ms,
            settle_ms,
            window_ms,
            rate,
            ..Declared::default()
        };
        let action = Action::new(action).map_err(|invalid| raise(&invalid.into()))?;
        rate.map_or(Ok(()), |rate| rate.check()).map_err(|PolicyInvalid(text)| {
            raise(&Error::new(
                Code::InputInvalid,
                format!("the rate of {}: {text}", action.as_str()),
            ))
        })?;
        // At the decoration, not at the first call: that may be in the middle of the night.
        let terms = declared.terms().map_err(|refusal| raise(&Refusal::Terms(refusal).into()))?;
        terms
            .check_retry(&again.retry)
            .map_err(|refusal| raise(&Refusal::Terms(refusal).into()))?;
        Ok(Declaration {
            action,
            declared,
            rule: members.map_or(Rule::All, Rule::members),
            retry: again.retry,
            abort: if can_abort { Abort::Possible } else { Abort::Impossible },
            goes_on,
            hold_ms: hold_ms.unwrap_or(limits::HOLD_MS),
            derived,
            shape: OnceLock::new(),
        })
    }

    /// Says what shape its results have, as JSON Schema: known later than the rest, since an
    /// annotation may name what is declared below it.
    fn returns(&self, shape: String) -> PyResult<()> {
        // Said again, it is the same.
        let _ = self.shape.set(convert::json(shape)?);
        Ok(())
    }

    /// The promise of the contract, word for word.
    fn promise(&self) -> &'static str {
        self.declared.contract.unwrap_or(Contract::AtMostOnce).promise()
    }
}

impl Declaration {
    pub(crate) fn shape(&self) -> Option<Json> {
        self.shape.get().cloned()
    }

    pub(crate) fn call(
        &self,
        namespace: &Namespace,
        key: &[String],
        downstream_key: Option<String>,
        input: String,
    ) -> PyResult<Call> {
        Ok(Call {
            address: self.address(namespace, key)?,
            input: convert::json(input)?,
            rule: self.rule.clone(),
            declared: self.declared,
            downstream_key,
            retry: self.retry,
            hold_ms: self.hold_ms,
            workflow: None,
            run: None,
            approval: None,
            undoes: None,
            derived: self.derived.clone(),
            shape: self.shape(),
            guard: None,
        })
    }

    pub(crate) fn address(&self, namespace: &Namespace, key: &[String]) -> PyResult<Address> {
        let (namespace, action) = (namespace.clone(), self.action.clone());
        Ok(Address { namespace, action, key: convert::key(key)? })
    }
}
