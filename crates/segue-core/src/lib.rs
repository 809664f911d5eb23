//! Domain types of segue, and its decisions as pure functions.
//!
//! No function in this crate does I/O, reads a clock or awaits: time, ids and text are parameters, so that every
//! decision can be tested as a table of cases. The model is git: a [`Turn`](session::Turn) is a commit with one parent,
//! a [`Session`](session::Session) is a branch with a head, and a [`Leg`](session::Leg) is a native session that
//! contains the history up to its tip.

pub mod agent;
pub mod brief;
pub mod checkpoint;
pub mod encoding;
mod enum_names;
pub mod hint;
pub mod id;
pub mod json;
pub mod number_format;
pub mod policy;
pub mod reconcile;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod scope;
pub mod session;
pub mod spend;
pub mod time_input;
