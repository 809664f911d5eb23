//! Errors as the user sees them: message, cause and hints.

mod hint_text;
mod subject;

use std::error::Error;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use jiff::Timestamp;
use segue_catalog::ArchiveError;
use segue_catalog::index::Remedy;
use segue_core::brief::{BriefError, BriefSection};
use segue_core::hint::SuggestedAction;
use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::RoleName;
use segue_core::session::{PromptRefusal, Title};
use segue_engine::{
    AccessError, CheckpointError, CompactionError, ConversationId, EngineError, LibraryError,
    NativeResumeError, PlanError, ResolveError, SessionError, SessionMatch, TurnError, UpkeepError,
};
use segue_providers::exec::unarchive_command;
use segue_providers::{ProviderDescriptor, find_provider};
use segue_sqlite::FILE_NAME;
use segue_store::{LeaseHolder, StoreError};

use subject::ErrorSubject;

pub(crate) use hint_text::HintText;

use crate::app;
use crate::frontend::Frontend;
use crate::terminal::{
    Style, eprint_line, format_age, format_plural, strip_control_chars, to_single_line,
};

/// Kind of a failure, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitKind {
    Failed,
    Usage,
    Agent,
    Policy,
    Interrupted,
}

impl ExitKind {
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
    pub(crate) kind: ExitKind,
    pub(crate) message: String,
    pub(crate) hints: Vec<HintText>,
    /// Time at which a retry makes sense. `None` if unknown.
    pub(crate) retry_at: Option<Timestamp>,
    /// Session, provider and process that the error is about, for the JSON output.
    pub(crate) subject: Box<ErrorSubject>,
}

impl CliError {
    pub(crate) fn new(kind: ExitKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hints: Vec::new(),
            retry_at: None,
            subject: Box::default(),
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(ExitKind::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitKind::Usage, message)
    }

    /// Converts clap's message about arguments that cannot be parsed.
    pub(crate) fn from_clap(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n").map(str::trim);
        let message = paragraphs.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let hints = paragraphs.filter_map(|paragraph| paragraph.strip_prefix("tip: "));
        let hints: Vec<HintText> = hints.map(HintText::from).collect();
        Self {
            hints,
            ..Self::usage(message)
        }
        .with_hint("add `--help` to the command to show its usage")
    }

    /// Adds a cause to the message.
    pub(crate) fn with_cause(mut self, cause: &dyn Error) -> Self {
        self.message = format!("{}: {}", self.message, format_error_chain(cause));
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<HintText>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Prints the error and its hints to standard error, and returns the exit code.
    pub(crate) fn report(&self, frontend: Frontend<'_>) -> ExitCode {
        let style = Style::stderr();
        let message = strip_control_chars(&self.message);
        eprint_line(&format!("{} {message}", style.red("error:")));
        for hint in &self.hints {
            let hint = strip_control_chars(&hint.format(&frontend));
            eprint_line(&format!("{} {hint}", style.bold("hint:")));
        }
        self.kind.exit_code()
    }
}

/// Formats an error with all its causes on one line. Omits a cause that only repeats the text before it.
fn format_error_chain(error: &dyn Error) -> String {
    append_causes(error.to_string(), error)
}

/// Appends the causes of an error to its text.
fn append_causes(mut text: String, error: &dyn Error) -> String {
    let mut previous = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        if !cause_text.ends_with(&previous) && !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        previous = cause_text;
        cause = error.source();
    }
    text
}

/// Maximum number of matching conversations that an error lists.
const MAX_LISTED_MATCHES: usize = 8;

/// Formats matching conversations for the user to choose from, one per line.
fn format_matches(candidates: &[SessionMatch]) -> String {
    let now = Timestamp::now();
    let mut lines = String::new();
    for candidate in candidates.iter().take(MAX_LISTED_MATCHES) {
        let title = candidate.title.as_deref().unwrap_or("(no title)");
        let title = Title::from_prompt(&to_single_line(title));
        let age = format_age(candidate.updated_at, now);
        let agent = candidate.agent.as_ref();
        let agent = agent.map_or(String::new(), |agent| format!("{agent:<10}  "));
        let _ = write!(
            lines,
            "\n  {candidate}  {agent}{age:<14}  {}",
            title.as_str()
        );
    }
    let omitted = candidates.len().saturating_sub(MAX_LISTED_MATCHES);
    if omitted > 0 {
        let _ = write!(lines, "\n  and {omitted} more");
    }
    lines
}

