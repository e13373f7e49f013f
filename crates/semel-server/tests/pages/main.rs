//! Pages for people, over a real socket: links to questions, the console, and what codes mean.

mod approve;
mod console;
mod corpus;
mod errors;
mod stage;
