//! Runs one test in its own process tree and reports how the test ended.
//!
//! The guard is a process between the runner and a test. It adopts every orphan of the test, so it finds and ends all
//! processes that the test started, whatever their parents, sessions and environments are. The output of the test goes
//! to a file, because a pipe stays open as long as any process has it open. The guard ends the test when the runner has
//! ended.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use serde_json::{Value, json};

use crate::processes::{self, Process, descendants, kill_descendants};

/// Time for the processes of a test to end after the test itself.
const EXIT_GRACE: Duration = Duration::from_secs(10);

/// Time for the guard to end a test and report, in addition to the limit of the test.
const REPORT_GRACE: Duration = Duration::from_mins(1);

/// Time between two checks of a running test.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum size of the output of a test. A test that writes without end would otherwise fill the disk.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// Size of the end of an output that is read for a report.
const TAIL_BYTES: u64 = 64 << 10;

/// The end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestEnd {
    Exited { code: i32 },
    Killed { signal: i32 },
    TimedOut,
    OutputTooLong,
}

/// A report on one run of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuardReport {
    pub(crate) end: TestEnd,
    /// Processes that were still running when the test ended or was ended.
    pub(crate) leftover_processes: Vec<String>,
    /// Processor time of the test and all processes that it started.
    pub(crate) cpu: Duration,
}

impl GuardReport {
    fn to_json(&self) -> Value {
        let (end, value) = match self.end {
            TestEnd::Exited { code } => ("exited", code),
            TestEnd::Killed { signal } => ("killed", signal),
            TestEnd::TimedOut => ("timed_out", 0),
            TestEnd::OutputTooLong => ("output_too_long", 0),
        };
        let cpu = u64::try_from(self.cpu.as_millis()).unwrap_or(u64::MAX);
        json!({"end": end, "value": value, "left": self.leftover_processes, "cpu_ms": cpu})
    }

