//! Import of sessions from other programs, and export to them. Neither runs an agent or compacts a session.

use std::collections::HashSet;

use jiff::Timestamp;
use segue_core::checkpoint::{Checkpoint, Occasion, Version, total_saved, written};
use segue_core::id::{NativeId, ProviderId, SessionId, TurnId};
use segue_core::session::{
    Decision, DecisionKind, MatchedBy, Message, Part, Project, Role, Session, Title, TurnState,
    Usage,
};
use segue_formats::{Kept, Lack, Line, Portable, Recap, There};
use segue_store::{
    AdoptedTurn, Filter, Imported, ImportedCheckpoint, NewSession, Origin, Page, StoreError,
};

use crate::checkpoints::leading;
use crate::pieces::joined;
use crate::{Engine, EngineError, counted};

/// Result of importing a session.
#[derive(Debug, Clone)]
pub enum Import {
    /// The session was imported. The decision is also in its log.
    Done(Box<Session>, Decision),
    /// A session with all of this content exists: it was imported before, or it was exported from this store.
    Already(SessionId),
    /// The imported session has no messages and no checkpoint.
    Nothing,
}

/// Match between a session to import and the stored sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Present {
    /// All of the content is in this session.
    All(SessionId),
    /// Sessions that have the name, but not all of the content.
    Others(Vec<Namesake>),
}

/// A stored session with the name of a session to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namesake {
    /// Id of the stored session.
    pub id: SessionId,
    /// Content that the stored session does not have.
    pub lacks: Lack,
}

/// A session in its portable form.
#[derive(Debug, Clone)]
pub struct Export {
    /// The portable session.
    pub session: Portable,
    /// Number of messages that are omitted because they have no text. System messages do not count.
    pub left_out: usize,
}

impl Engine {
    /// Finds the stored sessions that match a session to import into a project.
    pub async fn known(
        &self,
        project: &Project,
        session: &Portable,
    ) -> Result<Present, EngineError> {
        let mut others = Vec::new();
        for id in self.known_as(project, &session.name).await? {
            match session.lacking(&self.there(&id).await?) {
                None => return Ok(Present::All(id)),
                Some(lacks) => others.push(Namesake { id, lacks }),
            }
        }
        Ok(Present::Others(others))
    }

    /// Returns the session with the id `name`, in any project, and the sessions of the project that were imported as
    /// `name`.
    async fn known_as(&self, project: &Project, name: &str) -> Result<Vec<SessionId>, EngineError> {
        let mut known = Vec::new();
        if let Ok(id) = SessionId::parse(name)
            && self.store.session(&id).await?.is_some()
        {
            known.push(id);
        }
        for candidate in self.store.candidates(name).await? {
            if candidate.by == MatchedBy::Alias
                && self.existing(&candidate.id).await?.project.key == project.key
            {
                known.push(candidate.id);
            }
        }
        Ok(known)
    }

    /// Loads the parts of a stored session that [`Portable::lacking`] compares.
    async fn there(&self, id: &SessionId) -> Result<There, EngineError> {
        let mut lines = Vec::new();
        for turn in self.store.turns(id).await? {
            let messages = joined(self.store.messages(turn.id).await?);
            let told = messages.iter().enumerate();
            lines.extend(told.filter_map(|(seq, message)| line(message, seq, turn.n)));
        }
        let mut checkpoints = Vec::new();
        for version in self.store.checkpoints(id).await? {
            let found = self.store.checkpoint(id, version.n).await?;
            checkpoints.extend(found.map(|(_, checkpoint)| checkpoint));
        }
        Ok(There {
            purpose: self.existing(id).await?.purpose,
            lines,
            kept: self.store.origin(id).await?.map(|origin| origin.kept),
            checkpoints,
        })
    }

    /// Imports a session of another program, completely or not at all.
    ///
    /// If stored sessions have the same name but not all of the content, the import creates another session, so that no
    /// content is lost. The log names `format` as the source.
    ///
    /// The provider of the session is `carrier` if given, else the provider named in the files if it is configured,
    /// else the agent last used in the project, else the first configured agent.
    pub async fn import(
        &self,
        session: &Portable,
        format: &str,
        project: &Project,
        carrier: Option<&ProviderId>,
    ) -> Result<Import, EngineError> {
        if session.past.is_empty() && session.lines.is_empty() && session.recap.is_none() {
            return Ok(Import::Nothing);
        }
        let others = match self.known(project, session).await? {
            Present::All(there) => return Ok(Import::Already(there)),
            Present::Others(others) => others,
        };
        let now = (self.world.now)();
        let session = &at_most(session, now);
        let (turns, checkpoint) = story(session);
        let noted = Decision::new(DecisionKind::Session, came(session, format));
        let mut imported = Imported {
            origin: Origin {
                name: session.name.clone(),
                format: format.to_owned(),
                kept: session.aside(),
                at: now,
            },
            turns,
            checkpoint,
            tags: session.tags.clone(),
            updated_at: session.updated_at,
            noted: noted.clone(),
            beside: others.into_iter().map(|other| other.id).collect(),
        };
        for turn in &mut imported.turns {
            turn.messages.iter_mut().for_each(|message| {
                counted::count(message);
            });
        }
        let provider = self.carrier_here(session, project, carrier).await?;
        let new = self.arrival(session, project, &provider).await?;
        loop {
            let owner = self.world.me.clone();
            let made = self.store.import(new.clone(), owner, imported.clone());
            match made.await {
                // A concurrent process imported this session, or another session of the same name.
                Err(StoreError::Fits(there)) => {
                    if session.lacking(&self.there(&there).await?).is_none() {
                        return Ok(Import::Already(there));
                    }
                    imported.beside.push(there);
                }
                other => return Ok(Import::Done(Box::new(other?), noted)),
            }
        }
    }

