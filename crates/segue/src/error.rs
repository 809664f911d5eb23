//! Errors as the user sees them: message, cause and hints.

mod subject;

use std::error::Error;
use std::fmt::Write;
use std::io::ErrorKind;
use std::process::ExitCode;

use jiff::Timestamp;
use segue_agents::exec::unarchive_command;
use segue_agents::known::KNOWN;
use segue_catalog::KeepError;
use segue_catalog::index::Remedy;
use segue_core::brief::{BriefError, Section};
use segue_core::hint::{Hint, NextStep};
use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::RoleName;
use segue_core::session::Title;
use segue_engine::{CheckpointError, ConversationId, EngineError, Fitting, Obstacle};
use segue_store::{Holder, StoreError};

use subject::About;

use crate::frontend::Front;
use crate::terminal::{Style, ago, clean, one_line, say};

/// Kind of a failure, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Failed,
    Usage,
    Agent,
    Policy,
    Interrupted,
}

impl Kind {
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Agent => 3,
            Self::Policy => 4,
            Self::Interrupted => 130,
        })
    }
}

/// A failure of a command.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hints: Vec<Hint>,
    /// Time at which a retry makes sense. `None` if unknown.
    pub(crate) retry_at: Option<Timestamp>,
    /// Session, provider and process that the error is about, for the JSON output.
    pub(crate) about: Box<About>,
}

impl CliError {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hints: Vec::new(),
            retry_at: None,
            about: Box::default(),
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Converts clap's message about arguments that cannot be parsed.
    pub(crate) fn mistyped(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n").map(str::trim);
        let message = paragraphs.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let hints = paragraphs.filter_map(|paragraph| paragraph.strip_prefix("tip: "));
        let hints: Vec<Hint> = hints.map(Hint::from).collect();
        Self {
            hints,
            ..Self::usage(message)
        }
        .hint("`--help` after the command shows what it takes")
    }

    /// Adds a cause to the message.
    pub(crate) fn because(mut self, cause: &dyn Error) -> Self {
        self.message = format!("{}: {}", self.message, chain(cause));
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Prints the error and its hints to standard error, and returns the exit code.
    pub(crate) fn report(&self, front: Front<'_>) -> ExitCode {
        let style = Style::stderr();
        say(&format!("{} {}", style.red("error:"), clean(&self.message)));
        for hint in &self.hints {
            let hint = hint.worded(|step| front.words(step));
            say(&format!("{} {}", style.bold("hint:"), clean(&hint)));
        }
        self.kind.exit_code()
    }
}

/// Formats an error with all its causes on one line. Omits a cause that only repeats the text before it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !words.ends_with(&last) && !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        last = words;
        cause = error.source();
    }
    text
}

/// Maximum number of matching conversations that an error lists.
const SHOWN: usize = 8;

/// Formats matching conversations for the user to choose from, one per line.
fn told(candidates: &[Fitting]) -> String {
    let now = Timestamp::now();
    let mut lines = String::new();
    for fitting in candidates.iter().take(SHOWN) {
        let title = fitting.title.as_deref().unwrap_or("(no title)");
        let title = Title::from_prompt(&one_line(title));
        let when = ago(fitting.updated_at, now);
        let agent = fitting.agent.as_ref();
        let agent = agent.map_or(String::new(), |agent| format!("{agent:<10}  "));
        let _ = write!(
            lines,
            "\n  {fitting}  {agent}{when:<14}  {}",
            title.as_str()
        );
    }
    let more = candidates.len().saturating_sub(SHOWN);
    if more > 0 {
        let _ = write!(lines, "\n  and {more} more");
    }
    lines
}

