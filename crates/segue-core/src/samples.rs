//! Examples of every decision, hint and resolution step, which the tests of several crates share.
//!
//! A test in `segue-api` checks against the JSON Schemas that no variant is missing.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "test data of fixed texts"
)]

use jiff::Timestamp;

use crate::agent::PermissionPolicy;
use crate::hint::Hint;
use crate::id::{FeatureId, NativeId, ProviderId, SessionId};
use crate::policy::WaitReason;
use crate::scope::{Purpose, PurposeEvidence, RoleName, Scope, TaskId, TaskState};
use crate::session::{
    AdoptionPurpose, CompactionSummary, ConfiguredSession, Decision, DecisionKind, DroppedSetting,
    FailureClass, GuardAction, HandoffCause, InterruptedPrompt, NativeLoss, NewNative,
    NewNativeCause, OpenReason, OtherSession, PermissionSource, PromptRefusal, ProviderChoice,
    PurposeNative, ResolutionStep, ResolutionStepKind, RestoreCause, RotationCause, TakeoverCause,
    TruncatedDocument, UnusedSummary, WithdrawalReason,
};

/// Returns the session of the examples.
#[must_use]
pub fn sample_session() -> SessionId {
    SessionId::parse("20261116_101502_m4qc").unwrap()
}

fn other_session() -> SessionId {
    SessionId::parse("20261117_083000_k3f9").unwrap()
}

fn native(text: &str) -> NativeId {
    NativeId::parse(text).unwrap()
}

fn time() -> Timestamp {
    "2026-11-16T11:30:05Z".parse().unwrap()
}

fn role() -> RoleName {
    RoleName::parse("qa").unwrap()
}

fn feature_purpose() -> Purpose {
    Purpose::for_scope(Scope::Feature(FeatureId::parse("auth").unwrap()))
}

fn task_purpose() -> Purpose {
    Purpose {
        scope: Scope::Task {
            feature: Some(FeatureId::parse("auth").unwrap()),
            task: TaskId::parse("login").unwrap(),
            state: TaskState::parse("in_qa").unwrap(),
        },
        role: Some(role()),
    }
}

fn compaction(replaces_checkpoint: bool) -> CompactionSummary {
    CompactionSummary {
        turns: 12,
        replaces_checkpoint,
        replaced_tokens: 81_234,
        checkpoint: 3,
        tokens: 2_410,
    }
}

/// Returns a new native session for each cause, and some with further details.
#[must_use]
pub fn sample_new_natives() -> Vec<NewNative> {
    let (claude, codex) = (ProviderId::claude(), ProviderId::codex());
    let causes = [
        NewNativeCause::NewSession,
        NewNativeCause::NoNativeYet,
        NewNativeCause::ProviderChanged {
            from: claude.clone(),
            to: codex,
        },
        NewNativeCause::HandedBack { provider: claude },
        NewNativeCause::Full,
        NewNativeCause::Compacted { compaction: None },
        NewNativeCause::Compacted {
            compaction: Some(compaction(false)),
        },
        NewNativeCause::FailedTooOften,
        NewNativeCause::Lost,
        NewNativeCause::Unavailable,
        NewNativeCause::HeadMismatch,
        NewNativeCause::HeadMoved,
        NewNativeCause::NeverUsed,
        NewNativeCause::NotResumed {
            is_temporary: false,
        },
        NewNativeCause::NotResumed { is_temporary: true },
        NewNativeCause::NotFound {
            message: "the agent answered the prompt with an error: unknown session".to_owned(),
        },
    ];
    let new_native = |cause| NewNative {
        cause,
        agent_message: None,
        has_checkpoint: false,
        omitted_turns: 0,
    };
    let with_checkpoint = |cause, omitted_turns| NewNative {
        cause,
        agent_message: Some("Session not found".to_owned()),
        has_checkpoint: true,
        omitted_turns,
    };
    let mut natives: Vec<NewNative> = causes.into_iter().map(new_native).collect();
    natives.push(with_checkpoint(NewNativeCause::Lost, 1));
    let compacted = NewNativeCause::Compacted { compaction: None };
    natives.push(with_checkpoint(compacted, 4));
    natives
}

