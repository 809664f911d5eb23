//! Plan of a brief: which checkpoint and which messages it contains, and whether a compaction precedes it.

use super::{Brief, BriefError, BriefInput, BriefTurn, compose_brief};
use crate::checkpoint::{Checkpoint, CheckpointVersion, CompactionPlan, merge, render_checkpoint};
use crate::number_format::format_plural;

/// Percent of the budget without role and context that a brief with a checkpoint uses, unless it needs more.
const BRIEF_BUDGET_PERCENT: u64 = 65;

/// Maximum percent of the complete budget, with role and context, that a brief with a checkpoint uses, unless it needs
/// more.
const MAX_BRIEF_BUDGET_PERCENT: u64 = 75;

/// Role and project context, which a brief contains completely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preamble {
    /// Role instructions for the agent; empty if the session has no role.
    pub role: String,
    /// Project context; empty if the session has no role.
    pub context: String,
}

impl Preamble {
    /// Estimates the tokens in the preamble. Each line counts one token more, because the brief quotes it.
    #[must_use]
    pub fn estimate_tokens(&self, count: &dyn Fn(&str) -> u64) -> u64 {
        let count_with_quotes = |text: &str| {
            let lines = u64::try_from(text.lines().count()).unwrap_or(u64::MAX);
            count(text).saturating_add(lines)
        };
        count_with_quotes(&self.role).saturating_add(count_with_quotes(&self.context))
    }

    /// Returns the tokens of `budget` that the preamble leaves for the conversation. Fails if the preamble alone
    /// exceeds the budget, so that no session is compacted in vain.
    pub fn conversation_budget(
        &self,
        budget: u64,
        count: &dyn Fn(&str) -> u64,
    ) -> Result<u64, BriefError> {
        let tokens = self.estimate_tokens(count);
        if tokens > budget / 2 {
            let preamble_only = BriefInput {
                role: Some(self.role.as_str()),
                context: Some(self.context.as_str()),
                ..BriefInput::default()
            };
            compose_brief(&preamble_only, budget, count)?;
        }
        Ok(budget.saturating_sub(tokens))
    }
}

/// Checkpoint that a brief contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveCheckpoint {
    /// Content.
    pub checkpoint: Checkpoint,
    /// Tokens in the rendered checkpoint.
    pub tokens: u64,
    /// Number of the last turn that the checkpoint covers.
    pub covers: u32,
}

impl From<(CheckpointVersion, Checkpoint)> for ActiveCheckpoint {
    fn from((version, checkpoint): (CheckpointVersion, Checkpoint)) -> Self {
        Self {
            checkpoint,
            tokens: version.tokens,
            covers: version.covers,
        }
    }
}

impl From<&CompactionPlan> for ActiveCheckpoint {
    fn from(plan: &CompactionPlan) -> Self {
        Self {
            checkpoint: plan.checkpoint.clone(),
            tokens: plan.tokens,
            covers: plan.covers,
        }
    }
}

/// Input of [`plan_brief`].
#[derive(Debug, Clone, Default)]
pub struct BriefSources {
    /// First line of the brief; `None` if it has none.
    pub heading: Option<String>,
    /// Role and project context.
    pub preamble: Preamble,
    /// Active checkpoint; `None` if the session has none.
    pub checkpoint: Option<ActiveCheckpoint>,
    /// Compaction that precedes the brief, because the turns do not fit otherwise; `None` if none is needed.
    pub compaction: Option<CompactionPlan>,
    /// The newest turns without a gap, oldest first, with their token counts.
    pub turns: Vec<BriefTurn>,
    /// Id of the session in which the agent can look up omitted text; `None` if the agent has no tools for that.
    pub lookup_session_id: Option<String>,
    /// The user's prompt.
    pub prompt: String,
}

/// A planned brief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BriefPlan {
    /// The brief.
    pub brief: Brief,
    /// Compaction to commit before the brief is sent; `None` if none is needed.
    pub compaction: Option<CompactionPlan>,
    /// Number of items of the checkpoint in the brief, and of all its items; `None` if the brief contains all of them.
    pub reduced_items: Option<(usize, usize)>,
}