/// Returns the hint for a conversation that cannot be resumed in the agent's own program.
fn native_resume_hint(id: &ConversationId, reason: &NativeResumeError) -> String {
    let resume_command = format!("run `segue session resume {id} \"…\"`");
    match reason {
        NativeResumeError::Leased { .. } => {
            format!(
                "wait until that process finishes, or end it; run `segue session info {id}` for details"
            )
        }
        NativeResumeError::InUse { .. } => "continue in that program, or end it first".to_owned(),
        NativeResumeError::NoNative => {
            format!("{resume_command} to start one with the next prompt")
        }
        NativeResumeError::Behind(provider) => {
            format!("{resume_command} first, which sends {provider} the missing turns")
        }
        NativeResumeError::Missing(_) => {
            format!("{resume_command} to continue in a new native session with a brief")
        }
        NativeResumeError::Archived(provider, native) => {
            match unarchive_command(provider.as_str(), native) {
                Some(command) => format!("run `{command}` first"),
                None => format!("unarchive it in {provider} first"),
            }
        }
        NativeResumeError::OnlyArchiveCopy(provider, native) => {
            format!("run `segue session restore {provider}:{native}` first")
        }
        NativeResumeError::DirectoryUnknown => format!("{resume_command} to resume it in segue"),
        NativeResumeError::DirectoryMissing(_) => format!(
            "recreate the directory, or run `segue session fork {id}` to fork the session into the current directory"
        ),
        NativeResumeError::Unsupported(_) => {
            format!("run `segue session resume {id}` to resume it in segue")
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        Self {
            kind: exit_kind(&error),
            message: match &error {
                EngineError::Access(AccessError::UnknownProvider { provider, .. })
                    if find_driven_provider(provider).is_some() =>
                {
                    format!("agent `{provider}` not found on this machine")
                }
                EngineError::Access(AccessError::Store(error)) => {
                    append_causes(describe_store_error(error), error)
                }
                error => format_error_chain(error),
            },
            hints: error_hints(&error),
            retry_at: match &error {
                EngineError::Turn(TurnError::PromptRefused {
                    refusal: PromptRefusal::Unavailable { until, .. },
                    ..
                }) => Some(*until),
                _ => None,
            },
            subject: Box::new(ErrorSubject::from_error(&error)),
        }
    }
}

/// Implements the conversion of a component's error.
macro_rules! convert_component_errors {
    ($($error:ident),+ $(,)?) => {$(
        impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                EngineError::from(error).into()
            }
        }
    )+};
}

convert_component_errors!(
    StoreError,
    AccessError,
    LibraryError,
    ResolveError,
    PlanError,
    CompactionError,
    TurnError,
    SessionError,
    UpkeepError,
);

fn exit_kind(error: &EngineError) -> ExitKind {
    match error {
        EngineError::Access(
            AccessError::Store(StoreError::NoRevertToUndo(_) | StoreError::UnknownCursor(_))
            | AccessError::UnknownProvider { .. }
            | AccessError::UnknownRole { .. },
        )
        | EngineError::Library(LibraryError::TurnNumber(_))
        | EngineError::Resolve(ResolveError::Ambiguous { .. } | ResolveError::NoListEntry { .. })
        | EngineError::Compaction(CompactionError::Checkpoint(
            CheckpointError::Unknown { .. }
            | CheckpointError::NoItem { .. }
            | CheckpointError::TooLarge { .. },
        ))
        | EngineError::Session(
            SessionError::TurnNumber(_)
            | SessionError::NoHeadMove { .. }
            | SessionError::NotInstalled(_),
        ) => ExitKind::Usage,
        EngineError::Turn(TurnError::PromptRefused { .. }) => ExitKind::Policy,
        _ => ExitKind::Failed,
    }
}

