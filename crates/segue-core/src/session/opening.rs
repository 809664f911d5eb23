//! Plan of how a native session is opened for a prompt.

use crate::id::{LegId, ProviderId, TurnId};
use crate::session::{
    Leg, LegEnd, NewNativeCause, SessionSnapshot, Turn, can_reopen_leg, can_resume_leg,
};

/// Input of [`plan_opening`].
#[derive(Debug, Clone, Copy)]
pub struct OpeningInput<'a> {
    /// Provider that receives the prompt.
    pub provider: &'a ProviderId,
    /// Legs of the session, oldest first.
    pub legs: &'a [Leg],
    /// End of the chain before the prompt, oldest first. It contains the last turn that was sent, if any was.
    pub earlier_turns: &'a [Turn],
    /// Result of an earlier attempt at the same prompt.
    pub earlier_attempt: EarlierAttempt<'a>,
}

/// Result of an earlier attempt at the same prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierAttempt<'a> {
    /// There was none, or it was made by another provider.
    None,
    /// The provider refused the prompt in this turn, so it may be sent again to the same native session.
    Refused(TurnId),
    /// The agent did not find its native session, with its message.
    NativeNotFound(&'a str),
}

/// Plan of how a native session is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpeningPlan {
    /// The native session of this leg is resumed, because it contains all earlier turns.
    Resume(Leg),
    /// A native session is started.
    Start(NewLegPlan),
}

/// Plan of a leg on a native session that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLegPlan {
    /// Reason why it is started.
    pub cause: NewNativeCause,
    /// Leg that ends, with the reason; `None` if no leg is open.
    pub ended_leg: Option<(LegId, LegEnd)>,
    /// Whether the agent may branch it off from an earlier native session that contains all earlier turns.
    pub may_branch: bool,
}

impl OpeningPlan {
    /// Returns the plan for the first prompt of a new session.
    #[must_use]
    pub fn for_new_session() -> Self {
        Self::Start(NewLegPlan {
            cause: NewNativeCause::NewSession,
            ended_leg: None,
            may_branch: false,
        })
    }
}

/// Plans how a native session is opened for a prompt.
#[must_use]
pub fn plan_opening(input: &OpeningInput<'_>) -> OpeningPlan {
    let newest = input.legs.last();
    let open_leg = newest.filter(|leg| leg.ended.is_none());
    if let Some(leg) = open_leg.filter(|leg| can_send_to_leg(leg, input)) {
        return OpeningPlan::Resume(leg.clone());
    }
    let (ended_leg, cause) = match (open_leg, newest.and_then(|leg| leg.ended.zip(Some(leg)))) {
        (Some(leg), _) => {
            let (end, cause) = replace_open_leg(leg, input.provider);
            (Some((leg.id, end)), cause)
        }
        (None, _) if input.earlier_turns.is_empty() => (None, NewNativeCause::NewSession),
        (None, Some(((_, end), leg))) => (None, cause_after_leg(leg, end, input.provider)),
        (None, None) => (None, NewNativeCause::NoNativeYet),
    };
    let lost_native = match input.earlier_attempt {
        EarlierAttempt::NativeNotFound(message) => Some(NewNativeCause::NotFound {
            message: message.to_owned(),
        }),
        EarlierAttempt::None | EarlierAttempt::Refused(_) => None,
    };
    OpeningPlan::Start(NewLegPlan {
        may_branch: lost_native.is_none(),
        cause: lost_native.unwrap_or(cause),
        ended_leg,
    })
}

/// Plans a new leg after the agent could not resume the native session of `leg`. `is_temporary` is `true` if the native
/// session is intact.
#[must_use]
pub fn plan_unresumed_leg(leg: &Leg, is_temporary: bool) -> NewLegPlan {
    let end = if is_temporary {
        LegEnd::Unavailable
    } else {
        LegEnd::Lost
    };
    NewLegPlan {
        cause: NewNativeCause::NotResumed { is_temporary },
        ended_leg: Some((leg.id, end)),
        may_branch: false,
    }
}

