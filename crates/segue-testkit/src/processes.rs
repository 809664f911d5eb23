//! Search for processes by the environment that they were started with.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Returns the running processes, except this one, that were started with this entry (`NAME=value`) in their
/// environment.
pub(crate) fn find_by_environment(variable: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|candidate| candidate == variable.as_bytes())
        })
        .collect()
}

/// Describes each process as "pid: command line".
pub(crate) fn describe_processes(pids: &[u32]) -> Vec<String> {
    let describe = |pid: &u32| {
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!(
            "{pid}: {}",
            String::from_utf8_lossy(&command_line).replace('\0', " ")
        )
    };
    pids.iter().map(describe).collect()
}

/// Kills a process with SIGKILL.
pub(crate) fn kill_by_id(id: u32) {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // The process may have ended already.
        let _ = kill_process(pid, Signal::KILL);
    }
}
