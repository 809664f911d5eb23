//! Runs a process to its end and measures its time and memory.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Interval between two reads of a process's memory use. Changes after the last read are missed.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Unit of the CPU times in `/proc/PID/stat`: Linux always reports 100 ticks per second to user space.
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessCost {
    /// Time from the start of the process to its end.
    pub(crate) wall_seconds: f64,
    /// CPU time on all cores.
    pub(crate) cpu_seconds: f64,
    /// Peak memory use.
    pub(crate) peak_megabytes: f64,
}

impl ProcessCost {
    /// Runs a process to its end. Returns `None` if it exceeded `timeout`.
    pub(crate) fn measure(command: &mut Command, timeout: Duration) -> Option<Self> {
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let proc_path = |file| format!("/proc/{}/{file}", child.id());
        let (status_path, stat_path) = (proc_path("status"), proc_path("stat"));
        let mut peak_megabytes = 0.0;
        // The kernel reports no memory for a process that has ended.
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
        // The kernel reports the CPU times of an ended process until it is reaped.
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

/// Runs a process to its end and returns the elapsed milliseconds.
pub(crate) fn measure_milliseconds(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.status().unwrap();
    let elapsed = start.elapsed();
    // Exit code 1 is allowed: a search without results may return it.
    assert!(
        status.code().is_some_and(|code| code <= 1),
        "{command:?}: {status}"
    );
    elapsed.as_secs_f64() * 1e3
}
