//! Sessions, segue's durable record of conversations.

mod agent_event;
mod decision;
mod failure;
mod file_effects;
mod head_move;
mod leg;
mod message;
mod opening;
mod project;
mod resolution_step;
mod session_ref;
mod skip_reason;
mod snapshot;
mod tag;
mod turn;
mod turn_chain;
mod usage;

use jiff::Timestamp;

use crate::brief::FirstPrompt;
use crate::brief::piped_input::prompt_without_piped_input;
use crate::enum_names::named_enum;
use crate::id::{FeatureId, NativeId, ProviderId, SessionId, TurnId};
use crate::scope::Purpose;

pub use agent_event::{
    AgentEvent, Diff, PlanStatus, PlanStep, StopReason, ToolCall, ToolStatus, TurnEnd,
};
pub use decision::{
    AdoptionPurpose, CompactionSummary, Decision, DecisionKind, DroppedSetting, GuardAction,
    HandoffCause, InterruptedPrompt, NativeLoss, NewNative, NewNativeCause, OpenReason,
    OtherSession, PermissionSource, PromptRefusal, ProviderChoice, RestoreCause, RotationCause,
    TakeoverCause, TruncatedDocument, UnusedSummary, WithdrawalReason, format_replaced_turns,
};
pub use failure::{Failure, FailureClass};
pub use file_effects::{Effects, FileChange, FileChangeKind, collect_effects};
pub use head_move::{ForkSummary, HeadMove, HeadMoveKind, Lineage};
pub use leg::{Leg, LegEnd, OpenMode};
pub use message::{InlineData, Message, Part, Role};
pub use opening::{
    EarlierAttempt, NewLegPlan, OpeningInput, OpeningPlan, leg_to_measure, leg_to_reopen,
    plan_opening, plan_unresumed_leg, tokens_of_earlier_legs,
};
pub use project::Project;
pub use resolution_step::{ConfiguredSession, PurposeNative, ResolutionStep, ResolutionStepKind};
pub use session_ref::{MatchedBy, RefCandidate, RefMatch, SessionRef, best_ref_match};
pub use skip_reason::SkipReason;
pub use snapshot::{ProviderRecords, SessionSnapshot};
pub use tag::Tag;
pub use turn::{Attempt, Turn, TurnState};
pub use turn_chain::{
    TurnNumberError, can_branch_leg, can_reopen_leg, can_resume_leg, close_open_calls, plan_fork,
    plan_revert, unsent_added_turns,
};
pub use usage::Usage;
pub(crate) use usage::add_known;

named_enum! {
    /// Source of a session's title. A later variant takes precedence over an earlier variant.
    #[derive(PartialOrd, Ord)]
    pub enum TitleSource {
        /// The title is the beginning of the first prompt.
        Prompt => "prompt",
        /// The model described the session.
        Model => "model",
        /// The user named the session.
        User => "user",
    }
}

/// Reason why a text cannot be a title.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TitleError {
    /// The text consists of whitespace only.
    #[error("a title may not be empty")]
    Empty,
    /// The text is too long for a list.
    #[error("a title may have at most {limit} characters, not {length}")]
    TooLong {
        /// Length in characters.
        length: usize,
        /// Maximum length in characters.
        limit: usize,
    },
}

/// Title of a session and its source. The title is one line without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    text: String,
    source: TitleSource,
}

impl Title {
    const MAX_CHARS: usize = 200;

    /// Creates a title that the user or the model chose.
    pub fn new(text: &str, source: TitleSource) -> Result<Self, TitleError> {
        let text = to_single_line(text);
        let length = text.chars().count();
        if text.is_empty() {
            return Err(TitleError::Empty);
        }
        if length > Self::MAX_CHARS {
            return Err(TitleError::TooLong {
                length,
                limit: Self::MAX_CHARS,
            });
        }
        Ok(Self { text, source })
    }

    /// Creates the default title of a session: the beginning of its first prompt, without a leading prompt header and
    /// brief, and without piped input.
    #[must_use]
    pub fn from_prompt(prompt: &str) -> Self {
        // A prompt can have megabytes, but a title uses only its first few hundred characters.
        let start = prompt_without_piped_input(FirstPrompt::user_prompt(prompt)).trim_start();
        let line = to_single_line(&start.chars().take(400).collect::<String>());
        let mut text: String = line.chars().take(80).collect();
        if text.len() < line.len() {
            text.push('…');
        }
        if text.is_empty() {
            text.push_str("(empty prompt)");
        }
        Self {
            text,
            source: TitleSource::Prompt,
        }
    }

