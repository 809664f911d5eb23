//! Number of tokens that a checkpoint saves.

use std::collections::HashMap;

use super::CheckpointVersion;

/// Returns the number of tokens that the active version saves over all messages that it summarises.
///
/// `versions` are the versions that lead to the active one, which is the last of them, in the order of their turns and
/// then of their numbers. The tokens of an earlier version do not count as saved, so that a checkpoint that grew saves
/// less.
#[must_use]
pub fn total_saved_tokens(versions: &[CheckpointVersion]) -> u64 {
    // Tokens of all messages up to each turn at which a version ends.
    let mut message_tokens: HashMap<u32, u64> = HashMap::new();
    for (index, version) in versions.iter().enumerate() {
        if message_tokens.contains_key(&version.covers) {
            continue;
        }
        // The version that was active when this one was made.
        let mut earlier = versions.iter().take(index).rev();
        let previous = earlier.find(|earlier| earlier.n < version.n);
        let (previous_tokens, covered_tokens) = previous.map_or((0, 0), |previous| {
            (
                previous.tokens,
                message_tokens.get(&previous.covers).copied().unwrap_or(0),
            )
        });
        let total = covered_tokens.saturating_add(version.replaced.saturating_sub(previous_tokens));
        message_tokens.insert(version.covers, total);
    }
    let saved = |last: &CheckpointVersion| {
        let covered_tokens = message_tokens.get(&last.covers).copied().unwrap_or(0);
        covered_tokens.saturating_sub(last.tokens)
    };
    versions.last().map_or(0, saved)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::{CheckpointReason, ItemAuthor};
    use super::*;
    use crate::id::TurnId;

    type Case = (&'static str, &'static [(u32, u32, u64, u64)], u64);

    #[test]
    fn saved_tokens_are_message_tokens_minus_checkpoint_tokens() {
        let version = |(n, covers, tokens, replaced): (u32, u32, u64, u64)| CheckpointVersion {
            n,
            turn: TurnId::from_bits(u64::from(covers)),
            covers,
            tokens,
            replaced,
            author: ItemAuthor::Extraction,
            reason: CheckpointReason::Budget,
            at: Timestamp::UNIX_EPOCH,
            last_item_id: 0,
            last_read_turn: 0,
        };
        let cases: [Case; 8] = [
            ("none", &[], 0),
            ("one", &[(1, 5, 100, 1_000)], 900),
            // The messages have 1,000 and 2,000 tokens; the 100 tokens of the first version do not count as saved.
            ("two", &[(1, 5, 100, 1_000), (2, 9, 150, 2_100)], 2_850),
            (
                "the checkpoint grew",
                &[(1, 5, 100, 1_000), (2, 6, 160, 150)],
                890,
            ),
            (
                "the checkpoint is larger than the messages",
                &[(1, 1, 90, 30)],
                0,
            ),
            ("pinned", &[(1, 5, 100, 1_000), (2, 5, 100, 100)], 900),
            ("edited", &[(1, 5, 100, 1_000), (2, 5, 130, 100)], 870),
            (
                "reverted to the first version",
                &[(1, 5, 100, 1_000), (2, 9, 150, 2_100), (3, 5, 100, 1_000)],
                900,
            ),
        ];
        for (name, versions, saved) in cases {
            let versions: Vec<CheckpointVersion> = versions.iter().copied().map(version).collect();
            assert_eq!(total_saved_tokens(&versions), saved, "{name}");
        }
    }
}
