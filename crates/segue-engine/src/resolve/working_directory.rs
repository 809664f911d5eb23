//! Lookup of the newest session of a working directory.

use std::path::Path;

use jiff::Timestamp;
use segue_catalog::NativeSessionKind;
use segue_core::checkpoint::is_summariser_prompt;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Decision, Project, ResolutionStep, Session};
use segue_store::SessionFilter;

use super::ResolutionTrace;
use crate::ResolveError;
use crate::resolve::Resolver;
use crate::resolve::adopt::AdoptionHint;

impl Resolver {
    /// Finds the session of a working directory with the latest activity: a session of segue, or a native session of an
    /// available agent, which is adopted.
    pub(super) async fn newest_in_directory(
        &self,
        project: &Project,
        provider: Option<&ProviderId>,
        trace: &mut ResolutionTrace,
    ) -> Result<Option<Session>, ResolveError> {
        let filter = SessionFilter {
            cwd: Some(project.cwd.clone()),
            provider: provider.cloned(),
            ..SessionFilter::default()
        };
        let mut newest = self.context.newest_session(filter).await?;
        let mut newest_at = newest.as_ref().map(|session| session.updated_at);
        for (at, provider, id) in self.natives_in_directory(project, provider).await? {
            if newest_at.is_some_and(|newest| newest >= at) {
                break;
            }
            // The user may have continued a session of segue in the agent's own program since then.
            let session = if let Some(session) = self.session_using_native(&provider, &id).await? {
                session
            } else {
                let key = [(provider.clone(), id.clone())];
                let attached = self.context.store.attached_natives(&key).await?;
                if !attached.is_empty() {
                    // A session of segue ran on this native session, and continues on another one.
                    continue;
                }
                let adoption = self.adopt_by_id(&provider, &id, project, AdoptionHint::Empty);
                let (session, decision) = adoption.await?;
                trace.logged_decisions.extend(decision);
                session
            };
            newest_at = Some(at);
            newest = Some(session);
        }
        if let Some(session) = &newest {
            let (id, title) = (session.id.clone(), session.title.as_str().to_owned());
            trace.steps.push(ResolutionStep::DirectorySessionFound {
                session: id.clone(),
                title: title.clone(),
            });
            trace.decisions.push(Decision::SessionContinued {
                session: id,
                title: Some(title),
                purpose: None,
            });
        } else {
            trace.steps.push(ResolutionStep::DirectorySessionMissing);
            trace.decisions.push(Decision::NoSessionInDirectory);
        }
        Ok(newest)
    }

    /// Returns the native sessions of a working directory that can be resumed, newest first.
    async fn natives_in_directory(
        &self,
        project: &Project,
        provider: Option<&ProviderId>,
    ) -> Result<Vec<(Timestamp, ProviderId, NativeId)>, ResolveError> {
        let filter = SessionFilter {
            provider: provider.cloned(),
            ..SessionFilter::in_project(&project.key)
        };
        let (natives, _) = self.library.list_natives(&filter).await;
        let readable = natives.into_iter().filter_map(|native| {
            let head = native.session.head;
            let is_in_directory = is_same_directory(head.cwd.as_deref()?, &project.cwd);
            let driver = self.context.agents.find_driver(&native.session.provider)?;
            let is_conversation = head.kind == NativeSessionKind::Conversation;
            (is_in_directory && is_conversation).then_some((head.updated_at, driver, head.id))
        });
        let mut all: Vec<_> = readable.collect();
        if let Some(provider) = provider
            && !self.context.natives.can_read_sessions(provider)
        {
            all.extend(self.list_natives_from_agent(provider, project).await?);
        }
        all.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        Ok(all)
    }

    /// Returns the native sessions that an agent lists for a directory, for agents whose files segue cannot read. Empty
    /// if the agent cannot list them.
    async fn list_natives_from_agent(
        &self,
        provider: &ProviderId,
        project: &Project,
    ) -> Result<Vec<(Timestamp, ProviderId, NativeId)>, ResolveError> {
        let agent = self.context.agents.get(provider)?;
        let timeout = agent.defaults().timeouts.start;
        // If the agent cannot be started, this is reported when the prompt is sent.
        let listed = agent.list_sessions(Path::new(&project.cwd), timeout).await;
        let listed = listed.ok().flatten().unwrap_or_default();
        // The title of a summariser's session, if it has one, is the start of its prompt.
        let is_summariser_title = |title: &String| is_summariser_prompt(title);
        let in_directory = listed
            .into_iter()
            .filter(|entry| !entry.title.as_ref().is_some_and(is_summariser_title))
            .filter(|entry| is_same_directory(&entry.cwd.to_string_lossy(), &project.cwd));
        let timed = in_directory.map(|entry| {
            let at = entry.updated_at.unwrap_or(Timestamp::UNIX_EPOCH);
            (at, provider.clone(), entry.id)
        });
        Ok(timed.collect())
    }
}

/// Returns `true` if two paths lead to the same directory, with links resolved.
fn is_same_directory(path: &str, directory: &str) -> bool {
    path == directory
        || Path::new(path)
            .canonicalize()
            .is_ok_and(|canonical| canonical == Path::new(directory))
}