    /// Chooses the provider of an imported session.
    async fn carrier_here(
        &self,
        session: &Portable,
        project: &Project,
        carrier: Option<&ProviderId>,
    ) -> Result<ProviderId, EngineError> {
        let before = session.provider.as_ref();
        let before = before.filter(|provider| self.agent(provider).is_ok());
        if let Some(known) = carrier.or(before) {
            return Ok(known.clone());
        }
        let filter = Filter {
            project: Some(project.key.clone()),
            ..Filter::default()
        };
        let last = self.store.find(&filter, Page::first(1)).await?.sessions;
        let last = last.into_iter().next().map(|session| session.provider);
        let first = self.agents.first().map(|agent| agent.provider().clone());
        Ok(last.or(first).unwrap_or_else(ProviderId::rehearsal))
    }

    /// Builds the session to create, with the original creation time and an unused id.
    async fn arrival(
        &self,
        session: &Portable,
        project: &Project,
        provider: &ProviderId,
    ) -> Result<NewSession, EngineError> {
        let at = session.created_at;
        let mut id = SessionId::at(at, (self.world.random)());
        while self.store.session(&id).await?.is_some() {
            id = SessionId::at(at, (self.world.random)());
        }
        Ok(NewSession {
            id,
            project: project.clone(),
            title: session.title.clone().unwrap_or_else(|| called(session)),
            purpose: session.purpose.clone(),
            provider: provider.clone(),
            at,
            unless: None,
        })
    }

    /// Converts a session to its portable form: its messages, its active checkpoint, and the extra fields that were
    /// saved when it was imported.
    pub async fn export(&self, session: Session) -> Result<Export, EngineError> {
        let in_force = match session.head {
            Some(head) => self.store.checkpoint_at(&session.id, head).await?,
            None => None,
        };
        let covers = in_force.as_ref().map_or(0, |(version, _)| version.covers);
        let (mut past, mut lines, mut left_out) = (Vec::new(), Vec::new(), 0);
        let transcript = self.transcript(session).await?;
        for told in &transcript.turns {
            for (seq, message) in told.messages.iter().enumerate() {
                match line(message, seq, told.turn.n).map(counted_line) {
                    Some(line) if told.turn.n <= covers => past.push(line),
                    Some(line) => lines.push(line),
                    None => left_out += usize::from(message.role != Role::System),
                }
            }
        }
        let session = transcript.session;
        let recap = match in_force {
            Some((version, checkpoint)) => {
                let chain = transcript.turns.iter().map(|told| told.turn.id).collect();
                Some(self.recap(&session.id, chain, version, checkpoint).await?)
            }
            None => None,
        };
        let origin = self.store.origin(&session.id).await?;
        let mut portable = Portable {
            name: name(&session, origin.as_ref()),
            // If the role is no longer configured, only the purpose contains its name.
            role: self.role_of(&session).ok().flatten().cloned(),
            context: self.store.context(&session.id).await?,
            title: Some(session.title),
            purpose: session.purpose,
            provider: Some(session.provider),
            tags: session.tags,
            created_at: session.created_at,
            updated_at: session.updated_at,
            past,
            lines,
            recap,
            kept: Kept::default(),
        };
        if let Some(origin) = &origin {
            portable.recall(&origin.kept, origin.at);
        }
        // System messages that segue wrote are not part of the conversation.
        let theirs = |line: &Line| line.role != Role::System || line.as_it_came;
        portable.past.retain(theirs);
        portable.lines.retain(theirs);
        Ok(Export {
            session: portable,
            left_out,
        })
    }

