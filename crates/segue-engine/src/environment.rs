//! Environment of the engine: inputs that it does not obtain itself.

use jiff::Timestamp;
use segue_core::agent::ProcessIdentity;

/// Clock, random numbers and the identity of the process.
#[derive(Clone)]
pub struct Environment {
    /// Returns the current time.
    pub now: fn() -> Timestamp,
    /// Returns a random number.
    pub random: fn() -> u32,
    /// Identity of this process.
    pub process: ProcessIdentity,
}
