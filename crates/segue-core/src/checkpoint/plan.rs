//! Plan of a compaction.

use super::{Checkpoint, CheckpointVersion, assign_item_ids, extract, merge, render_checkpoint};
use crate::brief::BriefTurn;
use crate::session::CompactionSummary;

/// Percent of the budget that a checkpoint may use, after role and context are subtracted. The remainder is for the
/// newest messages and for further turns.
const CHECKPOINT_BUDGET_PERCENT: u64 = 40;

/// Percent of the complete budget that a checkpoint may use in any case, even if role and context leave less. A
/// checkpoint that does not fit is stored nevertheless, and the brief contains as much of it as fits.
const MIN_CHECKPOINT_BUDGET_PERCENT: u64 = 10;

/// Input of [`plan_compaction`].
#[derive(Debug, Clone)]
pub struct CompactionInput {
    /// Active version with its content; `None` if the session has none.
    pub previous: Option<(CheckpointVersion, Checkpoint)>,
    /// Turns after those that the active version covers, oldest first, with their token counts.
    pub new_turns: Vec<BriefTurn>,
    /// Working directory of the session.
    pub cwd: String,
    /// Maximum number of tokens in the checkpoint.
    pub max_tokens: u64,
    /// Highest number that an item of the session's checkpoints ever had; 0 if they never had an item.
    pub last_item_id: u32,
}

/// A planned compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Checkpoint that results.
    pub checkpoint: Checkpoint,
    /// Number of the last turn that the checkpoint covers.
    pub covers: u32,
    /// Number of turns that the checkpoint covers and that no earlier version covers.
    pub turns: u32,
    /// Tokens in the checkpoint.
    pub tokens: u64,
    /// Tokens that the checkpoint replaces.
    pub replaced: u64,
    /// Maximum number of tokens in a checkpoint.
    pub max_tokens: u64,
}

impl CompactionPlan {
    /// Returns the numbers of the compaction, which makes version `checkpoint`.
    #[must_use]
    pub fn to_summary(&self, checkpoint: u32) -> CompactionSummary {
        CompactionSummary {
            turns: self.turns,
            replaces_checkpoint: self.covers > self.turns,
            replaced_tokens: self.replaced,
            checkpoint,
            tokens: self.tokens,
        }
    }
}

/// Plans a compaction. `None` if no turn follows the active version.
#[must_use]
pub fn plan_compaction(
    input: &CompactionInput,
    count: &dyn Fn(&str) -> u64,
) -> Option<CompactionPlan> {
    let last = input.new_turns.last()?;
    let (previous, previous_tokens) = match &input.previous {
        Some((version, checkpoint)) => (checkpoint, version.tokens),
        None => (&Checkpoint::default(), 0),
    };
    let extracted = extract(&input.new_turns, &input.cwd, count);
    let checkpoint = merge(previous, extracted, input.max_tokens, count);
    let checkpoint = assign_item_ids(previous, checkpoint, input.last_item_id);
    Some(CompactionPlan {
        covers: last.n,
        turns: u32::try_from(input.new_turns.len()).unwrap_or(u32::MAX),
        tokens: count(&render_checkpoint(&checkpoint)),
        replaced: previous_tokens + sum_turn_tokens(&input.new_turns),
        max_tokens: input.max_tokens,
        checkpoint,
    })
}

/// Returns the maximum number of tokens in a checkpoint, given the budget of a brief and the tokens that role and
/// context use.
#[must_use]
pub fn checkpoint_budget(budget: u64, preamble_tokens: u64) -> u64 {
    let percent_of = |amount: u64, percent: u64| amount.saturating_mul(percent) / 100;
    let remaining = budget.saturating_sub(preamble_tokens);
    percent_of(remaining, CHECKPOINT_BUDGET_PERCENT)
        .max(percent_of(budget, MIN_CHECKPOINT_BUDGET_PERCENT))
}

/// Returns the tokens of all messages in turns, as far as they were counted.
#[must_use]
pub fn sum_turn_tokens(turns: &[BriefTurn]) -> u64 {
    let messages = turns.iter().flat_map(|turn| &turn.messages);
    messages.map(|message| message.tokens.unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::{CheckpointReason, ItemAuthor};
    use super::*;
    use crate::id::TurnId;
    use crate::session::{Message, Role};

    fn turn(n: u32, prompt: &str, tokens: u64) -> BriefTurn {
        let mut message = Message::from_text(Role::User, prompt, Timestamp::UNIX_EPOCH);
        message.tokens = Some(tokens);
        BriefTurn {
            n,
            messages: vec![message],
        }
    }

    fn version(covers: u32, tokens: u64) -> CheckpointVersion {
        CheckpointVersion {
            n: 1,
            turn: TurnId::from_bits(1),
            covers,
            tokens,
            replaced: 0,
            author: ItemAuthor::Extraction,
            reason: CheckpointReason::Budget,
            at: Timestamp::UNIX_EPOCH,
            last_read_turn: 0,
            last_item_id: 0,
        }
    }

    fn count_words(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    #[test]
    fn a_compaction_replaces_the_active_version_and_the_turns_after_it() {
        let rule = "Never edit the schema files. Build the parser.";
        let previous = || Some((version(2, 40), Checkpoint::default()));
        let cases = [
            ("no turns", None, vec![], None),
            ("no turns after the version", previous(), vec![], None),
            (
                "first version",
                None,
                vec![turn(1, rule, 10), turn(2, "go on", 5)],
                Some((2, 2, 15)),
            ),
            (
                "next version",
                previous(),
                vec![turn(3, rule, 10)],
                Some((3, 1, 50)),
            ),
        ];
        for (case, previous, new_turns, expected) in cases {
            let input = CompactionInput {
                previous,
                new_turns,
                cwd: "/src".into(),
                max_tokens: 500,
                last_item_id: 7,
            };
            let plan = plan_compaction(&input, &count_words);
            let numbers = plan
                .as_ref()
                .map(|plan| (plan.covers, plan.turns, plan.replaced));
            assert_eq!(numbers, expected, "{case}");
            if let Some(plan) = plan {
                assert!(!plan.checkpoint.items.is_empty(), "{case}");
                assert!(
                    plan.checkpoint.items.iter().all(|item| item.id > 7),
                    "{case}"
                );
                assert_eq!(
                    plan.tokens,
                    count_words(&render_checkpoint(&plan.checkpoint))
                );
                assert!(plan.tokens <= plan.max_tokens, "{case}");
            }
        }
    }

    #[test]
    fn a_checkpoint_gets_a_part_of_the_budget_that_role_and_context_leave() {
        for (budget, preamble_tokens, expected) in [
            (100_000, 0, 40_000),
            (100_000, 50_000, 20_000),
            // A tenth of the budget is the minimum.
            (100_000, 90_000, 10_000),
            (100_000, 200_000, 10_000),
            (0, 0, 0),
        ] {
            let actual = checkpoint_budget(budget, preamble_tokens);
            assert_eq!(actual, expected, "{budget}, {preamble_tokens}");
        }
    }
}
