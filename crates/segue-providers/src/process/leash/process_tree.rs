//! Processes that an agent started, as far as the system can find them.

/// Signal to the processes of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndSignal {
    /// SIGTERM, which requests an exit.
    Term,
    /// SIGKILL, which forces it.
    Kill,
}

#[cfg(target_os = "linux")]
pub(crate) use linux::ProcStat;
#[cfg(target_os = "linux")]
pub(super) use linux::{adopt_orphans, has_running_descendants, reap_orphans, send_signal};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{adopt_orphans, has_running_descendants, reap_orphans, send_signal};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs;

    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper,
        waitid, waitpid,
    };

    use super::EndSignal;

    /// Entries of `/proc/PID/stat`.
    pub(crate) struct ProcStat {
        pid: u32,
        parent_pid: u32,
        state: char,
        /// Start time, in ticks since the boot.
        pub(crate) start_ticks: u64,
    }

    impl ProcStat {
        /// Reads the entries of a process.
        pub(crate) fn read(pid: u32) -> Option<Self> {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The second field is the program's name, which may contain any character; only simple fields follow.
            let (_, remainder) = stat.rsplit_once(')')?;
            let fields: Vec<&str> = remainder.split_whitespace().collect();
            Some(Self {
                pid,
                state: fields.first()?.chars().next()?,
                parent_pid: fields.get(1)?.parse().ok()?,
                start_ticks: fields.get(19)?.parse().ok()?,
            })
        }

        /// Returns `true` if the process has ended and is only waiting to be reaped.
        pub(crate) fn has_ended(&self) -> bool {
            matches!(self.state, 'Z' | 'X')
        }
    }

    /// Makes this process the parent of all orphaned descendants.
    pub(in super::super) fn adopt_orphans() {
        // If this fails, processes that leave the process tree cannot be found, but the group still can.
        let _ = set_child_subreaper(Some(getpid()));
    }

    /// Returns all descendants of this process.
    fn list_descendants() -> Vec<ProcStat> {
        let mut candidates: Vec<ProcStat> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(ProcStat::read)
            .collect();
        let mut tree_pids = HashSet::from([std::process::id()]);
        let mut descendants = Vec::new();
        loop {
            let (children, remaining): (Vec<_>, Vec<_>) = candidates
                .into_iter()
                .partition(|stat| tree_pids.contains(&stat.parent_pid));
            if children.is_empty() {
                return descendants;
            }
            tree_pids.extend(children.iter().map(|stat| stat.pid));
            descendants.extend(children);
            candidates = remaining;
        }
    }

    fn to_pid(number: u32) -> Option<Pid> {
        i32::try_from(number).ok().and_then(Pid::from_raw)
    }

    pub(in super::super) fn send_signal(end_signal: EndSignal) {
        let signal = match end_signal {
            EndSignal::Term => Signal::TERM,
            EndSignal::Kill => Signal::KILL,
        };
        if !has_children() {
            return;
        }
        for stat in list_descendants() {
            if let Some(pid) = to_pid(stat.pid) {
                // The process may have ended since the scan.
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Returns `true` if a descendant of this process is still running.
    pub(in super::super) fn has_running_descendants() -> bool {
        has_children() && list_descendants().iter().any(|stat| !stat.has_ended())
    }

    /// Returns `true` if this process has any child. Orphaned descendants become children, so without a child no
    /// descendant is left.
    fn has_children() -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
    }

    /// Reaps ended orphans. The caller waits for the agent itself.
    pub(in super::super) fn reap_orphans(agent_pid: Option<u32>) {
        if !has_children() {
            return;
        }
        let own_pid = std::process::id();
        for stat in list_descendants() {
            if stat.has_ended() && stat.parent_pid == own_pid && Some(stat.pid) != agent_pid {
                let _ = waitpid(to_pid(stat.pid), WaitOptions::NOHANG);
            }
        }
    }
}

/// Implementation without `/proc`: only the process group can be reached, not processes that have left it.
#[cfg(not(target_os = "linux"))]
mod portable {
    use rustix::process::{Signal, getpgrp, kill_process_group};

    use super::EndSignal;

    pub(in super::super) fn adopt_orphans() {}

    pub(in super::super) fn send_signal(end_signal: EndSignal) {
        let signal = match end_signal {
            EndSignal::Term => Signal::TERM,
            // The signal also ends the leash, which has no work left.
            EndSignal::Kill => Signal::KILL,
        };
        let _ = kill_process_group(getpgrp(), signal);
    }

    /// Returns `false`, because the remaining processes are unknown. They received SIGTERM when the agent ended.
    pub(in super::super) fn has_running_descendants() -> bool {
        false
    }

    pub(in super::super) fn reap_orphans(_agent_pid: Option<u32>) {}
}
