//! Checkpoints follow the head, and the user can change them.

use segue_core::checkpoint::{
    CheckpointReason, ItemAuthor, ItemKind, parse_edit_form, render_edit_form,
};
use segue_core::session::{OpenMode, Session};
use segue_engine::{
    CheckpointEdit, CheckpointError, CompactionError, EngineSettings, Target, TurnReport,
    VersionStatus,
};

use crate::scripted::{EngineHarness, session_target};

/// Creates a session with `turns` turns that is compacted after each of the turns in `after`.
async fn create_compacted_session(
    harness: &EngineHarness,
    turns: u32,
    after: &[u32],
) -> TurnReport {
    let mut last: Option<TurnReport> = None;
    for n in 1..=turns {
        let prompt = format!("Never use tool{n}. Please write part {n} in src/part{n}.rs.");
        let target = last.as_ref().map_or(Target::New, session_target);
        last = Some(harness.run_turn(&prompt, target).await);
        if after.contains(&n) {
            let session = harness.load_session(last.as_ref().unwrap()).await;
            harness.engine.compactor().compact(&session).await.unwrap();
        }
    }
    last.unwrap()
}

/// Returns the number of the active version, and the last turn that its items come from.
async fn active_version(harness: &EngineHarness, session: &Session) -> Option<(u32, u32)> {
    match harness.engine.compactor().checkpoint(session, None).await {
        Ok(view) => {
            let turns = view.checkpoint.items.iter().map(|item| item.turn);
            assert_eq!(turns.max(), Some(view.version.covers));
            Some((view.version.n, view.version.covers))
        }
        Err(CompactionError::Checkpoint(
            CheckpointError::NoCheckpoint(_) | CheckpointError::NoneOnPath(_),
        )) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the brief of a new native session.
async fn run_briefed_turn(harness: &EngineHarness, report: &TurnReport, prompt: &str) -> String {
    let next = harness.run_turn(prompt, session_target(report)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Briefed);
    harness
        .agent
        .received
        .lock()
        .unwrap()
        .prompts
        .pop()
        .unwrap()
}

const CHECKPOINT_HEADING: &str = "[Summary of earlier work";

#[tokio::test]
async fn the_active_version_follows_a_revert_and_its_undo() {
    let harness = EngineHarness::new();
    let report = create_compacted_session(&harness, 6, &[2, 5]).await;
    let session = harness.load_session(&report).await;
    assert_eq!(active_version(&harness, &session).await, Some((2, 5)));
    let max_used_tokens = harness
        .engine
        .compactor()
        .budget_usage(&session)
        .await
        .unwrap()
        .used_tokens;
    for (to, expected) in [(5, Some((2, 5))), (4, Some((1, 2))), (1, None)] {
        let session = harness.load_session(&report).await;
        let session = harness
            .engine
            .sessions()
            .revert_session(&session, to)
            .await
            .unwrap()
            .session;
        assert_eq!(
            active_version(&harness, &session).await,
            expected,
            "turn {to}"
        );
        // Detached turns no longer count.
        let used_tokens = harness
            .engine
            .compactor()
            .budget_usage(&session)
            .await
            .unwrap()
            .used_tokens;
        assert!(
            used_tokens < max_used_tokens,
            "{used_tokens} of {max_used_tokens} at turn {to}"
        );
    }
    // The brief does not contain detached turns.
    let brief = run_briefed_turn(&harness, &report, "another two").await;
    assert!(
        !brief.contains(CHECKPOINT_HEADING) && !brief.contains("part2"),
        "{brief}"
    );
    assert!(brief.contains("> Never use tool1."), "{brief}");
    for expected in [Some((1, 2)), Some((2, 5)), Some((2, 5))] {
        let session = harness.load_session(&report).await;
        let session = harness
            .engine
            .sessions()
            .undo_revert(&session)
            .await
            .unwrap()
            .session;
        assert_eq!(active_version(&harness, &session).await, expected);
    }
    let versions = harness
        .engine
        .compactor()
        .checkpoint_versions(&session)
        .await
        .unwrap();
    let statuses: Vec<VersionStatus> = versions.iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses, [VersionStatus::Superseded, VersionStatus::Active]);
}

/// After a revert to a turn that the checkpoint covers, the native session is not resumed, because it contains later
/// turns.
#[tokio::test]
async fn a_revert_across_a_compaction_briefs_with_the_matching_version() {
    let harness = EngineHarness::new();
    let report = create_compacted_session(&harness, 4, &[3]).await;
    let session = harness.load_session(&report).await;
    harness
        .engine
        .sessions()
        .revert_session(&session, 2)
        .await
        .unwrap();
    let brief = run_briefed_turn(&harness, &report, "another three").await;
    assert!(
        brief.contains("part2") && !brief.contains("part3"),
        "{brief}"
    );
    assert!(!brief.contains(CHECKPOINT_HEADING), "{brief}");
    let session = harness.load_session(&report).await;
    harness
        .engine
        .sessions()
        .undo_revert(&session)
        .await
        .unwrap();
    // The leg of turn 4 received the checkpoint, and its tip is the head now.
    let next = harness.run_turn("five", session_target(&report)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    let session = harness.load_session(&report).await;
    assert_eq!(active_version(&harness, &session).await, Some((1, 3)));
}

#[tokio::test]
async fn a_fork_has_the_version_that_was_active_at_its_turn() {
    let harness = EngineHarness::new();
    let report = create_compacted_session(&harness, 5, &[2, 4]).await;
    let session = harness.load_session(&report).await;
    for (at, expected) in [(1, None), (3, Some((1, 2))), (5, Some((2, 4)))] {
        let fork = harness
            .engine
            .sessions()
            .fork_session(&session, Some(at), None, &session.project)
            .await;
        let fork = fork.unwrap().session;
        assert_eq!(active_version(&harness, &fork).await, expected, "turn {at}");
    }
    // A change in the fork does not affect the original session.
    let fork = harness
        .engine
        .sessions()
        .fork_session(&session, None, None, &session.project)
        .await;
    let fork = fork.unwrap().session;
    let item = harness
        .engine
        .compactor()
        .checkpoint(&fork, None)
        .await
        .unwrap();
    let item = item.checkpoint.items[0].id;
    harness
        .engine
        .compactor()
        .change_checkpoint(&fork, CheckpointEdit::Pin { item, pinned: true })
        .await
        .unwrap();
    assert_eq!(active_version(&harness, &fork).await, Some((3, 4)));
    assert_eq!(active_version(&harness, &session).await, Some((2, 4)));
}

#[tokio::test]
async fn a_pinned_item_survives_every_compaction() {
    let mut harness = EngineHarness::new();
    // The budget is sufficient only for the items that must stay.
    harness.engine = harness.second_engine_with(EngineSettings {
        budget: 2_000,
        ..EngineSettings::default()
    });
    let report = create_compacted_session(&harness, 2, &[2]).await;
    let session = harness.load_session(&report).await;
    let view = harness
        .engine
        .compactor()
        .checkpoint(&session, None)
        .await
        .unwrap();
    let rule = view.checkpoint.items.iter();
    let rule = rule
        .clone()
        .find(|item| item.text.contains("tool1"))
        .unwrap();
    let pin = |item| CheckpointEdit::Pin { item, pinned: true };
    let compactor = harness.engine.compactor();
    let change = compactor.change_checkpoint(&session, pin(rule.id)).await;
    let change = change.unwrap();
    assert!(change.is_new);
    assert_eq!(change.view.version.reason, CheckpointReason::Pinned);
    let repeated = compactor.change_checkpoint(&session, pin(rule.id)).await;
    let repeated = repeated.unwrap();
    assert_eq!((repeated.is_new, repeated.view.version.n), (false, 2));
    for n in 0..12 {
        let prompt = format!(
            "Never do thing{n} with {}.",
            "words and more words ".repeat(20)
        );
        harness.run_turn(&prompt, session_target(&report)).await;
        let session = harness.load_session(&report).await;
        compactor.compact(&session).await.unwrap();
    }
    let session = harness.load_session(&report).await;
    let view = harness
        .engine
        .compactor()
        .checkpoint(&session, None)
        .await
        .unwrap();
    assert!(
        view.checkpoint
            .find_item(rule.id)
            .is_some_and(|item| item.pinned)
    );
    let rules = view.checkpoint.items.iter();
    let rules = rules.filter(|item| item.text.contains("thing")).count();
    assert!(rules < 12, "the budget has no room for all rules");

    let missing = compactor.change_checkpoint(&session, pin(9_999)).await;
    let missing = missing.unwrap_err();
    assert!(
        missing.to_string().ends_with("has no item 9999"),
        "{missing}"
    );
}

#[tokio::test]
async fn a_restored_version_is_active_and_later_turns_are_briefed_in_full() {
    let harness = EngineHarness::new();
    let report = create_compacted_session(&harness, 4, &[2, 4]).await;
    let session = harness.load_session(&report).await;
    let total_saved = async || {
        harness
            .engine
            .compactor()
            .checkpoint(&session, None)
            .await
            .unwrap()
            .total_saved
    };
    let before = total_saved().await;
    let change = harness
        .engine
        .compactor()
        .change_checkpoint(&session, CheckpointEdit::Restore(1))
        .await
        .unwrap();
    let view = change.view;
    assert_eq!((view.version.n, view.version.covers), (3, 2));
    assert_eq!(view.version.author, ItemAuthor::User);
    assert_eq!(view.version.reason, CheckpointReason::Restored);
    let stored = harness
        .store
        .checkpoint(&session.id, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(view.checkpoint, stored.1);
    assert_eq!(
        view.version.turn,
        harness
            .store
            .checkpoint(&session.id, 2)
            .await
            .unwrap()
            .unwrap()
            .0
            .turn
    );
    assert!(view.total_saved <= before);
    let brief = run_briefed_turn(&harness, &report, "five").await;
    let (checkpoint, messages) = brief.split_once("[Conversation so far").unwrap();
    assert!(
        checkpoint.contains("tool2") && !checkpoint.contains("tool3"),
        "{brief}"
    );
    assert!(messages.contains("> Never use tool3."), "{brief}");
    // The next compaction covers all turns since then, each once.
    let session = harness.load_session(&report).await;
    harness.engine.compactor().compact(&session).await.unwrap();
    let (version, _) = harness
        .store
        .checkpoint(&session.id, 4)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(version.covers, 5);

    let error = harness
        .engine
        .compactor()
        .change_checkpoint(&session, CheckpointEdit::Restore(9))
        .await
        .unwrap_err();
    assert!(
        error.to_string().ends_with("has no checkpoint 9"),
        "{error}"
    );
}

#[tokio::test]
async fn a_version_of_other_turns_cannot_be_restored() {
    let harness = EngineHarness::new();
    let report = create_compacted_session(&harness, 4, &[2, 4]).await;
    let session = harness.load_session(&report).await;
    harness
        .engine
        .sessions()
        .revert_session(&session, 3)
        .await
        .unwrap();
    let session = harness.load_session(&report).await;
    assert_eq!(active_version(&harness, &session).await, Some((1, 2)));
    let error = harness
        .engine
        .compactor()
        .change_checkpoint(&session, CheckpointEdit::Restore(2))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no longer part of session"),
        "{error}"
    );
    harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    let session = harness.load_session(&report).await;
    let error = harness
        .engine
        .compactor()
        .change_checkpoint(&session, CheckpointEdit::Restore(1))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no longer part of session"),
        "{error}"
    );
    let error = harness
        .engine
        .compactor()
        .change_checkpoint(
            &session,
            CheckpointEdit::Pin {
                item: 1,
                pinned: true,
            },
        )
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has no checkpoint at its current head"),
        "{error}"
    );
}

