//! Rows that cannot be read, met by whoever looks for work: they are passed over, counted and told,
//! so that the work of others goes on.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use semel_core::quiet::Quiet;

use crate::{StoreError, measure};

static TOLD: LazyLock<(Instant, Mutex<Quiet>)> =
    LazyLock::new(|| (Instant::now(), Mutex::default()));

/// What can be read of work. `None`: it cannot, and stays where it is for `semel verify` to find.
pub(crate) fn readable<T>(
    what: &'static str,
    namespace: &str,
    read: Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        // On purpose: a tenant's key was dropped.
        Err(StoreError::KeyDropped(_)) => Ok(None),
        Err(error @ (StoreError::Corrupt(_) | StoreError::KeyMissing(_))) => {
            measure::unreadable(what);
            tell(what, namespace, &error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn tell(what: &'static str, namespace: &str, error: &StoreError) {
    let (began, told) = &*TOLD;
    let now_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(left_out) = told.ask(what, namespace, now_ms) {
        tracing::error!(
            namespace, what, %error, left_out,
            "a row cannot be read and is passed over; run `semel verify`"
        );
    }
}
