//! Identification of processes on this machine, and termination of agents that another process started.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use segue_core::agent::ProcessIdentity;

use crate::process::leash::SIGTERM_GRACE;

/// Status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessStatus {
    /// The process is running.
    Alive,
    /// The process has ended.
    Dead,
    /// The status cannot be determined: the process is on another machine or in another container.
    Unknown,
}

/// Returns the identity of a running process; `None` if no process has that id.
#[must_use]
pub fn identify_process(pid: u32) -> Option<ProcessIdentity> {
    Some(ProcessIdentity {
        host: host_name(),
        pid,
        start_time: format!("{}/{}", pid_scope()?, read_start_time(pid)?),
    })
}

/// Returns the status of the process with this identity.
#[must_use]
pub fn process_status(identity: &ProcessIdentity) -> ProcessStatus {
    let Some((recorded_boot, remainder)) = identity.start_time.split_once('/') else {
        return ProcessStatus::Unknown;
    };
    let (Some(scope), true) = (pid_scope(), identity.host == host_name()) else {
        return ProcessStatus::Unknown;
    };
    let Some((boot, namespace)) = scope.split_once('/') else {
        return ProcessStatus::Unknown;
    };
    if recorded_boot != boot {
        return ProcessStatus::Dead;
    }
    match remainder.split_once('/') {
        Some((recorded_namespace, recorded_start)) if recorded_namespace == namespace => {
            match read_start_time(identity.pid) {
                Some(start_time) if start_time == recorded_start => ProcessStatus::Alive,
                Some(_) | None => ProcessStatus::Dead,
            }
        }
        Some(_) | None => ProcessStatus::Unknown,
    }
}

/// Ends an agent that another process left running, and waits until it has ended.
///
/// `identity` is that of the agent's leash. The leash receives SIGTERM, because only the leash can find processes that
/// have left the process group. If the leash does not end in time, the group is killed.
pub async fn end_agent(identity: &ProcessIdentity) {
    let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    if process_status(identity) != ProcessStatus::Alive {
        return;
    }
    // The leash may be ending on its own.
    let _ = kill_process(pid, Signal::TERM);
    if !wait_until_ended(identity, SIGTERM_GRACE + Duration::from_secs(4)).await {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Waits at most `timeout` until a process has ended. Returns `true` if it has.
pub async fn wait_until_ended(identity: &ProcessIdentity, timeout: Duration) -> bool {
    let deadline = tokio::time::Instant::now() + timeout;
    while process_status(identity) == ProcessStatus::Alive {
        if tokio::time::Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Returns the scope in which process ids are unique: a boot of this machine and a PID namespace.
#[cfg(target_os = "linux")]
fn pid_scope() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), namespace.display()))
}

/// Returns the clock tick at which the process started; `None` if it has ended.
#[cfg(target_os = "linux")]
fn read_start_time(pid: u32) -> Option<String> {
    let stat = crate::process::leash::ProcStat::read(pid)?;
    (!stat.has_ended()).then(|| stat.start_ticks.to_string())
}

/// Returns a constant scope, because a reboot cannot be detected without `/proc`.
#[cfg(not(target_os = "linux"))]
fn pid_scope() -> Option<String> {
    Some("unknown/unknown".to_owned())
}

/// Returns a constant if a process with this id is running. Without `/proc`, a process that reuses the id cannot be
/// distinguished from the old one.
#[cfg(not(target_os = "linux"))]
fn read_start_time(pid: u32) -> Option<String> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    rustix::process::test_kill_process(pid)
        .ok()
        .map(|()| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_recognised_while_it_runs() {
        let identity = identify_process(std::process::id()).unwrap();
        let with_start = |start_time: &str| ProcessIdentity {
            start_time: start_time.into(),
            ..identity.clone()
        };
        let scope = pid_scope().unwrap();
        let boot = scope.split_once('/').unwrap().0;
        assert_eq!(process_status(&identity), ProcessStatus::Alive);
        assert_eq!(
            process_status(&with_start(&format!("{scope}/1"))),
            ProcessStatus::Dead,
            "a reused process id"
        );
        assert_eq!(
            process_status(&with_start("another boot/pid:[1]/1")),
            ProcessStatus::Dead
        );
        assert_eq!(
            process_status(&with_start(&format!("{boot}/pid:[1]/1"))),
            ProcessStatus::Unknown,
            "another container"
        );
        assert_eq!(
            process_status(&with_start("nonsense")),
            ProcessStatus::Unknown
        );
        let on_other_host = ProcessIdentity {
            host: "another-host".into(),
            ..identity.clone()
        };
        assert_eq!(process_status(&on_other_host), ProcessStatus::Unknown);
        assert_eq!(identify_process(u32::MAX), None);
    }
}
