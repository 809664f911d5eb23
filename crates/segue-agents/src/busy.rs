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

/// A process that is using a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// Process id.
    pub pid: u32,
    /// Name of its program.
    pub program: String,
}

/// Processes that [`at_work`] considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All processes, including those that only read.
    Anybodys,
    /// Processes that segue did not start. Agents of segue do not count, because a lease protects the sessions that
    /// they use.
    Strangers,
}

/// Returns `true` if the agent has the session file open for as long as it uses the session.
#[must_use]
pub fn keeps_open(agent: &str) -> bool {
    agent == "codex"
}

/// Returns a process that is using a session. `files` contain the session, and `home` is the agent's home directory.
#[must_use]
pub fn at_work(id: &NativeId, files: &[PathBuf], home: &Path, whose: Whose) -> Option<Busy> {
    let files: Vec<PathBuf> = files
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let me = std::process::id();
    let ours = lineage(me);
    let own_program = program_of(me);
    // segue itself often has session ids on its command line.
    let is_segue = |pid: u32| own_program.is_some() && program_of(pid) == own_program;
    let counts = |pid: u32| whose == Whose::Anybodys || !lineage(pid).into_iter().any(is_segue);
    let busy = all_but(&ours).into_iter().find_map(|pid| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let args = arguments(&process);
        let named = args.iter().skip(1).any(|arg| names_it(arg, id))
            && !is_segue(pid)
            && is_at_home(&process, home);
        let busy = named || has_open(&process, &files, whose);
        (busy && counts(pid)).then(|| Busy {
            pid,
            program: program(&args),
        })
    });
    busy.or_else(|| registered(id, &home.join("sessions"), counts))
}

/// Returns `true` if the command before segue in a pipeline is still running, that is, if a process can write to
/// segue's standard input. Ancestors of segue do not count, because they may have a pipe open that they never write to.
#[must_use]
pub fn is_piped_to() -> bool {
    let Ok(input) = fs::read_link("/proc/self/fd/0") else {
        return false;
    };
    let writes = |pid: &u32| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        has_open(&process, std::slice::from_ref(&input), Whose::Strangers)
    };
    all_but(&lineage(std::process::id())).iter().any(writes)
}

/// Returns all process ids except `ours`, in ascending order.
fn all_but(ours: &[u32]) -> Vec<u32> {
    let mut pids: Vec<u32> = names(Path::new("/proc"))
        .iter()
        .filter_map(|name| name.parse().ok())
        .filter(|pid| !ours.contains(pid))
        .collect();
    pids.sort_unstable();
    pids
}

/// Returns the path of the program that a process runs, even if the file has been replaced since.
fn program_of(pid: u32) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let replaced = path
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"));
    Some(replaced.map(PathBuf::from).unwrap_or(path))
}

/// Returns `true` if an argument is the id: `ID` or `--resume=ID`.
fn names_it(arg: &str, id: &NativeId) -> bool {
    arg.strip_suffix(id.as_str())
        .is_some_and(|before| before.is_empty() || before.starts_with('-') && before.ends_with('='))
}

/// Returns `true` if a process may use the agent home `home`, judging by its environment. Needed because a session id
/// is unique only within a home. An unreadable environment counts as a match.
fn is_at_home(process: &Path, home: &Path) -> bool {
    let environment = fs::read(process.join("environ")).unwrap_or_default();
    let variables = environment.split(|byte| *byte == 0);
    let mut homes = variables.filter_map(|variable| {
        let text = str::from_utf8(variable).ok()?;
        let (name, value) = text.split_once('=')?;
        (name == "HOME" || name.ends_with("_HOME") || name.ends_with("_DIR")).then_some(value)
    });
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let home = real(home);
    environment.is_empty()
        || homes.any(|at| !at.is_empty() && home.starts_with(real(Path::new(at))))
}

fn arguments(process: &Path) -> Vec<String> {
    let bytes = fs::read(process.join("cmdline")).unwrap_or_default();
    let args = bytes.split(|byte| *byte == 0);
    args.map(|arg| String::from_utf8_lossy(arg).into_owned())
        .collect()
}

fn program(args: &[String]) -> String {
    let first = args.first().map_or("?", String::as_str);
    first.rsplit('/').next().unwrap_or(first).to_owned()
}

fn has_open(process: &Path, files: &[PathBuf], whose: Whose) -> bool {
    if files.is_empty() {
        return false;
    }
    let descriptors = process.join("fd");
    names(&descriptors).into_iter().any(|name| {
        let path = fs::read_link(descriptors.join(&name));
        path.is_ok_and(|path| files.contains(&path))
            && (whose == Whose::Anybodys || can_write(process, &name))
    })
}

/// Returns `true` if a descriptor is open for writing. A process that only reads does not count as using the session.
fn can_write(process: &Path, descriptor: &str) -> bool {
    let info = fs::read_to_string(process.join("fdinfo").join(descriptor)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 3 != 0)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// Returns a process and its ancestors. A shell that runs a `segue` command to delete a session has the id on its
/// command line, too.
fn lineage(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut pid = pid;
    while let Some(parent) = stat(pid, 4).filter(|parent| *parent > 1) {
        let Ok(parent) = u32::try_from(parent) else {
            break;
        };
        all.push(parent);
        pid = parent;
    }
    all
}

/// Returns a numeric field of `/proc/PID/stat`, by its number in proc(5).
fn stat(pid: u32, field: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may contain any character.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(field.checked_sub(3)?)?.parse().ok()
}

/// Registration that a process of Claude Code writes about itself: `sessions/<pid>.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Registered {
    pid: u32,
    session_id: String,
    #[serde(default)]
    proc_start: Option<String>,
}

