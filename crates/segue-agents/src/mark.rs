//! Recognising processes, on this machine, and ending an agent that somebody else started.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use segue_core::ProcessMark;

use crate::leash::GRACE;

/// Whether a process still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It does.
    Alive,
    /// It does not.
    Dead,
    /// It can't be told from here: it is on another machine, or in a container of its own.
    Unknown,
}

/// Names a process that runs now; `None` if there is none with that number.
#[must_use]
pub fn mark_of(pid: u32) -> Option<ProcessMark> {
    Some(ProcessMark {
        host: host(),
        pid,
        started: format!("{}/{}", place()?, started(pid)?),
    })
}

/// Whether the process named by a mark still runs.
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

/// Ends an agent that another process left running, and waits until it is gone.
///
/// The mark is that of its leash, which is asked to do its work: only the leash can find what has left the
/// process group. If it does not, the group is killed.
pub async fn end_agent(mark: &ProcessMark) {
    let Some(pid) = i32::try_from(mark.pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    if life(mark) != Life::Alive {
        return;
    }
    // It may end by itself just now.
    let _ = kill_process(pid, Signal::TERM);
    if !wait_until_gone(mark, GRACE + Duration::from_secs(4)).await {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Waits until a process is gone, but not for ever; says whether it is.
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

/// Where numbers of processes mean the same: a boot of this machine, and a namespace of numbers.
#[cfg(target_os = "linux")]
fn place() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), namespace.display()))
}

/// At which tick of the clock the process started.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<String> {
    let stat = crate::leash::Stat::of(pid)?;
    (!stat.is_over()).then(|| stat.started.to_string())
}

/// Without `/proc` there is one place, and no way to tell a reboot.
#[cfg(not(target_os = "linux"))]
fn place() -> Option<String> {
    Some("unknown/unknown".to_owned())
}

/// Without `/proc` a process is known by its number alone: one that reuses it passes for the old one.
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
