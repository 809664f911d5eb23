//! Naming a process so that it can be recognised later.

/// A process, told apart from a later one that happens to get the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessMark {
    /// The machine it runs on.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// When it started, in a form that only its own machine can compare.
    pub started: String,
}
