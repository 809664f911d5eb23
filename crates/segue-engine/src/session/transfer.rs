//! Import of sessions from other programs, and export to them. Neither runs an agent or compacts a session.

use segue_core::checkpoint::{
    Checkpoint, CheckpointReason, CheckpointVersion, render_checkpoint, total_saved_tokens,
};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{
    Decision, MatchedBy, Message, Project, Role, Session, Title, TurnState, Usage,
};
use segue_formats::{
    ExistingSession, ExtraFields, ImportDifference, PortableCheckpoint, PortableMessage,
    PortableSession,
};
use segue_store::{
    AdoptedTurn, ImportedCheckpoint, ImportedSession, NewSession, SessionFilter, SessionOrigin,
    StoreError,
};

use crate::checkpoint::edit::versions_on_path;
use crate::context::run_blocking;
use crate::session::SessionEditor;
use crate::turn::message_chunks::merge_chunks;
use crate::{SessionError, token_count};

/// Result of importing a session.
#[derive(Debug, Clone)]
pub enum ImportOutcome {
    /// The session was imported. The decision is also in its log.
    Imported(Box<Session>, Decision),
    /// A session with all of this content exists: it was imported before, or it was exported from this store.
    AlreadyPresent(SessionId),
    /// The imported session has no messages and no checkpoint.
    Empty,
}

/// Match between a session to import and the stored sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportMatch {
    /// All of the content is in this session.
    Complete(SessionId),
    /// Sessions that have the name, but not all of the content.
    Conflicting(Vec<ImportConflict>),
}

/// A stored session with the name of a session to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportConflict {
    /// Id of the stored session.
    pub id: SessionId,
    /// Content that the stored session does not have.
    pub missing: ImportDifference,
}

/// A session in its portable form.
#[derive(Debug, Clone)]
pub struct ExportOutcome {
    /// The portable session.
    pub session: PortableSession,
    /// Number of messages that are omitted because they have no text. System messages do not count.
    pub omitted_messages: usize,
}

impl SessionEditor {
    /// Finds the stored sessions that match a session to import into a project.
    pub async fn match_import(
        &self,
        project: &Project,
        session: &PortableSession,
    ) -> Result<ImportMatch, SessionError> {
        let mut conflicts = Vec::new();
        for id in self.list_sessions_named(project, &session.name).await? {
            match session.find_difference(&self.load_stored_content(&id).await?) {
                None => return Ok(ImportMatch::Complete(id)),
                Some(missing) => conflicts.push(ImportConflict { id, missing }),
            }
        }
        Ok(ImportMatch::Conflicting(conflicts))
    }

    /// Returns the session with the id `name`, in any project, and the sessions of the project that were imported as
    /// `name`.
    async fn list_sessions_named(
        &self,
        project: &Project,
        name: &str,
    ) -> Result<Vec<SessionId>, SessionError> {
        let store = &self.context.store;
        let mut ids = Vec::new();
        if let Ok(id) = SessionId::parse(name)
            && store.session(&id).await?.is_some()
        {
            ids.push(id);
        }
        for candidate in store.ref_candidates(name).await? {
            if candidate.matched_by == MatchedBy::Alias {
                let session = self.context.require_session(&candidate.id).await?;
                ids.extend((session.project.key == project.key).then_some(candidate.id));
            }
        }
        Ok(ids)
    }

    /// Loads the parts of a stored session that [`PortableSession::find_difference`] compares.
    async fn load_stored_content(&self, id: &SessionId) -> Result<ExistingSession, SessionError> {
        let store = &self.context.store;
        let mut messages = Vec::new();
        for turn in store.turns(id).await? {
            let merged = merge_chunks(store.messages(turn.id).await?);
            let numbered = merged.iter().enumerate();
            let portable = numbered
                .filter_map(|(seq, message)| to_portable_message(message, seq, turn.number));
            messages.extend(portable);
        }
        let mut checkpoints = Vec::new();
        for version in store.checkpoints(id).await? {
            let stored = store.checkpoint(id, version.n).await?;
            checkpoints.extend(stored.map(|(_, checkpoint)| checkpoint));
        }
        let origin = store.session_origin(id).await?;
        Ok(ExistingSession {
            purpose: self.context.require_session(id).await?.purpose,
            messages,
            extra_fields: origin.map(|origin| origin.extra_fields),
            checkpoints,
        })
    }

