//! Resuming a conversation in the agent's own program, without segue.

use std::path::PathBuf;

use segue_catalog::index::NativeStatus;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Leg, Session, Turn, can_resume_leg};
use segue_providers::busy::ProcessUsingSession;
use segue_providers::exec::resume_args;
use segue_store::LeaseHolder;

use crate::native::storage_provider;
use crate::resolve::Resolver;
use crate::{Conversation, NativeEntry, ResolveError};

/// A native session that the agent's own program can resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeResume {
    /// Provider whose program resumes the session.
    pub provider: ProviderId,
    /// Id of the session in that program.
    pub native_id: NativeId,
    /// Directory in which to start the program.
    pub cwd: PathBuf,
}

/// Reason why the agent's own program cannot resume a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NativeResumeError {
    /// A segue process is using the session.
    #[error("process {pid} on {host} is using it")]
    Leased {
        /// Id of the process.
        pid: u32,
        /// Machine on which the process runs.
        host: String,
    },
    /// A program that segue did not start is using the native session.
    #[error("process {pid} ({program}) is using it")]
    InUse {
        /// Id of the process.
        pid: u32,
        /// Name of the program.
        program: String,
    },
    /// No agent has a native session for it yet.
    #[error("it has no native session yet")]
    NoNative,
    /// The native session does not contain the last turn: the session was reverted, it was handed off to another agent,
    /// or the agent has lost the turn.
    #[error("its last turn is missing from the native session of {0}")]
    Behind(ProviderId),
    /// The agent no longer has the native session.
    #[error("{0} no longer has it")]
    Missing(ProviderId),
    /// The agent has archived the native session.
    #[error("{0} has archived it")]
    Archived(ProviderId, NativeId),
    /// Only segue's archive contains the native session.
    #[error("{0} no longer has it; only segue's archive has a copy")]
    OnlyArchiveCopy(ProviderId, NativeId),
    /// The working directory of the conversation is unknown.
    #[error("its working directory is unknown")]
    DirectoryUnknown,
    /// The working directory of the conversation does not exist.
    #[error("its working directory {} does not exist", .0.display())]
    DirectoryMissing(PathBuf),
    /// segue does not support resuming sessions in the agent's program.
    #[error("{0} has no command that resumes a session")]
    Unsupported(ProviderId),
}

impl Resolver {
    /// Returns what the caller needs to resume a conversation in the agent's own program. Fails with
    /// [`ResolveError::NotResumable`] if the program cannot resume it.
    pub async fn prepare_native_resume(
        &self,
        conversation: &Conversation,
    ) -> Result<NativeResume, ResolveError> {
        let mut outcome = match conversation {
            Conversation::Native(native) => {
                build_native_resume(native, self.is_archive_copy(native), None)
            }
            Conversation::Session(session, _) => self.prepare_session_resume(session).await?,
        };
        if let Ok(resume) = &outcome {
            let natives = &self.context.natives;
            let process = natives.find_foreign_process(&resume.provider, &resume.native_id);
            if let Some(ProcessUsingSession { pid, program }) = process.await {
                outcome = Err(NativeResumeError::InUse { pid, program });
            }
        }
        outcome.map_err(|reason| ResolveError::NotResumable {
            id: conversation.id(),
            reason,
        })
    }

    /// Returns `true` if only segue's archive contains a native session.
    fn is_archive_copy(&self, native: &NativeEntry) -> bool {
        let catalog = &self.context.natives.catalog;
        catalog.is_only_archived(&native.session)
    }

