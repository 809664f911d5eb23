//! Detection of processes that are using a native session.
//!
//! Three signs identify such a process: it has the session file open (Codex does so for as long as it uses the
//! session), it registered itself for the session (each Claude Code process does), or it has the session id on its
//! command line. Without `/proc`, only the registration can be read. A process that has no file open and received no id
//! cannot be detected.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use segue_core::id::NativeId;
use serde::Deserialize;

use crate::reader::artifacts::list_names;

/// A process that is using a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessUsingSession {
    /// Process id.
    pub pid: u32,
    /// Name of its program.
    pub program: String,
}

/// Processes that [`find_process_using_session`] considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessFilter {
    /// All processes, including those that only read.
    All,
    /// Processes that segue did not start. Agents of segue do not count, because a lease protects the sessions that
    /// they use.
    Foreign,
}

/// Returns a process that is using a session. `files` contain the session, and `home` is the agent's home directory.
#[must_use]
pub fn find_process_using_session(
    id: &NativeId,
    files: &[PathBuf],
    home: &Path,
    filter: ProcessFilter,
) -> Option<ProcessUsingSession> {
    let files: Vec<PathBuf> = files
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let own_pid = std::process::id();
    let own_lineage = list_lineage(own_pid);
    let own_program = read_program_path(own_pid);
    // segue itself often has session ids on its command line.
    let is_segue = |pid: u32| own_program.is_some() && read_program_path(pid) == own_program;
    let is_included =
        |pid: u32| filter == ProcessFilter::All || !list_lineage(pid).into_iter().any(is_segue);
    let using_process = list_other_pids(&own_lineage).into_iter().find_map(|pid| {
        let proc_dir = PathBuf::from(format!("/proc/{pid}"));
        let args = read_args(&proc_dir);
        let has_id_arg = args.iter().skip(1).any(|arg| is_id_arg(arg, id))
            && !is_segue(pid)
            && can_use_home(&proc_dir, home);
        let is_using = has_id_arg || has_file_open(&proc_dir, &files, filter);
        (is_using && is_included(pid)).then(|| ProcessUsingSession {
            pid,
            program: program_name(&args),
        })
    });
    using_process.or_else(|| find_registered_process(id, &home.join("sessions"), is_included))
}

/// Returns `true` if the command before segue in a pipeline is still running, that is, if a process can write to
/// segue's standard input. Ancestors of segue do not count, because they may have a pipe open that they never write to.
#[must_use]
pub fn has_stdin_writer() -> bool {
    let Ok(input) = fs::read_link("/proc/self/fd/0") else {
        return false;
    };
    let is_writer = |pid: &u32| {
        let proc_dir = PathBuf::from(format!("/proc/{pid}"));
        has_file_open(
            &proc_dir,
            std::slice::from_ref(&input),
            ProcessFilter::Foreign,
        )
    };
    list_other_pids(&list_lineage(std::process::id()))
        .iter()
        .any(is_writer)
}

/// Returns all process ids except `excluded`, in ascending order.
fn list_other_pids(excluded: &[u32]) -> Vec<u32> {
    let mut pids: Vec<u32> = list_names(Path::new("/proc"))
        .iter()
        .filter_map(|name| name.parse().ok())
        .filter(|pid| !excluded.contains(pid))
        .collect();
    pids.sort_unstable();
    pids
}

/// Returns the path of the program that a process runs, even if the file has been replaced since.
fn read_program_path(pid: u32) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let original_path = path
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"));
    Some(original_path.map(PathBuf::from).unwrap_or(path))
}

/// Returns `true` if an argument is the id: `ID` or `--resume=ID`.
fn is_id_arg(arg: &str, id: &NativeId) -> bool {
    arg.strip_suffix(id.as_str())
        .is_some_and(|prefix| prefix.is_empty() || prefix.starts_with('-') && prefix.ends_with('='))
}