    /// Returns a checkpoint with its metadata, such as the tokens that it and all versions before it saved.
    async fn recap(
        &self,
        id: &SessionId,
        chain: HashSet<TurnId>,
        version: Version,
        checkpoint: Checkpoint,
    ) -> Result<Recap, EngineError> {
        let all = leading(&self.store.checkpoints(id).await?, &chain);
        let first = all.iter().map(|version| version.at).min();
        Ok(Recap {
            checkpoint,
            version: u64::from(version.n),
            created_at: first.unwrap_or(version.at),
            updated_at: version.at,
            tokens: version.tokens,
            replaced: last_read(&all),
            saved: total_saved(&all),
            as_it_came: version.why == Occasion::Imported,
        })
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
fn name(session: &Session, origin: Option<&Origin>) -> String {
    let before = origin.map(|origin| origin.name.as_str());
    let before = before.filter(|name| NativeId::parse(name).is_ok());
    before.unwrap_or(session.id.as_str()).to_owned()
}

/// Converts a message to a line of text.
///
/// `None` for tool messages and for messages without text. The prompt of a turn is converted even if it has no text.
fn line(message: &Message, seq: usize, turn: u32) -> Option<Line> {
    let words = message.words();
    let told = match message.role {
        Role::User => seq == 0 || !words.is_empty(),
        Role::Assistant | Role::System => !words.is_empty(),
        Role::Tool => false,
    };
    told.then(|| Line {
        id: format!("{turn}-{seq}"),
        at: message.at,
        timed: true,
        role: message.role,
        tokens: None,
        words,
        rest: serde_json::Map::new(),
        as_it_came: false,
    })
    .map(Line::told_though_wordless)
}

fn counted_line(line: Line) -> Line {
    Line {
        tokens: Some(segue_tokens::count(&line.words)),
        ..line
    }
}

/// Returns the number of tokens that the last compaction read.
///
/// Versions from the user and from summarisers do not count, because they read no turns. `None` if the last compaction
/// was imported, because then the saved fields contain the number.
fn last_read(versions: &[Version]) -> Option<u64> {
    let last = versions.iter().rev().find(|version| match version.why {
        Occasion::Budget | Occasion::Asked | Occasion::Told | Occasion::Imported => true,
        Occasion::Summed | Occasion::Pinned | Occasion::Edited | Occasion::Restored => false,
    });
    let here = last.filter(|version| version.why != Occasion::Imported);
    here.map(|version| version.replaced)
}

/// Returns the session with its times limited to `now`, because a session with a future date would stay the latest one.
fn at_most(session: &Portable, now: Timestamp) -> Portable {
    let mut session = session.clone();
    session.bring_to(now);
    session
}

/// Converts an imported session to turns, and to the checkpoint with the turn that it is attached to.
fn story(session: &Portable) -> (Vec<AdoptedTurn>, Option<ImportedCheckpoint>) {
    let past = Line::turns(&session.past);
    let since = Line::turns(&session.lines);
    let mut turns: Vec<AdoptedTurn> = past.iter().chain(&since).map(|lines| turn(lines)).collect();
    let Some(recap) = &session.recap else {
        return (turns, None);
    };
    let covers = u32::try_from(past.len()).unwrap_or(u32::MAX);
    let (hangs_on, covers) = match (covers, turns.is_empty()) {
        // No messages are left, and a checkpoint has to be attached to a turn.
        (_, true) => {
            turns.push(placeholder(recap));
            (1, 1)
        }
        (0, false) => (1, 0),
        (past, false) => (past, past),
    };
    let tokens = segue_tokens::count(&written(&recap.checkpoint));
    let checkpoint = ImportedCheckpoint {
        turn: hangs_on,
        covers,
        tokens,
        checkpoint: recap.checkpoint.clone(),
        // The checkpoint replaces all earlier messages, not only those that the last compaction read.
        replaced: recap.saved.saturating_add(tokens),
        at: recap.updated_at,
    };
    (turns, Some(checkpoint))
}

fn turn(lines: &[Line]) -> AdoptedTurn {
    let messages = lines.iter();
    let messages = messages.map(|line| Message::text(line.role, line.words.as_str(), line.at));
    let (first, last) = (lines.first(), lines.last());
    let started_at = first.map(|line| line.at).unwrap_or_default();
    AdoptedTurn {
        state: TurnState::Finished,
        messages: messages.collect(),
        usage: Usage::default(),
        started_at,
        ended_at: last.map_or(started_at, |line| line.at).max(started_at),
        mark: None,
    }
}

/// Builds a turn that replaces the missing messages with a note.
fn placeholder(recap: &Recap) -> AdoptedTurn {
    let at = recap.updated_at;
    let words = "All that was said before is in the checkpoint that the session came with.";
    let said = Message::new(Role::System, vec![Part::Text(words.to_owned())], at);
    AdoptedTurn {
        state: TurnState::Finished,
        messages: vec![said],
        usage: Usage::default(),
        started_at: at,
        ended_at: at,
        mark: None,
    }
}

/// Derives the title of a session that has none: from its first prompt, else its first message, else its purpose.
fn called(session: &Portable) -> Title {
    let all = || session.past.iter().chain(&session.lines);
    let prompt = all().find(|line| line.role == Role::User);
    match (prompt.or_else(|| all().next()), &session.purpose) {
        (Some(line), _) => Title::from_prompt(&line.words),
        (None, Some(purpose)) => Title::from_prompt(&purpose.to_string()),
        (None, None) => Title::from_prompt("a session without a name"),
    }
}

/// Formats the import as one line for the log.
fn came(session: &Portable, format: &str) -> String {
    let count = session.past.len() + session.lines.len();
    let s = if count == 1 { "" } else { "s" };
    let recap = session.recap.as_ref();
    let recap = recap.map_or(String::new(), |recap| {
        format!(" and checkpoint {}", recap.version)
    });
    format!(
        "came from {format}, where it was called {}, with {count} message{s}{recap}",
        session.name
    )
}