/// Returns hints on how to continue after an error.
fn error_hints(error: &EngineError) -> Vec<HintText> {
    let hint = match error {
        EngineError::Access(AccessError::Store(StoreError::Leased { session, holder })) => {
            return lease_hints(session, holder);
        }
        EngineError::Turn(error) => return turn_hints(error),
        EngineError::Access(error)
        | EngineError::Plan(PlanError::Access(error))
        | EngineError::Compaction(
            CompactionError::Access(error) | CompactionError::Plan(PlanError::Access(error)),
        ) => access_hint(error),
        EngineError::Plan(PlanError::Brief(error))
        | EngineError::Compaction(CompactionError::Plan(PlanError::Brief(error))) => {
            Some(brief_hint(error))
        }
        EngineError::Compaction(CompactionError::Checkpoint(error)) => Some(checkpoint_hint(error)),
        EngineError::Library(LibraryError::Index(error)) => {
            Some(index_remedy_hint(error.remedy()).into())
        }
        EngineError::Library(_) => None,
        EngineError::Resolve(error) => resolve_hint(error),
        EngineError::Session(error) => session_hint(error),
        EngineError::Upkeep(error) => upkeep_hint(error),
    };
    hint.into_iter().collect()
}

/// Returns the hint for an error on access to the store, an agent or a native session.
fn access_hint(error: &AccessError) -> Option<HintText> {
    Some(match error {
        AccessError::Store(error) => return store_hint(error),
        AccessError::NativeRead(_) => return None,
        AccessError::InUse { .. } => "end that process first; nothing was changed".into(),
        AccessError::UnknownProvider {
            provider,
            available,
        } => unknown_provider_hint(provider, available).into(),
        AccessError::UnknownRole { available, .. } => {
            let available: Vec<&str> = available.iter().map(RoleName::as_str).collect();
            let available = available.join(", ");
            format!(
                "available roles: {available}; define another one as [roles.NAME] in the configuration"
            )
            .into()
        }
    })
}

fn store_hint(error: &StoreError) -> Option<HintText> {
    Some(match error {
        StoreError::NewerFormat { .. } => {
            "update segue, or set SEGUE_HOME to another directory".into()
        }
        StoreError::Corrupt { .. } => format!(
            "restore a backup of {}, or move it away to start with an empty store; nothing was changed",
            store_path().display()
        )
        .into(),
        StoreError::DiskFull { .. } => "free disk space and retry; saved turns are safe".into(),
        StoreError::ReadOnly { .. } => HOME_NOT_WRITABLE_HINT.into(),
        StoreError::Busy => HUNG_PROCESS_HINT.into(),
        StoreError::Leased { .. }
        | StoreError::NoRevertToUndo(_)
        | StoreError::UnknownCursor(_)
        | StoreError::NoSession(_)
        | StoreError::NoTurn(_)
        | StoreError::TurnRunning(_)
        | StoreError::NoLeg(_)
        | StoreError::SessionExists(_)
        | StoreError::PurposeTaken(_)
        | StoreError::NativeAttached(_)
        | StoreError::LeaseLost(_)
        | StoreError::Backend { .. } => return None,
    })
}

/// Returns the hint for an error on the lookup of a session.
fn resolve_hint(error: &ResolveError) -> Option<HintText> {
    let list_hint = |purpose| command_hint(SuggestedAction::List, purpose);
    Some(match error {
        ResolveError::NoMatch(_) => command_hint(SuggestedAction::ListAll, "list all sessions"),
        ResolveError::Ambiguous { candidates, .. } => {
            format!("use one of these IDs:{}", format_matches(candidates)).into()
        }
        ResolveError::NoListEntry { list_len: 0, .. } => list_hint("list sessions"),
        ResolveError::NoListEntry { list_len, .. } => {
            let count = format_plural(*list_len as u64, "session");
            HintText::from(format!("the last list had {count}; run `"))
                .with_action(SuggestedAction::List)
                .with_text("` to list sessions again")
        }
        ResolveError::Deleted(_) => {
            "run `segue session archive` to copy sessions before their agents delete them".into()
        }
        ResolveError::ListEntryMissing(_) => list_hint("list sessions again"),
        ResolveError::NotAdopted(id) => format!(
            "run `segue session adopt {id}` to adopt it, or `segue session show {id}` to read it"
        )
        .into(),
        ResolveError::NotResumable { id, reason } => native_resume_hint(id, reason).into(),
        ResolveError::SessionDirectoryMissing(..) => {
            HintText::from("recreate the directory, or ").with_action(SuggestedAction::StartAnother)
        }
        ResolveError::NoAgents | ResolveError::Access(_) | ResolveError::Library(_) => return None,
    })
}

/// Returns the hint for an error on changing a session.
fn session_hint(error: &SessionError) -> Option<HintText> {
    Some(match error {
        SessionError::Access(_) | SessionError::TurnNumber(_) => return None,
        SessionError::NoHeadMove { .. } => {
            "run `segue session info` to list the reverts and undos with their numbers".into()
        }
        SessionError::NoMessages(_) => SuggestedAction::StartWithOtherAgent.into(),
        SessionError::NotInstalled(agent) => format!(
            "set `{}.path` in the configuration to the program's location",
            agent.as_str().replace("acp:", "acp.")
        )
        .into(),
    })
}

