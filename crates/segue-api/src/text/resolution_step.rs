//! Text of resolution steps.

use segue_core::id::{NativeId, ProviderId};
use segue_core::number_format::format_plural;
use segue_core::scope::Purpose;
use segue_core::session::{ConfiguredSession, PurposeNative, ResolutionStep};

use super::{describe_provider_choice, describe_purpose_evidence, format_session, format_utc};

/// Formats the result of a resolution step, in one line.
#[must_use]
pub fn format_resolution_step(step: &ResolutionStep) -> String {
    match step {
        ResolutionStep::NotRequested { .. } => "not requested".to_owned(),
        ResolutionStep::NativeNotAdopted => {
            "a native session that segue has not adopted yet".to_owned()
        }
        ResolutionStep::SessionNamed { session, title } => {
            format!("session {}", format_session(session, title))
        }
        ResolutionStep::NativeNamed {
            provider,
            native_id,
            session,
            title,
        } => {
            let session = format_session(session, title);
            format!("{provider}:{native_id}, which is session {session}")
        }
        ResolutionStep::PurposeSessionFound {
            purpose,
            provider,
            session,
            title,
            used_at,
        } => format!(
            "the newest session for {purpose}{} is {}, last used {}",
            format_with_provider(provider.as_ref()),
            format_session(session, title),
            format_utc(*used_at)
        ),
        ResolutionStep::PurposeSessionMissing { purpose, provider } => {
            let with_provider = format_with_provider(provider.as_ref());
            format!("the store has no session for {purpose}{with_provider}")
        }
        ResolutionStep::CatalogSearched {
            purpose,
            candidates,
            found,
        } => format_catalog_search(purpose, *candidates, found.as_ref()),
        ResolutionStep::DirectorySessionFound { session, title } => {
            let session = format_session(session, title);
            format!("the newest session in this directory is {session}")
        }
        ResolutionStep::DirectorySessionMissing => "no session in this directory".to_owned(),
        ResolutionStep::SessionConfigured {
            provider,
            configured,
        } => format_configured_session(provider, configured),
        ResolutionStep::NewSessionRequested => "--new requests a new session".to_owned(),
        ResolutionStep::ReuseDisabled => "SEGUE_NO_REUSE disables the reuse of sessions".to_owned(),
        ResolutionStep::SessionCreated {
            purpose: Some(purpose),
        } => format!("a session for {purpose}"),
        ResolutionStep::SessionCreated { purpose: None } => "a session".to_owned(),
        ResolutionStep::ProviderRequested { provider } => format!("{provider}, as requested"),
        ResolutionStep::SessionProviderUsed {
            provider,
            is_changed: false,
        } => format!("{provider}, the agent of the session"),
        ResolutionStep::SessionProviderUsed {
            provider,
            is_changed: true,
        } => format!("{provider}, now the agent of the session"),
        ResolutionStep::ProviderChosen { provider, reason } => {
            format!("{provider}, {}", describe_provider_choice(*reason))
        }
        ResolutionStep::NativeResumed {
            provider,
            native_id,
            leg,
            is_running,
        } => format_resumed_native(provider, native_id.as_ref(), *leg, *is_running),
        ResolutionStep::NativeStarted { provider, cause } => {
            format!("start a native session of {provider}: {cause}")
        }
        ResolutionStep::Recorded { text, .. } => text.clone(),
    }
}

/// Formats the provider that the user requested. Empty if the user named none.
pub(super) fn format_with_provider(provider: Option<&ProviderId>) -> String {
    provider.map_or(String::new(), |provider| format!(" with {provider}"))
}

fn format_catalog_search(
    purpose: &Purpose,
    candidates: u64,
    found: Option<&PurposeNative>,
) -> String {
    let candidates = format!(
        "{} of the last 7 days that no segue session uses",
        format_plural(candidates, "native session")
    );
    match found {
        None => format!("found {candidates}, none for {purpose}"),
        Some(native) => format!(
            "found {candidates}; the newest for {purpose} is {}:{}: {}",
            native.provider,
            native.native_id,
            describe_purpose_evidence(purpose, native.evidence)
        ),
    }
}

fn format_resumed_native(
    provider: &ProviderId,
    native_id: Option<&NativeId>,
    leg: u32,
    is_running: bool,
) -> String {
    let id = native_id.map_or("-", NativeId::as_str);
    let state = if is_running {
        ", which is still running"
    } else {
        ""
    };
    format!("resume native session {provider}:{id} (leg {leg}){state}")
}

fn format_configured_session(provider: &ProviderId, configured: &ConfiguredSession) -> String {
    match configured {
        ConfiguredSession::New => format!("{provider} starts a new session"),
        ConfiguredSession::NewestInDirectory => {
            format!("{provider} resumes the newest session in the directory")
        }
        ConfiguredSession::Session { session } => format!("{provider} resumes session {session}"),
        ConfiguredSession::Native {
            provider: native_provider,
            native_id,
        } => format!("{provider} resumes {native_provider}:{native_id}"),
    }
}
