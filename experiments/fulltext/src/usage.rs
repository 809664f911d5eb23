//! What this process has used.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The most memory it ever had, in MB.
pub fn peak() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    Ok(kilobytes.context("no VmHWM")?.parse::<f64>()? * 1024.0 / 1e6)
}

/// Seconds of processor time, of all its threads.
pub fn processor() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |n| {
        rest.split_ascii_whitespace()
            .nth(n)
            .context("no times")?
            .parse::<f64>()
            .context("no times")
    };
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

/// The bytes of all files in a directory.
pub fn size(path: &Path) -> Result<u64> {
    let data = path.metadata()?;
    if !data.is_dir() {
        return Ok(data.len());
    }
    fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum()
}
