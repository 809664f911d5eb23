//! The log: spans and events of all crates, one line each.
//!
//! Without `--log` and `SEGUE_LOG` no subscriber is installed, so that a span costs one load of an atomic number. The
//! filter admits only targets of segue, because libraries may log the messages that they send.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jiff::Timestamp;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{FmtSpan, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use crate::app;
use crate::error::CliError;

/// Variable with the filter of the log.
pub(crate) const LOG_VARIABLE: &str = "SEGUE_LOG";

/// Filter if the user names only a file.
const DEFAULT_FILTER: &str = "debug";

/// Maximum size of the log in segue's home when segue opens it.
const MAX_HOME_LOG_BYTES: u64 = 10_000_000;

/// Prefix of the targets of all crates of segue.
const TARGET_PREFIX: &str = "segue";

/// File that the user named with `--log`, for a process that replaces this one.
static REQUESTED_FILE: OnceLock<PathBuf> = OnceLock::new();

/// Destination of the log if the user names no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultDestination {
    /// Standard error.
    Stderr,
    /// `log/segue.log` in segue's home, because standard error is part of a screen or belongs to an agent.
    HomeFile,
}

/// Starts the log if the user requests one with `file` or `filter`, the value of [`LOG_VARIABLE`]. Returns `false` if
/// not. A filter or a file that cannot be used is a usage error.
pub(crate) fn start(
    file: Option<&Path>,
    filter: Option<OsString>,
    default_destination: DefaultDestination,
) -> Result<bool, CliError> {
    let filter = filter.filter(|filter| !filter.is_empty());
    if file.is_none() && filter.is_none() {
        return Ok(false);
    }
    let filter = filter.unwrap_or_else(|| DEFAULT_FILTER.into());
    let targets = parse_filter(&filter.to_string_lossy())?;
    let output = match (file, default_destination) {
        (Some(file), _) => LogOutput::File(open_file(file)?),
        (None, DefaultDestination::Stderr) => LogOutput::Stderr,
        (None, DefaultDestination::HomeFile) => LogOutput::File(open_home_file(&app::home()?)?),
    };
    if let Some(file) = file {
        // The log is started once per process.
        let _ = REQUESTED_FILE.set(file.to_owned());
    }
    app::survive_file_size_limit();
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_timer(LinePrefix {
            pid: std::process::id(),
        })
        .with_span_events(FmtSpan::CLOSE)
        // segue continues without a log if the log cannot be written.
        .log_internal_errors(false)
        .with_writer(output)
        .with_filter(targets);
    let subscriber = tracing_subscriber::registry().with(lines);
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| CliError::failed("cannot start the log").with_cause(&error))?;
    Ok(true)
}

/// Returns the arguments with which a process that replaces this one continues the log.
pub(crate) fn option_args() -> Vec<OsString> {
    REQUESTED_FILE.get().map_or_else(Vec::new, |file| {
        vec!["--log".into(), file.as_os_str().to_owned()]
    })
}

/// Parses levels and targets, separated by commas: `LEVEL`, `TARGET=LEVEL`, or `TARGET` for all its levels. A target is
/// the beginning of a module path; the longest one applies.
fn parse_filter(text: &str) -> Result<Targets, CliError> {
    let mut targets = Targets::new();
    for part in text.split(',').map(str::trim) {
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (target.trim(), parse_level(level.trim())),
            None => match parse_level(part) {
                Some(level) => (TARGET_PREFIX, Some(level)),
                None => (part, Some(LevelFilter::TRACE)),
            },
        };
        let Some(level) = level.filter(|_| is_target(target)) else {
            return Err(filter_error(part));
        };
        targets = targets.with_target(target, level);
    }
    Ok(targets)
}

/// Parses a level. `None` if the text is not one, or is empty, which the library accepts.
fn parse_level(text: &str) -> Option<LevelFilter> {
    let level = Some(text).filter(|text| !text.is_empty());
    level.and_then(|level| level.parse().ok())
}

/// Returns `true` if a text is the module path of a crate of segue, or of a module in it.
fn is_target(text: &str) -> bool {
    let is_path_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.strip_prefix(TARGET_PREFIX).is_some_and(|suffix| {
        suffix.chars().all(is_path_char)
            && (suffix.is_empty() || suffix.starts_with('_') || suffix.starts_with("::"))
    })
}

fn filter_error(part: &str) -> CliError {
    CliError::usage(format!("invalid log filter `{part}` in {LOG_VARIABLE}")).with_hint(
        "use a level (off, error, warn, info, debug, trace), or targets with levels such as \
         `info,segue_sqlite=trace`",
    )
}

/// Opens the log in segue's home. A log that is too large becomes `segue.log.1`, which replaces the older one.
fn open_home_file(home: &Path) -> Result<File, CliError> {
    let directory = home.join("log");
    let created = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory);
    let path = directory.join("segue.log");
    created.map_err(|error| file_error(&path, &error))?;
    let file = open_file(&path)?;
    // A log that cannot be renamed grows further, because a log must not prevent a command.
    match rename_large_log(&file, &path) {
        Ok(true) => open_file(&path),
        Ok(false) | Err(_) => Ok(file),
    }
}