/// Returns `true` if the turns must be compacted before a brief, because the checkpoint and all turns after it do not
/// fit the budget in full, or because a turn is missing in between.
#[must_use]
pub fn needs_compaction(
    turns: &[BriefTurn],
    checkpoint: Option<&ActiveCheckpoint>,
    conversation_budget: u64,
) -> bool {
    let covers = checkpoint.map_or(0, |checkpoint| checkpoint.covers);
    let is_contiguous = turns.first().is_none_or(|turn| turn.n <= covers + 1);
    !is_contiguous || estimate_conversation_tokens(turns, checkpoint) > conversation_budget
}

/// Plans a brief that fits `budget` together with its prompt. Fails if the sections that are never cut exceed it.
pub fn plan_brief(
    sources: BriefSources,
    budget: u64,
    count: &dyn Fn(&str) -> u64,
) -> Result<BriefPlan, BriefError> {
    let preamble_tokens = sources.preamble.estimate_tokens(count);
    let conversation_budget = budget.saturating_sub(preamble_tokens);
    let planned = sources.compaction.as_ref().map(ActiveCheckpoint::from);
    let checkpoint = planned.or(sources.checkpoint);
    let item_count = checkpoint.as_ref().map_or(0, ActiveCheckpoint::item_count);
    let checkpoint =
        checkpoint.map(|checkpoint| checkpoint.shrink_to_half(conversation_budget, count));
    let included_count = checkpoint.as_ref().map_or(0, ActiveCheckpoint::item_count);
    let checkpoint_text = checkpoint
        .as_ref()
        .map(|checkpoint| checkpoint.render(item_count - included_count));
    let input = BriefInput {
        heading: sources.heading.as_deref(),
        role: Some(sources.preamble.role.as_str()),
        context: Some(sources.preamble.context.as_str()),
        checkpoint: checkpoint_text.as_deref(),
        turns: &sources.turns,
        lookup_session_id: sources.lookup_session_id.as_deref(),
        prompt: &sources.prompt,
    };
    let used_budget = preamble_tokens
        + used_conversation_budget(
            &sources.turns,
            checkpoint.as_ref(),
            preamble_tokens,
            conversation_budget,
        );
    Ok(BriefPlan {
        brief: compose_brief(&input, used_budget, count)?,
        compaction: sources.compaction,
        reduced_items: (included_count < item_count).then_some((included_count, item_count)),
    })
}

/// Estimates the tokens of a brief with a checkpoint. The newest messages fill its budget, as far as there are enough.
#[must_use]
pub fn estimate_brief_tokens(version: &CheckpointVersion, conversation_budget: u64) -> u64 {
    let full_tokens = version.tokens.saturating_add(version.replaced);
    full_tokens
        .min(percent_of(conversation_budget, BRIEF_BUDGET_PERCENT))
        .max(version.tokens)
}

impl ActiveCheckpoint {
    fn item_count(&self) -> usize {
        self.checkpoint.items.len()
    }

    /// Renders the checkpoint, with a note about dropped items.
    fn render(&self, dropped_items: usize) -> String {
        let text = render_checkpoint(&self.checkpoint);
        match dropped_items {
            0 => text,
            dropped => {
                let omitted = format_plural(dropped, "more item");
                format!("{text}({omitted} omitted: not enough room)\n")
            }
        }
    }

    /// Limits the checkpoint to half of `budget`.
    ///
    /// A checkpoint that was made for a larger budget loses its least important items. Otherwise the brief would lose
    /// whatever is in the middle of the checkpoint.
    fn shrink_to_half(self, budget: u64, count: &dyn Fn(&str) -> u64) -> Self {
        if self.tokens <= budget / 2 {
            return self;
        }
        let checkpoint = merge(&self.checkpoint, Vec::new(), budget / 2, count);
        Self {
            tokens: count(&render_checkpoint(&checkpoint)),
            covers: self.covers,
            checkpoint,
        }
    }
}

