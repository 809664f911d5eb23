//! Lookup of the newest session of a working directory.

use std::path::Path;

use jiff::Timestamp;
use segue_catalog::Kind;
use segue_core::checkpoint::is_summariser;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{DecisionKind, Project, Session, StepKind};
use segue_store::Filter;

use super::{Trail, named};
use crate::adopt::Beside;
use crate::{Engine, EngineError};

impl Engine {
    /// Finds the session of a working directory with the latest activity: a session of segue, or a native session of an
    /// available agent, which is adopted.
    pub(super) async fn newest_here(
        &self,
        project: &Project,
        provider: Option<&ProviderId>,
        trail: &mut Trail,
    ) -> Result<Option<Session>, EngineError> {
        let filter = Filter {
            cwd: Some(project.cwd.clone()),
            provider: provider.cloned(),
            ..Filter::default()
        };
        let mut newest = self.newest(filter).await?;
        let mut newest_at = newest.as_ref().map(|session| session.updated_at);
        for (at, provider, id) in self.natives_here(project, provider).await? {
            if newest_at.is_some_and(|newest| newest >= at) {
                break;
            }
            // The user may have continued a session of segue in the agent's own program since then.
            let carrier = self.carrier(&provider, &id).await?;
            let named = [(provider.clone(), id.clone())];
            let past = carrier.is_none() && !self.store.carried(&named).await?.is_empty();
            if past {
                // A session of segue ran on this native session, and continues on another one.
                continue;
            }
            let beside = Beside::Nothing;
            let (session, adopted) = match carrier {
                Some(session) => (session, None),
                None => self.adopt(&provider, &id, project, beside).await?,
            };
            trail.done.extend(adopted);
            newest_at = Some(at);
            newest = Some(session);
        }
        if let Some(session) = &newest {
            let step = format!("the newest one here is {}", named(session));
            trail.step(StepKind::Directory, step);
            let text = format!("continuing session {}", named(session));
            trail.decide(DecisionKind::Continued, text);
        } else {
            trail.step(StepKind::Directory, "there is none here");
            let text = "there is nothing to continue in this directory; starting a new session";
            trail.decide(DecisionKind::Session, text);
        }
        Ok(newest)
    }

    /// Returns the native sessions of a working directory that can be resumed, newest first.
    async fn natives_here(
        &self,
        project: &Project,
        provider: Option<&ProviderId>,
    ) -> Result<Vec<(Timestamp, ProviderId, NativeId)>, EngineError> {
        let filter = Filter {
            project: Some(project.key.clone()),
            provider: provider.cloned(),
            ..Filter::default()
        };
        let (natives, _) = self.all_natives(&filter).await;
        let readable = natives.into_iter().filter_map(|native| {
            let head = native.session.head;
            let here = is_same_directory(head.cwd.as_deref()?, &project.cwd);
            let driver = self.driver(&native.session.provider)?;
            let conversation = head.kind == Kind::Conversation;
            (here && conversation).then_some((head.updated_at, driver, head.id))
        });
        let mut all: Vec<_> = readable.collect();
        if let Some(provider) = provider.filter(|provider| !self.reads(provider)) {
            all.extend(self.asked(provider, project).await?);
        }
        all.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        Ok(all)
    }

    /// Returns the native sessions that an agent lists for a directory, for agents whose files segue cannot read. Empty
    /// if the agent cannot list them.
    async fn asked(
        &self,
        provider: &ProviderId,
        project: &Project,
    ) -> Result<Vec<(Timestamp, ProviderId, NativeId)>, EngineError> {
        let agent = self.agent(provider)?;
        let timeout = agent.defaults().timeouts.start;
        // If the agent cannot be started, this is reported when the prompt is sent.
        let listed = agent.list(Path::new(&project.cwd), timeout).await;
        let listed = listed.ok().flatten().unwrap_or_default();
        // The title of a summariser's session, if it has one, is the start of its prompt.
        let sums_up = |title: &String| is_summariser(title);
        let here = listed
            .into_iter()
            .filter(|entry| !entry.title.as_ref().is_some_and(sums_up))
            .filter(|entry| is_same_directory(&entry.cwd.to_string_lossy(), &project.cwd));
        let timed = here.map(|entry| {
            let at = entry.updated_at.unwrap_or(Timestamp::UNIX_EPOCH);
            (at, provider.clone(), entry.id)
        });
        Ok(timed.collect())
    }
}

/// Returns `true` if two paths lead to the same directory, with links resolved.
fn is_same_directory(theirs: &str, ours: &str) -> bool {
    theirs == ours
        || Path::new(theirs)
            .canonicalize()
            .is_ok_and(|theirs| theirs == Path::new(ours))
}
