//! What the engine needs to know of the world, and may not find out by itself.

use jiff::Timestamp;
use segue_core::ProcessMark;

/// Time, chance, and who we are.
#[derive(Clone)]
pub struct World {
    /// Tells the time.
    pub now: fn() -> Timestamp,
    /// A random number.
    pub random: fn() -> u32,
    /// This process.
    pub me: ProcessMark,
}