/// Returns an example of each reason for which a native session was opened.
#[must_use]
pub fn sample_open_reasons() -> Vec<OpenReason> {
    let branched = |is_fork| OpenReason::Branched {
        provider: ProviderId::claude(),
        turn: 7,
        is_fork,
    };
    let mut reasons = vec![
        OpenReason::AgentRunning,
        OpenReason::NativeComplete,
        branched(true),
        branched(false),
    ];
    reasons.extend(sample_new_natives().into_iter().map(OpenReason::NewNative));
    reasons
}

/// Returns an example of each action of a guard.
#[must_use]
pub fn sample_guard_actions() -> Vec<GuardAction> {
    let short_id = || "11111111".to_owned();
    let error = || "permission denied".to_owned();
    let restored = |cause| GuardAction::SessionRestored {
        short_id: short_id(),
        cause,
    };
    let copy_failed = |is_at_risk| GuardAction::CopyFailed {
        short_id: short_id(),
        error: error(),
        is_at_risk,
    };
    vec![
        GuardAction::McpServerOmitted {
            server: "files".to_owned(),
            variable: "MY-TOKEN".to_owned(),
        },
        GuardAction::CopySaved {
            short_id: short_id(),
        },
        copy_failed(false),
        copy_failed(true),
        restored(RestoreCause::Deleted),
        restored(RestoreCause::DeletedByAgent),
        restored(RestoreCause::DeletedInUse),
        restored(RestoreCause::Emptied),
        restored(RestoreCause::Restarted),
        GuardAction::RestoreFailed {
            short_id: short_id(),
            error: error(),
        },
        GuardAction::DuplicateRemoved {
            short_id: short_id(),
        },
        GuardAction::DuplicateNotRemoved {
            short_id: short_id(),
            error: error(),
        },
        GuardAction::GuardFailed,
    ]
}

fn sample_session_decisions() -> Vec<Decision> {
    let (claude, codex) = (ProviderId::claude(), ProviderId::codex());
    let chosen = |provider: &ProviderId, reason| Decision::ProviderChosen {
        provider: provider.clone(),
        reason,
    };
    let continued = |title: Option<&str>, purpose| Decision::SessionContinued {
        session: sample_session(),
        title: title.map(str::to_owned),
        purpose,
    };
    let missing = |provider: Option<&ProviderId>, other| Decision::NoSessionForPurpose {
        purpose: feature_purpose(),
        provider: provider.cloned(),
        other,
    };
    let adopted = |turns, matched| Decision::SessionAdopted {
        provider: claude.clone(),
        native_id: native("n-1"),
        session: sample_session(),
        turns,
        matched,
    };
    let adoption_purpose = |evidence| AdoptionPurpose {
        purpose: feature_purpose(),
        evidence,
    };
    let imported = |messages, checkpoint| Decision::SessionImported {
        format: "dagent".to_owned(),
        name: "developer".to_owned(),
        messages,
        checkpoint,
    };
    vec![
        chosen(&claude, ProviderChoice::LastUsedInProject),
        chosen(&ProviderId::rehearsal(), ProviderChoice::BuiltIn),
        chosen(&codex, ProviderChoice::FirstFound),
        Decision::TransportReplaced {
            provider: codex.clone(),
            transport: "exec".to_owned(),
            failed_transport: "app-server".to_owned(),
            error: "the agent stopped before it completed initialize (exit code 2)".to_owned(),
        },
        continued(Some("fix the login"), None),
        continued(Some("fix the login"), Some(task_purpose())),
        continued(None, Some(feature_purpose())),
        Decision::SessionDirectoryUsed {
            cwd: "/home/mia/app".to_owned(),
        },
        Decision::NoSessionInDirectory,
        missing(None, None),
        missing(Some(&codex), None),
        missing(
            Some(&codex),
            Some(OtherSession {
                session: other_session(),
                title: "the auth plan".to_owned(),
                provider: claude.clone(),
            }),
        ),
        adopted(1, None),
        adopted(1_200, Some(adoption_purpose(PurposeEvidence::Tag))),
        adopted(2, Some(adoption_purpose(PurposeEvidence::Title))),
        imported(1, None),
        imported(40, Some(2)),
    ]
}

