//! The tokens of a turn that is over: what its agent was told and said.

use segue_store::TokenCount;

use super::Run;

impl Run<'_> {
    /// Notes how much longer the native session became, and what the prompt counts, which was written down before
    /// anybody could count. It is an estimate: where it can't be kept, nothing is lost.
    pub(super) async fn note_tokens(&self) {
        let sent = segue_tokens::count_if_ready(&self.sent);
        let added = sent
            .zip(self.recorder.tokens())
            .map(|(sent, said)| sent.saturating_add(said));
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
}
