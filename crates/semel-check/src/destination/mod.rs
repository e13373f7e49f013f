//! Trying a destination: one sandbox request, repeated in every way that retries repeat it. Here it
//! is sent and seen; `semel_core::claim` judges.

mod client;
#[cfg(test)]
mod tests;
mod trials;
mod wish;

pub use trials::try_out;
pub use wish::{Trouble, Wish};