    fn from_json(value: &Value) -> Option<Self> {
        let number = i32::try_from(value["value"].as_i64()?).ok()?;
        let end = match value["end"].as_str()? {
            "exited" => TestEnd::Exited { code: number },
            "killed" => TestEnd::Killed { signal: number },
            "timed_out" => TestEnd::TimedOut,
            "output_too_long" => TestEnd::OutputTooLong,
            _ => return None,
        };
        let descriptions = value["left"].as_array()?.iter();
        Some(Self {
            end,
            leftover_processes: descriptions
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
        .stdout(Stdio::piped())
        // A signal to the group of the runner, such as Ctrl-C, leaves the guard alive, and the guard ends its test.
        .process_group(0);
    if let Some(directory) = test.get_current_dir() {
        guard.current_dir(directory);
    }
    let mut guard = guard.spawn().context("cannot start the guard of a test")?;
    // The guard treats the end of this pipe as the end of the runner.
    let lifeline = guard.stdin.take();
    let status = processes::wait_within(&mut guard, limit.saturating_add(REPORT_GRACE))?;
    drop(lifeline);
    if status.is_none() {
        guard.kill()?;
        guard.wait()?;
        bail!("the guard did not end in time");
    }
    let mut line = String::new();
    let output = guard.stdout.take().context("the guard has no output")?;
    io::BufReader::new(output).read_to_string(&mut line)?;
    let report = serde_json::from_str(&line).ok();
    report
        .and_then(|report| GuardReport::from_json(&report))
        .with_context(|| format!("cannot parse the report {line:?} of the guard"))
}

/// Reads the end of an output, at most [`TAIL_BYTES`]. Empty if the file cannot be read.
pub(crate) fn read_tail(log: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut tail)?;
        Ok(tail)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Returns a path that starts this program, even after a build has replaced its file.
fn own_program() -> Result<PathBuf> {
    let executable = Path::new("/proc/self/exe");
    if executable.exists() {
        return Ok(executable.to_owned());
    }
    Ok(std::env::current_exe()?)
}

/// Runs the test that `args` name, and prints the report. Called in the guard process.
pub(crate) fn serve(args: &[&str]) -> Result<()> {
    let [limit, log, program, program_args @ ..] = args else {
        bail!("usage: cargo xtask guard MILLISECONDS LOG PROGRAM [ARGUMENT]…");
    };
    let limit = Duration::from_millis(limit.parse()?);
    adopt_orphans()?;
    end_with_runner();
    let output = File::create(log).with_context(|| format!("cannot create {log}"))?;
    let mut command = Command::new(program);
    command
        .args(program_args)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0);
    let report = watch(&mut command, limit, &output)?;
    writeln!(io::stdout(), "{}", report.to_json()).context("cannot report to the runner")
}

/// Runs a command within a limit, and ends every process that it leaves running.
#[allow(
    clippy::zombie_processes,
    reason = "`reap` waits for the test together with the orphans that this process adopted"
)]
fn watch(command: &mut Command, limit: Duration, output: &File) -> Result<GuardReport> {
    let test = command.spawn().context("cannot start the test")?.id();
    let test = Pid::from_raw(i32::try_from(test)?).context("the test has no process ID")?;
    let start = Instant::now();
    let mut interval = Duration::from_millis(1);
    let end = loop {
        if let Some(end) = reap(test) {
            break end;
        }
        if start.elapsed() >= limit {
            break TestEnd::TimedOut;
        }
        if output.metadata()?.len() > MAX_OUTPUT_BYTES {
            break TestEnd::OutputTooLong;
        }
        thread::sleep(interval);
        interval = (interval * 2).min(POLL_INTERVAL);
    };
    let own_id = std::process::id();
    let leftovers = match end {
        TestEnd::Exited { .. } | TestEnd::Killed { .. } => wait_for_descendants(own_id),
        TestEnd::TimedOut | TestEnd::OutputTooLong => {
            let running = descendants(own_id);
            // Without `/proc` the guard finds no descendants, so it ends the group of the test.
            let _ = kill_process_group(test, Signal::KILL);
            running
        }
    };
    let survivors = kill_descendants(own_id);
    reap(test);
    let describe = |process: &Process| {
        let is_alive = survivors.iter().any(|survivor| survivor.id == process.id);
        let suffix = if is_alive { " (cannot be killed)" } else { "" };
        format!("{process}{suffix}")
    };
    Ok(GuardReport {
        end,
        leftover_processes: leftovers.iter().map(describe).collect(),
        cpu: child_cpu_time(),
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

/// Makes every orphan among the descendants of this process its child.
#[cfg(target_os = "linux")]
pub(crate) fn adopt_orphans() -> Result<()> {
    let own_id = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own_id)).context("cannot adopt orphans")
}

/// Does nothing: on other systems the first process of the system adopts an orphan.
#[cfg(not(target_os = "linux"))]
pub(crate) fn adopt_orphans() -> Result<()> {
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

/// Waits for every child that has ended: the test and the orphans that this process adopted. Returns the end of the
/// test if it is among them.
fn reap(test: Pid) -> Option<TestEnd> {
    let mut end = None;
    while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) {
        if child == test {
            end = Some(match status.exit_status() {
                Some(code) => TestEnd::Exited { code },
                None => TestEnd::Killed {
                    signal: status.terminating_signal().unwrap_or(0),
                },
            });
        }
    }
    end
}

/// Returns the processor time of all children that were waited for; zero on systems without `/proc`.
fn child_cpu_time() -> Duration {
    // The kernel counts in ticks of 10 ms on all platforms of segue.
    const TICK_MS: u64 = 10;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit_once(") ")
        .map_or("", |(_, after_name)| after_name)
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
            TestEnd::OutputTooLong,
        ] {
            let report = GuardReport {
                end,
                leftover_processes: vec!["7 S sleep".to_owned()],
                cpu: Duration::from_millis(70),
            };
            assert_eq!(GuardReport::from_json(&report.to_json()), Some(report));
        }
    }

    #[test]
    fn only_the_end_of_a_long_output_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        fs::write(&log, format!("first{}last", "\n".repeat(100_000))).unwrap();
        let tail = read_tail(&log);
        assert_eq!(tail.len(), 64 << 10);
        assert!(tail.ends_with("last"));
        assert_eq!(read_tail(&directory.path().join("missing")), "");
    }
}