/// Returns the hint for an error on deleting, archiving or restoring a conversation.
fn upkeep_hint(error: &UpkeepError) -> Option<HintText> {
    Some(match error {
        UpkeepError::Archive(cause) => archive_hint(cause)?.into(),
        UpkeepError::NativeCli(_) => "run `segue session archive --list` to look for a copy".into(),
        UpkeepError::NoProgram(agent) => {
            format!("put `{agent}` on PATH, or set its `path` in the configuration").into()
        }
        UpkeepError::DirectoryMissing(_) => {
            "recreate the directory, because the agent can restore the session only there".into()
        }
        UpkeepError::NoCopy(_) => "run `segue session archive --list` to list all copies".into(),
        UpkeepError::AlreadyExists(id) => {
            format!("resume it, or run `segue session delete {id}` first; nothing was restored")
                .into()
        }
        UpkeepError::NotDeleted(_)
        | UpkeepError::NotRestored(_)
        | UpkeepError::ProviderUnreadable(_)
        | UpkeepError::NoArchive
        | UpkeepError::Access(_)
        | UpkeepError::Resolve(_) => return None,
    })
}

/// Returns the hint for an index that cannot be used.
fn index_remedy_hint(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Rebuild => "run `segue index rebuild`; no session is lost",
        Remedy::Permission => HOME_NOT_WRITABLE_HINT,
        Remedy::Space => "free disk space and retry; no session is lost",
        Remedy::Path => "move or fix the file at the path that `segue index path` prints",
        Remedy::Time => HUNG_PROCESS_HINT,
    }
}

/// Hint for a segue home directory that is not writable.
const HOME_NOT_WRITABLE_HINT: &str =
    "make the directory writable, or set SEGUE_HOME to a writable directory";

/// Hint for a file that another process has locked for too long.
const HUNG_PROCESS_HINT: &str = "retry; if the error persists, look for a segue process that hangs";

/// Builds a hint to run a command, which the frontend words, for a purpose such as `list sessions`.
fn command_hint(action: SuggestedAction, purpose: &str) -> HintText {
    HintText::from("run `")
        .with_action(action)
        .with_text(format!("` to {purpose}"))
}

/// Returns the hint for a brief that exceeds its budget: how to shorten it.
fn brief_hint(cause: &BriefError) -> HintText {
    let BriefError::TooLarge {
        largest_section, ..
    } = cause;
    HintText::from(match largest_section {
        BriefSection::Checkpoint => {
            "shorten the checkpoint with `segue session checkpoint ID edit`, or set a larger `budget` in the \
             configuration"
        }
        _ => "shorten it, or set a larger `budget` in the configuration",
    })
}

/// Returns the hint for an error on showing or changing a checkpoint.
fn checkpoint_hint(cause: &CheckpointError) -> HintText {
    let create_hint =
        |id: &SessionId| command_hint(SuggestedAction::Compact(id.clone()), "create one");
    match cause {
        CheckpointError::NoCheckpoint(id) => create_hint(id),
        CheckpointError::NoneOnPath(id) => create_hint(id).with_text(format!(
            ", or `segue session checkpoint {id} list` to list those of other turns"
        )),
        CheckpointError::Unknown { session, .. } => {
            format!("run `segue session checkpoint {session} list` to list all checkpoints").into()
        }
        CheckpointError::OffPath { session, .. } => {
            command_hint(SuggestedAction::Undo(session.clone()), "undo the last revert")
                .with_text("; nothing was changed")
        }
        CheckpointError::NoItem { session, .. } => format!(
            "run `segue session checkpoint {session} show --all` to list the item numbers; nothing was changed"
        )
        .into(),
        CheckpointError::Outdated { .. } => "edit the new checkpoint; nothing was changed".into(),
        CheckpointError::TooLarge { .. } => {
            "remove or shorten items, or set a larger `budget`; nothing was changed".into()
        }
    }
}

/// Returns the provider if segue has a driver for it.
fn find_driven_provider(provider: &ProviderId) -> Option<&'static ProviderDescriptor> {
    find_provider(provider.as_str()).filter(|descriptor| descriptor.driver.is_some())
}

