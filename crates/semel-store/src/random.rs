//! Random names.

use crate::StoreError;

/// 128 random bits.
pub(crate) fn random_hex() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    let failed = |error| StoreError::Unavailable(format!("no random numbers: {error}"));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