    /// Returns the title for a session derived from this session. Appends `suffix` to a chosen title; the beginning of
    /// a prompt stays unchanged.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> Self {
        if self.source == TitleSource::Prompt {
            return self.clone();
        }
        let suffix = format!(" ({suffix})");
        let max_chars = Self::MAX_CHARS.saturating_sub(suffix.chars().count());
        let text: String = self.text.chars().take(max_chars).collect();
        Self::new(&(text + &suffix), self.source).unwrap_or_else(|_| self.clone())
    }

    /// Returns the title as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the source of the title.
    #[must_use]
    pub fn source(&self) -> TitleSource {
        self.source
    }
}

/// Joins all lines with single spaces and drops control characters.
pub(crate) fn to_single_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !line.is_empty() && !word.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

named_enum! {
    /// Status of a session.
    pub enum SessionStatus {
        /// No turn is running.
        Idle => "idle",
        /// A turn is running in some process.
        Running => "running",
        /// The last turn was interrupted and has not been closed yet.
        Interrupted => "interrupted",
    }
}

/// A session. Like a branch, it has a name and a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Id of the session.
    pub id: SessionId,
    /// Project of the session and its working directory.
    pub project: Project,
    /// Title of the session.
    pub title: Title,
    /// Purpose of the session. `None` if it has no specific purpose.
    pub purpose: Option<Purpose>,
    /// Tags that the user attached, sorted.
    pub tags: Vec<Tag>,
    /// Current provider of the session.
    pub provider: ProviderId,
    /// Native session id of the current leg. `None` until the agent has reported it.
    pub native_id: Option<NativeId>,
    /// Last turn of the session. `None` before the first prompt.
    pub head: Option<TurnId>,
    /// State of the last turn.
    pub head_state: Option<TurnState>,
    /// Number of turns that lead to the head.
    pub turns: u32,
    /// Tokens spent on all turns ever made in the session. `None` if unknown.
    pub total_tokens: Option<u64>,
    /// Session and turn number from which this session was forked. `None` if it is not a fork.
    pub forked_from: Option<(SessionId, u32)>,
    /// Time at which the session was created.
    pub created_at: Timestamp,
    /// Time of the last activity in the session.
    pub updated_at: Timestamp,
}

impl Session {
    /// Returns the feature that the session belongs to. `None` if it has no feature.
    #[must_use]
    pub fn feature(&self) -> Option<&FeatureId> {
        self.purpose.as_ref()?.scope.feature()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_added_to_a_chosen_title_but_not_to_a_prompt() {
        let user_title = |text: &str| Title::new(text, TitleSource::User).unwrap();
        assert_eq!(
            user_title("auth").with_suffix("fork"),
            user_title("auth (fork)")
        );
        let long = user_title(&"ü".repeat(200)).with_suffix("fork");
        assert_eq!(long.as_str().chars().count(), 200);
        assert!(long.as_str().ends_with("ü (fork)"));
        let prompt = Title::from_prompt("fix it");
        assert_eq!(prompt.with_suffix("fork"), prompt);
    }

    #[test]
    fn a_title_is_one_line_without_control_characters() {
        let title = Title::new("  fix\tthe \u{1b}[31mred\n button ", TitleSource::User).unwrap();
        assert_eq!(title.as_str(), "fix the [31mred button");
        assert_eq!(Title::new(" \n", TitleSource::User), Err(TitleError::Empty));
        assert!(Title::new(&"x".repeat(201), TitleSource::User).is_err());
    }

    #[test]
    fn the_default_title_is_the_beginning_of_the_prompt() {
        let cases = [
            ("hello", "hello"),
            ("\n\n two\nlines ", "two lines"),
            ("", "(empty prompt)"),
            ("[Feature: auth] [Role: dev]\n\nfix it", "fix it"),
            ("[Feature: auth]", "[Feature: auth]"),
            ("see [Feature: auth]", "see [Feature: auth]"),
            ("why?\n\n```stdin\nerror: no\n```\n", "why?"),
        ];
        for (prompt, title) in cases {
            assert_eq!(Title::from_prompt(prompt).as_str(), title);
        }
        let long = Title::from_prompt(&"ü".repeat(100));
        assert_eq!(long.as_str().chars().count(), 81);
        assert!(long.as_str().ends_with('…'));
    }
}