/// Estimates the tokens of a checkpoint and all turns after it.
fn estimate_conversation_tokens(turns: &[BriefTurn], checkpoint: Option<&ActiveCheckpoint>) -> u64 {
    let (tokens, covers) =
        checkpoint.map_or((0, 0), |checkpoint| (checkpoint.tokens, checkpoint.covers));
    let later_turns = turns.iter().filter(|turn| turn.n > covers);
    let messages = later_turns.flat_map(|turn| &turn.messages);
    let later_tokens: u64 = messages.map(|message| message.tokens.unwrap_or(0)).sum();
    // Each line and each message takes a few tokens more than its text.
    tokens + tokens / 8 + later_tokens + later_tokens / 8 + 2_000
}

/// Returns how many tokens of `conversation_budget` a brief uses. `conversation_budget` is the budget without role and
/// context.
///
/// With a checkpoint, the brief uses only a percentage of it, so that the conversation can continue, but always enough
/// for the complete checkpoint.
fn used_conversation_budget(
    turns: &[BriefTurn],
    checkpoint: Option<&ActiveCheckpoint>,
    preamble_tokens: u64,
    conversation_budget: u64,
) -> u64 {
    let Some(active) = checkpoint else {
        return conversation_budget;
    };
    let budget = preamble_tokens.saturating_add(conversation_budget);
    let max_tokens = percent_of(budget, MAX_BRIEF_BUDGET_PERCENT).saturating_sub(preamble_tokens);
    percent_of(conversation_budget, BRIEF_BUDGET_PERCENT)
        .min(max_tokens)
        .max(estimate_conversation_tokens(turns, checkpoint))
        .max(active.tokens / 3 * 4 + 2_000)
        .min(conversation_budget)
}

