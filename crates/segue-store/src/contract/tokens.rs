//! Contract cases for token counts of messages, and for estimated and reported counts.

use segue_core::id::{LegId, ProviderId};
use segue_core::session::{Message, Role, Usage};

use super::{at, finished, native, open_session, prompt, whole_turn};
use crate::{Draft, DraftKind, Entry, Finish, Lease, Measured, Said, Store, TokenCount};

fn counted(text: &str, tokens: Option<u64>) -> Message {
    let mut message = Message::text(Role::Assistant, text, at(2));
    message.tokens = tokens;
    message
}

fn says(seq: u32, text: &str, tokens: Option<u64>) -> Entry {
    Entry::Message {
        seq,
        message: counted(text, tokens),
    }
}

/// Records a turn with a prompt and an answer of `tokens` tokens.
async fn turn(store: &dyn Store, lease: &Lease, tokens: u64) {
    let turn = store.begin_turn(lease, &prompt("go", 0)).await.unwrap();
    let finish = Finish {
        messages: vec![(1, counted("gone", Some(tokens)))],
        ..finished(1)
    };
    store.finish_turn(lease, turn.id, finish).await.unwrap();
}

/// Verifies that a token count belongs to the current content of a message, and that a missing count can be set once
/// the turn has ended.
pub async fn counts_are_kept_and_filled_in(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    let append = |entry| store.append(&lease, turn.id, entry);
    append(says(1, "one", Some(1))).await.unwrap();
    append(says(2, "two", Some(2))).await.unwrap();
    append(says(2, "two, changed", None)).await.unwrap();
    let fill = |seq, tokens| {
        let turn = turn.id;
        store.fill_tokens(vec![TokenCount { turn, seq, tokens }])
    };
    let tokens = async || {
        let messages = store.messages(turn.id).await.unwrap();
        let tokens = messages.iter().map(|message| message.tokens);
        tokens.collect::<Vec<_>>()
    };
    fill(0, 10).await.unwrap();
    assert_eq!(tokens().await, [None, Some(1), None], "it may still change");
    store
        .finish_turn(&lease, turn.id, finished(3))
        .await
        .unwrap();
    for seq in 0..4 {
        fill(seq, 10 + u64::from(seq)).await.unwrap();
    }
    assert_eq!(tokens().await, [Some(10), Some(1), Some(12)]);
}

/// Verifies that the newest turns are read completely and no more than needed, including the draft of a running turn.
pub async fn the_newest_turns_are_read_until_there_is_enough(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    for tokens in [100, 100, 4_000, 100, 200] {
        turn(store, &lease, tokens).await;
    }
    let head = store.session(&session.id).await.unwrap().unwrap().head;
    let read = async |enough| {
        let said = store.recent(head.unwrap(), enough).await.unwrap();
        let tokens = |said: &Said| (said.n, said.messages[1].tokens.unwrap());
        said.iter().map(tokens).collect::<Vec<_>>()
    };
    let all = [(5, 200), (4, 100), (3, 4_000), (2, 100), (1, 100)];
    assert_eq!(read(0).await, all[..1]);
    // A message counts for at most a quarter of a brief, however long it is.
    assert_eq!(read(400).await, all[..4]);
    assert_eq!(read(800).await, all);
    assert_eq!(read(1_200).await, all);
    assert_eq!(read(u64::MAX).await, all);
    let said = store.recent(head.unwrap(), 0).await.unwrap();
    let expected = store.messages(said[0].turn).await.unwrap();
    assert_eq!(said[0].messages, expected);

    let running = store.begin_turn(&lease, &prompt("more", 5)).await.unwrap();
    let draft = Draft {
        seq: 1,
        kind: DraftKind::Text,
        text: "half a".into(),
        at: at(6),
    };
    store
        .append(&lease, running.id, Entry::Draft(draft))
        .await
        .unwrap();
    let said = store.recent(running.id, 0).await.unwrap();
    assert_eq!(said[0].messages[1].words(), "half a");
}

/// Records a finished turn on a leg, with segue's estimate and the agent's count.
async fn sent(
    store: &dyn Store,
    lease: &Lease,
    leg: LegId,
    added: Option<u64>,
    context: Option<u64>,
) {
    let turn = store.begin_turn(lease, &prompt("go", 0)).await.unwrap();
    store
        .begin_attempt(lease, turn.id, leg, at(1))
        .await
        .unwrap();
    let usage = Usage {
        context_tokens: context,
        context_window: context.map(|_| 200_000),
        ..Usage::default()
    };
    let finish = Finish {
        usage,
        ..finished(2)
    };
    store.finish_turn(lease, turn.id, finish).await.unwrap();
    store.note_estimate(lease, turn.id, added).await.unwrap();
}

async fn pairs(store: &dyn Store, provider: &str, limit: u32) -> Vec<(u64, u64)> {
    let provider = ProviderId::parse(provider).unwrap();
    let measured = store.measured(&provider, limit).await.unwrap();
    let pair = |measured: &Measured| (measured.estimate, measured.context_tokens);
    measured.iter().map(pair).collect()
}

/// Verifies that the estimate for a native session is the sum over its turns, and that it is paired with the agent's
/// count.
pub async fn estimates_are_measured_by_agent(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    sent(store, &lease, leg.id, Some(100), Some(1_100)).await;
    sent(store, &lease, leg.id, Some(50), None).await;
    sent(store, &lease, leg.id, Some(30), Some(1_180)).await;
    let other = crate::NewLeg {
        provider: ProviderId::parse("claude").unwrap(),
        ..native("n2")
    };
    let other = store.open_leg(&lease, other).await.unwrap();
    sent(store, &lease, other.id, Some(500), Some(20_500)).await;
    let all = pairs(store, "rehearsal", 10).await;
    assert_eq!(all, [(180, 1_180), (100, 1_100)]);
    assert_eq!(pairs(store, "rehearsal", 1).await, [(180, 1_180)]);
    assert_eq!(pairs(store, "claude", 10).await, [(500, 20_500)]);
    let claude = ProviderId::parse("claude").unwrap();
    let measured = store.measured(&claude, 1).await.unwrap();
    assert_eq!(measured[0].context_window, Some(200_000));
    // A turn that was sent to no agent is not a sample.
    let unsent = whole_turn(store, &lease, "never").await;
    store
        .note_estimate(&lease, unsent.id, Some(7))
        .await
        .unwrap();
    assert_eq!(pairs(store, "claude", 10).await, [(500, 20_500)]);
}

/// Verifies that an unknown estimate for a native session stays unknown.
pub async fn an_unknown_estimate_stays_unknown(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    sent(store, &lease, leg.id, Some(100), Some(1_100)).await;
    sent(store, &lease, leg.id, None, Some(1_200)).await;
    sent(store, &lease, leg.id, Some(10), Some(1_300)).await;
    assert_eq!(pairs(store, "rehearsal", 10).await, [(100, 1_100)]);
}
