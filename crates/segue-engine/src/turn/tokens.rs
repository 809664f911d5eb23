//! Token estimates for a turn that has ended: the sent text and the agent's output.

use segue_core::session::Opened;
use segue_store::TokenCount;

use super::Run;

impl Run<'_> {
    /// Saves by how many tokens the native session grew, and the tokens of the prompt, which was written before the
    /// tokenizer was loaded.
    ///
    /// These are estimates, so a failed write is ignored.
    pub(super) async fn note_tokens(&self) {
        let added = self.added_tokens();
        let prompt = segue_tokens::count_if_ready(&self.request.prompt);
        let prompt = prompt.map(|tokens| TokenCount {
            turn: self.turn,
            seq: 0,
            tokens,
        });
        let (store, lease) = (&self.engine.store, &self.hold.lease);
        let _ = tokio::join!(
            store.note_estimate(lease, self.turn, added),
            store.fill_tokens(prompt.into_iter().collect()),
        );
    }

    /// Returns by how many tokens the native session grew. `None` if this is unknown.
    pub(super) fn added_tokens(&self) -> Option<u64> {
        let sent = segue_tokens::count_if_ready(&self.sent)?;
        let said = self.recorder.tokens()?;
        (!self.is_first_of_a_branch()).then(|| sent.saturating_add(said))
    }

    /// Returns `true` if the native session of a new leg had content before, whose size is unknown.
    fn is_first_of_a_branch(&self) -> bool {
        let is_new = self
            .opened_leg
            .as_ref()
            .is_some_and(|leg| leg.tip.is_none());
        let goes_on = |(opened, _): &(Opened, String)| opened.goes_on();
        is_new && self.report.opened.as_ref().is_some_and(goes_on)
    }
}
