//! Errors as the user sees them: message, cause and hints.

mod hint_text;
mod subject;

use std::error::Error;
use std::fmt::Write;
use std::io::ErrorKind;
use std::process::ExitCode;

use jiff::Timestamp;
use segue_agents::exec::unarchive_command;
use segue_agents::known::KNOWN_AGENTS;
use segue_catalog::ArchiveError;
use segue_catalog::index::Remedy;
use segue_core::brief::{BriefError, BriefSection};
use segue_core::hint::SuggestedAction;
use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::RoleName;
use segue_core::session::Title;
use segue_engine::{
    AccessError, CheckpointError, CompactionError, ConversationId, EngineError, LibraryError,
    NativeResumeError, PlanError, ResolveError, SessionError, SessionMatch, TurnError, UpkeepError,
};
use segue_store::{LeaseHolder, StoreError};

use subject::ErrorSubject;

pub(crate) use hint_text::HintText;

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
    fn new(kind: ExitKind, message: impl Into<String>) -> Self {
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
        eprint_line(&format!(
            "{} {}",
            style.red("error:"),
            strip_control_chars(&self.message)
        ));
        for hint in &self.hints {
            let hint = hint.format(&frontend);
            eprint_line(&format!(
                "{} {}",
                style.bold("hint:"),
                strip_control_chars(&hint)
            ));
        }
        self.kind.exit_code()
    }
}

/// Formats an error with all its causes on one line. Omits a cause that only repeats the text before it.
fn format_error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut previous = text.clone();
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
        let subject = Box::new(ErrorSubject::from_error(&error));
        let cli_error = match error {
            EngineError::Access(error) => access_error(error),
            EngineError::Library(error) => library_error(&error),
            EngineError::Resolve(error) => resolve_error(&error),
            EngineError::Plan(error) => plan_error(error),
            EngineError::Compaction(error) => compaction_error(error),
            EngineError::Turn(error) => turn_error(&error),
            EngineError::Session(error) => session_error(error),
            EngineError::Upkeep(error) => upkeep_error(&error),
        };
        Self {
            subject,
            ..cli_error
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
    AccessError,
    LibraryError,
    ResolveError,
    PlanError,
    CompactionError,
    TurnError,
    SessionError,
    UpkeepError,
);

/// Converts an error on access to the store, an agent or a native session, and adds hints.
fn access_error(error: AccessError) -> CliError {
    match error {
        AccessError::Store(error) => error.into(),
        AccessError::NativeRead(ref cause) => CliError::failed(format_error_chain(cause)),
        AccessError::InUse { .. } => CliError::failed(error.to_string())
            .with_hint("end that process first; nothing was changed"),
        AccessError::UnknownProvider {
            ref provider,
            ref available,
        } => unknown_provider_error(provider, available, &error),
        AccessError::UnknownRole { ref available, .. } => {
            let available: Vec<&str> = available.iter().map(RoleName::as_str).collect();
            CliError::usage(error.to_string()).with_hint(format!(
                "available roles: {}; define another one as [roles.NAME] in the configuration",
                available.join(", ")
            ))
        }
    }
}

/// Converts an error on listing, showing or searching conversations, and adds hints.
fn library_error(error: &LibraryError) -> CliError {
    match error {
        LibraryError::Index(cause) => {
            CliError::failed(format_error_chain(cause)).with_hint(index_remedy_hint(cause.remedy()))
        }
        LibraryError::TurnNumber(error) => CliError::usage(error.to_string()),
        LibraryError::NoIndex | LibraryError::Access(_) => CliError::failed(error.to_string()),
    }
}

