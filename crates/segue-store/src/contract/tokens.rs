//! Contract cases for token counts of messages, and for estimated and reported counts.

use segue_core::id::{LegId, ProviderId, TurnId};
use segue_core::session::{Message, Role, Usage};

use super::{finished_ending, new_leg, open_session, prompt, time_at};
use crate::{
    ContextMeasurement, Draft, DraftKind, Lease, SettleEffects, Store, StoredTurn, TokenCount,
    TurnEnding, TurnEntry, TurnTokens,
};

fn counted_message(text: &str, tokens: Option<u64>) -> Message {
    let mut message = Message::from_text(Role::Assistant, text, time_at(2));
    message.tokens = tokens;
    message
}

fn message_entry(seq: u32, text: &str, tokens: Option<u64>) -> TurnEntry {
    TurnEntry::Message {
        seq,
        message: counted_message(text, tokens),
    }
}

/// Records a turn with a prompt and an answer of `tokens` tokens.
async fn record_counted_turn(store: &dyn Store, lease: &Lease, tokens: u64) {
    let turn = store.begin_turn(lease, &prompt("go", 0)).await.unwrap();
    let ending = TurnEnding {
        messages: vec![(1, counted_message("gone", Some(tokens)))],
        ..finished_ending(1)
    };
    store.finish_turn(lease, turn.id, ending).await.unwrap();
}

/// Verifies that a token count belongs to the current content of a message, and that a missing count can be set once
/// the turn has ended.
pub async fn token_counts_are_stored_and_missing_ones_are_filled(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    let append = |entry| store.append_entry(&lease, turn.id, entry);
    append(message_entry(1, "one", Some(1))).await.unwrap();
    append(message_entry(2, "two", Some(2))).await.unwrap();
    append(message_entry(2, "two, changed", None))
        .await
        .unwrap();
    let fill = |seq, tokens| {
        let turn = turn.id;
        store.fill_token_counts(vec![TokenCount { turn, seq, tokens }])
    };
    let tokens = async || {
        let messages = store.messages(turn.id).await.unwrap();
        let tokens = messages.iter().map(|message| message.tokens);
        tokens.collect::<Vec<_>>()
    };
    fill(0, 10).await.unwrap();
    assert_eq!(
        tokens().await,
        [None, Some(1), None],
        "a running turn is not counted"
    );
    store
        .finish_turn(&lease, turn.id, finished_ending(3))
        .await
        .unwrap();
    for seq in 0..4 {
        fill(seq, 10 + u64::from(seq)).await.unwrap();
    }
    assert_eq!(tokens().await, [Some(10), Some(1), Some(12)]);
}

/// Verifies that the newest turns are read completely and no more than needed, including the draft of a running turn.
pub async fn recent_turns_are_read_until_the_token_budget_is_full(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    for tokens in [100, 100, 4_000, 100, 200] {
        record_counted_turn(store, &lease, tokens).await;
    }
    let head = store.session(&session.id).await.unwrap().unwrap().head;
    let read = async |token_budget| {
        let turns = store
            .recent_turns(head.unwrap(), token_budget)
            .await
            .unwrap();
        let tokens = |stored_turn: &StoredTurn| {
            (stored_turn.number, stored_turn.messages[1].tokens.unwrap())
        };
        turns.iter().map(tokens).collect::<Vec<_>>()
    };
    let all = [(5, 200), (4, 100), (3, 4_000), (2, 100), (1, 100)];
    assert_eq!(read(0).await, all[..1]);
    // A message counts for at most a quarter of a brief, however long it is.
    assert_eq!(read(400).await, all[..4]);
    assert_eq!(read(800).await, all);
    assert_eq!(read(1_200).await, all);
    assert_eq!(read(u64::MAX).await, all);
    let newest = store.recent_turns(head.unwrap(), 0).await.unwrap();
    let expected = store.messages(newest[0].turn).await.unwrap();
    assert_eq!(newest[0].messages, expected);

    let running = store.begin_turn(&lease, &prompt("more", 5)).await.unwrap();
    let draft = Draft {
        seq: 1,
        kind: DraftKind::Text,
        text: "half a".into(),
        at: time_at(6),
    };
    store
        .append_entry(&lease, running.id, TurnEntry::Draft(draft))
        .await
        .unwrap();
    let newest = store.recent_turns(running.id, 0).await.unwrap();
    assert_eq!(newest[0].messages[1].plain_text(), "half a");
}

