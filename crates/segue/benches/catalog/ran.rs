//! A process that ran to its end, and what it took.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// How often a process is looked at: what it takes in its last moments is missed.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// In clock ticks, of which Linux tells a hundred a second to everybody.
const TICKS: f64 = 100.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    /// From the call to the end.
    pub(crate) seconds: f64,
    /// Of the processor, on all cores.
    pub(crate) processor: f64,
    /// The most memory it had, in MB.
    pub(crate) peak: f64,
}

impl Ran {
    /// Runs a process to its end; none if it was not there in time.
    pub(crate) fn within(command: &mut Command, limit: Duration) -> Option<Self> {
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let told = |file| format!("/proc/{}/{file}", child.id());
        let (memory, times) = (told("status"), told("stat"));
        let mut peak = 0.0;
        // A process that has ended has no memory that could be told.
        while let Some(kilobytes) = peak_of(&fs::read_to_string(&memory).unwrap()) {
            peak = kilobytes * 1024.0 / 1e6;
            if start.elapsed() > limit {
                child.kill().unwrap();
                child.wait().unwrap();
                return None;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        // It keeps its times until somebody has asked how it ended.
        let pid = WaitId::Pid(Pid::from_child(&child));
        waitid(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let processor = processor_of(&fs::read_to_string(&times).unwrap());
        let ended = child.wait().unwrap();
        assert!(ended.success(), "{command:?}: {ended}");
        Some(Self {
            seconds,
            processor,
            peak,
        })
    }
}

fn peak_of(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn processor_of(stat: &str) -> f64 {
    let fields = stat.rsplit(')').next().unwrap().split_ascii_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .map(|field| field.parse::<f64>().unwrap())
        .sum();
    ticks / TICKS
}

/// Runs a process to its end, and returns the milliseconds it took.
pub(crate) fn milliseconds(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.status().unwrap();
    let took = start.elapsed();
    // One that finds nothing may say so by its status.
    assert!(
        status.code().is_some_and(|code| code <= 1),
        "{command:?}: {status}"
    );
    took.as_secs_f64() * 1e3
}
