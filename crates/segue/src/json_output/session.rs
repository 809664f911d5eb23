//! JSON output for sessions: entries of lists, search results, and the details of one session.

use segue_api::search::SearchMatch;
use segue_api::session::{
    ForkOrigin, ImportOrigin, LegInfo, ListedSession, ListedStatus, LoggedDecision,
    NativeRecordInfo, NativeSessionInfo, ProviderFailures, RecordedSessionInfo, SessionHolder,
    SessionInfo, SkippedRecords, TurnRange,
};
use segue_catalog::index::NativeStatus;
use segue_catalog::{NativeTurn, SkippedContent};
use segue_engine::{
    Conversation, NativeEntry, NativeOutline, SearchHit, SearchHitTurn, SearchReport, SessionView,
};

use super::path_json;

/// Returns an entry of `session list --json`.
pub(crate) fn conversation_json(conversation: &Conversation) -> ListedSession {
    match conversation {
        Conversation::Session(session, status) => ListedSession::new(session, *status),
        Conversation::Native(native) => native_json(native),
    }
}

/// Returns the entry of a native session.
pub(crate) fn native_json(native: &NativeEntry) -> ListedSession {
    let (location, head) = (&native.session.location, &native.session.head);
    let (title, details) = (head.title.as_ref(), native.details.as_ref());
    ListedSession {
        id: None,
        provider: native.session.provider.clone(),
        native_session_id: Some(head.id.clone()),
        project: native.project.clone(),
        cwd: head.cwd.clone(),
        title: title.map(|title| title.as_str().to_owned()),
        title_from: title.map(segue_core::session::Title::source),
        feature: None,
        task: None,
        task_state: None,
        role: None,
        tags: Vec::new(),
        turns: details.map(|details| details.turns),
        total_tokens: details.and_then(|details| details.usage.total_tokens),
        created_at: head.created_at,
        updated_at: head.updated_at,
        status: match details.map(|details| details.status) {
            Some(NativeStatus::Missing) => ListedStatus::Gone,
            _ if location.archived => ListedStatus::Archived,
            _ => ListedStatus::Idle,
        },
        forked_from: head.forked_from.as_ref().map(|id| ForkOrigin {
            id: format!("{}:{id}", native.session.provider),
            turn: None,
        }),
    }
}

/// Returns the entry of a native session with the details that require reading the complete session.
pub(crate) fn outline_json(native: &NativeEntry, outline: &NativeOutline) -> ListedSession {
    let mut session = native_json(native);
    if let Some(title) = &outline.title {
        session.title = Some(title.as_str().to_owned());
        session.title_from = Some(title.source());
    }
    session.turns = u32::try_from(outline.turns.len()).ok();
    session.total_tokens = sum_tokens(&outline.turns);
    session
}

/// Returns the sum of the turns' tokens. `None` if no turn has a count.
fn sum_tokens(turns: &[NativeTurn]) -> Option<u64> {
    let counts = turns.iter().filter_map(|turn| turn.usage.total_tokens);
    counts.reduce(u64::saturating_add)
}

/// Returns the output of `session info --json` for a native session.
pub(crate) fn native_info_json(native: &NativeEntry, outline: &NativeOutline) -> SessionInfo {
    let (location, head) = (&native.session.location, &native.session.head);
    SessionInfo::Native(Box::new(NativeSessionInfo {
        session: outline_json(native, outline),
        legs: Vec::new(),
        decisions: Vec::new(),
        held_by: None,
        native: NativeRecordInfo {
            path: path_json(&location.path),
            bytes: location.size,
            archived: location.archived,
            branch: head.branch.clone(),
            version: head.agent_version.clone(),
            first_prompt: head.first_prompt.clone(),
            forked_from: head.forked_from.clone(),
            compactions: outline.compactions,
            skipped: skipped_json(outline.skipped),
        },
    }))
}

/// Returns the counts of records in a native session that could not be read.
pub(crate) fn skipped_json(skipped: SkippedContent) -> SkippedRecords {
    SkippedRecords {
        malformed: skipped.malformed,
        oversized: skipped.oversized,
        mended: skipped.repaired,
        torn: skipped.truncated,
        orphaned: skipped.orphaned,
    }
}

/// Returns the output of `session info --json`.
pub(crate) fn session_info_json(view: &SessionView) -> SessionInfo {
    let legs = view.legs.iter().zip(&view.leg_turn_ranges);
    let legs = legs.map(|(leg, turns)| LegInfo {
        leg: leg.into(),
        turns: turns.map(|(first, last)| TurnRange { first, last }),
    });
    let provider_health = view.provider_health.iter();
    let standings = provider_health.map(|(provider, health)| ProviderFailures {
        provider: provider.clone(),
        failures: health.failures,
        limited: health.rate_limit_failures,
        rotations: health.failed_legs,
        retry_at: health.retry_at,
    });
    let decisions = view.decisions.iter().map(|(at, decision)| LoggedDecision {
        at: *at,
        decision: decision.into(),
    });
    SessionInfo::Recorded(Box::new(RecordedSessionInfo {
        session: ListedSession::new(&view.session, view.status),
        legs: legs.collect(),
        forks: view.lineage.forks.clone(),
        moves: view.lineage.moves.clone(),
        standings: standings.collect(),
        origin: view.origin.as_ref().map(|origin| ImportOrigin {
            name: origin.name.clone(),
            format: origin.format.clone(),
            at: origin.at,
        }),
        decisions: decisions.collect(),
        held_by: view.lease_holder.as_ref().map(|holder| SessionHolder {
            host: holder.owner.host.clone(),
            pid: holder.owner.pid,
            since: holder.acquired_at,
        }),
    }))
}

/// Returns the output of `session search --json`: one entry per matching turn.
pub(crate) fn search_hits_json(report: &SearchReport) -> Vec<SearchMatch> {
    let entries = report.hits.iter().flat_map(|hit| {
        let turns = hit
            .turns
            .iter()
            .map(|turn| search_hit_json(hit, Some(turn)));
        let session_entry = hit.turns.is_empty().then(|| search_hit_json(hit, None));
        turns.chain(session_entry).collect::<Vec<_>>()
    });
    entries.collect()
}

fn search_hit_json(hit: &SearchHit, turn: Option<&SearchHitTurn>) -> SearchMatch {
    let session = conversation_json(&hit.conversation);
    SearchMatch {
        id: session.id,
        provider: session.provider,
        native_session_id: session.native_session_id,
        turn: turn.map(|turn| turn.n),
        role: turn.and_then(|turn| turn.snippet.role),
        at: turn.and_then(|turn| turn.at),
        snippet: turn.map(|turn| turn.snippet.text.clone()),
        score: hit.score,
        found_in_turns: hit.count,
        title: session.title,
        project: session.project,
        cwd: session.cwd,
        tags: session.tags,
        status: session.status,
        updated_at: session.updated_at,
    }
}
