//! Durable runs on the memory store, with processes that die, stop, lose answers and lag behind.

mod crash;
mod faults;
mod fenced;
mod flows;
mod life;
mod wakes;
mod world;