/// Returns the hint for a conversation that cannot be resumed in the agent's own program.
fn instead(id: &ConversationId, why: &Obstacle) -> String {
    let here = format!("`segue session resume {id} \"…\"`");
    match why {
        Obstacle::Held { .. } => {
            format!("end it, or wait until it is done; `segue session info {id}` tells more")
        }
        Obstacle::Busy { .. } => "go on there, or end it first".to_owned(),
        Obstacle::NoNative => format!("{here} makes one with the next prompt"),
        Obstacle::Behind(provider) => {
            format!("{here} goes on here, and tells {provider} what it lacks; then it can")
        }
        Obstacle::Gone(_) => {
            format!("{here} goes on here: a new native session is told what was said")
        }
        Obstacle::Archived(provider, native) => {
            match unarchive_command(provider.as_str(), native) {
                Some(command) => format!("bring it back first: {command}"),
                None => format!("bring it back with {provider} first"),
            }
        }
        Obstacle::OnlyCopy(provider, native) => {
            format!("`segue session restore {provider}:{native}` brings it back")
        }
        Obstacle::NoDirectory => format!("{here} goes on here"),
        Obstacle::DirectoryGone(_) => format!(
            "make it again, or branch off into the directory you are in with `segue session fork {id}`"
        ),
        Obstacle::NoProgram(_) => format!("`segue session resume {id}` goes on here"),
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        let about = Box::new(About::of(&error));
        Self {
            about,
            ..Self::told_of(error)
        }
    }
}

impl CliError {
    /// Converts an engine error to a message with hints.
    fn told_of(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::NoMatch(_) => Self::failed(error.to_string())
                .hint(command(NextStep::ListAll, "shows every session there is")),
            EngineError::Ambiguous { ref candidates, .. } => {
                Self::usage(error.to_string()).hint(format!("say which:{}", told(candidates)))
            }
            EngineError::UnknownProvider {
                ref provider,
                ref known,
            } => nobody(provider, known, &error),
            EngineError::UnknownRole { ref known, .. } => {
                let known: Vec<&str> = known.iter().map(RoleName::as_str).collect();
                Self::usage(error.to_string()).hint(format!(
                    "there are {}; `segue role list` shows them, and [roles.NAME] in the configuration adds one",
                    known.join(", ")
                ))
            }
            EngineError::NoNumber { listed, .. } => {
                Self::usage(error.to_string()).hint(match listed {
                    0 => command(NextStep::List, "shows one"),
                    listed => Hint::from(format!("it had {listed}; "))
                        .then(command(NextStep::List, "shows a new one")),
                })
            }
            EngineError::Deleted(_) => Self::failed(error.to_string())
                .hint("`segue session archive` keeps copies of those that are still there"),
            EngineError::Gone(_) => {
                Self::failed(error.to_string()).hint(command(NextStep::List, "shows what is there"))
            }
            EngineError::OnlyNative(ref id) => Self::failed(error.to_string()).hint(format!(
                "`segue session show {id}` reads it; `segue session adopt {id}` makes it one of segue's"
            )),
            EngineError::Stays { ref id, ref why } => {
                Self::failed(error.to_string()).hint(instead(id, why))
            }
            EngineError::Native(ref cause) => Self::failed(chain(cause)),
            EngineError::Index(ref cause) => Self::failed(chain(cause))
                .hint(mend_index(cause.remedy())),
            EngineError::Brief(ref cause) => too_large(cause),
            EngineError::Checkpoint(ref cause) => of_checkpoint(cause),
            EngineError::Keep(ref cause) => kept(cause),
            EngineError::Own(ref cause) => Self::failed(chain(cause))
                .hint("its agent could not do it; a copy that was made before is in the trash"),
            EngineError::InUse { .. } => {
                Self::failed(error.to_string()).hint("end it first, or go on there; nothing was changed")
            }
            EngineError::NoProgram(ref agent) => Self::failed(error.to_string()).hint(format!(
                "put `{agent}` on PATH, or set its `path` in the configuration"
            )),
            EngineError::NoDirectory(_) => Self::failed(error.to_string())
                .hint("make it again: the agent takes a session back in the directory it works in"),
            EngineError::NoDirectoryOf(..) => Self::failed(error.to_string())
                .hint(Hint::from("make it again; ").step(NextStep::StartAnew)),
            EngineError::NoCopy(_) => {
                Self::failed(error.to_string()).hint("`segue session archive --list` shows all copies")
            }
            EngineError::There(ref id) => Self::failed(error.to_string()).hint(format!(
                "nothing was put back; go on with it, or `segue session delete {id}` first"
            )),
            EngineError::StillThere(_)
            | EngineError::NotBack(_)
            | EngineError::Unread(_)
            | EngineError::NoUpkeep
            | EngineError::NoIndex
            | EngineError::NoAgents => Self::failed(error.to_string()),
            EngineError::TurnNumber(error) => Self::usage(error.to_string()),
            EngineError::NoMove { .. } => Self::usage(error.to_string())
                .hint("`segue session info` lists the moves with their numbers"),
            EngineError::Hopeless { .. } | EngineError::NotYet { .. } => stopped(&error),
            EngineError::NothingSaid(_) => Self::failed(error.to_string())
                .hint(NextStep::StartWithAnother),
            EngineError::NotInstalled(ref agent) => Self::usage(error.to_string()).hint(format!(
                "mend `path` of {agent} in the configuration; nothing was changed"
            )),
        }
    }
}