fn sample_native_decisions() -> Vec<Decision> {
    let claude = ProviderId::claude();
    let branched = |is_fork| Decision::NativeBranched {
        provider: ProviderId::claude(),
        turn: 7,
        is_fork,
    };
    let lost = |native_id, loss| Decision::NativeLost {
        provider: ProviderId::claude(),
        native_id,
        loss,
    };
    let interrupted = |prompt| Decision::TurnInterrupted { turn: 4, prompt };
    let provider = || ProviderId::codex();
    let rewound = |dropped, added| Decision::NativeRewound {
        provider: ProviderId::claude(),
        session: sample_session(),
        to_turn: 3,
        dropped,
        added,
    };
    let mut decisions = vec![
        Decision::LegReopened {
            provider: claude.clone(),
            native_id: Some(native("n-1")),
            session: sample_session(),
        },
        branched(true),
        branched(false),
    ];
    decisions.extend(
        sample_new_natives()
            .into_iter()
            .map(Decision::NativeBriefed),
    );
    decisions.extend([
        lost(Some(native("n-1")), NativeLoss::Missing),
        lost(None, NativeLoss::Truncated),
        interrupted(InterruptedPrompt::Answered {
            provider: provider(),
        }),
        interrupted(InterruptedPrompt::PartlyAnswered {
            provider: provider(),
        }),
        interrupted(InterruptedPrompt::NotInNative {
            provider: provider(),
        }),
        interrupted(InterruptedPrompt::PossiblySent),
        interrupted(InterruptedPrompt::Unsent),
        Decision::OutsideTurnsAdded {
            provider: claude.clone(),
            turns: 2,
        },
        rewound(1, 0),
        rewound(3, 1),
        Decision::TurnsDiverged {
            provider: claude,
            turns: 2,
            after_turn: 5,
            fork: other_session(),
        },
        Decision::PromptRequeued { turn: 6 },
        Decision::LeaseTakenOver {
            pid: 4_121,
            cause: TakeoverCause::Died,
        },
        Decision::LeaseTakenOver {
            pid: 4_121,
            cause: TakeoverCause::Silent,
        },
    ]);
    let protected = |action| Decision::NativeProtected { action };
    decisions.extend(sample_guard_actions().into_iter().map(protected));
    decisions
}

fn sample_turn_decisions() -> Vec<Decision> {
    let tool = || "Edit notes.txt".to_owned();
    let answered = |allowed, by| Decision::PermissionAnswered {
        tool: tool(),
        allowed,
        by,
    };
    vec![
        answered(
            true,
            PermissionSource::Policy {
                policy: PermissionPolicy::AllowEdits,
            },
        ),
        answered(false, PermissionSource::Role { role: role() }),
        answered(true, PermissionSource::User),
        answered(false, PermissionSource::Unanswered),
        Decision::PermissionCancelled { tool: tool() },
        Decision::RoleViolated {
            tool: tool(),
            role: role(),
        },
        Decision::NativeIdChanged {
            from: native("n-1"),
            to: native("n-2"),
        },
        Decision::AgentStoppedAtLimit,
        Decision::AgentRefused,
        Decision::UnexpectedOutput {
            line: "debug: \"x\"".to_owned(),
        },
        Decision::Recorded {
            kind: DecisionKind::Rotated,
            text: "ended the native session".to_owned(),
        },
    ]
}

fn sample_context_decisions() -> Vec<Decision> {
    let truncated = || {
        vec![TruncatedDocument {
            name: "SPEC.md".to_owned(),
            included_bytes: 20_000,
            total_bytes: 31_415,
        }]
    };
    let notes = || vec!["the project has more files than segue reads".to_owned()];
    let changed = || vec!["HEAD".to_owned(), "README.md".to_owned()];
    let unused = |reason| Decision::SummaryUnused {
        provider: ProviderId::gemini(),
        base: 3,
        reason,
    };
    let applied = |statements, settled, is_beginning_omitted| Decision::SummaryApplied {
        provider: ProviderId::gemini(),
        base: 3,
        checkpoint: 4,
        statements,
        settled,
        tokens: 2_600,
        is_beginning_omitted,
    };
    vec![
        Decision::ContextRebuilt {
            changed: changed(),
            truncated: Vec::new(),
            notes: Vec::new(),
        },
        Decision::ContextRebuilt {
            changed: changed(),
            truncated: truncated(),
            notes: notes(),
        },
        Decision::ContextIncomplete {
            truncated: truncated(),
            notes: notes(),
        },
        Decision::CheckpointReduced {
            included: 30,
            total: 41,
        },
        Decision::AgentCompacted { provider: None },
        Decision::AgentCompacted {
            provider: Some(ProviderId::codex()),
        },
        Decision::SessionCompacted(compaction(false)),
        Decision::SessionCompacted(compaction(true)),
        Decision::CompactionFailed {
            error: "disk full".to_owned(),
        },
        applied(1, 0, false),
        applied(5, 2, true),
        unused(UnusedSummary::OffPath),
        unused(UnusedSummary::NothingNew),
        unused(UnusedSummary::NoTurns),
        unused(UnusedSummary::Cooldown { until: time() }),
        unused(UnusedSummary::TimedOut { seconds: 120 }),
        unused(UnusedSummary::AgentFailed {
            error: "cannot start gemini".to_owned(),
        }),
        unused(UnusedSummary::Rejected {
            errors: vec![
                "the answer contains no JSON object".to_owned(),
                "the answer contains no statements".to_owned(),
            ],
        }),
    ]
}

