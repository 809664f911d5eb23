//! Processes that an agent started, as far as the system can find them.

/// Signal to the processes of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// SIGTERM, which requests an exit.
    End,
    /// SIGKILL, which forces it.
    Die,
}

#[cfg(target_os = "linux")]
pub(crate) use linux::Stat;
#[cfg(target_os = "linux")]
pub(super) use linux::{adopt_orphans, any_left, reap_orphans, send};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{adopt_orphans, any_left, reap_orphans, send};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs;

    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper,
        waitid, waitpid,
    };

    use super::Order;

    /// Entries of `/proc/PID/stat`.
    pub(crate) struct Stat {
        pid: u32,
        parent: u32,
        state: char,
        /// Start time, in ticks since the boot.
        pub(crate) started: u64,
    }

    impl Stat {
        /// Reads the entries of a process.
        pub(crate) fn of(pid: u32) -> Option<Self> {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The second field is the program's name, which may contain any character; only simple fields follow.
            let (_, rest) = stat.rsplit_once(')')?;
            let fields: Vec<&str> = rest.split_whitespace().collect();
            Some(Self {
                pid,
                state: fields.first()?.chars().next()?,
                parent: fields.get(1)?.parse().ok()?,
                started: fields.get(19)?.parse().ok()?,
            })
        }

        /// Returns `true` if the process has ended and is only waiting to be reaped.
        pub(crate) fn is_over(&self) -> bool {
            matches!(self.state, 'Z' | 'X')
        }
    }

    /// Makes this process the parent of all orphaned descendants.
    pub(in super::super) fn adopt_orphans() {
        // If this fails, processes that leave the process tree cannot be found, but the group still can.
        let _ = set_child_subreaper(Some(getpid()));
    }

    /// Returns all descendants of this process.
    fn descendants() -> Vec<Stat> {
        let mut others: Vec<Stat> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(Stat::of)
            .collect();
        let mut family = HashSet::from([std::process::id()]);
        let mut found = Vec::new();
        loop {
            let (mine, rest): (Vec<_>, Vec<_>) = others
                .into_iter()
                .partition(|stat| family.contains(&stat.parent));
            if mine.is_empty() {
                return found;
            }
            family.extend(mine.iter().map(|stat| stat.pid));
            found.extend(mine);
            others = rest;
        }
    }

    fn pid(number: u32) -> Option<Pid> {
        i32::try_from(number).ok().and_then(Pid::from_raw)
    }

    pub(in super::super) fn send(order: Order) {
        let signal = match order {
            Order::End => Signal::TERM,
            Order::Die => Signal::KILL,
        };
        if !has_children() {
            return;
        }
        for stat in descendants() {
            if let Some(pid) = pid(stat.pid) {
                // The process may have ended since the scan.
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Returns `true` if a descendant of this process is still running.
    pub(in super::super) fn any_left() -> bool {
        has_children() && descendants().iter().any(|stat| !stat.is_over())
    }

    /// Returns `true` if this process has any child. Orphaned descendants become children, so without a child no
    /// descendant is left.
    fn has_children() -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
    }

    /// Reaps ended orphans. The caller waits for the agent itself.
    pub(in super::super) fn reap_orphans(agent: Option<u32>) {
        if !has_children() {
            return;
        }
        let me = std::process::id();
        for stat in descendants() {
            if stat.is_over() && stat.parent == me && Some(stat.pid) != agent {
                let _ = waitpid(pid(stat.pid), WaitOptions::NOHANG);
            }
        }
    }
}

/// Implementation without `/proc`: only the process group can be reached, not processes that have left it.
#[cfg(not(target_os = "linux"))]
mod portable {
    use rustix::process::{Signal, getpgrp, kill_process_group};

    use super::Order;

    pub(in super::super) fn adopt_orphans() {}

    pub(in super::super) fn send(order: Order) {
        let signal = match order {
            Order::End => Signal::TERM,
            // The signal also ends the leash, which has no work left.
            Order::Die => Signal::KILL,
        };
        let _ = kill_process_group(getpgrp(), signal);
    }

    /// Returns `false`, because the remaining processes are unknown. They received SIGTERM when the agent ended.
    pub(in super::super) fn any_left() -> bool {
        false
    }

    pub(in super::super) fn reap_orphans(_agent: Option<u32>) {}
}