/// Returns the hint for an index that cannot be used.
fn mend_index(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Rebuild => "`segue index rebuild` builds it anew; nothing is lost by that",
        Remedy::Permission => WRITABLE,
        Remedy::Space => "free some space; nothing is lost, and the index goes on from there",
        Remedy::Place => {
            "move away what stands in its place, or make it a file that you may write (`segue index path` says where)"
        }
        Remedy::Time => "try again; if it stays so, look for a process that hangs",
    }
}

/// Hint for a segue home directory that is not writable.
const WRITABLE: &str = "make the directory writable, or set SEGUE_HOME to one that is";

/// Builds a hint from a command, which the frontend words, and its effect `does`.
fn command(step: NextStep, does: &str) -> Hint {
    Hint::from("`").step(step).say(format!("` {does}"))
}

/// Converts the error for a brief that exceeds its budget, with a hint on how to shorten it.
fn too_large(cause: &BriefError) -> CliError {
    let BriefError::TooLarge { part, .. } = cause;
    CliError::failed(cause.to_string()).hint(match part {
        Section::Checkpoint => {
            "unpin or shorten what you pinned or wrote there (`segue session checkpoint ID edit`), or set a larger \
             `budget` in the configuration"
        }
        _ => "make it shorter, or set a larger `budget` in the configuration",
    })
}

/// Converts an error on showing or changing a checkpoint, and adds hints.
fn of_checkpoint(cause: &CheckpointError) -> CliError {
    let words = cause.to_string();
    match cause {
        CheckpointError::None(id) => {
            CliError::failed(words).hint(command(NextStep::Compact(id.clone()), "makes one"))
        }
        CheckpointError::NoneHere(id) => CliError::failed(words).hint(
            command(NextStep::Compact(id.clone()), "makes one").say(format!(
                "; `segue session checkpoint {id} list` shows those of other turns"
            )),
        ),
        CheckpointError::Unknown { session, .. } => CliError::usage(words).hint(format!(
            "`segue session checkpoint {session} list` shows them"
        )),
        CheckpointError::Elsewhere { session, .. } => {
            let undo = command(NextStep::Undo(session.clone()), "takes the last revert back");
            CliError::failed(words).hint(Hint::from("nothing was changed; ").then(undo))
        }
        CheckpointError::NoItem { session, .. } => CliError::usage(words).hint(format!(
            "nothing was changed; `segue session checkpoint {session} show --all` lists all items with their numbers"
        )),
        CheckpointError::Outdated { .. } => {
            CliError::failed(words).hint("nothing was changed; edit it once more")
        }
        CheckpointError::TooLarge { .. } => CliError::usage(words)
            .hint("nothing was changed; remove or shorten some items, or set a larger `budget`"),
    }
}

/// Builds the error for an unknown provider, with the known providers or the fix as hint.
fn nobody(provider: &ProviderId, known: &[ProviderId], error: &EngineError) -> CliError {
    if let Some(usual) = KNOWN
        .iter()
        .find(|usual| usual.provider == provider.as_str())
    {
        return CliError::usage(format!("{provider} was not found on this machine")).hint(format!(
            "put `{}` on PATH, or set `path` in [{provider}] of the configuration",
            usual.program
        ));
    }
    let known: Vec<&str> = known.iter().map(ProviderId::as_str).collect();
    let spoken_to = format!("acp:{provider}");
    CliError::usage(error.to_string()).hint(if known.contains(&spoken_to.as_str()) {
        format!("it is called {spoken_to}")
    } else {
        format!(
            "it drives: {}; any other that speaks ACP needs [acp.NAME] in the configuration",
            known.join(", ")
        )
    })
}