/// Returns the leg that would receive the prompt without a brief, so that its size decides whether the session is
/// compacted first. `None` if there is no such leg, or if an earlier attempt at the prompt decided about it.
#[must_use]
pub fn leg_to_measure<'a>(input: &OpeningInput<'a>) -> Option<&'a Leg> {
    let leg = input.legs.last()?;
    let is_first_attempt = input.earlier_attempt == EarlierAttempt::None;
    let is_resumable = leg.provider == *input.provider && can_resume_leg(leg, input.earlier_turns);
    (is_first_attempt && is_resumable).then_some(leg)
}

/// Returns the ended leg whose native session contains exactly the turns up to the head, so that it can be reopened.
/// `None` if there is none, or if the newest leg can receive the next prompt.
#[must_use]
pub fn leg_to_reopen<'a>(snapshot: &'a SessionSnapshot, provider: &ProviderId) -> Option<&'a Leg> {
    let (legs, chain) = (&snapshot.legs, snapshot.recent_turns.as_slice());
    let is_resumable = |leg: &Leg| leg.provider == *provider && can_resume_leg(leg, chain);
    if legs.last().is_some_and(is_resumable) {
        return None;
    }
    // A native session that was reopened before has received turns since then, so only its newest leg counts.
    let is_newest = |leg: &Leg| {
        let mut later_legs = legs.iter().filter(|later| later.number > leg.number);
        !later_legs.any(|later| is_same_native(later, leg))
    };
    let is_reopenable =
        |leg: &&Leg| leg.provider == *provider && can_reopen_leg(leg, chain) && is_newest(leg);
    legs.iter().rev().find(is_reopenable)
}

/// Returns the tokens spent on the native session of `leg` by earlier legs. `None` if no earlier leg has it, or if they
/// are unknown.
#[must_use]
pub fn tokens_of_earlier_legs(leg: &Leg, legs: &[Leg]) -> Option<u64> {
    leg.native_id.as_ref()?;
    legs.iter()
        .filter(|earlier| earlier.number < leg.number && is_same_native(earlier, leg))
        .filter_map(|earlier| earlier.total_tokens)
        .reduce(u64::saturating_add)
}

fn is_same_native(a: &Leg, b: &Leg) -> bool {
    (&a.provider, &a.native_id) == (&b.provider, &b.native_id)
}

/// Returns `true` if the prompt can be sent to the native session of a leg without a brief.
fn can_send_to_leg(leg: &Leg, input: &OpeningInput<'_>) -> bool {
    let has_refused_prompt = match input.earlier_attempt {
        EarlierAttempt::Refused(turn) => leg.tip == Some(turn),
        EarlierAttempt::None | EarlierAttempt::NativeNotFound(_) => false,
    };
    leg.provider == *input.provider
        && (has_refused_prompt || can_resume_leg(leg, input.earlier_turns))
}

/// Returns why an open leg that cannot receive the prompt ends, and the cause of the next one.
fn replace_open_leg(leg: &Leg, provider: &ProviderId) -> (LegEnd, NewNativeCause) {
    if leg.provider != *provider {
        (LegEnd::Handoff, provider_changed(leg, provider))
    } else if leg.tip.is_none() {
        (LegEnd::Lost, NewNativeCause::NeverUsed)
    } else {
        (LegEnd::HeadMoved, NewNativeCause::HeadMoved)
    }
}

/// Returns the cause of a leg that follows one that has ended.
fn cause_after_leg(leg: &Leg, end: LegEnd, provider: &ProviderId) -> NewNativeCause {
    match end {
        _ if leg.provider != *provider => provider_changed(leg, provider),
        LegEnd::Handoff => NewNativeCause::HandedBack {
            provider: provider.clone(),
        },
        LegEnd::Full => NewNativeCause::Full,
        LegEnd::Compacted => NewNativeCause::Compacted { compaction: None },
        LegEnd::Errors => NewNativeCause::FailedTooOften,
        LegEnd::Lost => NewNativeCause::Lost,
        LegEnd::Unavailable => NewNativeCause::Unavailable,
        LegEnd::HeadMoved => NewNativeCause::HeadMismatch,
    }
}

