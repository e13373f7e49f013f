//! The parts of the simulation: chance, processes on a faulty store, a destination that counts,
//! callers and people, and the checkers apart from all of them.

mod chance;
mod check;
mod destination;
mod process;
mod world;

pub(crate) use world::run;
