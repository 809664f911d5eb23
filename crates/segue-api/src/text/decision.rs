//! Text of decisions.

use std::fmt::Write as _;

use segue_core::agent::PermissionPolicy;
use segue_core::hint::SuggestedAction;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::number_format::{format_count, format_plural};
use segue_core::scope::Purpose;
use segue_core::session::{
    AdoptionPurpose, Decision, DroppedSetting, FailureClass, HandoffCause, InterruptedPrompt,
    NativeLoss, OtherSession, PermissionSource, PromptRefusal, RotationCause, TakeoverCause,
    TruncatedDocument, UnusedSummary, WithdrawalReason,
};

use super::open_reason::{format_branch, format_new_native};
use super::resolution_step::format_with_provider;
use super::{
    ActionText, describe_provider_choice, describe_purpose_evidence, format_guard_action,
    format_session, format_utc,
};

/// Formats a decision and its reason, in one line.
#[must_use]
#[expect(clippy::too_many_lines, reason = "one arm for each decision")]
pub fn format_decision(decision: &Decision, action_text: &dyn ActionText) -> String {
    match decision {
        Decision::ProviderChosen { provider, reason } => {
            format!("using {provider}, {}", describe_provider_choice(*reason))
        }
        Decision::TransportReplaced {
            provider,
            transport,
            failed_transport,
            error,
        } => format!(
            "connected to {provider} over {transport} instead of {failed_transport}: {error}"
        ),
        Decision::SessionContinued {
            session,
            title,
            purpose,
        } => format_continuation(session, title.as_deref(), purpose.as_ref()),
        Decision::SessionDirectoryUsed { cwd } => {
            format!("working in {cwd}, the directory of the session")
        }
        Decision::NoSessionInDirectory => {
            "no session to continue in this directory; starting a new one".to_owned()
        }
        Decision::NoSessionForPurpose {
            purpose,
            provider,
            other,
        } => format_missing_session(purpose, provider.as_ref(), other.as_ref(), action_text),
        Decision::SessionAdopted {
            provider,
            native_id,
            session,
            turns,
            matched,
        } => {
            let turns = format_plural(*turns, "turn");
            let matched = matched
                .as_ref()
                .map_or_else(String::new, format_adoption_purpose);
            format!("adopted {provider}:{native_id} as session {session}, with {turns}{matched}")
        }
        Decision::SessionImported {
            format,
            name,
            messages,
            checkpoint,
        } => {
            let messages = format_plural(*messages, "message");
            let checkpoint =
                checkpoint.map_or_else(String::new, |version| format!(" and checkpoint {version}"));
            format!("imported from {format} session {name}, with {messages}{checkpoint}")
        }
        Decision::LegReopened {
            provider,
            native_id,
            session,
        } => {
            let id = native_id.as_ref().map_or("", NativeId::as_str);
            format!(
                "reopened native session {provider}:{id}, which contains all turns of {session}"
            )
        }
        Decision::NativeBranched {
            provider,
            turn,
            is_fork,
        } => format_branch(provider, *turn, *is_fork),
        Decision::NativeBriefed(new_native) => format!(
            "started a new native session with a brief of this session: {}",
            format_new_native(new_native)
        ),
        Decision::NativeLost {
            provider,
            native_id,
            loss,
        } => {
            let problem = match loss {
                NativeLoss::Missing => "no longer has its native session",
                NativeLoss::Truncated => "no longer has all turns of its native session",
            };
            let id = native_id.as_ref().map_or("-", NativeId::as_str);
            format!("{provider} {problem} ({id}); segue starts a new one with a brief")
        }
        Decision::TurnInterrupted { turn, prompt } => {
            let explanation = describe_interrupted_prompt(prompt);
            format!("turn {turn} was interrupted: {explanation}")
        }
        Decision::OutsideTurnsAdded { provider, turns } => {
            let turns = format_plural(*turns, "turn");
            format!("added {turns} made in {provider} outside segue")
        }
        Decision::NativeRewound {
            provider,
            session,
            to_turn,
            dropped,
            added,
        } => {
            let undo = action_text.format_command(&SuggestedAction::Undo(session.clone()));
            format_rewind(provider, *to_turn, *dropped, *added, &undo)
        }
        Decision::TurnsDiverged {
            provider,
            turns,
            after_turn,
            fork,
        } => {
            let turns = format_plural(*turns, "turn");
            let open = action_text.format_command(&SuggestedAction::Open(fork.clone()));
            format!(
                "moved {turns} made in {provider} outside segue after turn {after_turn} to another session: \
                 the head of this session has moved; run `{open}` to continue there"
            )
        }
        Decision::PromptRequeued { turn } => format!(
            "queued the prompt again as turn {turn}: the native session gained turns while it waited"
        ),
        Decision::LeaseTakenOver { pid, cause } => {
            let reason = match cause {
                TakeoverCause::Died => "it died while it used the session",
                TakeoverCause::Silent => "it sent no heartbeat for too long",
            };
            format!("took over the session from process {pid}: {reason}")
        }
        Decision::PermissionAnswered { tool, allowed, by } => {
            let answer = if *allowed { "allowed" } else { "refused" };
            format!("{answer} {tool:?} {}", describe_permission_source(by))
        }
        Decision::PermissionCancelled { tool } => {
            format!("stopped before the permission request for {tool:?} was answered")
        }
        Decision::RoleViolated { tool, role } => format!(
            "the agent used {tool:?} without requesting permission; the role {role} does not allow it"
        ),
        Decision::NativeProtected { action } => format_guard_action(action),
        Decision::ContextRebuilt {
            changed,
            truncated,
            notes,
        } => {
            let changed = changed.join(", ");
            let gaps = format_context_gaps(truncated, notes);
            let gaps = gaps.map_or_else(String::new, |gaps| format!("; {gaps}"));
            format!("rebuilt the project context after changes in {changed}{gaps}")
        }
        Decision::ContextIncomplete { truncated, notes } => {
            let gaps = format_context_gaps(truncated, notes).unwrap_or_default();
            format!("the project context is incomplete: {gaps}")
        }
        Decision::CheckpointReduced { included, total } => {
            let total = format_plural(*total, "item");
            format!(
                "the brief contains {included} of {total} of the checkpoint: `budget` has no room for more"
            )
        }
        Decision::AgentCompacted { provider } => {
            let agent = provider.as_ref().map_or("the agent", ProviderId::as_str);
            format!(
                "{agent} compacted its own context; the next prompt repeats the goal, the rules and the pinned items"
            )
        }
        Decision::SessionCompacted(compaction) => {
            format!("{compaction}; the next prompt starts a new native session")
        }
        Decision::CompactionFailed { error } => {
            format!("could not compact the session: {error}; segue retries after the next turn")
        }
        Decision::SummaryApplied {
            provider,
            base,
            checkpoint,
            statements,
            settled,
            tokens,
            is_beginning_omitted,
        } => {
            let statements = format_plural(*statements, "statement");
            let settled = match settled {
                0 => String::new(),
                n => format!(" and settled {}", format_plural(*n, "item")),
            };
            let tokens = format_count(*tokens);
            let caveat = if *is_beginning_omitted {
                "; the beginning was too long to send"
            } else {
                ""
            };
            format!(
                "{provider} added {statements} to checkpoint {base}{settled}: \
                 checkpoint {checkpoint} has {tokens} tokens{caveat}"
            )
        }
        Decision::SummaryUnused {
            provider,
            base,
            reason,
        } => {
            let reason = describe_unused_summary(reason);
            format!(
                "{provider} added nothing to checkpoint {base}: {reason}; the extracted checkpoint stays active"
            )
        }
        Decision::LegRotated { cause } => format_rotation(cause),
        Decision::WaitStarted {
            provider,
            until,
            seconds,
            reason,
        } => format!(
            "waiting {seconds} s for {provider}, until {}: {}",
            format_utc(*until),
            reason.description()
        ),
        Decision::HandedOff {
            from,
            to,
            cause,
            permissions,
            ignored_model,
        } => format_handoff((from, to), cause, *permissions, ignored_model.as_deref()),
        Decision::SettingDropped { from, to, setting } => format_dropped_setting(from, to, setting),
        Decision::PromptRefused { provider, refusal } => format_refusal(provider, refusal),
        Decision::PromptWithdrawn { reason, excerpt } => {
            let reason = match reason {
                WithdrawalReason::Stopped => "stopped before the prompt was sent",
                WithdrawalReason::BriefTooLarge => "the prompt could not be sent",
            };
            format!("{reason}: {excerpt:?}")
        }
        Decision::NativeIdChanged { from, to } => {
            format!("the agent continued in native session {to} instead of {from}")
        }
        Decision::AgentStoppedAtLimit => {
            "the agent stopped at a limit of its own and may not have finished".to_owned()
        }
        Decision::AgentRefused => "the agent refused to continue".to_owned(),
        Decision::UnexpectedOutput { line } => {
            format!("the agent printed a line that is not part of the protocol: {line:?}")
        }
        Decision::Recorded { text, .. } => text.clone(),
    }
}