/// Renames an open log if it is too large. Returns `true` if the file is no longer the one at this path.
///
/// Only the process that locks the file renames it, and other processes continue to append to it, so that no line is
/// lost.
fn rename_large_log(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    if opened.len() <= MAX_HOME_LOG_BYTES || file.try_lock().is_err() {
        return Ok(false);
    }
    // Since this process opened the file, another one may have renamed it and created a new log.
    let is_at_path = fs::metadata(path)
        .is_ok_and(|current| (current.dev(), current.ino()) == (opened.dev(), opened.ino()));
    if is_at_path {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    Ok(true)
}

/// Opens a file to append lines. Creates it for the user alone if it does not exist.
fn open_file(path: &Path) -> Result<File, CliError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| file_error(path, &error))
}

fn file_error(path: &Path, error: &io::Error) -> CliError {
    CliError::usage(format!("cannot write the log to {}", path.display()))
        .with_cause(error)
        .with_hint("name a file that you may write with `--log FILE`")
}

/// Beginning of each line: the time in UTC, and the process, because several processes may write to one file.
struct LinePrefix {
    pid: u32,
}

impl FormatTime for LinePrefix {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.6} {}", Timestamp::now(), self.pid)
    }
}

/// Destination of the lines.
enum LogOutput {
    Stderr,
    /// A file that is opened for appending, so that a line is one write, also among several processes.
    File(File),
}

impl<'a> MakeWriter<'a> for LogOutput {
    type Writer = LogLineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LogLineWriter(self)
    }
}

/// Writer of one event. It receives the complete text of the event at once.
struct LogLineWriter<'a>(&'a LogOutput);

impl Write for LogLineWriter<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let line = to_line(text);
        match self.0 {
            LogOutput::Stderr => io::stderr().lock().write_all(&line)?,
            LogOutput::File(file) => (&*file).write_all(&line)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Puts an event on one line: a line end inside it, for example in the name of a file, becomes a space.
fn to_line(text: &[u8]) -> Vec<u8> {
    let mut line = text.to_vec();
    let end = line.len().saturating_sub(1);
    for byte in line.iter_mut().take(end) {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_filter_admits_levels_and_targets_of_segue_only() {
        for (filter, target, level, expected) in [
            ("debug", "segue_sqlite::writer", Level::DEBUG, true),
            ("debug", "segue_sqlite::writer", Level::TRACE, false),
            ("TRACE", "rmcp::service", Level::ERROR, false),
            ("trace", "agent_client_protocol", Level::ERROR, false),
            ("off", "segue", Level::ERROR, false),
            ("segue_sqlite", "segue_sqlite::writer", Level::TRACE, true),
            ("segue_sqlite", "segue_providers", Level::ERROR, false),
            (
                "info, segue_sqlite = trace",
                "segue_sqlite",
                Level::TRACE,
                true,
            ),
            (
                "info,segue_sqlite=trace",
                "segue::logging",
                Level::DEBUG,
                false,
            ),
            (
                "segue_sqlite=trace,info",
                "segue::logging",
                Level::INFO,
                true,
            ),
            (
                "segue_sqlite::writer=warn",
                "segue_sqlite::schema",
                Level::WARN,
                false,
            ),
        ] {
            let targets = parse_filter(filter).unwrap();
            assert_eq!(
                targets.would_enable(target, &level),
                expected,
                "{filter}: {target} {level}"
            );
        }
    }

    #[test]
    fn an_invalid_filter_is_a_usage_error_that_names_the_part() {
        for (filter, part) in [
            ("debgu", "debgu"),
            ("info,rmcp=trace", "rmcp=trace"),
            ("segue_sqlite=loud", "segue_sqlite=loud"),
            ("segue-sqlite=info", "segue-sqlite=info"),
            ("seguesqlite", "seguesqlite"),
            ("segue[{session}]=debug", "segue[{session}]=debug"),
            ("info,", ""),
            ("segue_sqlite=", "segue_sqlite="),
        ] {
            let error = parse_filter(filter).unwrap_err();
            assert_eq!(
                error.message,
                format!("invalid log filter `{part}` in SEGUE_LOG")
            );
        }
    }

    #[test]
    fn a_large_log_is_renamed_once_although_several_processes_start() {
        let home = tempfile::tempdir().unwrap();
        let log_path = |name: &str| home.path().join("log").join(name);
        for round in 1..=3 {
            let large_log = open_home_file(home.path()).unwrap();
            (&large_log).write_all(b"first\n").unwrap();
            large_log.set_len(MAX_HOME_LOG_BYTES + round).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        let mut file = open_home_file(home.path()).unwrap();
                        file.write_all(b"line\n").unwrap();
                    });
                }
            });
            let old_log = fs::read_to_string(log_path("segue.log.1")).unwrap();
            assert!(old_log.starts_with("first\n"));
            assert!(old_log.len() as u64 >= MAX_HOME_LOG_BYTES + round);
            let new_log = fs::read_to_string(log_path("segue.log")).unwrap();
            let lines = old_log.matches("line\n").count() + new_log.matches("line\n").count();
            assert_eq!(lines, 16);
            fs::remove_file(log_path("segue.log")).unwrap();
        }
    }

    #[test]
    fn a_large_log_that_cannot_be_renamed_is_continued() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log/segue.log");
        fs::create_dir_all(path.with_extension("log.1").join("entry")).unwrap();
        File::create(&path)
            .unwrap()
            .set_len(MAX_HOME_LOG_BYTES + 1)
            .unwrap();
        let mut file = open_home_file(home.path()).unwrap();
        file.write_all(b"line\n").unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("line\n"));
    }

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(to_line(b"path=a\nb\r end\n"), b"path=a b  end\n");
        assert_eq!(to_line(b"\n"), b"\n");
        assert_eq!(to_line(b""), b"");
    }
}