fn percent_of(amount: u64, percent: u64) -> u64 {
    amount.saturating_mul(percent) / 100
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::brief::BriefSection;
    use crate::checkpoint::{CheckpointItem, CheckpointReason, ItemAuthor, ItemKind};
    use crate::id::TurnId;
    use crate::session::{Message, Role};

    fn count_words(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    fn turn(n: u32, tokens: u64) -> BriefTurn {
        let text = "word ".repeat(usize::try_from(tokens).unwrap());
        let mut message = Message::from_text(Role::User, text, Timestamp::UNIX_EPOCH);
        message.tokens = Some(tokens);
        BriefTurn {
            n,
            messages: vec![message],
        }
    }

    fn checkpoint(covers: u32, items: u32) -> ActiveCheckpoint {
        let items = (1..=items).map(|id| CheckpointItem {
            id,
            kind: ItemKind::Note,
            text: format!("note {id} of the plan"),
            subject: None,
            turn: 1,
            message_index: 0,
            author: ItemAuthor::Extraction,
            weight: 1,
            pinned: false,
        });
        let checkpoint = Checkpoint {
            items: items.collect(),
            ..Checkpoint::default()
        };
        ActiveCheckpoint {
            tokens: count_words(&render_checkpoint(&checkpoint)),
            covers,
            checkpoint,
        }
    }

    #[test]
    fn turns_are_compacted_if_they_do_not_fit_or_have_a_gap() {
        let cases = [
            ("no turns", vec![], None, 3_000, false),
            (
                "turns that fit",
                vec![turn(1, 100), turn(2, 100)],
                None,
                3_000,
                false,
            ),
            (
                "turns that do not fit",
                vec![turn(1, 1_000)],
                None,
                3_000,
                true,
            ),
            (
                "a gap before the first turn",
                vec![turn(3, 10)],
                None,
                3_000,
                true,
            ),
            (
                "a gap after the checkpoint",
                vec![turn(3, 10)],
                Some(checkpoint(1, 1)),
                3_000,
                true,
            ),
            (
                "turns after the checkpoint",
                vec![turn(3, 10)],
                Some(checkpoint(2, 1)),
                3_000,
                false,
            ),
            // Covered turns do not count.
            (
                "a covered turn",
                vec![turn(1, 9_000)],
                Some(checkpoint(1, 1)),
                3_000,
                false,
            ),
        ];
        for (case, turns, checkpoint, budget, expected) in cases {
            let actual = needs_compaction(&turns, checkpoint.as_ref(), budget);
            assert_eq!(actual, expected, "{case}");
        }
    }

    #[test]
    fn a_planned_compaction_replaces_the_active_checkpoint_in_the_brief() {
        let compaction = |items| CompactionPlan {
            checkpoint: checkpoint(4, items).checkpoint,
            covers: 4,
            turns: 2,
            tokens: checkpoint(4, items).tokens,
            replaced: 900,
            max_tokens: 1_000,
        };
        let cases = [
            ("no checkpoint", None, None, 10_000, None),
            (
                "the active one",
                Some(checkpoint(2, 3)),
                None,
                10_000,
                Some(("note 3", None)),
            ),
            (
                "the planned one",
                Some(checkpoint(2, 1)),
                Some(compaction(3)),
                10_000,
                Some(("note 3", None)),
            ),
            // Half of the budget is for the checkpoint, so a larger one is reduced.
            (
                "a reduced one",
                Some(checkpoint(2, 400)),
                None,
                2_000,
                Some(("omitted: not enough room", Some(400))),
            ),
        ];
        for (case, checkpoint, compaction, budget, expected) in cases {
            let sources = BriefSources {
                checkpoint,
                compaction: compaction.clone(),
                turns: vec![turn(5, 20)],
                prompt: "go".into(),
                ..BriefSources::default()
            };
            let plan = plan_brief(sources, budget, &count_words).unwrap();
            let has_checkpoint = plan.brief.has_section(BriefSection::Checkpoint);
            assert_eq!(has_checkpoint, expected.is_some(), "{case}");
            assert_eq!(plan.compaction, compaction, "{case}");
            if let Some((text, total)) = expected {
                assert!(
                    plan.brief.text.contains(text),
                    "{case}: {}",
                    plan.brief.text
                );
                assert_eq!(plan.reduced_items.map(|(_, total)| total), total, "{case}");
            }
            assert!(plan.brief.total_tokens() <= budget, "{case}");
        }
    }

    #[test]
    fn a_preamble_that_exceeds_the_budget_is_an_error() {
        let preamble = |words: usize| Preamble {
            role: "be ".repeat(words),
            context: String::new(),
        };
        for (words, budget, expected) in [
            (0, 1_000, Some(1_000)),
            (99, 1_000, Some(900)),
            (950, 1_000, None),
        ] {
            let remaining = preamble(words).conversation_budget(budget, &count_words);
            assert_eq!(remaining.ok(), expected, "{words}");
        }
    }

    #[test]
    fn a_brief_with_a_checkpoint_is_filled_with_recent_messages_up_to_its_budget() {
        let version = |tokens, replaced| CheckpointVersion {
            n: 1,
            turn: TurnId::from_bits(1),
            covers: 9,
            tokens,
            replaced,
            author: ItemAuthor::Extraction,
            reason: CheckpointReason::Budget,
            at: Timestamp::UNIX_EPOCH,
            last_item_id: 0,
            last_read_turn: 0,
        };
        for (tokens, replaced, expected) in [
            // The newest messages fill the budget.
            (1_000, 9_000, 6_500),
            // The brief is not larger than the conversation.
            (300, 700, 1_000),
            // The checkpoint is always included, whatever its size.
            (8_000, 90_000, 8_000),
            (0, 0, 0),
            (1, u64::MAX, 6_500),
        ] {
            let estimate = estimate_brief_tokens(&version(tokens, replaced), 10_000);
            assert_eq!(estimate, expected, "{tokens} for {replaced}");
        }
    }
}
