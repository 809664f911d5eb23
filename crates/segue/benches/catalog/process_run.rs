//! A process that ran to its end, and what it took.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// How often a process is looked at: what it takes in its last moments is missed.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// In clock ticks, of which Linux tells a hundred a second to everybody.
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessCost {
    /// From the call to the end.
    pub(crate) wall_seconds: f64,
    /// Of the processor, on all cores.
    pub(crate) cpu_seconds: f64,
    /// The most memory it had, in MB.
    pub(crate) peak_megabytes: f64,
}

impl ProcessCost {
    /// Runs a process to its end; none if it was not there in time.
    pub(crate) fn measure(command: &mut Command, timeout: Duration) -> Option<Self> {
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let proc_path = |file| format!("/proc/{}/{file}", child.id());
        let (status_path, stat_path) = (proc_path("status"), proc_path("stat"));
        let mut peak_megabytes = 0.0;
        // A process that has ended has no memory that could be told.
        while let Some(kilobytes) = parse_peak_kilobytes(&fs::read_to_string(&status_path).unwrap())
        {
            peak_megabytes = kilobytes * 1024.0 / 1e6;
            if start.elapsed() > timeout {
                child.kill().unwrap();
                child.wait().unwrap();
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // It keeps its times until somebody has asked how it ended.
        let pid = WaitId::Pid(Pid::from_child(&child));
        waitid(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let wall_seconds = start.elapsed().as_secs_f64();
        let cpu_seconds = parse_cpu_seconds(&fs::read_to_string(&stat_path).unwrap());
        let exit_status = child.wait().unwrap();
        assert!(exit_status.success(), "{command:?}: {exit_status}");
        Some(Self {
            wall_seconds,
            cpu_seconds,
            peak_megabytes,
        })
    }
}

fn parse_peak_kilobytes(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn parse_cpu_seconds(stat: &str) -> f64 {
    let fields = stat.rsplit(')').next().unwrap().split_ascii_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .map(|field| field.parse::<f64>().unwrap())
        .sum();
    ticks / CLOCK_TICKS_PER_SECOND
}

/// Runs a process to its end, and returns the milliseconds it took.
pub(crate) fn measure_milliseconds(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.status().unwrap();
    let elapsed = start.elapsed();
    // One that finds nothing may say so by its status.
    assert!(
        status.code().is_some_and(|code| code <= 1),
        "{command:?}: {status}"
    );
    elapsed.as_secs_f64() * 1e3
}
