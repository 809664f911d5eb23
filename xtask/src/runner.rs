//! Runs tests in parallel, each in its own process and within a time limit, and reports on them.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::guard::{self, GuardReport, TestEnd};
use crate::suite::TestCase;
use crate::tools::Variables;

/// Time limit of an ordinary test.
const TEST_LIMIT: Duration = Duration::from_mins(2);

/// Time limit of a test with the real CLIs.
const REAL_TEST_LIMIT: Duration = Duration::from_mins(4);

/// Number of tests that exceeded their limit after which no further test starts, because they have a common cause.
const MAX_TIMEOUTS: usize = 3;

/// Time after which a running test is reported as slow.
const SLOW_AFTER: Duration = Duration::from_secs(30);

/// Maximum number of output lines that are printed of a failed test.
const MAX_OUTPUT_LINES: usize = 80;

/// Number of lines in the table of the slowest tests.
const SLOWEST_TESTS: usize = 25;

/// Settings of a run.
pub(crate) struct RunOptions {
    /// Maximum number of tests that run at once.
    pub(crate) jobs: usize,
    /// Maximum number of tests with the real CLIs that run at once; with more, the CLIs exceed their own time limits.
    pub(crate) real_jobs: usize,
    /// Limit of each test; `None` for the default limits.
    pub(crate) limit: Option<Duration>,
    /// Environment variables of the tests.
    pub(crate) variables: Variables,
    /// Directory for the output of each test.
    pub(crate) logs: PathBuf,
}

/// A test that has run.
struct TestRun {
    case: TestCase,
    report: GuardReport,
    time: Duration,
    log: PathBuf,
}

/// Numbers of passed, failed and unstarted tests of a run.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RunCounts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Tests that were not started, because too many had exceeded their limit.
    pub(crate) not_run: usize,
}

/// Tests that wait, run and have ended.
struct Queue {
    waiting: VecDeque<TestCase>,
    running: BTreeMap<String, (Instant, bool)>,
    real_running: usize,
    timeouts: usize,
    done: Vec<TestRun>,
}

struct Run<'a> {
    options: &'a RunOptions,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Runs all tests, prints each failure when it occurs, and ends with a table of the slowest tests.
pub(crate) fn run(cases: Vec<TestCase>, options: &RunOptions) -> Result<RunCounts> {
    fs::create_dir_all(&options.logs)
        .with_context(|| format!("cannot create {}", options.logs.display()))?;
    // The longest tests start first, so that none of them runs alone at the end.
    let (real, ordinary): (Vec<_>, Vec<_>) = cases.into_iter().partition(TestCase::is_real);
    let run = Run {
        options,
        queue: Mutex::new(Queue {
            waiting: real.into_iter().chain(ordinary).collect(),
            running: BTreeMap::new(),
            real_running: 0,
            timeouts: 0,
            done: Vec::new(),
        }),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs)
            .map(|_| scope.spawn(|| run.work()))
            .collect();
        run.report_slow_tests(|| workers.iter().all(thread::ScopedJoinHandle::is_finished));
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(_) => anyhow::bail!("a worker of the test runner panicked"),
            })
    })?;
    let queue = run
        .queue
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let counts = summarise(&queue);
    write_times(&queue.done, &options.logs.join("times.tsv"))?;
    Ok(counts)
}

/// Writes the time and the processor time of every test, in seconds.
fn write_times(runs: &[TestRun], file: &Path) -> Result<()> {
    let line = |run: &TestRun| {
        let [time, cpu] = [run.time, run.report.cpu].map(|time| time.as_secs_f64());
        format!("{time:.2}\t{cpu:.2}\t{}\n", run.case.full_name())
    };
    fs::write(file, runs.iter().map(line).collect::<String>())
        .with_context(|| format!("cannot write {}", file.display()))
}

