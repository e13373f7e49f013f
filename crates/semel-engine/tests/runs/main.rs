//! Durable runs on the memory store, with processes that die, stop, lose answers and lag behind.

mod away;
mod cancel;
mod crash;
mod faults;
mod fenced;
mod flows;
mod kit;
mod life;
mod notes;
mod raised;
mod random;
mod recover;
mod times;
mod wakes;
mod world;
