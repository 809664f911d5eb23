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
use crate::processes::kill_descendants;
use crate::suite::TestCase;
use crate::tools::TestVariables;

/// Time limit of an ordinary test.
const TEST_LIMIT: Duration = Duration::from_mins(2);

/// Time limit of a test with the real CLIs. Some of these tests wait for the next minute of the clock, up to three
/// times.
const REAL_TEST_LIMIT: Duration = Duration::from_mins(6);

/// Number of tests that exceeded their limit after which no further test starts, because they have a common cause.
const MAX_TIMEOUTS: usize = 3;

/// Time after which a running test is reported as slow.
const SLOW_TEST_THRESHOLD: Duration = Duration::from_secs(30);

/// Maximum number of output lines that are printed of a failed test.
const MAX_OUTPUT_LINES: usize = 80;

/// Maximum length of a printed line of output.
const MAX_LINE_CHARS: usize = 1000;

/// Number of lines in the table of the slowest tests.
const MAX_SLOWEST_TESTS: usize = 25;

/// Settings of a run.
pub(crate) struct RunOptions {
    /// Maximum number of tests that run at once.
    pub(crate) jobs: usize,
    /// Maximum number of tests with the real CLIs that run at once; with more, the CLIs exceed their own time limits.
    pub(crate) real_jobs: usize,
    /// Limit of each test; `None` for the default limits.
    pub(crate) limit: Option<Duration>,
    /// Environment variables of the tests.
    pub(crate) variables: TestVariables,
    /// Directory for the output of each test.
    pub(crate) logs: PathBuf,
}

/// A test that has run.
struct TestRun {
    case: TestCase,
    failure: Option<TestFailure>,
    time: Duration,
    cpu: Duration,
    log: PathBuf,
}

/// The reason why a test failed.
#[derive(Debug, PartialEq, Eq)]
struct TestFailure {
    /// Continuation of a sentence that begins with the name of the test.
    reason: String,
    /// Processes that the test left running.
    leftover_processes: Vec<String>,
    is_timeout: bool,
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
struct TestQueue {
    waiting: VecDeque<TestCase>,
    running: BTreeMap<String, (Instant, bool)>,
    real_running: usize,
    timeouts: usize,
    finished: Vec<TestRun>,
}

struct TestRunner<'a> {
    options: &'a RunOptions,
    queue: Mutex<TestQueue>,
    queue_changed: Condvar,
}

/// Runs all tests, prints each failure when it occurs, and ends with a table of the slowest tests.
pub(crate) fn run(cases: Vec<TestCase>, options: &RunOptions) -> Result<RunCounts> {
    // If a guard dies, this process adopts the processes of its test.
    guard::adopt_orphans()?;
    // The longest tests start first, so that none of them runs alone at the end.
    let (real, ordinary): (Vec<_>, Vec<_>) = cases.into_iter().partition(TestCase::is_real);
    let runner = TestRunner {
        options,
        queue: Mutex::new(TestQueue {
            waiting: real.into_iter().chain(ordinary).collect(),
            running: BTreeMap::new(),
            real_running: 0,
            timeouts: 0,
            finished: Vec::new(),
        }),
        queue_changed: Condvar::new(),
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs)
            .map(|_| scope.spawn(|| runner.run_worker()))
            .collect();
        runner.report_slow_tests(|| workers.iter().all(thread::ScopedJoinHandle::is_finished));
        workers
            .into_iter()
            .try_for_each(thread::ScopedJoinHandle::join)
            .map_err(|_| anyhow::anyhow!("a worker of the test runner panicked"))
    })?;
    kill_descendants(std::process::id());
    let queue = runner
        .queue
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let counts = print_summary(&queue);
    write_times(&queue.finished, &options.logs.join("times.tsv"))?;
    Ok(counts)
}

/// Writes the time and the processor time of every test, in seconds.
fn write_times(runs: &[TestRun], file: &Path) -> Result<()> {
    let line = |run: &TestRun| {
        let [time, cpu] = [run.time, run.cpu].map(|time| time.as_secs_f64());
        format!("{time:.2}\t{cpu:.2}\t{}\n", run.case.full_name())
    };
    fs::write(file, runs.iter().map(line).collect::<String>())
        .with_context(|| format!("cannot write {}", file.display()))
}

