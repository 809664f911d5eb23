//! Identification of processes on this machine, and termination of agents that another process started.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use segue_core::agent::ProcessMark;

use crate::leash::GRACE;

/// Status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// The process is running.
    Alive,
    /// The process has ended.
    Dead,
    /// The status cannot be determined: the process is on another machine or in another container.
    Unknown,
}

/// Returns the identity of a running process; `None` if no process has that id.
#[must_use]
pub fn mark_of(pid: u32) -> Option<ProcessMark> {
    Some(ProcessMark {
        host: host(),
        pid,
        started: format!("{}/{}", place()?, started(pid)?),
    })
}

/// Returns the status of the process that a mark identifies.
#[must_use]
pub fn life(mark: &ProcessMark) -> Life {
    let Some((their_boot, rest)) = mark.started.split_once('/') else {
        return Life::Unknown;
    };
    let (Some(place), true) = (place(), mark.host == host()) else {
        return Life::Unknown;
    };
    let Some((boot, namespace)) = place.split_once('/') else {
        return Life::Unknown;
    };
    if their_boot != boot {
        return Life::Dead;
    }
    match rest.split_once('/') {
        Some((theirs, at)) if theirs == namespace => match started(mark.pid) {
            Some(started) if started == at => Life::Alive,
            Some(_) | None => Life::Dead,
        },
        Some(_) | None => Life::Unknown,
    }
}

/// Ends an agent that another process left running, and waits until it has ended.
///
/// The mark is that of the agent's leash. The leash receives SIGTERM, because only the leash can find processes that
/// have left the process group. If the leash does not end in time, the group is killed.
pub async fn end_agent(mark: &ProcessMark) {
    let Some(pid) = i32::try_from(mark.pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    if life(mark) != Life::Alive {
        return;
    }
    // The leash may be ending on its own.
    let _ = kill_process(pid, Signal::TERM);
    if !wait_until_gone(mark, GRACE + Duration::from_secs(4)).await {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Waits at most `patience` until a process has ended. Returns `true` if it has.
pub async fn wait_until_gone(mark: &ProcessMark, patience: Duration) -> bool {
    let deadline = tokio::time::Instant::now() + patience;
    while life(mark) == Life::Alive {
        if tokio::time::Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Returns the scope in which process ids are unique: a boot of this machine and a PID namespace.
#[cfg(target_os = "linux")]
fn place() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), namespace.display()))
}

/// Returns the clock tick at which the process started; `None` if it has ended.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<String> {
    let stat = crate::leash::Stat::of(pid)?;
    (!stat.is_over()).then(|| stat.started.to_string())
}

/// Returns a constant scope, because a reboot cannot be detected without `/proc`.
#[cfg(not(target_os = "linux"))]
fn place() -> Option<String> {
    Some("unknown/unknown".to_owned())
}

/// Returns a constant if a process with this id is running. Without `/proc`, a process that reuses the id cannot be
/// distinguished from the old one.
#[cfg(not(target_os = "linux"))]
fn started(pid: u32) -> Option<String> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    rustix::process::test_kill_process(pid)
        .ok()
        .map(|()| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_recognised_while_it_lives() {
        let mark = mark_of(std::process::id()).unwrap();
        let with = |started: &str| ProcessMark {
            started: started.into(),
            ..mark.clone()
        };
        let place = place().unwrap();
        let boot = place.split_once('/').unwrap().0;
        assert_eq!(life(&mark), Life::Alive);
        assert_eq!(
            life(&with(&format!("{place}/1"))),
            Life::Dead,
            "a reused number"
        );
        assert_eq!(life(&with("another boot/pid:[1]/1")), Life::Dead);
        assert_eq!(
            life(&with(&format!("{boot}/pid:[1]/1"))),
            Life::Unknown,
            "another container"
        );
        assert_eq!(life(&with("nonsense")), Life::Unknown);
        let elsewhere = ProcessMark {
            host: "another-host".into(),
            ..mark.clone()
        };
        assert_eq!(life(&elsewhere), Life::Unknown);
        assert_eq!(mark_of(u32::MAX), None);
    }
}
