//! One call of an effect on its way to the engine: what is asked for, and the code that does it.

use std::sync::Arc;

use pyo3::prelude::*;
use semel::Namespace;
use semel_core::effect::approve;
use semel_engine::{Call, Doer, Error};

use crate::declare::Declaration;
use crate::error::raise;
use crate::job::{RunsIn, doer, runs_in};
use crate::mailbox::{Function, Mailbox};

/// What a person is asked before the effect is sent.
#[pyclass(frozen)]
pub(crate) struct Ask {
    ask: approve::Ask,
}

#[pymethods]
impl Ask {
    /// With `only` there is nothing to send: the answer is the receipt.
    #[new]
    #[pyo3(signature = (expires_ms=None, requester=None, four_eyes=false, note=None, only=false))]
    fn new(
        expires_ms: Option<u64>,
        requester: Option<String>,
        four_eyes: bool,
        note: Option<String>,
        only: bool,
    ) -> PyResult<Ask> {
        let ask = approve::Ask { expires_ms, requester, four_eyes, note, only };
        ask.check().map_err(|refusal| raise(&Error::from(refusal)))?;
        Ok(Ask { ask })
    }
}

impl Ask {
    pub(crate) fn asked(&self) -> approve::Ask {
        self.ask.clone()
    }
}

/// One call of an effect, as Python asks for it.
#[pyclass(frozen)]
pub(crate) struct Wish {
    declaration: Py<Declaration>,
    key: Vec<String>,
    downstream_key: Option<String>,
    input: String,
    send: Function,
    look: Option<Function>,
    runs_in: RunsIn,
    ask: Option<approve::Ask>,
}

#[pymethods]
impl Wish {
    #[new]
    #[pyo3(signature = (declaration, key, downstream_key, input, send, look, ask=None))]
    #[expect(clippy::too_many_arguments, reason = "a wish has that many parts")]
    fn new(
        py: Python<'_>,
        declaration: Py<Declaration>,
        key: Vec<String>,
        downstream_key: Option<String>,
        input: String,
        send: Py<PyAny>,
        look: Option<Py<PyAny>>,
        ask: Option<&Ask>,
    ) -> PyResult<Wish> {
        let runs_in = runs_in(send.bind(py), look.as_ref().map(|look| look.bind(py)))?;
        let (send, look) = (Arc::new(send), look.map(Arc::new));
        let ask = ask.map(Ask::asked);
        Ok(Wish { declaration, key, downstream_key, input, send, look, runs_in, ask })
    }
}

impl Wish {
    pub(crate) fn declaration(&self) -> &Declaration {
        self.declaration.get()
    }

    /// The call, in the namespace of whoever asks.
    pub(crate) fn call(&self, namespace: &Namespace) -> PyResult<Call> {
        let (downstream_key, input) = (self.downstream_key.clone(), self.input.clone());
        let call = self.declaration().call(namespace, &self.key, downstream_key, input)?;
        Ok(Call { approval: self.ask.clone(), ..call })
    }

    /// The code, run by the thread that reads the mailbox.
    pub(crate) fn doer(&self, mailbox: Arc<Mailbox>) -> Arc<Doer> {
        let (send, look) = (self.send.clone(), self.look.clone());
        doer(mailbox, send, look, self.runs_in, self.declaration().abort)
    }
}