impl TestRunner<'_> {
    fn lock_queue(&self) -> MutexGuard<'_, TestQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_worker(&self) {
        while let Some(case) = self.take_next() {
            let start = Instant::now();
            let limit = self.time_limit(&case);
            let log = log_file(&self.options.logs, &case);
            let outcome = guard::run(&self.test_command(&case), limit, &log);
            let output = guard::read_tail(&log);
            let cpu = outcome.as_ref().map_or(Duration::ZERO, |report| report.cpu);
            let run = TestRun {
                failure: find_failure(&outcome, &output, limit),
                case,
                time: start.elapsed(),
                cpu,
                log,
            };
            let description = run
                .failure
                .as_ref()
                .map(|failure| describe_failure(&run, failure, &output));
            self.finish_test(run);
            // Printing comes last, because it panics if nothing reads this output any more.
            if let Some(description) = description {
                println!("{description}");
            }
        }
    }

    /// Takes the next test that may run now. Waits if only tests with the real CLIs remain and too many of them run;
    /// `None` if no test remains.
    fn take_next(&self) -> Option<TestCase> {
        let mut queue = self.lock_queue();
        loop {
            if queue.timeouts >= MAX_TIMEOUTS || queue.waiting.is_empty() {
                return None;
            }
            let has_room = queue.real_running < self.options.real_jobs;
            let can_start = |case: &TestCase| has_room || !case.is_real();
            if let Some(case) = queue
                .waiting
                .iter()
                .position(can_start)
                .and_then(|position| queue.waiting.remove(position))
            {
                queue.real_running += usize::from(case.is_real());
                let started = (Instant::now(), false);
                queue.running.insert(case.full_name(), started);
                return Some(case);
            }
            let waited = self.queue_changed.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish_test(&self, run: TestRun) {
        let mut queue = self.lock_queue();
        queue.running.remove(&run.case.full_name());
        queue.real_running -= usize::from(run.case.is_real());
        let is_timeout = run
            .failure
            .as_ref()
            .is_some_and(|failure| failure.is_timeout);
        queue.timeouts += usize::from(is_timeout);
        queue.finished.push(run);
        self.queue_changed.notify_all();
    }

    fn time_limit(&self, case: &TestCase) -> Duration {
        let default_limit = if case.is_real() {
            REAL_TEST_LIMIT
        } else {
            TEST_LIMIT
        };
        self.options.limit.unwrap_or(default_limit)
    }

    fn test_command(&self, case: &TestCase) -> Command {
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
            let mut slow = Vec::new();
            for (name, (start, reported)) in &mut self.lock_queue().running {
                if !*reported && start.elapsed() > SLOW_TEST_THRESHOLD {
                    *reported = true;
                    slow.push(name.clone());
                }
            }
            for name in slow {
                println!(
                    "still running after {} s: {name}",
                    SLOW_TEST_THRESHOLD.as_secs()
                );
            }
        }
    }
}

/// Returns the file for the output of a test.
fn log_file(logs: &Path, case: &TestCase) -> PathBuf {
    let name = case.full_name().replace("::", ".").replace([' ', '/'], "-");
    logs.join(format!("{name}.log"))
}

/// Decides whether a test failed, from the report of its guard and the end of its output; `None` if it passed.
fn find_failure(
    outcome: &Result<GuardReport>,
    output: &str,
    limit: Duration,
) -> Option<TestFailure> {
    let failure = |reason: String| TestFailure {
        reason,
        leftover_processes: Vec::new(),
        is_timeout: false,
    };
    let report = match outcome {
        Ok(report) => report,
        Err(error) => {
            return Some(failure(format!(
                "ended without a report from its guard ({error:#})"
            )));
        }
    };
    let reason = match report.end {
        // A test program also exits with code 0 if it finds no test with this name, or if the code under test exits.
        TestEnd::Exited { code: 0 } if !output.contains("test result: ok. 1 passed;") => {
            "exited with code 0 before the test had ended".to_owned()
        }
        TestEnd::Exited { code: 0 } if report.leftover_processes.is_empty() => return None,
        TestEnd::Exited { code: 0 } => "passed, but left processes running".to_owned(),
        TestEnd::Exited { code } => format!("failed (exit code {code})"),
        TestEnd::Killed { signal } => format!("was killed by signal {signal}"),
        TestEnd::TimedOut => format!("exceeded its limit of {} s and was ended", limit.as_secs()),
        TestEnd::OutputTooLong => "wrote too much output and was ended".to_owned(),
    };
    Some(TestFailure {
        leftover_processes: report.leftover_processes.clone(),
        is_timeout: report.end == TestEnd::TimedOut,
        ..failure(reason)
    })
}

/// Describes a failure: the test, its end, the processes it left running, and the last lines of its output.
fn describe_failure(run: &TestRun, failure: &TestFailure, output: &str) -> String {
    let mut lines = vec![
        String::new(),
        format!(
            "FAILED: {} {} after {}",
            run.case.full_name(),
            failure.reason,
            format_seconds(run.time)
        ),
    ];
    if !failure.leftover_processes.is_empty() {
        lines.push("processes that it left running, now killed (ID, state, command):".to_owned());
        lines.extend(
            failure
                .leftover_processes
                .iter()
                .map(|process| format!("    {process}")),
        );
    }
    lines.push(format!(
        "last lines of its output (complete output: {}):",
        run.log.display()
    ));
    lines.push(last_lines(output));
    lines.join("\n")
}

/// Returns the last lines of an output, indented and shortened.
pub(crate) fn last_lines(output: &str) -> String {
    let all: Vec<&str> = output.lines().collect();
    let first = all.len().saturating_sub(MAX_OUTPUT_LINES);
    let shorten = |line: &&str| {
        let end: String = line.chars().take(MAX_LINE_CHARS).collect();
        format!("    {end}")
    };
    let lines: Vec<String> = all[first..].iter().map(shorten).collect();
    lines.join("\n")
}