impl Run<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> Result<()> {
        while let Some(case) = self.next() {
            let start = Instant::now();
            let log = log_file(&self.options.logs, &case);
            let report = guard::run(&self.command(&case), self.limit(&case), &log)
                .with_context(|| format!("cannot run {}", case.full_name()))?;
            let time = start.elapsed();
            self.finish(TestRun {
                case,
                report,
                time,
                log,
            });
        }
        Ok(())
    }

    /// Takes the next test that may run now. Waits if only tests with the real CLIs remain and too many of them run;
    /// `None` if no test remains.
    fn next(&self) -> Option<TestCase> {
        let mut queue = self.queue();
        loop {
            if queue.timeouts >= MAX_TIMEOUTS || queue.waiting.is_empty() {
                return None;
            }
            let has_room = queue.real_running < self.options.real_jobs;
            let may_run = |case: &TestCase| has_room || !case.is_real();
            if let Some(case) = queue
                .waiting
                .iter()
                .position(may_run)
                .and_then(|position| queue.waiting.remove(position))
            {
                queue.real_running += usize::from(case.is_real());
                let started = (Instant::now(), false);
                queue.running.insert(case.full_name(), started);
                return Some(case);
            }
            let waited = self.changed.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, run: TestRun) {
        let mut queue = self.queue();
        queue.running.remove(&run.case.full_name());
        queue.real_running -= usize::from(run.case.is_real());
        queue.timeouts += usize::from(run.report.end == TestEnd::TimedOut);
        if !run.report.is_success() {
            println!("{}", describe_failure(&run, self.limit(&run.case)));
        }
        queue.done.push(run);
        self.changed.notify_all();
    }

    fn limit(&self, case: &TestCase) -> Duration {
        let usual = if case.is_real() {
            REAL_TEST_LIMIT
        } else {
            TEST_LIMIT
        };
        self.options.limit.unwrap_or(usual)
    }

    fn command(&self, case: &TestCase) -> Command {
        let mut command = Command::new(&case.binary.program);
        command
            .args([
                case.name.as_str(),
                "--exact",
                "--include-ignored",
                "--nocapture",
            ])
            .envs(
                self.options
                    .variables
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .env("CARGO_MANIFEST_DIR", &case.binary.directory)
            .current_dir(&case.binary.directory);
        command
    }

    /// Prints the name of each slow test while it runs.
    fn report_slow_tests(&self, is_finished: impl Fn() -> bool) {
        while !is_finished() {
            thread::sleep(Duration::from_millis(200));
            for (name, (start, reported)) in &mut self.queue().running {
                if !*reported && start.elapsed() > SLOW_AFTER {
                    println!("runs for more than {} s: {name}", SLOW_AFTER.as_secs());
                    *reported = true;
                }
            }
        }
    }
}

/// Returns the file for the output of a test.
fn log_file(logs: &Path, case: &TestCase) -> PathBuf {
    let name = case.full_name().replace("::", ".").replace([' ', '/'], "-");
    logs.join(format!("{name}.log"))
}

/// Describes a failure: the test, its end, the processes it left running, and the last lines of its output.
fn describe_failure(run: &TestRun, limit: Duration) -> String {
    let end = match run.report.end {
        TestEnd::Exited { code: 0 } => "passed, but left processes running".to_owned(),
        TestEnd::Exited { code } => format!("failed (exit code {code})"),
        TestEnd::Killed { signal } => format!("was killed by signal {signal}"),
        TestEnd::TimedOut => format!("exceeded its limit of {} s and was ended", limit.as_secs()),
    };
    let mut lines = vec![
        String::new(),
        format!(
            "FAILED: {} {end} after {}",
            run.case.full_name(),
            seconds(run.time)
        ),
    ];
    let left = &run.report.left;
    if !left.is_empty() {
        lines.push("processes that it left, now ended (ID, state, command):".to_owned());
        lines.extend(left.iter().map(|process| format!("    {process}")));
    }
    let output = fs::read(&run.log).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let all: Vec<&str> = output.lines().collect();
    let first = all.len().saturating_sub(MAX_OUTPUT_LINES);
    let log = run.log.display();
    lines.push(match first {
        0 => "its output:".to_owned(),
        _ => format!("last {MAX_OUTPUT_LINES} lines of its output, all of which is in {log}:"),
    });
    lines.extend(all.iter().skip(first).map(|line| format!("    {line}")));
    lines.join("\n")
}

/// Prints the numbers of a run, by test program and in total, and its slowest tests.
fn summarise(queue: &Queue) -> RunCounts {
    let counts = RunCounts {
        passed: queue
            .done
            .iter()
            .filter(|run| run.report.is_success())
            .count(),
        failed: queue
            .done
            .iter()
            .filter(|run| !run.report.is_success())
            .count(),
        not_run: queue.waiting.len(),
    };
    let mut programs: BTreeMap<(&str, &str), (usize, Duration, Duration)> = BTreeMap::new();
    for run in &queue.done {
        let key = (
            run.case.binary.package.as_str(),
            run.case.binary.target.as_str(),
        );
        let (tests, time, cpu) = programs.entry(key).or_default();
        *tests += 1;
        *time += run.time;
        *cpu += run.report.cpu;
    }
    println!(
        "\n{:>6}  {:>9}  {:>9}  test program",
        "tests", "time", "CPU"
    );
    for ((package, target), (tests, time, cpu)) in programs {
        println!(
            "{tests:>6}  {:>9}  {:>9}  {package} {target}",
            seconds(time),
            seconds(cpu)
        );
    }
    let mut slowest: Vec<&TestRun> = queue.done.iter().collect();
    slowest.sort_by_key(|run| std::cmp::Reverse(run.time));
    println!("\n{:>6}  {:>9}  {:>9}  slowest tests", "", "time", "CPU");
    for run in slowest.iter().take(SLOWEST_TESTS) {
        let (time, cpu) = (seconds(run.time), seconds(run.report.cpu));
        println!("{:>6}  {time:>9}  {cpu:>9}  {}", "", run.case.full_name());
    }
    println!();
    for run in queue.done.iter().filter(|run| !run.report.is_success()) {
        println!("FAILED: {} ({})", run.case.full_name(), run.log.display());
    }
    if counts.not_run > 0 {
        println!(
            "{MAX_TIMEOUTS} tests exceeded their limit, so {} were not started",
            counts.not_run
        );
    }
    counts
}

/// Formats a duration as seconds with one decimal.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