/// Converts an error on the lookup of a session, and adds hints.
fn resolve_error(error: &ResolveError) -> CliError {
    let message = error.to_string();
    match error {
        ResolveError::NoMatch(_) => CliError::failed(message)
            .with_hint(command_hint(SuggestedAction::ListAll, "list all sessions")),
        ResolveError::Ambiguous { candidates, .. } => CliError::usage(message).with_hint(format!(
            "use one of these IDs:{}",
            format_matches(candidates)
        )),
        ResolveError::NoListEntry { list_len, .. } => {
            CliError::usage(message).with_hint(match list_len {
                0 => command_hint(SuggestedAction::List, "list sessions"),
                list_len => HintText::from(format!(
                    "the last list had {}; ",
                    format_plural(*list_len as u64, "session")
                ))
                .append(command_hint(SuggestedAction::List, "list sessions again")),
            })
        }
        ResolveError::Deleted(_) => CliError::failed(message).with_hint(
            "run `segue session archive` to copy sessions before their agents delete them",
        ),
        ResolveError::ListEntryMissing(_) => CliError::failed(message)
            .with_hint(command_hint(SuggestedAction::List, "list sessions again")),
        ResolveError::NotAdopted(id) => CliError::failed(message).with_hint(format!(
            "run `segue session adopt {id}` to adopt it, or `segue session show {id}` to read it"
        )),
        ResolveError::NotResumable { id, reason } => {
            CliError::failed(message).with_hint(native_resume_hint(id, reason))
        }
        ResolveError::SessionDirectoryMissing(..) => CliError::failed(message).with_hint(
            HintText::from("recreate the directory, or ")
                .with_action(SuggestedAction::StartAnother),
        ),
        ResolveError::NoAgents | ResolveError::Access(_) | ResolveError::Library(_) => {
            CliError::failed(message)
        }
    }
}

/// Converts an error on planning a brief or a compaction, and adds hints.
fn plan_error(error: PlanError) -> CliError {
    match error {
        PlanError::Access(error) => access_error(error),
        PlanError::Brief(cause) => brief_too_large_error(&cause),
    }
}

/// Converts an error on compacting a session or changing a checkpoint, and adds hints.
fn compaction_error(error: CompactionError) -> CliError {
    match error {
        CompactionError::Access(error) => access_error(error),
        CompactionError::Plan(error) => plan_error(error),
        CompactionError::Checkpoint(cause) => checkpoint_error(&cause),
    }
}

/// Converts an error on changing a session, and adds hints.
fn session_error(error: SessionError) -> CliError {
    let message = error.to_string();
    match error {
        SessionError::Access(error) => access_error(error),
        SessionError::TurnNumber(_) => CliError::usage(message),
        SessionError::NoHeadMove { .. } => CliError::usage(message)
            .with_hint("run `segue session info` to list the reverts and undos with their numbers"),
        SessionError::NoMessages(_) => {
            CliError::failed(message).with_hint(SuggestedAction::StartWithOtherAgent)
        }
        SessionError::NotInstalled(agent) => CliError::usage(message).with_hint(format!(
            "set `{}.path` in the configuration to the program's location",
            agent.as_str().replace("acp:", "acp.")
        )),
    }
}