/// Builds the error for a prompt that the policy rejects, with hints on how to continue.
fn stopped(error: &EngineError) -> CliError {
    let mut stopped = CliError::new(Kind::Policy, error.to_string());
    let (session, others, go_on) = match error {
        EngineError::NotYet {
            session,
            until,
            others,
            ..
        } => {
            stopped.retry_at = Some(*until);
            (session.as_ref(), others, NextStep::AskNow.into())
        }
        EngineError::Hopeless {
            session, others, ..
        } => {
            let go_on = Hint::from(NextStep::TryAnyway(session.clone()))
                .say("; ")
                .step(NextStep::StartAnew);
            (Some(session), others, go_on)
        }
        _ => return stopped,
    };
    let other = others.first().cloned();
    let elsewhere = match session {
        Some(session) => NextStep::HandOver(session.clone(), other),
        None => NextStep::AskAnother(other),
    };
    stopped.hint(elsewhere).hint(go_on)
}

/// Converts an error that occurred while a session was copied, removed or restored, and adds hints.
fn kept(error: &KeepError) -> CliError {
    let failed = CliError::failed(chain(error));
    match error {
        KeepError::Differs(_) => {
            failed.hint("nothing was put back; move that away first, or go on with what is there")
        }
        KeepError::Changing(_) => {
            failed.hint("wait until its agent is done, and try again; nothing was removed")
        }
        KeepError::Outside(_) => failed.hint("nothing was changed; see to it by hand"),
        KeepError::Io { source, .. }
            if matches!(
                source.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
            ) =>
        {
            failed.hint("free some space; nothing was removed")
        }
        // Only files in segue's own home are ever locked.
        KeepError::Io {
            doing: "lock",
            source,
            ..
        } if matches!(
            source.kind(),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
        ) =>
        {
            failed.hint(WRITABLE)
        }
        KeepError::Io { .. }
        | KeepError::Read(_)
        | KeepError::Broken { .. }
        | KeepError::Nothing(_) => failed,
    }
}

/// Adds hints on how to continue if another process has the lease of the session.
fn held(failed: CliError, session: &SessionId, by: &Holder) -> CliError {
    let since = by.since.strftime("%F %T UTC");
    let ago = ago(by.since, Timestamp::now());
    let failed = failed.hint(if by.waits() {
        format!(
            "it has been open there since {since} ({ago}), with an agent that waits: go on there, or leave it there \
             first (/quit in `segue repl`)"
        )
    } else {
        format!("it has been at work there since {since} ({ago}); wait until it is done, or end it")
    });
    // During the first turn no earlier turn exists to fork from.
    if by.turn == Some(1) {
        return failed;
    }
    failed.hint(command(
        NextStep::Fork(session.clone()),
        "branches off from what was said before",
    ))
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let failed = Self::failed(chain(&error));
        match error {
            StoreError::Held { session, by } => held(failed, &session, &by),
            StoreError::Newer { .. } => failed.hint("update segue, or set SEGUE_HOME to another directory"),
            StoreError::Corrupt { path, .. } => failed.hint(format!(
                "nothing was changed; move {} away to start with an empty store, or restore a copy of it",
                path.display()
            )),
            StoreError::Full { .. } => {
                failed.hint("free some space; what was acknowledged before is safe, what was not is not there")
            }
            StoreError::ReadOnly { .. } => {
                failed.hint("make the directory writable, or set SEGUE_HOME to one that is")
            }
            StoreError::Busy { .. } => failed.hint("try again; if it stays so, look for a process that hangs"),
            StoreError::NothingToUndo(_) => Self {
                kind: Kind::Usage,
                ..failed
            },
            StoreError::NoSession(_)
            | StoreError::NoTurn(_)
            | StoreError::TurnUnderWay(_)
            | StoreError::NoLeg(_)
            | StoreError::Exists(_)
            | StoreError::Fits(_)
            | StoreError::Carried(_)
            | StoreError::LeaseLost(_)
            | StoreError::Backend { .. } => failed,
        }
    }
}
