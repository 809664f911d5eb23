//! Everything an agent started, as far as the system lets us find it.

/// What the family is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// To end by itself.
    End,
    /// To be gone.
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

    /// What `/proc` says of a process.
    pub(crate) struct Stat {
        pid: u32,
        parent: u32,
        state: char,
        /// When it started, in ticks since the boot.
        pub(crate) started: u64,
    }

    impl Stat {
        /// Looks a process up.
        pub(crate) fn of(pid: u32) -> Option<Self> {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The second field is the program's name, which may contain anything; the rest is numbers.
            let (_, rest) = stat.rsplit_once(')')?;
            let fields: Vec<&str> = rest.split_whitespace().collect();
            Some(Self {
                pid,
                state: fields.first()?.chars().next()?,
                parent: fields.get(1)?.parse().ok()?,
                started: fields.get(19)?.parse().ok()?,
            })
        }

        /// Whether it has ended and only waits to be noticed.
        pub(crate) fn is_over(&self) -> bool {
            matches!(self.state, 'Z' | 'X')
        }
    }

    /// Makes this process the parent of whatever loses its own below it.
    pub(in super::super) fn adopt_orphans() {
        // Where it is refused, what leaves the family can't be found; the group still can.
        let _ = set_child_subreaper(Some(getpid()));
    }

    /// All that descends from this process.
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
                // It may have ended since we looked.
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Whether anything but this process is still running.
    pub(in super::super) fn any_left() -> bool {
        has_children() && descendants().iter().any(|stat| !stat.is_over())
    }

    /// Whether there is any child at all; orphans below us become our children, so without one nothing is left.
    fn has_children() -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
    }

    /// Lets ended orphans go; the agent itself is waited for elsewhere.
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

/// Without `/proc`, the process group is the family: what has left it is out of reach.
#[cfg(not(target_os = "linux"))]
mod portable {
    use rustix::process::{Signal, getpgrp, kill_process_group};

    use super::Order;

    pub(in super::super) fn adopt_orphans() {}

    pub(in super::super) fn send(order: Order) {
        let signal = match order {
            Order::End => Signal::TERM,
            // This ends the leash, too; it has nothing left to do.
            Order::Die => Signal::KILL,
        };
        let _ = kill_process_group(getpgrp(), signal);
    }

    /// Not known: once the agent has ended, what it left was asked to end, and that is all.
    pub(in super::super) fn any_left() -> bool {
        false
    }

    pub(in super::super) fn reap_orphans(_agent: Option<u32>) {}
}