    async fn prepare_session_resume(
        &self,
        session: &Session,
    ) -> Result<Result<NativeResume, NativeResumeError>, ResolveError> {
        let holder = self.context.leases.live_lease_holder(&session.id).await?;
        let snapshot = self.context.require_snapshot(&session.id).await?;
        let newest_leg = snapshot.newest_leg();
        let resumable = find_resumable_leg(newest_leg, &snapshot.recent_turns, holder.as_ref());
        let (provider, native_id) = match resumable {
            Ok((leg, native_id)) => (storage_provider(&leg.provider), native_id),
            Err(reason) => return Ok(Err(reason)),
        };
        let is_supported = resume_args(provider.as_str(), native_id).is_some();
        if !is_supported || !self.context.natives.can_read_sessions(&provider) {
            return Ok(Err(NativeResumeError::Unsupported(provider)));
        }
        let found = self.context.natives.find_native(&provider, native_id);
        Ok(match found.await? {
            Some(_) if self.reconciler.is_native_truncated(&snapshot).await? => {
                Err(NativeResumeError::Behind(provider))
            }
            Some(native) => {
                let is_copy = self.is_archive_copy(&native);
                build_native_resume(&native, is_copy, Some(&session.project.cwd))
            }
            None => Err(NativeResumeError::Missing(provider)),
        })
    }
}

/// Returns the leg whose native session contains all turns, and the native id. Fails if a process is using the session,
/// or if no leg contains all turns.
fn find_resumable_leg<'a>(
    last: Option<&'a Leg>,
    chain: &[Turn],
    holder: Option<&LeaseHolder>,
) -> Result<(&'a Leg, &'a NativeId), NativeResumeError> {
    if let Some(holder) = holder {
        return Err(NativeResumeError::Leased {
            pid: holder.owner.pid,
            host: holder.owner.host.clone(),
        });
    }
    let leg = last.ok_or(NativeResumeError::NoNative)?;
    let native_id = leg.native_id.as_ref().ok_or(NativeResumeError::NoNative)?;
    if !can_resume_leg(leg, chain) {
        return Err(NativeResumeError::Behind(leg.provider.clone()));
    }
    Ok((leg, native_id))
}

