//! Finding processes by the environment they were born with.

use std::fs;
use std::path::Path;

/// The living processes whose environment names this home, as "number: command line".
pub(crate) fn of(home: &Path) -> Vec<String> {
    let wanted = format!("SEGUE_HOME={}", home.display());
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|number| *number != std::process::id())
        .filter_map(|number| {
            let environment = fs::read(format!("/proc/{number}/environ")).ok()?;
            let ours = environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == wanted.as_bytes());
            ours.then(|| format!("{number}: {}", command_line(number)))
        })
        .collect()
}

fn command_line(number: u32) -> String {
    let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}