    /// Imports a session of another program, completely or not at all.
    ///
    /// If stored sessions have the same name but not all of the content, the import creates another session, so that no
    /// content is lost. The log names `format` as the source.
    ///
    /// The provider of the session is `requested_provider` if given, else the provider named in the files if it is
    /// configured, else the agent last used in the project, else the first configured agent.
    pub async fn import_session(
        &self,
        session: &PortableSession,
        format: &str,
        project: &Project,
        requested_provider: Option<&ProviderId>,
    ) -> Result<ImportOutcome, SessionError> {
        if session.compacted_messages.is_empty()
            && session.messages.is_empty()
            && session.checkpoint.is_none()
        {
            return Ok(ImportOutcome::Empty);
        }
        let conflicts = match self.match_import(project, session).await? {
            ImportMatch::Complete(existing) => return Ok(ImportOutcome::AlreadyPresent(existing)),
            ImportMatch::Conflicting(conflicts) => conflicts,
        };
        let now = self.context.now();
        let mut session = session.clone();
        // A session with a future date would stay the latest one.
        session.limit_times_to(now);
        let (session, source) = (&session, session.clone());
        let (turns, checkpoint) = run_blocking(move || {
            let (mut turns, checkpoint) = build_turns_and_checkpoint(&source);
            for message in turns.iter_mut().flat_map(|turn| &mut turn.messages) {
                token_count::count_message_tokens(message);
            }
            (turns, checkpoint)
        })
        .await;
        let decision = import_decision(session, format);
        let mut imported = ImportedSession {
            origin: SessionOrigin {
                name: session.name.clone(),
                format: format.to_owned(),
                extra_fields: session.encode_extra_fields(),
                at: now,
            },
            turns,
            checkpoint,
            tags: session.tags.clone(),
            updated_at: session.updated_at,
            decision: decision.clone(),
            distinct_from: conflicts.into_iter().map(|conflict| conflict.id).collect(),
        };
        let (context, store) = (&self.context, &self.context.store);
        let owner = &context.environment.process;
        let title = session.title.clone();
        let new = NewSession {
            id: context.draw_session_id(session.created_at),
            project: project.clone(),
            title: title.unwrap_or_else(|| derive_title(session)),
            purpose: session.purpose.clone(),
            provider: self
                .choose_import_provider(session, project, requested_provider)
                .await?,
            at: session.created_at,
            conflict_filter: None,
        };
        loop {
            let importing = context.create_session(new.clone(), |new| {
                store.import_session(new, owner.clone(), imported.clone())
            });
            match importing.await {
                // A concurrent process imported this session, or another session of the same name.
                Err(StoreError::PurposeTaken(existing)) => {
                    let stored = self.load_stored_content(&existing).await?;
                    if session.find_difference(&stored).is_none() {
                        return Ok(ImportOutcome::AlreadyPresent(existing));
                    }
                    imported.distinct_from.push(existing);
                }
                result => return Ok(ImportOutcome::Imported(Box::new(result?), decision)),
            }
        }
    }

    /// Chooses the provider of an imported session.
    async fn choose_import_provider(
        &self,
        session: &PortableSession,
        project: &Project,
        requested_provider: Option<&ProviderId>,
    ) -> Result<ProviderId, SessionError> {
        let agents = &self.context.agents;
        let recorded = session.provider.as_ref();
        let recorded = recorded.filter(|provider| agents.get(provider).is_ok());
        if let Some(preferred) = requested_provider.or(recorded) {
            return Ok(preferred.clone());
        }
        let project_filter = SessionFilter::in_project(&project.key);
        let last = self.context.newest_session(project_filter).await?;
        let last = last.map(|session| session.provider);
        let first = || agents.providers().next().cloned();
        Ok(last.or_else(first).unwrap_or_else(ProviderId::rehearsal))
    }