#[tokio::test]
async fn an_edited_checkpoint_is_accepted_unless_outdated_or_too_long() {
    let harness = EngineHarness::new();
    let report = create_compacted_session(&harness, 2, &[2]).await;
    let session = harness.load_session(&report).await;
    let view = harness
        .engine
        .compactor()
        .checkpoint(&session, None)
        .await
        .unwrap();
    let text = format!(
        "{}\nStill to do:\n- ask Ada first\n",
        render_edit_form(&view.checkpoint)
    );
    let edited = parse_edit_form(&text, &view.checkpoint, 2).unwrap();
    let write = async |base_version, checkpoint| {
        harness
            .engine
            .compactor()
            .change_checkpoint(
                &session,
                CheckpointEdit::Rewrite {
                    base: base_version,
                    checkpoint,
                },
            )
            .await
    };
    let change = write(1, edited.clone()).await.unwrap();
    assert_eq!((change.view.version.n, change.is_new), (2, true));
    let repeated = write(2, edited.clone()).await.unwrap();
    assert_eq!((repeated.view.version.n, repeated.is_new), (2, false));
    let outdated_error = write(1, view.checkpoint.clone()).await.unwrap_err();
    assert!(
        outdated_error.to_string().contains("is out of date"),
        "{outdated_error}"
    );
    let long_text = format!("{text}- {}\n", "and so on ".repeat(190));
    let mut long_checkpoint = parse_edit_form(&long_text, &view.checkpoint, 2).unwrap();
    let last = long_checkpoint
        .items_of_kind(ItemKind::Pending)
        .next_back()
        .unwrap()
        .clone();
    long_checkpoint
        .items
        .extend((100..300).map(|id| segue_core::checkpoint::CheckpointItem { id, ..last.clone() }));
    let size_error = write(2, long_checkpoint).await.unwrap_err();
    assert!(
        size_error.to_string().contains("allows at most 40,000"),
        "{size_error}"
    );
    assert_eq!(
        harness.store.checkpoints(&session.id).await.unwrap().len(),
        2
    );
    let brief = run_briefed_turn(&harness, &report, "three").await;
    assert!(brief.contains("ask Ada first"), "{brief}");
}