/// Formats a setting of `from` that does not apply to `to`, in one line.
#[must_use]
pub fn format_dropped_setting(
    from: &ProviderId,
    to: &ProviderId,
    setting: &DroppedSetting,
) -> String {
    let (name, old, new) = match setting {
        DroppedSetting::Permissions { old, new } => {
            let (old, new) = (old.as_str(), new.as_str());
            return format!(
                "the permission policy is {new}, as configured for {to}; for {from} it is {old}"
            );
        }
        DroppedSetting::Mode { old, new } => ("mode", old, new),
        DroppedSetting::Model { old, new } => ("model", old, new),
    };
    let new = new.as_ref();
    let new = new.map_or_else(|| "its default".to_owned(), |new| format!("{new:?}"));
    format!("the {name} {old:?} belongs to {from}; {to} uses {new}")
}

fn format_continuation(
    session: &SessionId,
    title: Option<&str>,
    purpose: Option<&Purpose>,
) -> String {
    let session = match title {
        Some(title) => format_session(session, title),
        None => session.to_string(),
    };
    let purpose = purpose.map_or_else(String::new, |purpose| format!(" for {purpose}"));
    format!("continuing session {session}{purpose}")
}

fn format_missing_session(
    purpose: &Purpose,
    provider: Option<&ProviderId>,
    other: Option<&OtherSession>,
    action_text: &dyn ActionText,
) -> String {
    let with_provider = format_with_provider(provider);
    let mut text = format!("no session exists for {purpose}{with_provider} yet; starting one");
    if let Some((provider, other)) = provider.zip(other) {
        let action = SuggestedAction::HandOff(other.session.clone(), Some(provider.clone()));
        let _ = write!(
            text,
            ". To continue {} of {} instead, run `{}`",
            format_session(&other.session, &other.title),
            other.provider,
            action_text.format_command(&action)
        );
    }
    text
}

