//! Resuming a conversation in the agent's own program, without segue.

use std::fmt;
use std::path::{Path, PathBuf};

use segue_agents::busy::Busy;
use segue_agents::exec::resume_args;
use segue_catalog::index::State;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Leg, Session, Turn, can_go_on};
use segue_store::Holder;

use crate::native::keeper;
use crate::{Conversation, Engine, EngineError, Native};

/// A native session that the agent's own program can resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Provider whose program resumes the session.
    pub provider: ProviderId,
    /// Id of the session in that program.
    pub native_id: NativeId,
    /// Directory in which to start the program.
    pub cwd: PathBuf,
}

/// Reason why the agent's own program cannot resume a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// A segue process is using the session.
    Held {
        /// Id of the process.
        pid: u32,
        /// Machine on which the process runs.
        host: String,
    },
    /// A program that segue did not start is using the native session.
    Busy {
        /// Id of the process.
        pid: u32,
        /// Name of the program.
        program: String,
    },
    /// No agent has a native session for it yet.
    NoNative,
    /// The native session does not contain the last turn: the session was reverted, it was handed off to another agent,
    /// or the agent has lost the turn.
    Behind(ProviderId),
    /// The agent no longer has the native session.
    Gone(ProviderId),
    /// The agent has archived the native session.
    Archived(ProviderId, NativeId),
    /// Only segue's archive contains the native session.
    OnlyCopy(ProviderId, NativeId),
    /// The working directory of the conversation is unknown.
    NoDirectory,
    /// The working directory of the conversation does not exist.
    DirectoryGone(PathBuf),
    /// segue does not support resuming sessions in the agent's program.
    NoProgram(ProviderId),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { pid, host } => write!(f, "process {pid} on {host} is at work in it"),
            Self::Busy { pid, program } => {
                write!(f, "process {pid} ({program}) is at work in it")
            }
            Self::NoNative => f.write_str("no agent has a session of its own for it yet"),
            Self::Behind(provider) => write!(f, "its last turn is not in {provider}'s own session"),
            Self::Gone(provider) => write!(f, "{provider} does not have it any more"),
            Self::Archived(provider, _) => write!(f, "{provider} has archived it"),
            Self::OnlyCopy(provider, _) => {
                write!(
                    f,
                    "{provider} does not have it any more, only segue's archive does"
                )
            }
            Self::NoDirectory => f.write_str("nothing tells which directory it belongs to"),
            Self::DirectoryGone(path) => {
                write!(f, "its directory {} is not there", path.display())
            }
            Self::NoProgram(provider) => {
                write!(f, "{provider} has no program that can go on with it")
            }
        }
    }
}

impl Engine {
    /// Returns what the caller needs to resume a conversation in the agent's own program. Fails with
    /// [`EngineError::Stays`] if the program cannot resume it.
    pub async fn depart(&self, conversation: &Conversation) -> Result<Departure, EngineError> {
        let mut outcome = match conversation {
            Conversation::Native(native) => departure(native, self.is_copy(native), None),
            Conversation::Session(session, _) => self.depart_from(session).await?,
        };
        if let Ok(departure) = &outcome {
            let (provider, id) = (&departure.provider, &departure.native_id);
            if let Some(Busy { pid, program }) = self.stranger_in(provider, id).await {
                outcome = Err(Obstacle::Busy { pid, program });
            }
        }
        outcome.map_err(|why| EngineError::Stays {
            id: conversation.id(),
            why,
        })
    }

    /// Returns `true` if only segue's archive contains a native session.
    fn is_copy(&self, native: &Native) -> bool {
        self.catalog.only_archived(&native.session)
    }

    async fn depart_from(
        &self,
        session: &Session,
    ) -> Result<Result<Departure, Obstacle>, EngineError> {
        let holder = self.living_holder(&session.id).await?;
        let legs = self.store.legs(&session.id).await?;
        let chain = self.store.turns(&session.id).await?;
        let (provider, native_id) = match carries(legs.last(), &chain, holder.as_ref()) {
            Ok((leg, native_id)) => (keeper(&leg.provider), native_id),
            Err(why) => return Ok(Err(why)),
        };
        let known = resume_args(provider.as_str(), native_id).is_some();
        if !known || !self.reads(&provider) {
            return Ok(Err(Obstacle::NoProgram(provider)));
        }
        let named = self
            .lookup_native(&format!("{provider}:{native_id}"))
            .await?;
        let mut named = named.iter();
        let found = named.find(|native| native.session.head.id == *native_id);
        Ok(match found {
            Some(_) if self.is_cut(session).await? => Err(Obstacle::Behind(provider)),
            Some(native) => departure(native, self.is_copy(native), Some(&session.project.cwd)),
            None => Err(Obstacle::Gone(provider)),
        })
    }
}

/// Returns the leg whose native session contains all turns, and the native id. Fails if a process is using the session,
/// or if no leg contains all turns.
fn carries<'a>(
    last: Option<&'a Leg>,
    chain: &[Turn],
    holder: Option<&Holder>,
) -> Result<(&'a Leg, &'a NativeId), Obstacle> {
    if let Some(holder) = holder {
        return Err(Obstacle::Held {
            pid: holder.owner.pid,
            host: holder.owner.host.clone(),
        });
    }
    let leg = last.ok_or(Obstacle::NoNative)?;
    let native_id = leg.native_id.as_ref().ok_or(Obstacle::NoNative)?;
    if !can_go_on(leg, chain) {
        return Err(Obstacle::Behind(leg.provider.clone()));
    }
    Ok((leg, native_id))
}