    /// Converts a session to its portable form: its messages, its active checkpoint, and the extra fields that were
    /// saved when it was imported.
    pub async fn export_session(&self, session: Session) -> Result<ExportOutcome, SessionError> {
        let store = &self.context.store;
        let active = match session.head {
            Some(head) => store.checkpoint_at(&session.id, head).await?,
            None => None,
        };
        let covers = active.as_ref().map_or(0, |(version, _)| version.covers);
        let transcript = self.library.transcript(session).await?;
        let (transcript, past, lines, omitted_messages) = run_blocking(move || {
            let (mut past, mut lines, mut omitted_messages) = (Vec::new(), Vec::new(), 0);
            for transcript_turn in &transcript.turns {
                let number = transcript_turn.turn.number;
                for (seq, message) in transcript_turn.messages.iter().enumerate() {
                    match to_portable_message(message, seq, number).map(with_token_count) {
                        Some(line) if number <= covers => past.push(line),
                        Some(line) => lines.push(line),
                        None => omitted_messages += usize::from(message.role != Role::System),
                    }
                }
            }
            (transcript, past, lines, omitted_messages)
        })
        .await;
        let session = transcript.session;
        let checkpoint = match active {
            Some((version, content)) => {
                let turns = transcript.turns.iter().map(|turn| &turn.turn);
                let chain = turns.map(|turn| (turn.id, turn.number)).collect();
                let versions = store.checkpoints(&session.id).await?;
                let versions = versions_on_path(&versions, &chain);
                Some(to_portable_checkpoint(&version, content, &versions))
            }
            None => None,
        };
        let origin = store.session_origin(&session.id).await?;
        let mut portable = PortableSession {
            name: export_name(&session, origin.as_ref()),
            // If the role is no longer configured, only the purpose contains its name.
            role: self.context.session_role(&session).ok().flatten().cloned(),
            context: store.saved_context(&session.id).await?,
            title: Some(session.title),
            purpose: session.purpose,
            provider: Some(session.provider),
            tags: session.tags,
            created_at: session.created_at,
            updated_at: session.updated_at,
            compacted_messages: past,
            messages: lines,
            checkpoint,
            extra_fields: ExtraFields::default(),
        };
        if let Some(origin) = &origin {
            portable.restore_extra_fields(&origin.extra_fields, origin.at);
        }
        // System messages that segue wrote are not part of the conversation.
        let is_conversation_message =
            |line: &PortableMessage| line.role != Role::System || line.is_imported;
        portable.compacted_messages.retain(is_conversation_message);
        portable.messages.retain(is_conversation_message);
        Ok(ExportOutcome {
            session: portable,
            omitted_messages,
        })
    }
}

/// Returns a checkpoint with its metadata, such as the tokens that it and all versions before it saved.
fn to_portable_checkpoint(
    version: &CheckpointVersion,
    content: Checkpoint,
    versions: &[CheckpointVersion],
) -> PortableCheckpoint {
    let first = versions.iter().map(|version| version.at).min();
    PortableCheckpoint {
        content,
        version: u64::from(version.n),
        created_at: first.unwrap_or(version.at),
        updated_at: version.at,
        tokens: version.tokens,
        last_compaction_tokens: last_compaction_tokens(versions),
        saved_tokens: total_saved_tokens(versions),
        is_unchanged_since_import: version.reason == CheckpointReason::Imported,
    }
}

/// Counts the tokens of a text with the engine's tokenizer.
#[must_use]
pub fn count_tokens(text: &str) -> u64 {
    segue_tokens::count(text)
}

/// Returns the name for an export: the name before the import, else the session id.
///
/// A name that is not a valid native id is not used, because the name becomes part of file names.
fn export_name(session: &Session, origin: Option<&SessionOrigin>) -> String {
    let original = origin.map(|origin| origin.name.as_str());
    let original = original.filter(|name| NativeId::parse(name).is_ok());
    original.unwrap_or(session.id.as_str()).to_owned()
}

/// Converts a message to a line of text.
///
/// `None` for tool messages and for messages without text. The prompt of a turn is converted even if it has no text.
fn to_portable_message(message: &Message, seq: usize, turn: u32) -> Option<PortableMessage> {
    let text = message.plain_text();
    let is_exported = match message.role {
        Role::User => seq == 0 || !text.is_empty(),
        Role::Assistant | Role::System => !text.is_empty(),
        Role::Tool => false,
    };
    let to_message = || PortableMessage {
        id: format!("{turn}-{seq}"),
        at: message.at,
        has_stated_time: true,
        role: message.role,
        tokens: None,
        text,
        extra_fields: serde_json::Map::new(),
        is_imported: false,
    };
    is_exported.then(|| to_message().with_textless_mark())
}

fn with_token_count(line: PortableMessage) -> PortableMessage {
    PortableMessage {
        tokens: Some(segue_tokens::count(&line.text)),
        ..line
    }
}

