//! Checkpoints follow the head, and the user can change them.

use segue_core::checkpoint::{ItemAuthor, ItemKind, CheckpointReason, render_edit_form, parse_edit_form};
use segue_core::session::{OpenMode, Session};
use segue_engine::{CheckpointError, EngineError, VersionStatus, Target, TurnReport};
use segue_store::Store;

use crate::scripted::{Stage, same};

/// Creates a session with `turns` turns that is compacted after each of the turns in `after`.
async fn compacted(stage: &Stage, turns: u32, after: &[u32]) -> TurnReport {
    let mut last: Option<TurnReport> = None;
    for n in 1..=turns {
        let prompt = format!("Never use tool{n}. Please write part {n} in src/part{n}.rs.");
        let target = last.as_ref().map_or(Target::New, same);
        last = Some(stage.turn(&prompt, target).await);
        if after.contains(&n) {
            let session = stage.session_of(last.as_ref().unwrap()).await;
            stage.engine.compact(&session).await.unwrap();
        }
    }
    last.unwrap()
}

/// Returns the number of the active version, and the last turn that its items come from.
async fn in_force(stage: &Stage, session: &Session) -> Option<(u32, u32)> {
    match stage.engine.checkpoint(session, None).await {
        Ok(view) => {
            let turns = view.checkpoint.items.iter().map(|item| item.turn);
            assert_eq!(turns.max(), Some(view.version.covers));
            Some((view.version.n, view.version.covers))
        }
        Err(EngineError::Checkpoint(CheckpointError::NoCheckpoint(_) | CheckpointError::NoneOnPath(_))) => {
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the brief of a new native session.
async fn told(stage: &Stage, report: &TurnReport, prompt: &str) -> String {
    let next = stage.turn(prompt, same(report)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Briefed);
    stage.agent.heard.lock().unwrap().prompts.pop().unwrap()
}

const SUMMED_UP: &str = "[What was done before, summed up";

#[tokio::test]
async fn the_one_in_force_follows_a_revert_and_its_undo() {
    let stage = Stage::new();
    let report = compacted(&stage, 6, &[2, 5]).await;
    let session = stage.session_of(&report).await;
    assert_eq!(in_force(&stage, &session).await, Some((2, 5)));
    let fullest = stage.engine.budget_usage(&session).await.unwrap().used_tokens;
    for (to, expected) in [(5, Some((2, 5))), (4, Some((1, 2))), (1, None)] {
        let session = stage.session_of(&report).await;
        let session = stage.engine.revert_session(&session, to).await.unwrap().session;
        assert_eq!(in_force(&stage, &session).await, expected, "turn {to}");
        // Detached turns no longer count.
        let held = stage.engine.budget_usage(&session).await.unwrap().used_tokens;
        assert!(held < fullest, "{held} of {fullest} at turn {to}");
    }
    // The brief does not contain detached turns.
    let words = told(&stage, &report, "another two").await;
    assert!(
        !words.contains(SUMMED_UP) && !words.contains("part2"),
        "{words}"
    );
    assert!(words.contains("> Never use tool1."), "{words}");
    for expected in [Some((1, 2)), Some((2, 5)), Some((2, 5))] {
        let session = stage.session_of(&report).await;
        let session = stage.engine.undo_revert(&session).await.unwrap().session;
        assert_eq!(in_force(&stage, &session).await, expected);
    }
    let versions = stage.engine.checkpoint_versions(&session).await.unwrap();
    let places: Vec<VersionStatus> = versions.iter().map(|(_, place)| *place).collect();
    assert_eq!(places, [VersionStatus::Superseded, VersionStatus::Active]);
}

/// After a revert to a turn that the checkpoint covers, the native session is not resumed, because it contains later
/// turns.
#[tokio::test]
async fn a_revert_across_a_compaction_and_back_is_told_the_right_one() {
    let stage = Stage::new();
    let report = compacted(&stage, 4, &[3]).await;
    let session = stage.session_of(&report).await;
    stage.engine.revert_session(&session, 2).await.unwrap();
    let words = told(&stage, &report, "another three").await;
    assert!(
        words.contains("part2") && !words.contains("part3"),
        "{words}"
    );
    assert!(!words.contains(SUMMED_UP), "{words}");
    let session = stage.session_of(&report).await;
    stage.engine.undo_revert(&session).await.unwrap();
    // The leg of turn 4 received the checkpoint, and its tip is the head now.
    let next = stage.turn("five", same(&report)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    let session = stage.session_of(&report).await;
    assert_eq!(in_force(&stage, &session).await, Some((1, 3)));
}

#[tokio::test]
async fn a_fork_has_what_was_in_force_where_it_branched_off() {
    let stage = Stage::new();
    let report = compacted(&stage, 5, &[2, 4]).await;
    let session = stage.session_of(&report).await;
    for (at, expected) in [(1, None), (3, Some((1, 2))), (5, Some((2, 4)))] {
        let fork = stage
            .engine
            .fork_session(&session, Some(at), &session.project)
            .await;
        let fork = fork.unwrap().session;
        assert_eq!(in_force(&stage, &fork).await, expected, "turn {at}");
    }
    // A change in the fork does not affect the original session.
    let fork = stage.engine.fork_session(&session, None, &session.project).await;
    let fork = fork.unwrap().session;
    let item = stage.engine.checkpoint(&fork, None).await.unwrap();
    let item = item.checkpoint.items[0].id;
    stage.engine.pin_checkpoint_item(&fork, item, true).await.unwrap();
    assert_eq!(in_force(&stage, &fork).await, Some((3, 4)));
    assert_eq!(in_force(&stage, &session).await, Some((2, 4)));
}

#[tokio::test]
async fn what_is_pinned_stays_through_every_compaction() {
    let mut stage = Stage::new();
    // The budget is sufficient only for the items that must stay.
    stage.engine = stage.beside_it().with_budget(2_000);
    let report = compacted(&stage, 2, &[2]).await;
    let session = stage.session_of(&report).await;
    let view = stage.engine.checkpoint(&session, None).await.unwrap();
    let rule = view.checkpoint.items.iter();
    let rule = rule
        .clone()
        .find(|item| item.text.contains("tool1"))
        .unwrap();
    let changed = stage.engine.pin_checkpoint_item(&session, rule.id, true).await.unwrap();
    assert!(changed.is_new);
    assert_eq!(changed.view.version.reason, CheckpointReason::Pinned);
    let again = stage.engine.pin_checkpoint_item(&session, rule.id, true).await.unwrap();
    assert_eq!((again.is_new, again.view.version.n), (false, 2));
    for n in 0..12 {
        let more = format!(
            "Never do thing{n} with {}.",
            "words and more words ".repeat(20)
        );
        stage.turn(&more, same(&report)).await;
        let session = stage.session_of(&report).await;
        stage.engine.compact(&session).await.unwrap();
    }
    let session = stage.session_of(&report).await;
    let view = stage.engine.checkpoint(&session, None).await.unwrap();
    assert!(
        view.checkpoint
            .find_item(rule.id)
            .is_some_and(|item| item.pinned)
    );
    let rules = view.checkpoint.items.iter();
    let rules = rules.filter(|item| item.text.contains("thing")).count();
    assert!(rules < 12, "there was no room for all");

    let missing = stage.engine.pin_checkpoint_item(&session, 9_999, true).await.unwrap_err();
    assert!(
        missing.to_string().ends_with("has no item 9999"),
        "{missing}"
    );
}

#[tokio::test]
async fn a_restored_version_counts_again_and_what_was_said_since_is_told_in_full() {
    let stage = Stage::new();
    let report = compacted(&stage, 4, &[2, 4]).await;
    let session = stage.session_of(&report).await;
    let saved = async || {
        stage
            .engine
            .checkpoint(&session, None)
            .await
            .unwrap()
            .total_saved
    };
    let before = saved().await;
    let changed = stage.engine.restore_checkpoint(&session, 1).await.unwrap();
    let view = changed.view;
    assert_eq!((view.version.n, view.version.covers), (3, 2));
    assert_eq!(view.version.author, ItemAuthor::User);
    assert_eq!(view.version.reason, CheckpointReason::Restored);
    let old = stage
        .store
        .checkpoint(&session.id, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(view.checkpoint, old.1);
    assert_eq!(
        view.version.turn,
        stage
            .store
            .checkpoint(&session.id, 2)
            .await
            .unwrap()
            .unwrap()
            .0
            .turn
    );
    assert!(view.total_saved <= before);
    let words = told(&stage, &report, "five").await;
    let (checkpoint, messages) = words.split_once("[The conversation so far").unwrap();
    assert!(
        checkpoint.contains("tool2") && !checkpoint.contains("tool3"),
        "{words}"
    );
    assert!(messages.contains("> Never use tool3."), "{words}");
    // The next compaction covers all turns since then, each once.
    let session = stage.session_of(&report).await;
    stage.engine.compact(&session).await.unwrap();
    let (version, _) = stage
        .store
        .checkpoint(&session.id, 4)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(version.covers, 5);

    let unknown = stage
        .engine
        .restore_checkpoint(&session, 9)
        .await
        .unwrap_err();
    assert!(
        unknown.to_string().ends_with("has no checkpoint 9"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_version_about_other_turns_does_not_come_back() {
    let stage = Stage::new();
    let report = compacted(&stage, 4, &[2, 4]).await;
    let session = stage.session_of(&report).await;
    stage.engine.revert_session(&session, 3).await.unwrap();
    let session = stage.session_of(&report).await;
    assert_eq!(in_force(&stage, &session).await, Some((1, 2)));
    let elsewhere = stage
        .engine
        .restore_checkpoint(&session, 2)
        .await
        .unwrap_err();
    assert!(
        elsewhere.to_string().contains("do not lead to"),
        "{elsewhere}"
    );
    stage.engine.revert_session(&session, 1).await.unwrap();
    let session = stage.session_of(&report).await;
    let elsewhere = stage
        .engine
        .restore_checkpoint(&session, 1)
        .await
        .unwrap_err();
    assert!(
        elsewhere.to_string().contains("do not lead to"),
        "{elsewhere}"
    );
    let none = stage.engine.pin_checkpoint_item(&session, 1, true).await.unwrap_err();
    assert!(
        none.to_string().contains("has no checkpoint where"),
        "{none}"
    );
}

#[tokio::test]
async fn what_a_person_writes_counts_unless_it_is_outdated_or_too_long() {
    let stage = Stage::new();
    let report = compacted(&stage, 2, &[2]).await;
    let session = stage.session_of(&report).await;
    let view = stage.engine.checkpoint(&session, None).await.unwrap();
    let text = format!(
        "{}\nStill to do:\n- ask Ada first\n",
        render_edit_form(&view.checkpoint)
    );
    let written = parse_edit_form(&text, &view.checkpoint, 2).unwrap();
    let write = async |then, written| stage.engine.write_checkpoint(&session, then, written).await;
    let changed = write(1, written.clone()).await.unwrap();
    assert_eq!((changed.view.version.n, changed.is_new), (2, true));
    let same_again = write(2, written.clone()).await.unwrap();
    assert_eq!((same_again.view.version.n, same_again.is_new), (2, false));
    let outdated = write(1, view.checkpoint.clone()).await.unwrap_err();
    assert!(
        outdated.to_string().contains("made meanwhile"),
        "{outdated}"
    );
    let long = format!("{text}- {}\n", "and so on ".repeat(190));
    let mut long = parse_edit_form(&long, &view.checkpoint, 2).unwrap();
    let last = long.items_of_kind(ItemKind::Pending).next_back().unwrap().clone();
    long.items
        .extend((100..300).map(|id| segue_core::checkpoint::CheckpointItem { id, ..last.clone() }));
    let too_large = write(2, long).await.unwrap_err();
    assert!(
        too_large.to_string().contains("it may have 40,000"),
        "{too_large}"
    );
    assert_eq!(stage.store.checkpoints(&session.id).await.unwrap().len(), 2);
    let words = told(&stage, &report, "three").await;
    assert!(words.contains("ask Ada first"), "{words}");
}

/// The number of an item is never used for another item, even after the item was removed.
#[tokio::test]
async fn numbers_of_items_are_given_once() {
    let stage = Stage::new();
    let report = compacted(&stage, 4, &[2, 4]).await;
    let session = stage.session_of(&report).await;
    let view = stage.engine.checkpoint(&session, None).await.unwrap();
    // The user removes the item with the highest number, and then adds an item.
    let last = view.checkpoint.next_item_id() - 1;
    let mut without = view.checkpoint.clone();
    without.items.retain(|item| item.id != last);
    let write = async |then, checkpoint| {
        let wrote = stage.engine.write_checkpoint(&session, then, checkpoint);
        wrote.await.unwrap().view
    };
    let view = write(view.version.n, without).await;
    let text = format!("{}\nGoal:\n- ship it\n", render_edit_form(&view.checkpoint));
    let made = parse_edit_form(&text, &view.checkpoint, 4).unwrap();
    let view = write(view.version.n, made).await;
    let mut goals = view.checkpoint.items_of_kind(ItemKind::Goal);
    let new = goals.find(|item| item.text == "ship it").unwrap().id;
    assert!(new > last, "{new} after {last}");
    // A branch from an earlier turn does not contain these items, and still uses other numbers.
    let session = stage.engine.revert_session(&session, 3).await.unwrap().session;
    let earlier = stage.engine.checkpoint(&session, None).await.unwrap();
    stage.turn("Never use tabs.", same(&report)).await;
    let session = stage.session_of(&report).await;
    stage.engine.compact(&session).await.unwrap().created.unwrap();
    let view = stage.engine.checkpoint(&session, None).await.unwrap();
    let items = view.checkpoint.items.iter();
    let fresh: Vec<u32> = items
        .map(|item| item.id)
        .filter(|id| earlier.checkpoint.find_item(*id).is_none())
        .collect();
    assert!(
        !fresh.is_empty() && fresh.iter().all(|id| *id > new),
        "{fresh:?}"
    );
}
