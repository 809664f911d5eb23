//! Recognising processes, on this machine.

use rustix::process::{Pid, Signal, kill_process_group};
use segue_core::ProcessMark;

/// Names a process that runs now; `None` if there is none with that number.
#[must_use]
pub fn mark_of(pid: u32) -> Option<ProcessMark> {
    Some(ProcessMark {
        host: host(),
        pid,
        started: started(pid)?,
    })
}

/// Whether the process named by a mark still runs. One on another machine is taken to be alive.
#[must_use]
pub fn is_alive(mark: &ProcessMark) -> bool {
    if mark.host != host() {
        return true;
    }
    started(mark.pid).is_some_and(|started| started == mark.started)
}

/// Ends a process group at once, if it is still the one the mark names.
pub fn end_group(mark: &ProcessMark) {
    let Some(pid) = i32::try_from(mark.pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    if mark.host == host() && is_alive(mark) {
        // It may have ended just now.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Which boot and which tick of its clock the process started at.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<String> {
    let stat = crate::leash::Stat::of(pid)?;
    if stat.is_over() {
        return None;
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{}/{}", boot.trim(), stat.started))
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
        assert!(is_alive(&mark));
        let reused = ProcessMark {
            started: "another boot/1".into(),
            ..mark.clone()
        };
        assert!(!is_alive(&reused), "the same number, another process");
        let elsewhere = ProcessMark {
            host: "another-host".into(),
            pid: u32::MAX,
            ..mark
        };
        assert!(is_alive(&elsewhere), "of another machine we know nothing");
        assert_eq!(mark_of(u32::MAX), None);
    }
}