/// The number of an item is never used for another item, even after the item was removed.
#[tokio::test]
async fn item_ids_are_never_reused() {
    let harness = EngineHarness::new();
    let report = create_compacted_session(&harness, 4, &[2, 4]).await;
    let session = harness.load_session(&report).await;
    let view = harness
        .engine
        .compactor()
        .checkpoint(&session, None)
        .await
        .unwrap();
    // The user removes the item with the highest number, and then adds an item.
    let last_id = view.checkpoint.next_item_id() - 1;
    let mut shortened = view.checkpoint.clone();
    shortened.items.retain(|item| item.id != last_id);
    let write = async |base_version, checkpoint| {
        let change = harness.engine.compactor().change_checkpoint(
            &session,
            CheckpointEdit::Rewrite {
                base: base_version,
                checkpoint,
            },
        );
        change.await.unwrap().view
    };
    let view = write(view.version.n, shortened).await;
    let text = format!("{}\nGoal:\n- ship it\n", render_edit_form(&view.checkpoint));
    let edited = parse_edit_form(&text, &view.checkpoint, 4).unwrap();
    let view = write(view.version.n, edited).await;
    let mut goals = view.checkpoint.items_of_kind(ItemKind::Goal);
    let new_id = goals.find(|item| item.text == "ship it").unwrap().id;
    assert!(new_id > last_id, "{new_id} after {last_id}");
    // A branch from an earlier turn does not contain these items, and still uses other numbers.
    let session = harness
        .engine
        .sessions()
        .revert_session(&session, 3)
        .await
        .unwrap()
        .session;
    let earlier = harness
        .engine
        .compactor()
        .checkpoint(&session, None)
        .await
        .unwrap();
    harness
        .run_turn("Never use tabs.", session_target(&report))
        .await;
    let session = harness.load_session(&report).await;
    harness
        .engine
        .compactor()
        .compact(&session)
        .await
        .unwrap()
        .created
        .unwrap();
    let view = harness
        .engine
        .compactor()
        .checkpoint(&session, None)
        .await
        .unwrap();
    let items = view.checkpoint.items.iter();
    let fresh_ids: Vec<u32> = items
        .map(|item| item.id)
        .filter(|id| earlier.checkpoint.find_item(*id).is_none())
        .collect();
    assert!(
        !fresh_ids.is_empty() && fresh_ids.iter().all(|id| *id > new_id),
        "{fresh_ids:?}"
    );
}
