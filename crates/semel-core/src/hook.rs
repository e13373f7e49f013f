//! Webhooks in: is this delivery genuine, which run is it, and what does that run get? All of it is
//! decided over the raw bytes and what the trigger's author declared; nothing in a request chooses
//! how the request is judged.
//!
//! The order is fixed. [`verify`] looks at headers and bytes alone; only what it lets through is
//! read as an event ([`Event`]), and only then a key and an input are made of it ([`Plan`]).

mod cloud;
mod deliveries;
mod event;
mod plan;
mod pointer;
mod request;
mod scheme;
mod signature;
mod template;
mod trigger;
mod verify;

#[cfg(test)]
mod tests;

pub use deliveries::{Deliveries, Delivery, HOOK_CARD, Verdict};
pub use event::{Event, Unusable};
pub use plan::{Plan, Source, check};
pub use pointer::PointerInvalid;
pub use request::Request;
pub use scheme::{Algorithm, Encoding, Hmac, Scheme};
pub use template::TemplateInvalid;
pub use trigger::{
    CARD, Content, Name, OldSecret, Parts, Refusal, Trigger, decode, encode, parse, put,
};
pub use verify::{Refused, Secret, verify};