/// Returns the number of tokens that the last compaction read.
///
/// Versions from the user and from summarisers do not count, because they read no turns. `None` if the last compaction
/// was imported, because then the saved fields contain the number.
fn last_compaction_tokens(versions: &[CheckpointVersion]) -> Option<u64> {
    let tokens_read = |version: &CheckpointVersion| match version.reason {
        CheckpointReason::Budget
        | CheckpointReason::Requested
        | CheckpointReason::BriefTooLarge => Some(Some(version.replaced)),
        CheckpointReason::Imported => Some(None),
        CheckpointReason::Summarised
        | CheckpointReason::Pinned
        | CheckpointReason::Edited
        | CheckpointReason::Restored => None,
    };
    versions.iter().rev().find_map(tokens_read).flatten()
}

/// Converts an imported session to turns, and to the checkpoint with the turn that it is attached to.
fn build_turns_and_checkpoint(
    session: &PortableSession,
) -> (Vec<AdoptedTurn>, Option<ImportedCheckpoint>) {
    let past = PortableMessage::group_into_turns(&session.compacted_messages);
    let later = PortableMessage::group_into_turns(&session.messages);
    let mut turns: Vec<AdoptedTurn> = past
        .iter()
        .chain(&later)
        .map(|lines| build_turn(lines))
        .collect();
    let Some(imported) = &session.checkpoint else {
        return (turns, None);
    };
    let covers = u32::try_from(past.len()).unwrap_or(u32::MAX);
    let (attached_turn, covers) = match (covers, turns.is_empty()) {
        // No messages are left, and a checkpoint has to be attached to a turn.
        (_, true) => {
            turns.push(placeholder_turn(imported));
            (1, 1)
        }
        (0, false) => (1, 0),
        (past, false) => (past, past),
    };
    let tokens = segue_tokens::count(&render_checkpoint(&imported.content));
    let checkpoint = ImportedCheckpoint {
        turn: attached_turn,
        covers,
        tokens,
        checkpoint: imported.content.clone(),
        // The checkpoint replaces all earlier messages, not only those that the last compaction read.
        replaced: imported.saved_tokens.saturating_add(tokens),
        at: imported.updated_at,
    };
    (turns, Some(checkpoint))
}

fn build_turn(lines: &[PortableMessage]) -> AdoptedTurn {
    let to_message =
        |line: &PortableMessage| Message::from_text(line.role, line.text.as_str(), line.at);
    ended_turn(lines.iter().map(to_message).collect())
}

/// Builds a turn that replaces the missing messages with a note.
fn placeholder_turn(checkpoint: &PortableCheckpoint) -> AdoptedTurn {
    let note =
        "The earlier messages were not imported; the checkpoint of the session summarises them.";
    ended_turn(vec![Message::from_text(
        Role::System,
        note,
        checkpoint.updated_at,
    )])
}

fn ended_turn(messages: Vec<Message>) -> AdoptedTurn {
    let time_of = |message: Option<&Message>| message.map(|message| message.at).unwrap_or_default();
    let started_at = time_of(messages.first());
    let ended_at = time_of(messages.last());
    AdoptedTurn {
        state: TurnState::Finished,
        messages,
        usage: Usage::default(),
        started_at,
        ended_at: ended_at.max(started_at),
        mark: None,
    }
}

/// Derives the title of a session that has none: from its first prompt, else its first message, else its purpose.
fn derive_title(session: &PortableSession) -> Title {
    let lines = || session.compacted_messages.iter().chain(&session.messages);
    let prompt = lines().find(|line| line.role == Role::User);
    match (prompt.or_else(|| lines().next()), &session.purpose) {
        (Some(line), _) => Title::from_prompt(&line.text),
        (None, Some(purpose)) => Title::from_prompt(&purpose.to_string()),
        (None, None) => Title::from_prompt("untitled session"),
    }
}

/// Returns the decision that reports the import.
fn import_decision(session: &PortableSession, format: &str) -> Decision {
    let messages = session.compacted_messages.len() + session.messages.len();
    let checkpoint = session.checkpoint.as_ref();
    Decision::SessionImported {
        format: format.to_owned(),
        name: session.name.clone(),
        messages: u64::try_from(messages).unwrap_or(u64::MAX),
        checkpoint: checkpoint.map(|checkpoint| checkpoint.version),
    }
}
