//! Runs one test in its own process tree and reports how the test ended.
//!
//! The guard is a process between the runner and a test. It adopts every orphan of the test, so it finds and ends all
//! processes that the test started, whatever their parents, sessions and environments are. The output of the test goes
//! to a file, because a pipe stays open as long as any process has it open. The guard ends the test when the runner has
//! ended.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::processes::{self, Process, descendants, kill_descendants};

/// Time for the processes of a test to end after the test itself.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// Time for the guard to end a test and report, in addition to the limit of the test.
const REPORT_GRACE: Duration = Duration::from_mins(1);

/// The end of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TestEnd {
    Exited { code: i32 },
    Killed { signal: i32 },
    TimedOut,
}

/// A report on one run of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuardReport {
    pub(crate) end: TestEnd,
    /// Processes that were still running when the test ended or exceeded its limit.
    pub(crate) left: Vec<String>,
    /// Processor time of the test and all processes that it started.
    pub(crate) cpu: Duration,
}

impl GuardReport {
    pub(crate) fn is_success(&self) -> bool {
        self.end == TestEnd::Exited { code: 0 } && self.left.is_empty()
    }

    fn to_json(&self) -> Value {
        let (end, value) = match self.end {
            TestEnd::Exited { code } => ("exited", code),
            TestEnd::Killed { signal } => ("killed", signal),
            TestEnd::TimedOut => ("timed_out", 0),
        };
        let cpu = u64::try_from(self.cpu.as_millis()).unwrap_or(u64::MAX);
        json!({"end": end, "value": value, "left": self.left, "cpu_ms": cpu})
    }

    fn from_json(value: &Value) -> Option<Self> {
        let number = i32::try_from(value["value"].as_i64()?).ok()?;
        let end = match value["end"].as_str()? {
            "exited" => TestEnd::Exited { code: number },
            "killed" => TestEnd::Killed { signal: number },
            "timed_out" => TestEnd::TimedOut,
            _ => return None,
        };
        let left = value["left"].as_array()?.iter();
        Some(Self {
            end,
            left: left
                .filter_map(|line| Some(line.as_str()?.to_owned()))
                .collect(),
            cpu: Duration::from_millis(value["cpu_ms"].as_u64()?),
        })
    }
}

/// Runs `test` under a guard. Called by the runner.
///
/// Program, arguments, variables and directory come from `test`; its output goes to the file `log`.
pub(crate) fn run(test: &Command, limit: Duration, log: &Path) -> Result<GuardReport> {
    let mut guard = Command::new(own_program()?);
    guard
        .arg("guard")
        .arg(limit.as_millis().to_string())
        .arg(log)
        .arg(test.get_program())
        .args(test.get_args())
        .envs(
            test.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if let Some(directory) = test.get_current_dir() {
        guard.current_dir(directory);
    }
    let mut guard = guard.spawn().context("cannot start the guard of a test")?;
    // The guard treats the end of this pipe as the end of the runner.
    let lifeline = guard.stdin.take();
    let status = processes::wait_within(&mut guard, limit + REPORT_GRACE)?;
    drop(lifeline);
    ensure!(status.is_some(), "the guard of a test did not end");
    let mut line = String::new();
    let output = guard.stdout.take().context("the guard has no output")?;
    io::BufReader::new(output).read_to_string(&mut line)?;
    let report = serde_json::from_str(&line).ok();
    report
        .and_then(|report| GuardReport::from_json(&report))
        .with_context(|| format!("the guard reported {line:?}"))
}

/// Returns a path that starts this program, even after a build has replaced its file.
fn own_program() -> Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    if own.exists() {
        return Ok(own.to_owned());
    }
    Ok(std::env::current_exe()?)
}

/// Runs the test that `args` name, and prints the report. Called in the guard process.
pub(crate) fn serve(args: &[&str]) -> Result<()> {
    let [limit, log, program, rest @ ..] = args else {
        bail!("usage: cargo xtask guard MILLISECONDS LOG PROGRAM [ARGUMENT]…");
    };
    let limit = Duration::from_millis(limit.parse()?);
    adopt_orphans()?;
    end_with_runner();
    let log = File::create(log).with_context(|| format!("cannot create {log}"))?;
    let mut command = Command::new(program);
    command
        .args(rest)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    let report = watch(&mut command, limit)?;
    println!("{}", report.to_json());
    Ok(())
}

/// Runs a command within a limit, and ends every process that it leaves running.
fn watch(command: &mut Command, limit: Duration) -> Result<GuardReport> {
    let mut child = command.spawn().context("cannot start the test")?;
    let status = processes::wait_within(&mut child, limit)?;
    let own = std::process::id();
    let left = match status {
        Some(_) => wait_for_descendants(own),
        None => descendants(own),
    };
    kill_descendants(own);
    let end = match status {
        None => TestEnd::TimedOut,
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => TestEnd::Exited { code },
            (None, signal) => TestEnd::Killed {
                signal: signal.unwrap_or(0),
            },
        },
    };
    reap();
    Ok(GuardReport {
        end,
        left: left.iter().map(Process::to_string).collect(),
        cpu: cpu_of_children(),
    })
}

/// Waits at most [`EXIT_GRACE`] for the last processes of a test to end. Returns those that are still running.
fn wait_for_descendants(ancestor: u32) -> Vec<Process> {
    let start = Instant::now();
    loop {
        let living = descendants(ancestor);
        if living.is_empty() || start.elapsed() > EXIT_GRACE {
            return living;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(target_os = "linux")]
fn adopt_orphans() -> Result<()> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).context("cannot adopt orphans")
}

/// Does nothing: on other systems the first process of the system adopts an orphan, and the guard ends only the other
/// processes.
#[cfg(not(target_os = "linux"))]
fn adopt_orphans() -> Result<()> {
    Ok(())
}

/// Ends this guard and its test when the pipe from the runner closes, which also happens when the runner dies.
fn end_with_runner() {
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        kill_descendants(std::process::id());
        std::process::exit(1);
    });
}

/// Waits for the children that have ended, so that their processor time is counted.
fn reap() {
    use rustix::process::{WaitOptions, wait};
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Returns the processor time of all children that were waited for; zero on systems without `/proc`.
fn cpu_of_children() -> Duration {
    // The kernel counts in ticks of 10 ms on all platforms of segue.
    const TICK_MS: u64 = 10;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit_once(") ")
        .map_or("", |(_, rest)| rest)
        .split(' ');
    // Fields 16 and 17 are the user and system time of the children; the first field in this iterator is number 3.
    let ticks: u64 = fields
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * TICK_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_its_json_form() {
        for end in [
            TestEnd::Exited { code: 101 },
            TestEnd::Killed { signal: 9 },
            TestEnd::TimedOut,
        ] {
            let report = GuardReport {
                end,
                left: vec!["7 S sleep".to_owned()],
                cpu: Duration::from_millis(70),
            };
            assert_eq!(GuardReport::from_json(&report.to_json()), Some(report));
        }
    }
}