fn provider_changed(leg: &Leg, provider: &ProviderId) -> NewNativeCause {
    NewNativeCause::ProviderChanged {
        from: leg.provider.clone(),
        to: provider.clone(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::id::NativeId;
    use crate::session::{TurnState, Usage};

    fn turn(id: u64, sent: bool) -> Turn {
        Turn {
            id: TurnId::from_bits(id),
            parent: None,
            number: 1,
            state: TurnState::Finished,
            usage: Usage::default(),
            failure: None,
            sent,
            made_outside: false,
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: None,
        }
    }

    /// Creates the leg of a provider whose native session contains the turns up to `tip`.
    fn leg(number: u32, provider: ProviderId, tip: Option<u64>, end: Option<LegEnd>) -> Leg {
        Leg {
            id: LegId::from_bits(u64::from(number)),
            number,
            provider,
            native_id: NativeId::parse("n-1").ok(),
            tip: tip.map(TurnId::from_bits),
            mark: None,
            consecutive_failures: 0,
            total_tokens: Some(u64::from(number) * 100),
            context_tokens: None,
            lost_context: false,
            estimated_tokens: None,
            opened_at: Timestamp::UNIX_EPOCH,
            ended: end.map(|end| (Timestamp::UNIX_EPOCH, end)),
        }
    }

    fn claude(number: u32, tip: Option<u64>, end: Option<LegEnd>) -> Leg {
        leg(number, ProviderId::claude(), tip, end)
    }

    fn start(cause: NewNativeCause, ended_leg: Option<(u64, LegEnd)>) -> OpeningPlan {
        OpeningPlan::Start(NewLegPlan {
            may_branch: !matches!(cause, NewNativeCause::NotFound { .. }),
            cause,
            ended_leg: ended_leg.map(|(leg, end)| (LegId::from_bits(leg), end)),
        })
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table of cases")]
    fn an_opening_resumes_a_complete_native_session_and_otherwise_starts_one() {
        let chain = || vec![turn(1, true), turn(2, true), turn(3, false)];
        let codex = |tip| leg(1, ProviderId::codex(), tip, None);
        let changed = || NewNativeCause::ProviderChanged {
            from: ProviderId::codex(),
            to: ProviderId::claude(),
        };
        let none = EarlierAttempt::None;
        let complete = claude(1, Some(2), None);
        let not_found = NewNativeCause::NotFound {
            message: "no such id".into(),
        };
        let handed_back = NewNativeCause::HandedBack {
            provider: ProviderId::claude(),
        };
        let cases = [
            (
                "a new session",
                vec![],
                vec![],
                none,
                start(NewNativeCause::NewSession, None),
            ),
            (
                "a fork",
                vec![],
                chain(),
                none,
                start(NewNativeCause::NoNativeYet, None),
            ),
            (
                "complete",
                vec![complete.clone()],
                chain(),
                none,
                OpeningPlan::Resume(complete.clone()),
            ),
            (
                "reverted",
                vec![claude(1, Some(9), None)],
                chain(),
                none,
                start(NewNativeCause::HeadMoved, Some((1, LegEnd::HeadMoved))),
            ),
            (
                "never used",
                vec![claude(1, None, None)],
                chain(),
                none,
                start(NewNativeCause::NeverUsed, Some((1, LegEnd::Lost))),
            ),
            (
                "the leg of another provider",
                vec![codex(Some(2))],
                chain(),
                none,
                start(changed(), Some((1, LegEnd::Handoff))),
            ),
            (
                "the ended leg of another provider",
                vec![leg(1, ProviderId::codex(), Some(2), Some(LegEnd::Handoff))],
                chain(),
                none,
                start(changed(), None),
            ),
            (
                "full",
                vec![claude(1, Some(2), Some(LegEnd::Full))],
                chain(),
                none,
                start(NewNativeCause::Full, None),
            ),
            (
                "handed back",
                vec![claude(1, Some(2), Some(LegEnd::Handoff))],
                chain(),
                none,
                start(handed_back, None),
            ),
            (
                "compacted",
                vec![claude(1, Some(2), Some(LegEnd::Compacted))],
                chain(),
                none,
                start(NewNativeCause::Compacted { compaction: None }, None),
            ),
            (
                "refused in this turn",
                vec![claude(1, Some(4), None)],
                chain(),
                EarlierAttempt::Refused(TurnId::from_bits(4)),
                OpeningPlan::Resume(claude(1, Some(4), None)),
            ),
            (
                "refused in another turn",
                vec![claude(1, Some(4), None)],
                chain(),
                EarlierAttempt::Refused(TurnId::from_bits(5)),
                start(NewNativeCause::HeadMoved, Some((1, LegEnd::HeadMoved))),
            ),
            (
                "not found",
                vec![claude(1, Some(4), Some(LegEnd::Lost))],
                chain(),
                EarlierAttempt::NativeNotFound("no such id"),
                start(not_found, None),
            ),
        ];
        for (case, legs, earlier_turns, earlier_attempt, expected) in cases {
            let input = OpeningInput {
                provider: &ProviderId::claude(),
                legs: &legs,
                earlier_turns: &earlier_turns,
                earlier_attempt,
            };
            assert_eq!(plan_opening(&input), expected, "{case}");
        }
    }

    #[test]
    fn only_a_resumable_leg_is_measured_before_the_first_attempt() {
        let chain = [turn(1, true)];
        let complete = || claude(1, Some(1), None);
        let cases = [
            (complete(), EarlierAttempt::None, true),
            (
                complete(),
                EarlierAttempt::Refused(TurnId::from_bits(1)),
                false,
            ),
            (claude(1, Some(2), None), EarlierAttempt::None, false),
            (
                claude(1, Some(1), Some(LegEnd::Full)),
                EarlierAttempt::None,
                false,
            ),
            (
                leg(1, ProviderId::codex(), Some(1), None),
                EarlierAttempt::None,
                false,
            ),
        ];
        for (leg, earlier_attempt, expected) in cases {
            let input = OpeningInput {
                provider: &ProviderId::claude(),
                legs: std::slice::from_ref(&leg),
                earlier_turns: &chain,
                earlier_attempt,
            };
            assert_eq!(leg_to_measure(&input).is_some(), expected, "{leg:?}");
        }
    }

    #[test]
    fn an_agent_that_cannot_resume_now_leaves_an_intact_native_session() {
        for (is_temporary, end) in [(true, LegEnd::Unavailable), (false, LegEnd::Lost)] {
            let plan = plan_unresumed_leg(&claude(1, Some(1), None), is_temporary);
            assert_eq!(plan.ended_leg, Some((LegId::from_bits(1), end)));
            assert_eq!(plan.cause, NewNativeCause::NotResumed { is_temporary });
        }
    }

    #[test]
    fn only_earlier_legs_on_the_same_native_session_count() {
        let other = Leg {
            native_id: NativeId::parse("n-2").ok(),
            ..claude(2, None, None)
        };
        let legs = [
            claude(1, None, None),
            other,
            claude(3, None, None),
            claude(4, None, None),
        ];
        assert_eq!(tokens_of_earlier_legs(&legs[2], &legs), Some(100));
        assert_eq!(tokens_of_earlier_legs(&legs[3], &legs), Some(400));
        assert_eq!(tokens_of_earlier_legs(&legs[0], &legs), None);
        assert_eq!(tokens_of_earlier_legs(&legs[1], &legs), None);
    }
}
