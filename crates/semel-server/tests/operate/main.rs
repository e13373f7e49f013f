//! What operators see of a server: probes, counts, traces and lines, over real sockets. One process
//! has one recorder and one subscriber, so this is a program of its own.

mod counts;
mod lines;
mod place;
mod probes;
mod spans;
mod watched;
mod wedged;
