//! Descendants of a process: listing, waiting and killing.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Time between two checks of a process that is expected to end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time for a killed process to end. A process that waits for a device takes longer.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// Maximum time in which a program must print its version.
const VERSION_LIMIT: Duration = Duration::from_mins(1);

/// Maximum length of a command line in a report.
const MAX_COMMAND_CHARS: usize = 200;

/// A living process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: u32,
    /// State letter of the kernel: `S` sleeping, `R` running, `D` waiting for a device.
    pub(crate) state: char,
    pub(crate) command: String,
}

impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.id, self.state, self.command)
    }
}

/// Returns every living descendant of the process `ancestor`, including those in other sessions and process groups.
///
/// An orphan counts as a child of the process that adopted it. Empty on systems without `/proc`.
pub(crate) fn descendants(ancestor: u32) -> Vec<Process> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.parse::<u32>().ok());
        if let Some((parent, process)) = id.and_then(read_process) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut living: Vec<Process> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            parents.push(process.id);
            // A zombie has ended, but its children may live.
            if process.state != 'Z' {
                living.push(process);
            }
        }
    }
    living
}

/// Reads a process and the ID of its parent; `None` if it has ended.
fn read_process(id: u32) -> Option<(u32, Process)> {
    // The kernel may cut the name inside a character.
    let stat = fs::read(format!("/proc/{id}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (state, parent, name) = parse_stat(&stat)?;
    let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let command = if line.trim().is_empty() {
        format!("[{name}]")
    } else {
        line.trim().chars().take(MAX_COMMAND_CHARS).collect()
    };
    Some((parent, Process { id, state, command }))
}

/// Parses state, parent and name from a line of `/proc/PID/stat`. The name may contain spaces and parentheses.
fn parse_stat(line: &str) -> Option<(char, u32, &str)> {
    let (head, after_name) = line.rsplit_once(") ")?;
    let (_, name) = head.split_once(" (")?;
    let mut fields = after_name.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?, name))
}

/// Kills every descendant of `ancestor`, including those that start in the meantime. Gives up after 100 attempts and
/// returns the processes that survived: they wait for a device, or start others faster than this function kills them.
pub(crate) fn kill_descendants(ancestor: u32) -> Vec<Process> {
    for _ in 0..100 {
        let living = descendants(ancestor);
        if living.is_empty() {
            return living;
        }
        for process in &living {
            kill(process.id);
        }
        thread::sleep(POLL_INTERVAL);
    }
    descendants(ancestor)
}

/// Kills a process. An error means that it has already ended, and is ignored.
pub(crate) fn kill(id: u32) {
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, Signal::KILL);
    }
}

/// Waits for a child at most for `limit`; `None` if it is still running then.
pub(crate) fn wait_within(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut interval = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            return Ok(None);
        }
        thread::sleep(interval);
        interval = (interval * 2).min(POLL_INTERVAL);
    }
}

/// Runs a command to its end, and kills it with all its descendants once `limit` has passed.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<ExitStatus> {
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if let Some(status) = wait_within(&mut child, limit)? {
        return Ok(status);
    }
    let mut running = descendants(child.id());
    running.sort_by_key(|process| process.id);
    kill_descendants(child.id());
    kill(child.id());
    wait_within(&mut child, KILL_GRACE)?;
    let args = command.get_args().map(|arg| arg.display().to_string());
    let mut lines = vec![format!(
        "`{} {}` did not end within {} s and was killed with {} that it had started",
        command.get_program().display(),
        args.collect::<Vec<_>>().join(" "),
        limit.as_secs(),
        format_process_count(running.len()),
    )];
    lines.extend(running.iter().map(Process::to_string));
    anyhow::bail!(lines.join("\n"))
}

fn format_process_count(count: usize) -> String {
    if count == 1 {
        "1 process".to_owned()
    } else {
        format!("{count} processes")
    }
}

/// Returns `true` if a command that prints the version of a program succeeds within a minute. Discards its output.
pub(crate) fn can_print_version(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    run_within(command, VERSION_LIMIT).is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_and_spaces_is_parsed() {
        let line = "4121 (a (b) c) S 4000 4121 4121 0 -1 4194560 0";
        assert_eq!(parse_stat(line), Some(('S', 4000, "a (b) c")));
        assert_eq!(parse_stat("4121"), None);
    }

    #[test]
    fn a_grandchild_in_a_session_of_its_own_is_a_descendant_and_is_killed() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "setsid sleep 400 & wait"]);
        let mut child = shell.stdin(Stdio::null()).spawn().unwrap();
        let is_sleeping = |process: &Process| process.command.starts_with("sleep 400");
        let mut grandchild = None;
        while grandchild.is_none() {
            grandchild = descendants(child.id()).into_iter().find(is_sleeping);
        }

        kill_descendants(child.id());

        let id = grandchild.unwrap().id;
        assert!(
            !descendants(std::process::id())
                .iter()
                .any(|process| process.id == id)
        );
        child.wait().unwrap();
    }

    #[test]
    fn a_command_that_exceeds_its_limit_is_killed_with_its_processes() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 301 & sleep 302"]);

        let error = run_within(&mut shell, Duration::from_secs(2)).unwrap_err();

        let message = error.to_string();
        let start = "`sh -c sleep 301 & sleep 302` did not end within 2 s and was killed";
        assert!(message.starts_with(start), "{message}");
        assert!(
            message.contains("S sleep 301") && message.contains("S sleep 302"),
            "{message}"
        );
        let is_leftover = |process: &Process| process.command.starts_with("sleep 30");
        assert!(!descendants(std::process::id()).iter().any(is_leftover));
    }
}