fn format_adoption_purpose(matched: &AdoptionPurpose) -> String {
    let AdoptionPurpose { purpose, evidence } = matched;
    let evidence = describe_purpose_evidence(purpose, *evidence);
    format!(", for {purpose}: {evidence}")
}

fn describe_interrupted_prompt(prompt: &InterruptedPrompt) -> String {
    match prompt {
        InterruptedPrompt::Answered { provider } => {
            format!("its answer was taken from the native session of {provider}")
        }
        InterruptedPrompt::PartlyAnswered { provider } => format!(
            "the prompt is not sent again, and the partial answer was taken from the native session of {provider}"
        ),
        InterruptedPrompt::NotInNative { provider } => {
            format!("{provider} has no record of its prompt, which is not sent again")
        }
        InterruptedPrompt::PossiblySent => {
            "its prompt may have reached the agent, so segue does not send it again".to_owned()
        }
        InterruptedPrompt::Unsent => {
            "its prompt never reached the agent; send it again to get an answer".to_owned()
        }
    }
}

fn format_rewind(
    provider: &ProviderId,
    to_turn: u32,
    dropped: u64,
    added: u64,
    undo: &str,
) -> String {
    let added = match added {
        0 => String::new(),
        count => format!(", added {} made there", format_plural(count, "turn")),
    };
    let restored = if dropped == 1 { "it" } else { "them" };
    let dropped = format_plural(dropped, "turn");
    format!(
        "{provider} rewound to turn {to_turn}: moved the head with it{added} and dropped {dropped}; \
         `{undo}` restores {restored}"
    )
}

