//! Search for processes by the environment that they were started with.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Returns the running processes, except this one, that were started with this entry (`NAME=value`) in their
/// environment.
pub(crate) fn with(entry: &str) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    numbers
        .filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok())
        .filter(|number| *number != std::process::id())
        .filter(|number| {
            let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|found| found == entry.as_bytes())
        })
        .collect()
}

/// Describes each process as "pid: command line".
pub(crate) fn described(numbers: &[u32]) -> Vec<String> {
    let described = |number: &u32| {
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        format!(
            "{number}: {}",
            String::from_utf8_lossy(&line).replace('\0', " ")
        )
    };
    numbers.iter().map(described).collect()
}

/// Kills a process with SIGKILL.
pub(crate) fn kill(number: u32) {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // The process may have ended already.
        let _ = kill_process(pid, Signal::KILL);
    }
}
