//! Token estimates for a turn that has ended: the sent text and the agent's output.

use segue_store::TurnTokens;

use super::TurnRun;
use super::attempt::AttemptState;

impl TurnRun<'_> {
    /// Returns by how many tokens the native session grew, and the tokens of the prompt, which was written before the
    /// tokenizer was loaded. `None` if no agent received the prompt.
    pub(super) fn turn_tokens(&self, attempt: &AttemptState) -> Option<TurnTokens> {
        self.report.sent.then(|| TurnTokens {
            added: self.estimate_added_tokens(attempt),
            prompt: segue_tokens::count_if_ready(&self.request.prompt),
        })
    }

    /// Returns by how many tokens the native session grew. `None` if this is unknown.
    pub(super) fn estimate_added_tokens(&self, attempt: &AttemptState) -> Option<u64> {
        let sent_tokens = segue_tokens::count_if_ready(&attempt.sent_text)?;
        let output_tokens = self.recorder.total_tokens()?;
        (!is_first_turn_of_branch(attempt)).then(|| sent_tokens.saturating_add(output_tokens))
    }
}

/// Returns `true` if the native session of a new leg had content before, whose size is unknown.
fn is_first_turn_of_branch(attempt: &AttemptState) -> bool {
    let leg = attempt.leg.as_ref();
    leg.is_some_and(|leg| leg.leg.tip.is_none() && leg.open_mode.is_resumed())
}