/// Returns `true` if a process may use the agent home `home`, judging by its environment. Needed because a session id
/// is unique only within a home. An unreadable environment counts as a match.
fn can_use_home(proc_dir: &Path, home: &Path) -> bool {
    let environment = fs::read(proc_dir.join("environ")).unwrap_or_default();
    let variables = environment.split(|byte| *byte == 0);
    let mut homes = variables.filter_map(|variable| {
        let text = str::from_utf8(variable).ok()?;
        let (name, value) = text.split_once('=')?;
        (name == "HOME" || name.ends_with("_HOME") || name.ends_with("_DIR")).then_some(value)
    });
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let home = canonical(home);
    environment.is_empty()
        || homes.any(|directory| {
            !directory.is_empty() && home.starts_with(canonical(Path::new(directory)))
        })
}

fn read_args(proc_dir: &Path) -> Vec<String> {
    let bytes = fs::read(proc_dir.join("cmdline")).unwrap_or_default();
    let args = bytes.split(|byte| *byte == 0);
    args.map(|arg| String::from_utf8_lossy(arg).into_owned())
        .collect()
}

fn program_name(args: &[String]) -> String {
    let first = args.first().map_or("?", String::as_str);
    first.rsplit('/').next().unwrap_or(first).to_owned()
}

fn has_file_open(proc_dir: &Path, files: &[PathBuf], filter: ProcessFilter) -> bool {
    if files.is_empty() {
        return false;
    }
    let descriptors = proc_dir.join("fd");
    list_names(&descriptors).into_iter().any(|name| {
        let path = fs::read_link(descriptors.join(&name));
        path.is_ok_and(|path| files.contains(&path))
            && (filter == ProcessFilter::All || is_open_for_writing(proc_dir, &name))
    })
}

/// Returns `true` if a descriptor is open for writing. A process that only reads does not count as using the session.
fn is_open_for_writing(proc_dir: &Path, descriptor: &str) -> bool {
    let info = fs::read_to_string(proc_dir.join("fdinfo").join(descriptor)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 3 != 0)
}

/// Returns a process and its ancestors. A shell that runs a `segue` command to delete a session has the id on its
/// command line, too.
fn list_lineage(pid: u32) -> Vec<u32> {
    let mut pids = vec![pid];
    let mut pid = pid;
    while let Some(parent) = read_stat_field(pid, 4).filter(|parent| *parent > 1) {
        let Ok(parent) = u32::try_from(parent) else {
            break;
        };
        pids.push(parent);
        pid = parent;
    }
    pids
}

/// Returns a numeric field of `/proc/PID/stat`, by its number in proc(5).
fn read_stat_field(pid: u32, field: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may contain any character.
    let (_, fields) = text.rsplit_once(") ")?;
    fields.split(' ').nth(field.checked_sub(3)?)?.parse().ok()
}

/// Registration that a process of Claude Code writes about itself: `sessions/<pid>.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaudeRegistration {
    pid: u32,
    session_id: String,
    proc_start: Option<String>,
}

fn find_registered_process(
    id: &NativeId,
    registry: &Path,
    is_included: impl Fn(u32) -> bool,
) -> Option<ProcessUsingSession> {
    let files = list_names(registry).into_iter();
    let files = files.filter(|name| name.strip_suffix(".json").is_some());
    let mut registrations = files.filter_map(|name| {
        let json = fs::read(registry.join(name)).ok()?;
        serde_json::from_slice::<ClaudeRegistration>(&json).ok()
    });
    let registration = registrations.find(|entry| {
        entry.session_id == id.as_str() && is_running(entry) && is_included(entry.pid)
    })?;
    Some(ProcessUsingSession {
        pid: registration.pid,
        program: "claude".to_owned(),
    })
}