/// Returns what the caller needs to resume a native session. The directory is the one that its agent recorded, or else
/// `session_cwd`, which is that of the session that uses it.
fn build_native_resume(
    native: &NativeEntry,
    is_archive_copy: bool,
    session_cwd: Option<&str>,
) -> Result<NativeResume, NativeResumeError> {
    let (provider, head) = (&native.session.provider, &native.session.head);
    if resume_args(provider.as_str(), &head.id).is_none() {
        return Err(NativeResumeError::Unsupported(provider.clone()));
    }
    let status = native.details.as_ref().map(|details| details.status);
    if status == Some(NativeStatus::Missing) {
        return Err(NativeResumeError::Missing(provider.clone()));
    }
    let (owner, id) = (provider.clone(), head.id.clone());
    if is_archive_copy {
        return Err(NativeResumeError::OnlyArchiveCopy(owner, id));
    }
    if native.session.location.archived {
        return Err(NativeResumeError::Archived(owner, id));
    }
    let cwd = head.cwd.as_deref().or(session_cwd);
    let cwd = PathBuf::from(cwd.ok_or(NativeResumeError::DirectoryUnknown)?);
    if !cwd.is_dir() {
        return Err(NativeResumeError::DirectoryMissing(cwd));
    }
    Ok(NativeResume {
        provider: owner,
        native_id: id,
        cwd,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use segue_catalog::{IdHint, NativeSession, SessionHead, SessionLocation};
    use segue_core::agent::ProcessIdentity;
    use segue_core::id::{LegId, TurnId};
    use segue_core::session::{LegEnd, TurnState, Usage};

    use super::*;

    const TEST_TIME: Timestamp = Timestamp::UNIX_EPOCH;

    fn native_id() -> NativeId {
        NativeId::parse("n-1").unwrap()
    }

    fn leg(tip: u64) -> Leg {
        Leg {
            id: LegId::from_bits(1),
            number: 1,
            provider: ProviderId::claude(),
            native_id: Some(native_id()),
            tip: Some(TurnId::from_bits(tip)),
            consecutive_failures: 0,
            total_tokens: None,
            context_tokens: None,
            estimated_tokens: None,
            mark: None,
            lost_context: false,
            opened_at: TEST_TIME,
            ended: None,
        }
    }

    fn turn(id: u64) -> Turn {
        Turn {
            id: TurnId::from_bits(id),
            parent: None,
            number: 1,
            state: TurnState::Finished,
            sent: true,
            made_outside: false,
            usage: Usage::default(),
            failure: None,
            started_at: TEST_TIME,
            ended_at: None,
        }
    }

    #[test]
    fn only_an_unused_session_with_a_complete_native_session_resumes_natively() {
        let without_native_id = Leg {
            native_id: None,
            ..leg(2)
        };
        let ended = Leg {
            ended: Some((TEST_TIME, LegEnd::Lost)),
            ..leg(2)
        };
        let holder = LeaseHolder {
            owner: ProcessIdentity {
                host: "localhost".into(),
                pid: 7,
                start_time: "1".into(),
            },
            epoch: 1,
            agent: None,
            acquired_at: TEST_TIME,
            silent_for: jiff::SignedDuration::ZERO,
            running_turn: None,
        };
        let leased = NativeResumeError::Leased {
            pid: 7,
            host: "localhost".into(),
        };
        let behind = || NativeResumeError::Behind(ProviderId::claude());
        let cases = [
            (
                "all turns in the native session",
                Some(leg(2)),
                None,
                Ok(native_id()),
            ),
            ("leased", Some(leg(2)), Some(&holder), Err(leased)),
            (
                "no leg yet, as in a fork",
                None,
                None,
                Err(NativeResumeError::NoNative),
            ),
            (
                "no native id yet",
                Some(without_native_id),
                None,
                Err(NativeResumeError::NoNative),
            ),
            ("reverted", Some(leg(3)), None, Err(behind())),
            ("lost", Some(ended), None, Err(behind())),
        ];
        let chain = [turn(1), turn(2)];
        for (case, last, holder, expected) in cases {
            let outcome =
                find_resumable_leg(last.as_ref(), &chain, holder).map(|(_, id)| id.clone());
            assert_eq!(outcome, expected, "{case}");
        }
    }

    fn native(provider: &str, cwd: Option<&str>, archived: bool) -> NativeEntry {
        let location = SessionLocation {
            path: "/f".into(),
            id_hint: IdHint::Complete("n-1".into()),
            size: 0,
            modified: TEST_TIME,
            archived,
        };
        let head = SessionHead {
            cwd: cwd.map(str::to_owned),
            ..SessionHead::new(native_id(), TEST_TIME)
        };
        let provider = ProviderId::parse(provider).unwrap();
        NativeEntry {
            session: NativeSession {
                provider,
                location,
                head,
            },
            project: None,
            details: None,
        }
    }

    #[test]
    fn a_native_session_resumes_in_the_directory_that_its_agent_recorded() {
        let codex = || ProviderId::codex();
        let missing_directory = "/nonexistent/for sure";
        let cases = [
            (native("codex", Some("/"), false), None, Ok("/")),
            (
                native("codex", Some("/"), false),
                Some(missing_directory),
                Ok("/"),
            ),
            (native("codex", None, false), Some("/"), Ok("/")),
            (
                native("codex", None, false),
                None,
                Err(NativeResumeError::DirectoryUnknown),
            ),
            (
                native("codex", Some(missing_directory), false),
                Some("/"),
                Err(NativeResumeError::DirectoryMissing(
                    missing_directory.into(),
                )),
            ),
            (
                native("codex", Some("/"), true),
                None,
                Err(NativeResumeError::Archived(codex(), native_id())),
            ),
            (
                native("other", Some("/"), false),
                None,
                Err(NativeResumeError::Unsupported(
                    ProviderId::parse("other").unwrap(),
                )),
            ),
        ];
        for (native, session_cwd, expected) in cases {
            let expected = expected.map(|cwd| NativeResume {
                provider: codex(),
                native_id: native_id(),
                cwd: cwd.into(),
            });
            assert_eq!(build_native_resume(&native, false, session_cwd), expected);
        }
        let copy = native("codex", Some("/"), true);
        let expected = NativeResumeError::OnlyArchiveCopy(codex(), native_id());
        assert_eq!(build_native_resume(&copy, true, None), Err(expected));
    }
}