/// Returns the hint for an unknown provider: the fix, or the known providers.
fn unknown_provider_hint(provider: &ProviderId, available: &[ProviderId]) -> String {
    if let Some(ProviderDescriptor { program, .. }) = find_driven_provider(provider) {
        return format!("put `{program}` on PATH, or set `{provider}.path` in the configuration");
    }
    let available: Vec<&str> = available.iter().map(ProviderId::as_str).collect();
    let acp_provider = format!("acp:{provider}");
    if available.contains(&acp_provider.as_str()) {
        return format!("use `{acp_provider}`");
    }
    let available = available.join(", ");
    format!("available agents: {available}; configure another ACP agent as [acp.NAME]")
}

/// Returns the hints for a prompt that the policy rejects.
fn turn_hints(error: &TurnError) -> Vec<HintText> {
    let TurnError::PromptRefused {
        session,
        refusal,
        fallbacks,
        ..
    } = error
    else {
        return Vec::new();
    };
    let retry_hint = match refusal {
        PromptRefusal::Unavailable { .. } => HintText::from(SuggestedAction::SkipCooldown),
        PromptRefusal::RetriesExhausted { session, .. } => {
            HintText::from(SuggestedAction::ForceRetry(session.clone()))
                .with_text(", or ")
                .with_action(SuggestedAction::StartAnother)
        }
    };
    let fallback = fallbacks.first().cloned();
    let handoff_action = match session {
        Some(session) => SuggestedAction::HandOff(session.clone(), fallback),
        None => SuggestedAction::UseOtherAgent(fallback),
    };
    vec![handoff_action.into(), retry_hint]
}

/// Describes an error of the store. An error of its file names the file, which the store does not know.
fn describe_store_error(error: &StoreError) -> String {
    let path = store_path();
    let path = path.display();
    match error {
        StoreError::NewerFormat { found, supported } => {
            format!("store {path} has format {found}; this segue supports up to {supported}")
        }
        StoreError::Corrupt { .. } => format!("store {path} is damaged or not a segue store"),
        StoreError::DiskFull { .. } => format!("cannot write to store {path}: the disk is full"),
        StoreError::ReadOnly { .. } => format!("cannot write to store {path}: it is read-only"),
        StoreError::Busy => format!("store {path} was locked by other processes for too long"),
        StoreError::Backend { operation, .. } => format!("cannot {operation} store {path}"),
        error => error.to_string(),
    }
}

/// Returns the path of the store; only its file name if the user has no home directory.
fn store_path() -> PathBuf {
    app::home().unwrap_or_default().join(FILE_NAME)
}

/// Returns the hint for an error that occurred while a session was copied, removed or restored.
fn archive_hint(error: &ArchiveError) -> Option<&'static str> {
    match error {
        ArchiveError::FileConflict(_) => {
            Some("move the existing file away and retry; nothing was restored")
        }
        ArchiveError::Changing(_) => {
            Some("wait until the agent finishes and retry; nothing was removed")
        }
        ArchiveError::OutsideHome(_) => Some("copy or remove it yourself; nothing was changed"),
        ArchiveError::Io { action, source, .. } => match (source.kind(), *action) {
            (ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge, _) => {
                Some("free disk space and retry; nothing was removed")
            }
            // Only files in segue's own home are ever locked.
            (ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem, "lock") => {
                Some(HOME_NOT_WRITABLE_HINT)
            }
            _ => None,
        },
        ArchiveError::Read(_) | ArchiveError::Damaged { .. } | ArchiveError::NotFound(_) => None,
    }
}

/// Returns hints on how to continue if another process has the lease of the session.
fn lease_hints(session: &SessionId, holder: &LeaseHolder) -> Vec<HintText> {
    let since = holder.acquired_at.strftime("%F %T UTC");
    let age = format_age(holder.acquired_at, Timestamp::now());
    let mut hints = vec![HintText::from(if holder.is_idle() {
        format!(
            "it has been open there since {since} ({age}) with an idle agent: continue there, or close it first \
             (`/quit` in `segue repl`)"
        )
    } else {
        format!(
            "it has been running there since {since} ({age}): wait until it finishes, or end that process"
        )
    })];
    // During the first turn no earlier turn exists to fork from.
    if holder.running_turn != Some(1) {
        let fork_action = SuggestedAction::Fork(session.clone());
        hints.push(command_hint(fork_action, "continue in a fork"));
    }
    hints
}