fn registered(id: &NativeId, registry: &Path, counts: impl Fn(u32) -> bool) -> Option<Busy> {
    let files = names(registry).into_iter();
    let files = files.filter(|name| name.strip_suffix(".json").is_some());
    let mut known = files.filter_map(|name| {
        let json = fs::read(registry.join(name)).ok()?;
        serde_json::from_slice::<Registered>(&json).ok()
    });
    let found = known.find(|one| one.session_id == id.as_str() && lives(one) && counts(one.pid))?;
    Some(Busy {
        pid: found.pid,
        program: "claude".to_owned(),
    })
}

/// Returns `true` if the process that wrote this still runs. Compares the start time, because another process may have
/// reused the process id.
fn lives(one: &Registered) -> bool {
    let pid = i32::try_from(one.pid).ok().and_then(Pid::from_raw);
    let started = stat(one.pid, 22).map(|start| start.to_string());
    let another = started.is_some() && one.proc_start.is_some() && started != one.proc_start;
    pid.is_some_and(|pid| test_kill_process(pid).is_ok()) && !another
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

    /// Polls until `look` returns `expected`. A program's arguments are not visible for a moment after its start, and a
    /// program that another test starts has all files of this process open for a moment before its start.
    fn comes_to(look: impl Fn() -> Option<u32>, expected: Option<u32>) {
        let patience = Instant::now() + Duration::from_secs(10);
        while look() != expected && Instant::now() < patience {
            std::thread::yield_now();
        }
        assert_eq!(look(), expected);
    }

    #[test]
    fn an_open_file_an_argument_or_an_entry_tells() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("session.jsonl");
        fs::write(&file, "").unwrap();
        let id = NativeId::parse(ID).unwrap();
        let files = std::slice::from_ref(&file);
        let look = || at_work(&id, files, home.path(), Whose::Anybodys).map(|busy| busy.pid);
        assert_eq!(look(), None);
        // An open file in the calling process does not count.
        let open = File::open(&file).unwrap();
        comes_to(look, None);

        let mut sleep = Command::new("sleep");
        let mut child = sleep.arg("60").stdin(Stdio::from(open)).spawn().unwrap();
        let pid = child.id();
        comes_to(look, Some(pid));

        let registry = home.path().join("sessions");
        fs::create_dir(&registry).unwrap();
        let start = stat(pid, 22).unwrap();
        let other = NativeId::parse("other").unwrap();
        let look = || at_work(&other, &[], home.path(), Whose::Anybodys);
        for (start, busy) in [(start, true), (start + 1, false)] {
            let entry =
                format!("{{\"pid\":{pid},\"sessionId\":\"other\",\"procStart\":\"{start}\"}}");
            fs::write(registry.join(format!("{pid}.json")), entry).unwrap();
            assert_eq!(look().is_some(), busy);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let entry = format!("{{\"pid\":{pid},\"sessionId\":\"other\"}}");
        fs::write(registry.join(format!("{pid}.json")), entry).unwrap();
        assert_eq!(look(), None);

        // `read` waits for input that never arrives.
        let mut named = Command::new("sh");
        named.args(["-c", "read x", "sh", &format!("--resume={ID}")]);
        named.env("HOME", "/somewhere").env("CODEX_HOME", "/apart");
        let mut child = named.stdin(Stdio::piped()).spawn().unwrap();
        let look = |home: &str| {
            let busy = at_work(&id, &[], Path::new(home), Whose::Anybodys);
            busy.map(|busy| busy.pid)
        };
        for home in ["/somewhere/.claude", "/apart"] {
            comes_to(|| look(home), Some(child.id()));
        }
        comes_to(|| look("/elsewhere/.claude"), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn of_strangers_only_who_writes_counts() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("session.jsonl");
        fs::write(&file, "").unwrap();
        let id = NativeId::parse("one").unwrap();
        let files = std::slice::from_ref(&file);
        let reading = File::open(&file).unwrap();
        let writing = File::options().append(true).open(&file).unwrap();
        for (open, writes) in [(reading, false), (writing, true)] {
            let mut sleep = Command::new("sleep");
            // Not a descendant of this process: its parent is a shell that has exited.
            let mut shell = Command::new("sh");
            shell.args(["-c", "sleep 60 >&2 & echo $!"]);
            let shell = shell
                .stdin(Stdio::null())
                .stderr(Stdio::from(open.try_clone().unwrap()));
            let pid = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            let pid: u32 = pid.trim().parse().unwrap();
            let mut child = sleep.arg("60").stdin(Stdio::from(open)).spawn().unwrap();
            let look = |whose| at_work(&id, files, home.path(), whose).map(|busy| busy.pid);
            comes_to(|| look(Whose::Anybodys), Some(pid.min(child.id())));
            comes_to(|| look(Whose::Strangers), writes.then_some(pid));
            let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            rustix::process::kill_process(raw, rustix::process::Signal::KILL).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn only_the_whole_id_counts() {
        let id = NativeId::parse("abc").unwrap();
        let cases = [
            ("abc", true),
            ("--resume=abc", true),
            ("xabc", false),
            ("delete abc", false),
            ("abcd", false),
        ];
        for (arg, named) in cases {
            assert_eq!(names_it(arg, &id), named, "{arg}");
        }
    }
}