/// Ends a turn, with the tokens that it added to its native session.
async fn settle_with_tokens(
    store: &dyn Store,
    lease: &Lease,
    turn: TurnId,
    ending: TurnEnding,
    added: Option<u64>,
) {
    let effects = SettleEffects {
        tokens: Some(TurnTokens {
            added,
            prompt: Some(3),
        }),
        ..SettleEffects::default()
    };
    store
        .settle_turn(lease, turn, ending, effects)
        .await
        .unwrap();
    let prompt = store.messages(turn).await.unwrap().remove(0);
    assert_eq!(prompt.tokens, Some(3));
}

/// Records a finished turn on a leg, with segue's estimate and the agent's count.
async fn record_sent_turn(
    store: &dyn Store,
    lease: &Lease,
    leg: LegId,
    added: Option<u64>,
    context: Option<u64>,
) {
    let turn = store.begin_turn(lease, &prompt("go", 0)).await.unwrap();
    store
        .begin_attempt(lease, turn.id, leg, time_at(1))
        .await
        .unwrap();
    let usage = Usage {
        context_tokens: context,
        context_window: context.map(|_| 200_000),
        ..Usage::default()
    };
    let ending = TurnEnding {
        usage,
        ..finished_ending(2)
    };
    settle_with_tokens(store, lease, turn.id, ending, added).await;
}

async fn estimate_pairs(store: &dyn Store, provider: &str, limit: u32) -> Vec<(u64, u64)> {
    let provider = ProviderId::parse(provider).unwrap();
    let measurements = store.context_measurements(&provider, limit).await.unwrap();
    let pair = |measurement: &ContextMeasurement| {
        (measurement.estimated_tokens, measurement.context_tokens)
    };
    measurements.iter().map(pair).collect()
}

/// Verifies that the estimate for a native session is the sum over its turns, and that it is paired with the agent's
/// count.
pub async fn estimates_are_paired_with_the_counts_of_a_provider(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    record_sent_turn(store, &lease, leg.id, Some(100), Some(1_100)).await;
    record_sent_turn(store, &lease, leg.id, Some(50), None).await;
    record_sent_turn(store, &lease, leg.id, Some(30), Some(1_180)).await;
    let new_claude_leg = crate::NewLeg {
        provider: ProviderId::parse("claude").unwrap(),
        ..new_leg("n2")
    };
    let claude_leg = store.open_leg(&lease, new_claude_leg).await.unwrap();
    record_sent_turn(store, &lease, claude_leg.id, Some(500), Some(20_500)).await;
    let all = estimate_pairs(store, "rehearsal", 10).await;
    assert_eq!(all, [(180, 1_180), (100, 1_100)]);
    assert_eq!(estimate_pairs(store, "rehearsal", 1).await, [(180, 1_180)]);
    assert_eq!(estimate_pairs(store, "claude", 10).await, [(500, 20_500)]);
    let claude = ProviderId::parse("claude").unwrap();
    let measurements = store.context_measurements(&claude, 1).await.unwrap();
    assert_eq!(measurements[0].context_window, Some(200_000));
    // A turn that was sent to no agent is not a sample.
    let unsent = store.begin_turn(&lease, &prompt("never", 5)).await.unwrap();
    settle_with_tokens(store, &lease, unsent.id, finished_ending(6), Some(7)).await;
    assert_eq!(estimate_pairs(store, "claude", 10).await, [(500, 20_500)]);
}

/// Verifies that an unknown estimate for a native session stays unknown.
pub async fn an_unknown_estimate_stays_unknown(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    record_sent_turn(store, &lease, leg.id, Some(100), Some(1_100)).await;
    record_sent_turn(store, &lease, leg.id, None, Some(1_200)).await;
    record_sent_turn(store, &lease, leg.id, Some(10), Some(1_300)).await;
    assert_eq!(estimate_pairs(store, "rehearsal", 10).await, [(100, 1_100)]);
}
