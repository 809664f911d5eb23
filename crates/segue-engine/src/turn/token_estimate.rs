//! Token estimates for a turn that has ended: the sent text and the agent's output.

use segue_core::session::OpenMode;
use segue_store::TokenCount;

use super::TurnRun;

impl TurnRun<'_> {
    /// Saves by how many tokens the native session grew, and the tokens of the prompt, which was written before the
    /// tokenizer was loaded.
    ///
    /// These are estimates, so a failed write is ignored.
    pub(super) async fn save_token_estimates(&self) {
        let added_tokens = self.estimate_added_tokens();
        let prompt = segue_tokens::count_if_ready(&self.request.prompt);
        let prompt = prompt.map(|tokens| TokenCount {
            turn: self.turn,
            seq: 0,
            tokens,
        });
        let (store, lease) = (&self.runner.context.store, &self.guard.lease);
        let _ = tokio::join!(
            store.add_token_estimate(lease, self.turn, added_tokens),
            store.fill_token_counts(prompt.into_iter().collect()),
        );
    }

    /// Returns by how many tokens the native session grew. `None` if this is unknown.
    pub(super) fn estimate_added_tokens(&self) -> Option<u64> {
        let sent_tokens = segue_tokens::count_if_ready(&self.sent_text)?;
        let output_tokens = self.recorder.total_tokens()?;
        (!self.is_first_turn_of_branch()).then(|| sent_tokens.saturating_add(output_tokens))
    }

    /// Returns `true` if the native session of a new leg had content before, whose size is unknown.
    fn is_first_turn_of_branch(&self) -> bool {
        let is_new = self
            .leg_before_turn
            .as_ref()
            .is_some_and(|leg| leg.tip.is_none());
        let is_resumed = |(opened, _): &(OpenMode, String)| opened.is_resumed();
        is_new && self.report.opened.as_ref().is_some_and(is_resumed)
    }
}