fn sample_policy_decisions() -> Vec<Decision> {
    let (claude, codex) = (ProviderId::claude(), ProviderId::codex());
    let rotated = |cause| Decision::LegRotated { cause };
    let waiting = |reason| Decision::WaitStarted {
        provider: ProviderId::claude(),
        until: time(),
        seconds: 20,
        reason,
    };
    let handed_off = |cause| Decision::HandedOff {
        from: ProviderId::claude(),
        to: ProviderId::codex(),
        cause,
        permissions: None,
        ignored_model: None,
    };
    let rejected = |class, until| handed_off(HandoffCause::Rejected { class, until });
    let dropped = |setting| Decision::SettingDropped {
        from: claude.clone(),
        to: codex.clone(),
        setting,
    };
    let refused = |refusal| Decision::PromptRefused {
        provider: claude.clone(),
        refusal,
    };
    let withdrawn = |reason| Decision::PromptWithdrawn {
        reason,
        excerpt: "fix the\nlogin".to_owned(),
    };
    vec![
        rotated(RotationCause::ContextFull),
        rotated(RotationCause::Failures { count: 3 }),
        rotated(RotationCause::MoreFailures { count: 3 }),
        rotated(RotationCause::ForcedPromptFailed),
        rotated(RotationCause::OverLimit {
            tokens: 351_000,
            limit: 350_000,
        }),
        waiting(WaitReason::Failed),
        waiting(WaitReason::Quota),
        waiting(WaitReason::RateLimited),
        handed_off(HandoffCause::Requested),
        Decision::HandedOff {
            from: claude.clone(),
            to: codex.clone(),
            cause: HandoffCause::Cooldown {
                until: time(),
                reason: WaitReason::Quota,
            },
            permissions: Some(PermissionPolicy::Ask),
            ignored_model: Some("opus".to_owned()),
        },
        rejected(FailureClass::RateLimited, Some(time())),
        rejected(FailureClass::Quota, None),
        rejected(FailureClass::RateLimited, None),
        dropped(DroppedSetting::Permissions {
            old: PermissionPolicy::AllowEdits,
            new: PermissionPolicy::Ask,
        }),
        dropped(DroppedSetting::Mode {
            old: "plan".to_owned(),
            new: None,
        }),
        dropped(DroppedSetting::Model {
            old: "opus".to_owned(),
            new: Some("gpt-5".to_owned()),
        }),
        refused(PromptRefusal::RetriesExhausted {
            session: sample_session(),
            limit: 3,
        }),
        refused(PromptRefusal::Unavailable {
            until: time(),
            reason: WaitReason::RateLimited,
        }),
        withdrawn(WithdrawalReason::Stopped),
        withdrawn(WithdrawalReason::BriefTooLarge),
    ]
}

/// Returns examples of every decision, with every cause.
#[must_use]
pub fn sample_decisions() -> Vec<Decision> {
    let mut decisions = sample_session_decisions();
    decisions.extend(sample_native_decisions());
    decisions.extend(sample_turn_decisions());
    decisions.extend(sample_context_decisions());
    decisions.extend(sample_policy_decisions());
    decisions
}