/// Returns what the caller needs to resume a native session. The directory is the one that its agent recorded, or else
/// `ours`, which is that of the session that uses it.
fn departure(native: &Native, is_copy: bool, ours: Option<&str>) -> Result<Departure, Obstacle> {
    let (provider, head) = (&native.session.provider, &native.session.head);
    if resume_args(provider.as_str(), &head.id).is_none() {
        return Err(Obstacle::NoProgram(provider.clone()));
    }
    let state = native.known.as_ref().map(|known| known.state);
    if state == Some(State::Gone) {
        return Err(Obstacle::Gone(provider.clone()));
    }
    if is_copy {
        return Err(Obstacle::OnlyCopy(provider.clone(), head.id.clone()));
    }
    if native.session.found.archived {
        return Err(Obstacle::Archived(provider.clone(), head.id.clone()));
    }
    let cwd = head.cwd.as_deref().or(ours).ok_or(Obstacle::NoDirectory)?;
    let cwd = Path::new(cwd).to_owned();
    if !cwd.is_dir() {
        return Err(Obstacle::DirectoryGone(cwd));
    }
    Ok(Departure {
        provider: provider.clone(),
        native_id: head.id.clone(),
        cwd,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use segue_catalog::{Found, Head, IdHint, NativeSession};
    use segue_core::agent::ProcessMark;
    use segue_core::id::{LegId, TurnId};
    use segue_core::session::{LegEnd, TurnState, Usage};

    use super::*;

    const THEN: Timestamp = Timestamp::UNIX_EPOCH;

    fn native_id() -> NativeId {
        NativeId::parse("n-1").unwrap()
    }

    fn leg(tip: i64) -> Leg {
        Leg {
            id: LegId(1),
            n: 1,
            provider: ProviderId::claude(),
            native_id: Some(native_id()),
            tip: Some(TurnId(tip)),
            consecutive_failures: 0,
            total_tokens: None,
            context_tokens: None,
            held_tokens: None,
            mark: None,
            forgot: false,
            opened_at: THEN,
            ended: None,
        }
    }

    fn turn(id: i64) -> Turn {
        Turn {
            id: TurnId(id),
            parent: None,
            n: 1,
            state: TurnState::Finished,
            sent: true,
            outside: false,
            usage: Usage::default(),
            failure: None,
            started_at: THEN,
            ended_at: None,
        }
    }

    #[test]
    fn only_a_free_session_whose_agent_knows_all_of_it_departs() {
        let nameless = Leg {
            native_id: None,
            ..leg(2)
        };
        let ended = Leg {
            ended: Some((THEN, LegEnd::Lost)),
            ..leg(2)
        };
        let holder = Holder {
            owner: ProcessMark {
                host: "here".into(),
                pid: 7,
                started: "then".into(),
            },
            epoch: 1,
            agent: None,
            since: THEN,
            heartbeat_at: THEN,
            turn: None,
        };
        let held = Obstacle::Held {
            pid: 7,
            host: "here".into(),
        };
        let behind = || Obstacle::Behind(ProviderId::claude());
        let cases = [
            ("it knows all", Some(leg(2)), None, Ok(native_id())),
            (
                "somebody is at work",
                Some(leg(2)),
                Some(&holder),
                Err(held),
            ),
            ("a fork", None, None, Err(Obstacle::NoNative)),
            (
                "not named yet",
                Some(nameless),
                None,
                Err(Obstacle::NoNative),
            ),
            ("reverted", Some(leg(3)), None, Err(behind())),
            ("lost", Some(ended), None, Err(behind())),
        ];
        let chain = [turn(1), turn(2)];
        for (what, last, holder, expected) in cases {
            let found = carries(last.as_ref(), &chain, holder).map(|(_, id)| id.clone());
            assert_eq!(found, expected, "{what}");
        }
    }

    fn native(provider: &str, cwd: Option<&str>, archived: bool) -> Native {
        let found = Found {
            path: "/f".into(),
            id: IdHint::Whole("n-1".into()),
            size: 0,
            modified: THEN,
            archived,
        };
        let head = Head {
            cwd: cwd.map(str::to_owned),
            ..Head::new(native_id(), THEN)
        };
        let provider = ProviderId::parse(provider).unwrap();
        Native {
            session: NativeSession {
                provider,
                found,
                head,
            },
            project: None,
            known: None,
        }
    }

    #[test]
    fn a_native_session_goes_on_where_its_agent_was() {
        let codex = || ProviderId::codex();
        let gone = "/nonexistent/for sure";
        let cases = [
            (native("codex", Some("/"), false), None, Ok("/")),
            (native("codex", Some("/"), false), Some(gone), Ok("/")),
            (native("codex", None, false), Some("/"), Ok("/")),
            (
                native("codex", None, false),
                None,
                Err(Obstacle::NoDirectory),
            ),
            (
                native("codex", Some(gone), false),
                Some("/"),
                Err(Obstacle::DirectoryGone(gone.into())),
            ),
            (
                native("codex", Some("/"), true),
                None,
                Err(Obstacle::Archived(codex(), native_id())),
            ),
            (
                native("other", Some("/"), false),
                None,
                Err(Obstacle::NoProgram(ProviderId::parse("other").unwrap())),
            ),
        ];
        for (native, ours, expected) in cases {
            let expected = expected.map(|cwd| Departure {
                provider: codex(),
                native_id: native_id(),
                cwd: cwd.into(),
            });
            assert_eq!(departure(&native, false, ours), expected);
        }
        let copy = native("codex", Some("/"), true);
        let expected = Obstacle::OnlyCopy(codex(), native_id());
        assert_eq!(departure(&copy, true, None), Err(expected));
    }
}
