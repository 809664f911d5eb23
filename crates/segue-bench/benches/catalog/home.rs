//! The corpus of sessions, and the home directories in which the programs read it.

use segue_bench::{create_temp_dir, segue_program};
use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use segue_bench::corpus::{Corpus, CorpusCounts};
use tempfile::TempDir;

/// A corpus that is written to disk.
pub(crate) struct WrittenCorpus {
    directory: TempDir,
    /// Counts of the written sessions, by the name of the agent's home.
    pub(crate) counts: [(&'static str, CorpusCounts); 3],
}

/// Homes of the agents whose sessions both segue and fast-resume read.
pub(crate) const SHARED_AGENT_HOMES: &[&str] = &[".claude", ".codex"];
pub(crate) const ALL_AGENT_HOMES: &[&str] = &[".claude", ".codex", ".gemini"];

impl WrittenCorpus {
    pub(crate) fn new(sessions: u64) -> Self {
        let directory = create_temp_dir();
        let corpus = Corpus { sessions, seed: 1 };
        let counts = corpus.write(directory.path());
        Self { directory, counts }
    }

    /// Returns the summed counts of these agents.
    pub(crate) fn total_counts(&self, agent_homes: &[&str]) -> CorpusCounts {
        let mut total = CorpusCounts::default();
        for (name, counts) in self.counts {
            if agent_homes.contains(&name) {
                total += counts;
            }
        }
        total
    }

    pub(crate) fn agent_path(&self, agent_home: &str) -> PathBuf {
        self.directory.path().join(agent_home)
    }

    /// Creates a home that contains only links to the sessions of these agents.
    pub(crate) fn create_home(&self, agent_homes: &[&str]) -> BenchHome {
        let directory = create_temp_dir();
        for agent_home in agent_homes {
            symlink(
                self.agent_path(agent_home),
                directory.path().join(agent_home),
            )
            .unwrap();
        }
        BenchHome(directory)
    }

    /// Appends a user prompt to one of the sessions.
    pub(crate) fn append_prompt(&self, number: u64) {
        let project = self.agent_path(".claude/projects/-src-app-1");
        let mut sessions: Vec<_> = fs::read_dir(project).unwrap().map(Result::unwrap).collect();
        sessions.sort_by_key(fs::DirEntry::file_name);
        let path = sessions.first().unwrap().path();
        let id = path.file_stem().unwrap().to_str().unwrap();
        let line = format!(
            r#"{{"parentUuid":null,"isSidechain":false,"type":"user","message":{{"role":"user","content":"and what about number {number}?"}},"uuid":"00000000-0000-7000-8000-{number:012}","timestamp":"2026-11-15T12:00:00.000Z","cwd":"/src/app-1","sessionId":"{id}","version":"2.1.325"}}"#
        );
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).unwrap();
    }
}

impl fmt::Display for WrittenCorpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CorpusCounts {
            sessions,
            turns,
            messages,
            bytes,
        } = self.total_counts(ALL_AGENT_HOMES);
        let megabytes = bytes / 1_000_000;
        write!(
            f,
            "## {sessions} sessions, {turns} turns, {messages} messages, {megabytes} MB"
        )
    }
}

/// A temporary home directory.
pub(crate) struct BenchHome(TempDir);

impl BenchHome {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns a command for `program` with this home and a cleared environment. Its output is discarded.
    pub(crate) fn program_command(&self, program: impl AsRef<Path>, args: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .args(args)
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", "/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm")
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    pub(crate) fn segue_command(&self, args: &[&str]) -> Command {
        let mut command = self.program_command(segue_program(), args);
        command.env("SEGUE_HOME", self.path().join("segue"));
        command
    }

    /// Returns the total size of the files whose paths begin with `path_prefix`.
    pub(crate) fn count_bytes(&self, path_prefix: &str) -> u64 {
        let full_prefix = self.path().join(path_prefix);
        let (directory, prefix) = (
            full_prefix.parent().unwrap(),
            full_prefix.file_name().unwrap(),
        );
        let prefix = prefix.to_str().unwrap();
        let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
        let matching =
            entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with(prefix));
        matching.map(|entry| count_path_bytes(&entry.path())).sum()
    }
}

fn count_path_bytes(path: &Path) -> u64 {
    let metadata = path.metadata().unwrap();
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).unwrap();
    entries
        .map(|entry| count_path_bytes(&entry.unwrap().path()))
        .sum()
}