/// Returns `true` if the process that wrote the registration is still running. Compares the start time, because another
/// process may have reused the process id.
fn is_running(registration: &ClaudeRegistration) -> bool {
    let pid = i32::try_from(registration.pid).ok().and_then(Pid::from_raw);
    let start_time = read_stat_field(registration.pid, 22).map(|start| start.to_string());
    let has_reused_pid = start_time.is_some()
        && registration.proc_start.is_some()
        && start_time != registration.proc_start;
    pid.is_some_and(|pid| test_kill_process(pid).is_ok()) && !has_reused_pid
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    const SESSION_ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

    /// Polls until `observe` returns `expected`. A program's arguments are not visible for a moment after its start,
    /// and a program that another test starts has all files of this process open for a moment before its start.
    fn assert_eventually(observe: impl Fn() -> Option<u32>, expected: Option<u32>) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while observe() != expected && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(observe(), expected);
    }

    #[test]
    fn a_process_is_found_by_an_open_file_an_argument_or_a_registration() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("session.jsonl");
        fs::write(&file, "").unwrap();
        let id = NativeId::parse(SESSION_ID).unwrap();
        let files = std::slice::from_ref(&file);
        let find_pid = || {
            find_process_using_session(&id, files, home.path(), ProcessFilter::All)
                .map(|process| process.pid)
        };
        assert_eq!(find_pid(), None);
        // An open file in the calling process does not count.
        let open_file = File::open(&file).unwrap();
        assert_eventually(find_pid, None);

        let mut sleep = Command::new("sleep");
        let mut child = sleep
            .arg("60")
            .stdin(Stdio::from(open_file))
            .spawn()
            .unwrap();
        let pid = child.id();
        assert_eventually(find_pid, Some(pid));

        let registry = home.path().join("sessions");
        fs::create_dir(&registry).unwrap();
        let start = read_stat_field(pid, 22).unwrap();
        let other_id = NativeId::parse("other").unwrap();
        let find_other =
            || find_process_using_session(&other_id, &[], home.path(), ProcessFilter::All);
        for (start, is_found) in [(start, true), (start + 1, false)] {
            let entry =
                format!("{{\"pid\":{pid},\"sessionId\":\"other\",\"procStart\":\"{start}\"}}");
            fs::write(registry.join(format!("{pid}.json")), entry).unwrap();
            assert_eq!(find_other().is_some(), is_found);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let entry = format!("{{\"pid\":{pid},\"sessionId\":\"other\"}}");
        fs::write(registry.join(format!("{pid}.json")), entry).unwrap();
        assert_eq!(find_other(), None);

        // `read` waits for input that never arrives.
        let mut command = Command::new("sh");
        command.args(["-c", "read x", "sh", &format!("--resume={SESSION_ID}")]);
        command
            .env("HOME", "/home-dir")
            .env("CODEX_HOME", "/codex-home");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let find_pid_in_home = |home: &str| {
            let process = find_process_using_session(&id, &[], Path::new(home), ProcessFilter::All);
            process.map(|process| process.pid)
        };
        for home in ["/home-dir/.claude", "/codex-home"] {
            assert_eventually(|| find_pid_in_home(home), Some(child.id()));
        }
        assert_eventually(|| find_pid_in_home("/other-home/.claude"), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn only_foreign_processes_that_write_count() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("session.jsonl");
        fs::write(&file, "").unwrap();
        let id = NativeId::parse("one").unwrap();
        let files = std::slice::from_ref(&file);
        let read_handle = File::open(&file).unwrap();
        let write_handle = File::options().append(true).open(&file).unwrap();
        for (handle, writes) in [(read_handle, false), (write_handle, true)] {
            let mut sleep = Command::new("sleep");
            // Not a descendant of this process: its parent is a shell that has exited.
            let mut shell = Command::new("sh");
            shell.args(["-c", "sleep 60 >&2 & echo $!"]);
            let shell = shell
                .stdin(Stdio::null())
                .stderr(Stdio::from(handle.try_clone().unwrap()));
            let pid = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            let pid: u32 = pid.trim().parse().unwrap();
            let mut child = sleep.arg("60").stdin(Stdio::from(handle)).spawn().unwrap();
            let find_pid = |filter| {
                find_process_using_session(&id, files, home.path(), filter)
                    .map(|process| process.pid)
            };
            assert_eventually(|| find_pid(ProcessFilter::All), Some(pid.min(child.id())));
            assert_eventually(|| find_pid(ProcessFilter::Foreign), writes.then_some(pid));
            let raw_pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            rustix::process::kill_process(raw_pid, rustix::process::Signal::KILL).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn only_the_complete_id_matches() {
        let id = NativeId::parse("abc").unwrap();
        let cases = [
            ("abc", true),
            ("--resume=abc", true),
            ("xabc", false),
            ("delete abc", false),
            ("abcd", false),
        ];
        for (arg, expected) in cases {
            assert_eq!(is_id_arg(arg, &id), expected, "{arg}");
        }
    }
}
