//! The runtime of this process, and what a fork makes of it.

use std::ops::Deref;
use std::sync::OnceLock;

use pyo3::prelude::*;
use semel::{Code, Error};
use tokio::runtime::{Builder, Runtime};

use crate::error::raise;

struct Process {
    runtime: Runtime,
    id: u32,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// The runtime of this process. Its threads do not exist in a child that was forked off, and the
/// SQLite in there believes in locks that only the parent holds: everything is refused.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    let process = PROCESS.get_or_init(|| {
        let runtime = Builder::new_multi_thread().enable_all().thread_name("semel").build();
        Process { runtime: runtime.expect("threads can be started"), id: std::process::id() }
    });
    if process.id != std::process::id() {
        let text = "this process was forked off one that had opened Semel";
        return Err(raise(&Error::new(Code::Forked, text)));
    }
    Ok(&process.runtime)
}

/// Something that waits for threads when it is dropped. In a forked child those are gone, and it is
/// left alone: the parent has the original.
pub(crate) struct Ours<T> {
    inner: Option<T>,
    process: u32,
}

impl<T> Ours<T> {
    pub(crate) fn new(inner: T) -> Ours<T> {
        Ours { inner: Some(inner), process: std::process::id() }
    }
}

impl<T> Deref for Ours<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("only taken when dropped")
    }
}

impl<T> Drop for Ours<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.inner.take());
        }
    }
}