/// Converts an error on deleting, archiving or restoring a conversation, and adds hints.
fn upkeep_error(error: &UpkeepError) -> CliError {
    let message = error.to_string();
    match error {
        UpkeepError::Archive(cause) => archive_error(cause),
        UpkeepError::NativeCli(cause) => CliError::failed(format_error_chain(cause))
            .with_hint("run `segue session archive --list` to look for a copy"),
        UpkeepError::NoProgram(agent) => CliError::failed(message).with_hint(format!(
            "put `{agent}` on PATH, or set its `path` in the configuration"
        )),
        UpkeepError::DirectoryMissing(_) => CliError::failed(message).with_hint(
            "recreate the directory, because the agent can restore the session only there",
        ),
        UpkeepError::NoCopy(_) => CliError::failed(message)
            .with_hint("run `segue session archive --list` to list all copies"),
        UpkeepError::AlreadyExists(id) => CliError::failed(message).with_hint(format!(
            "resume it, or run `segue session delete {id}` first; nothing was restored"
        )),
        UpkeepError::NotDeleted(_)
        | UpkeepError::NotRestored(_)
        | UpkeepError::ProviderUnreadable(_)
        | UpkeepError::NoArchive
        | UpkeepError::Access(_)
        | UpkeepError::Resolve(_) => CliError::failed(message),
    }
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

/// Converts the error for a brief that exceeds its budget, with a hint on how to shorten it.
fn brief_too_large_error(cause: &BriefError) -> CliError {
    let BriefError::TooLarge {
        largest_section, ..
    } = cause;
    CliError::failed(cause.to_string()).with_hint(match largest_section {
        BriefSection::Checkpoint => {
            "shorten the checkpoint with `segue session checkpoint ID edit`, or set a larger `budget` in the \
             configuration"
        }
        _ => "shorten it, or set a larger `budget` in the configuration",
    })
}

/// Converts an error on showing or changing a checkpoint, and adds hints.
fn checkpoint_error(cause: &CheckpointError) -> CliError {
    let message = cause.to_string();
    match cause {
        CheckpointError::NoCheckpoint(id) => {
            CliError::failed(message).with_hint(command_hint(SuggestedAction::Compact(id.clone()), "create one"))
        }
        CheckpointError::NoneOnPath(id) => CliError::failed(message).with_hint(
            command_hint(SuggestedAction::Compact(id.clone()), "create one").with_text(format!(
                ", or `segue session checkpoint {id} list` to list those of other turns"
            )),
        ),
        CheckpointError::Unknown { session, .. } => CliError::usage(message).with_hint(format!(
            "run `segue session checkpoint {session} list` to list all checkpoints"
        )),
        CheckpointError::OffPath { session, .. } => {
            let undo = command_hint(SuggestedAction::Undo(session.clone()), "undo the last revert");
            CliError::failed(message).with_hint(undo.with_text("; nothing was changed"))
        }
        CheckpointError::NoItem { session, .. } => CliError::usage(message).with_hint(format!(
            "run `segue session checkpoint {session} show --all` to list the item numbers; nothing was changed"
        )),
        CheckpointError::Outdated { .. } => {
            CliError::failed(message).with_hint("edit the new checkpoint; nothing was changed")
        }
        CheckpointError::TooLarge { .. } => CliError::usage(message)
            .with_hint("remove or shorten items, or set a larger `budget`; nothing was changed"),
    }
}

/// Builds the error for an unknown provider, with the known providers or the fix as hint.
fn unknown_provider_error(
    provider: &ProviderId,
    available: &[ProviderId],
    error: &AccessError,
) -> CliError {
    if let Some(known_agent) = KNOWN_AGENTS
        .iter()
        .find(|known_agent| known_agent.provider == provider.as_str())
    {
        return CliError::usage(format!("agent `{provider}` not found on this machine")).with_hint(
            format!(
                "put `{}` on PATH, or set `{provider}.path` in the configuration",
                known_agent.program
            ),
        );
    }
    let available: Vec<&str> = available.iter().map(ProviderId::as_str).collect();
    let acp_provider = format!("acp:{provider}");
    CliError::usage(error.to_string()).with_hint(if available.contains(&acp_provider.as_str()) {
        format!("use `{acp_provider}`")
    } else {
        format!(
            "available agents: {}; configure another ACP agent as [acp.NAME]",
            available.join(", ")
        )
    })
}

/// Converts the error of a turn that did not run. A prompt that the policy rejects gets hints on how to continue.
fn turn_error(error: &TurnError) -> CliError {
    let (session, fallbacks, retry_hint, retry_at) = match error {
        TurnError::ProviderUnavailable {
            session,
            until,
            fallbacks,
            ..
        } => {
            let retry_hint = HintText::from(SuggestedAction::SkipCooldown);
            (session.as_ref(), fallbacks, retry_hint, Some(*until))
        }
        TurnError::RetriesExhausted {
            session, fallbacks, ..
        } => {
            let retry_hint = HintText::from(SuggestedAction::ForceRetry(session.clone()))
                .with_text(", or ")
                .with_action(SuggestedAction::StartAnother);
            (Some(session), fallbacks, retry_hint, None)
        }
        TurnError::Access(_) | TurnError::Resolve(_) | TurnError::Plan(_) => {
            return CliError::failed(error.to_string());
        }
    };
    let fallback = fallbacks.first().cloned();
    let handoff_action = match session {
        Some(session) => SuggestedAction::HandOff(session.clone(), fallback),
        None => SuggestedAction::UseOtherAgent(fallback),
    };
    let mut cli_error = CliError::new(ExitKind::Policy, error.to_string());
    cli_error.retry_at = retry_at;
    cli_error.with_hint(handoff_action).with_hint(retry_hint)
}

/// Converts an error that occurred while a session was copied, removed or restored, and adds hints.
fn archive_error(error: &ArchiveError) -> CliError {
    let cli_error = CliError::failed(format_error_chain(error));
    match error {
        ArchiveError::FileConflict(_) => {
            cli_error.with_hint("move the existing file away and retry; nothing was restored")
        }
        ArchiveError::Changing(_) => {
            cli_error.with_hint("wait until the agent finishes and retry; nothing was removed")
        }
        ArchiveError::OutsideHome(_) => {
            cli_error.with_hint("copy or remove it yourself; nothing was changed")
        }
        ArchiveError::Io { source, .. }
            if matches!(
                source.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
            ) =>
        {
            cli_error.with_hint("free disk space and retry; nothing was removed")
        }
        // Only files in segue's own home are ever locked.
        ArchiveError::Io {
            action: "lock",
            source,
            ..
        } if matches!(
            source.kind(),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
        ) =>
        {
            cli_error.with_hint(HOME_NOT_WRITABLE_HINT)
        }
        ArchiveError::Io { .. }
        | ArchiveError::Read(_)
        | ArchiveError::Damaged { .. }
        | ArchiveError::NotFound(_) => cli_error,
    }
}

/// Adds hints on how to continue if another process has the lease of the session.
fn add_lease_hints(cli_error: CliError, session: &SessionId, holder: &LeaseHolder) -> CliError {
    let since = holder.acquired_at.strftime("%F %T UTC");
    let age = format_age(holder.acquired_at, Timestamp::now());
    let cli_error = cli_error.with_hint(if holder.is_idle() {
        format!(
            "it has been open there since {since} ({age}) with an idle agent: continue there, or close it first \
             (`/quit` in `segue repl`)"
        )
    } else {
        format!("it has been running there since {since} ({age}): wait until it finishes, or end that process")
    });
    // During the first turn no earlier turn exists to fork from.
    if holder.running_turn == Some(1) {
        return cli_error;
    }
    cli_error.with_hint(command_hint(
        SuggestedAction::Fork(session.clone()),
        "continue in a fork",
    ))
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let cli_error = Self::failed(format_error_chain(&error));
        match error {
            StoreError::Leased { session, holder } => add_lease_hints(cli_error, &session, &holder),
            StoreError::NewerFormat { .. } => {
                cli_error.with_hint("update segue, or set SEGUE_HOME to another directory")
            }
            StoreError::Corrupt { path, .. } => cli_error.with_hint(format!(
                "restore a backup of {}, or move it away to start with an empty store; nothing was changed",
                path.display()
            )),
            StoreError::DiskFull { .. } => {
                cli_error.with_hint("free disk space and retry; saved turns are safe")
            }
            StoreError::ReadOnly { .. } => {
                cli_error.with_hint(HOME_NOT_WRITABLE_HINT)
            }
            StoreError::Busy { .. } => cli_error.with_hint(HUNG_PROCESS_HINT),
            StoreError::NoRevertToUndo(_) => Self {
                kind: ExitKind::Usage,
                ..cli_error
            },
            StoreError::NoSession(_)
            | StoreError::NoTurn(_)
            | StoreError::TurnRunning(_)
            | StoreError::NoLeg(_)
            | StoreError::SessionExists(_)
            | StoreError::PurposeTaken(_)
            | StoreError::NativeAttached(_)
            | StoreError::LeaseLost(_)
            | StoreError::Backend { .. } => cli_error,
        }
    }
}
