//! Lookup of the session for a task, a feature or a project: the most specific scope that was requested, and no other.
//!
//! A task has a separate session in each of its states. The lookup never falls back from a task to its feature, or from
//! a feature to the project, because an agent with the conversation of another scope would have the wrong history.

use std::path::Path;

use segue_core::id::ProviderId;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::{
    Decision, OtherSession, Project, ResolutionStep, ResolutionStepKind, Session,
};
use segue_store::SessionFilter;

use super::ResolutionTrace;
use crate::resolve::Resolver;
use crate::{ChatRequest, ResolveError};

impl Resolver {
    /// Finds the session for a purpose: the newest in the store, else a native session from the catalog. `None` if
    /// there is none.
    pub(super) async fn find_for_purpose(
        &self,
        request: &ChatRequest,
        purpose: &Purpose,
        provider: Option<&ProviderId>,
        trace: &mut ResolutionTrace,
    ) -> Result<Option<Session>, ResolveError> {
        add_skipped_steps(&purpose.scope, trace);
        let filter = purpose_filter(purpose, &request.project, provider);
        if let Some(session) = self.context.newest_session(filter).await? {
            let title = session.title.as_str().to_owned();
            trace.steps.push(ResolutionStep::PurposeSessionFound {
                purpose: purpose.clone(),
                provider: provider.cloned(),
                session: session.id.clone(),
                title: title.clone(),
                used_at: session.updated_at,
            });
            if !Path::new(&session.project.cwd).is_dir() {
                return Err(ResolveError::SessionDirectoryMissing(
                    session.id,
                    session.project.cwd,
                ));
            }
            trace.decisions.push(Decision::SessionContinued {
                session: session.id.clone(),
                title: Some(title),
                purpose: Some(purpose.clone()),
            });
            return Ok(Some(session));
        }
        trace.steps.push(ResolutionStep::PurposeSessionMissing {
            purpose: purpose.clone(),
            provider: provider.cloned(),
        });
        let adopted = self
            .adopt_matching_native(request, purpose, provider, trace)
            .await?;
        if adopted.is_some() {
            return Ok(adopted);
        }
        let mut other_session = None;
        if provider.is_some() {
            let any_provider_filter = purpose_filter(purpose, &request.project, None);
            other_session = self.newest_with_turns(&any_provider_filter).await?;
        }
        trace.decisions.push(Decision::NoSessionForPurpose {
            purpose: purpose.clone(),
            provider: provider.cloned(),
            other: other_session.map(|other| OtherSession {
                session: other.id,
                title: other.title.as_str().to_owned(),
                provider: other.provider,
            }),
        });
        Ok(None)
    }
}

/// Returns the filter for the sessions with a purpose, of one agent or of any. The lookup uses it, and so does the
/// condition that no session is created while one matches.
pub(crate) fn purpose_filter(
    purpose: &Purpose,
    project: &Project,
    provider: Option<&ProviderId>,
) -> SessionFilter {
    SessionFilter {
        purpose: Some(purpose.clone()),
        provider: provider.cloned(),
        ..SessionFilter::in_project(&project.key)
    }
}

/// Adds the steps that precede a scope as not requested.
fn add_skipped_steps(scope: &Scope, trace: &mut ResolutionTrace) {
    let kind = ResolutionStepKind::from(scope);
    let precedence = [
        ResolutionStepKind::Id,
        ResolutionStepKind::Task,
        ResolutionStepKind::Feature,
    ];
    for subject in precedence.into_iter().take_while(|before| *before != kind) {
        trace.steps.push(ResolutionStep::NotRequested { subject });
    }
}
