//! Process identities that can be recognised later.

/// Identity of a process, distinct from a later process with the same pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Machine on which the process runs.
    pub host: String,
    /// Pid on that machine.
    pub pid: u32,
    /// Start time, in a form that only the same machine can compare.
    pub start_time: String,
}