/// Returns examples of every resolution step.
#[must_use]
#[expect(clippy::too_many_lines, reason = "one list of examples")]
pub fn sample_steps() -> Vec<ResolutionStep> {
    let (claude, codex) = (ProviderId::claude(), ProviderId::codex());
    let title = || "fix the login".to_owned();
    let configured = |configured| ResolutionStep::SessionConfigured {
        provider: ProviderId::claude(),
        configured,
    };
    let not_requested = |subject| ResolutionStep::NotRequested { subject };
    let searched = |candidates, found| ResolutionStep::CatalogSearched {
        purpose: feature_purpose(),
        candidates,
        found,
    };
    let found = |evidence| PurposeNative {
        provider: ProviderId::codex(),
        native_id: native("n-1"),
        evidence,
    };
    let of_session = |is_changed| ResolutionStep::SessionProviderUsed {
        provider: ProviderId::claude(),
        is_changed,
    };
    let missing = |purpose, provider| ResolutionStep::PurposeSessionMissing { purpose, provider };
    let resumed = |native_id, is_running| ResolutionStep::NativeResumed {
        provider: ProviderId::claude(),
        native_id,
        leg: 2,
        is_running,
    };
    vec![
        not_requested(ResolutionStepKind::Id),
        not_requested(ResolutionStepKind::Task),
        ResolutionStep::NativeNotAdopted,
        ResolutionStep::SessionNamed {
            session: sample_session(),
            title: title(),
        },
        ResolutionStep::NativeNamed {
            provider: claude.clone(),
            native_id: native("n-1"),
            session: sample_session(),
            title: title(),
        },
        ResolutionStep::PurposeSessionFound {
            purpose: task_purpose(),
            provider: Some(codex.clone()),
            session: sample_session(),
            title: title(),
            used_at: time(),
        },
        missing(feature_purpose(), None),
        missing(Purpose::for_scope(Scope::Project), Some(claude.clone())),
        searched(0, None),
        searched(1, Some(found(PurposeEvidence::Tag))),
        searched(12, Some(found(PurposeEvidence::Title))),
        ResolutionStep::DirectorySessionFound {
            session: sample_session(),
            title: title(),
        },
        ResolutionStep::DirectorySessionMissing,
        configured(ConfiguredSession::New),
        configured(ConfiguredSession::NewestInDirectory),
        configured(ConfiguredSession::Session {
            session: sample_session(),
        }),
        configured(ConfiguredSession::Native {
            provider: claude.clone(),
            native_id: native("n-1"),
        }),
        ResolutionStep::NewSessionRequested,
        ResolutionStep::ReuseDisabled,
        ResolutionStep::SessionCreated { purpose: None },
        ResolutionStep::SessionCreated {
            purpose: Some(feature_purpose()),
        },
        ResolutionStep::ProviderRequested {
            provider: codex.clone(),
        },
        of_session(false),
        of_session(true),
        ResolutionStep::ProviderChosen {
            provider: codex,
            reason: ProviderChoice::FirstFound,
        },
        resumed(Some(native("n-1")), true),
        resumed(None, false),
        ResolutionStep::NativeStarted {
            provider: claude,
            cause: NewNativeCause::Full,
        },
        ResolutionStep::Recorded {
            kind: ResolutionStepKind::New,
            text: "a session".to_owned(),
        },
    ]
}

/// Returns examples of every hint.
#[must_use]
pub fn sample_hints() -> Vec<Hint> {
    let session = sample_session;
    let log_in = |provider| Hint::LogIn {
        provider,
        session: session(),
    };
    let trust = |provider| Hint::TrustDirectory {
        provider,
        session: session(),
    };
    let wait = |until| Hint::WaitOrHandOff {
        session: session(),
        until,
    };
    let hand_off = |first, fallback| Hint::HandOffOrForce {
        first,
        session: session(),
        fallback,
    };
    vec![
        Hint::CheckAgents,
        Hint::Resume { session: session() },
        Hint::ResumeWithBrief { session: session() },
        Hint::ResumeWithoutStrict { session: session() },
        Hint::ExtendTimeouts { session: session() },
        wait(None),
        wait(Some(time())),
        Hint::WaitForProcess { session: session() },
        log_in(ProviderId::claude()),
        log_in(ProviderId::codex()),
        log_in(ProviderId::gemini()),
        log_in(ProviderId::rehearsal()),
        trust(ProviderId::codex()),
        trust(ProviderId::gemini()),
        trust(ProviderId::claude()),
        Hint::RecreateDirectory,
        hand_off(None, None),
        hand_off(
            Some(Box::new(Hint::RecreateDirectory)),
            Some(ProviderId::codex()),
        ),
        Hint::Recorded {
            text: "try again".to_owned(),
        },
    ]
}