fn describe_permission_source(source: &PermissionSource) -> String {
    match source {
        PermissionSource::Policy { policy } => format!("by policy {}", policy.as_str()),
        PermissionSource::Role { role } => format!("because the role {role} does not allow it"),
        PermissionSource::User => "by the user".to_owned(),
        PermissionSource::Unanswered => {
            "because the user did not or could not answer, and no policy allows it".to_owned()
        }
    }
}

/// Formats what a project context lacks. `None` if it is complete.
fn format_context_gaps(truncated: &[TruncatedDocument], notes: &[String]) -> Option<String> {
    let truncated = truncated.iter().map(|document| {
        format!(
            "{} is truncated to {} of {} bytes",
            document.name, document.included_bytes, document.total_bytes
        )
    });
    let gaps: Vec<String> = truncated.chain(notes.iter().cloned()).collect();
    (!gaps.is_empty()).then(|| gaps.join("; "))
}

fn describe_unused_summary(reason: &UnusedSummary) -> String {
    match reason {
        UnusedSummary::OffPath => "the session was reverted to a turn before it".to_owned(),
        UnusedSummary::NothingNew => "it had nothing new that fits the budget".to_owned(),
        UnusedSummary::NoTurns => "no turns to summarise".to_owned(),
        UnusedSummary::Cooldown { until } => {
            format!("it is in cooldown until {}", format_utc(*until))
        }
        UnusedSummary::TimedOut { seconds } => {
            let seconds = format_plural(*seconds, "second");
            format!("it did not answer within {seconds}")
        }
        UnusedSummary::AgentFailed { error } => error.clone(),
        UnusedSummary::Rejected { errors } => {
            format!("no usable answer: {}", errors.join("; then "))
        }
    }
}

fn format_rotation(cause: &RotationCause) -> String {
    let next_prompt_note = "the next prompt starts a new one with a brief of this session";
    let no_retry_note = "segue does not start another one automatically";
    match cause {
        RotationCause::ContextFull => {
            format!("ended the native session because its context is full; {next_prompt_note}")
        }
        RotationCause::Failures { count } => {
            let failures = format_plural(*count, "failure");
            format!("ended the native session after {failures} in a row; {next_prompt_note}")
        }
        RotationCause::MoreFailures { count } => {
            let failures = format_plural(*count, "more failure");
            format!("ended the native session after {failures} in a row; {no_retry_note}")
        }
        RotationCause::ForcedPromptFailed => {
            format!("ended the native session after another failure; {no_retry_note}")
        }
        RotationCause::OverLimit { tokens, limit } => format!(
            "ended the native session at {} tokens, over the limit of {}; {next_prompt_note}",
            format_count(*tokens),
            format_count(*limit)
        ),
    }
}

fn format_handoff(
    (from, to): (&ProviderId, &ProviderId),
    cause: &HandoffCause,
    permissions: Option<PermissionPolicy>,
    ignored_model: Option<&str>,
) -> String {
    let mut text = match cause {
        HandoffCause::Requested => format!("handed off from {from} to {to}, as requested"),
        HandoffCause::Cooldown { until, reason } => format!(
            "{to} took over: {from} is in cooldown until {} ({})",
            format_utc(*until),
            reason.description()
        ),
        HandoffCause::Rejected { class, until } => {
            let reason = match (class, until) {
                (_, Some(until)) => format!("is in cooldown until {}", format_utc(*until)),
                (FailureClass::Quota, None) => "has no quota left".to_owned(),
                (_, None) => "accepts no more prompts".to_owned(),
            };
            format!("{to} took over the prompt from {from}, which {reason}")
        }
    };
    if let Some(permissions) = permissions {
        let _ = write!(text, "; the permission policy is {}", permissions.as_str());
    }
    if let Some(model) = ignored_model {
        let _ = write!(text, "; ignored the model {model}, which belongs to {from}");
    }
    text
}

fn format_refusal(provider: &ProviderId, refusal: &PromptRefusal) -> String {
    match refusal {
        PromptRefusal::RetriesExhausted { session, limit } => {
            let failures = format_plural(*limit, "failure");
            format!(
                "{provider} failed too often in session {session}: {failures} in a row, \
                 and {limit} more in a new native session"
            )
        }
        PromptRefusal::Unavailable { until, reason } => format!(
            "{provider} is in cooldown until {}: {}",
            format_utc(*until),
            reason.description()
        ),
    }
}