/// Prints the numbers of a run, by test program and in total, and its slowest tests.
fn print_summary(queue: &TestQueue) -> RunCounts {
    let counts = RunCounts {
        passed: queue
            .finished
            .iter()
            .filter(|run| run.failure.is_none())
            .count(),
        failed: queue
            .finished
            .iter()
            .filter(|run| run.failure.is_some())
            .count(),
        not_run: queue.waiting.len(),
    };
    let mut programs: BTreeMap<(&str, &str), (usize, Duration, Duration)> = BTreeMap::new();
    for run in &queue.finished {
        let key = (
            run.case.binary.package.as_str(),
            run.case.binary.target.as_str(),
        );
        let (tests, time, cpu) = programs.entry(key).or_default();
        *tests += 1;
        *time += run.time;
        *cpu += run.cpu;
    }
    println!(
        "\n{:>6}  {:>9}  {:>9}  test program",
        "tests", "time", "CPU"
    );
    for ((package, target), (tests, time, cpu)) in programs {
        println!(
            "{tests:>6}  {:>9}  {:>9}  {package} {target}",
            format_seconds(time),
            format_seconds(cpu)
        );
    }
    let mut slowest: Vec<&TestRun> = queue.finished.iter().collect();
    slowest.sort_by_key(|run| std::cmp::Reverse(run.time));
    println!("\n{:>6}  {:>9}  {:>9}  slowest tests", "", "time", "CPU");
    for run in slowest.iter().take(MAX_SLOWEST_TESTS) {
        let (time, cpu) = (format_seconds(run.time), format_seconds(run.cpu));
        println!("{:>6}  {time:>9}  {cpu:>9}  {}", "", run.case.full_name());
    }
    println!();
    for run in queue.finished.iter().filter(|run| run.failure.is_some()) {
        println!("FAILED: {} ({})", run.case.full_name(), run.log.display());
    }
    if counts.not_run > 0 {
        println!(
            "did not start {}: {MAX_TIMEOUTS} tests exceeded their limit",
            format_plural(counts.not_run, "test")
        );
    }
    counts
}

/// Formats a count with its noun, in the plural unless the count is 1.
pub(crate) fn format_plural(count: usize, noun: &str) -> String {
    let suffix = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{suffix}")
}

/// Formats a duration as seconds with one decimal.
pub(crate) fn format_seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_passes_only_if_it_ran_and_left_no_process() {
        const PASSED_OUTPUT: &str =
            "test a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored";
        const NO_TEST_OUTPUT: &str = "test result: ok. 0 passed; 0 failed; 0 ignored";
        let reason = |end, leftovers: &[&str], output| {
            let leftover_processes = leftovers.iter().map(|line| (*line).to_owned()).collect();
            let cpu = Duration::ZERO;
            let outcome = Ok(GuardReport {
                end,
                leftover_processes,
                cpu,
            });
            find_failure(&outcome, output, Duration::from_secs(9)).map(|failure| failure.reason)
        };
        let exited = |code| TestEnd::Exited { code };
        let some_text = |text: &str| Some(text.to_owned());
        assert_eq!(reason(exited(0), &[], PASSED_OUTPUT), None);
        assert_eq!(
            reason(exited(0), &["7 S sleep"], PASSED_OUTPUT),
            some_text("passed, but left processes running")
        );
        for output in [NO_TEST_OUTPUT, ""] {
            assert_eq!(
                reason(exited(0), &[], output),
                some_text("exited with code 0 before the test had ended")
            );
        }
        assert_eq!(
            reason(exited(101), &[], ""),
            some_text("failed (exit code 101)")
        );
        assert_eq!(
            reason(TestEnd::Killed { signal: 11 }, &[], ""),
            some_text("was killed by signal 11")
        );
        assert_eq!(
            reason(TestEnd::TimedOut, &[], ""),
            some_text("exceeded its limit of 9 s and was ended")
        );
        assert_eq!(
            reason(TestEnd::OutputTooLong, &[], ""),
            some_text("wrote too much output and was ended")
        );
    }

    #[test]
    fn a_guard_that_fails_fails_its_test() {
        let outcome = Err(anyhow::anyhow!("no such file"));
        let failure = find_failure(&outcome, "", Duration::ZERO).unwrap();
        assert_eq!(
            failure.reason,
            "ended without a report from its guard (no such file)"
        );
        assert!(!failure.is_timeout);
    }

    #[test]
    fn the_last_lines_of_an_output_are_shortened() {
        let output = format!("{}\n{}\nend", "first\n".repeat(100), "x".repeat(5000));
        let lines = last_lines(&output);
        assert_eq!(lines.lines().count(), MAX_OUTPUT_LINES);
        assert!(lines.lines().all(|line| line.len() <= MAX_LINE_CHARS + 4));
        assert!(lines.ends_with("\n    end"));
    }
}
