//! The test suite that every store must pass.
//!
//! Each case is a function that takes a `&dyn Store` to a new, empty store. [`store_contract!`](crate::store_contract)
//! turns all cases into tests of the calling crate.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    reason = "a test suite reports failures by panics"
)]

mod checkpoints;
mod context;
mod feed;
mod import;
mod lease;
mod provider_health;
mod reconcile;
mod revert;
mod scopes;
mod sessions;
mod tags;
mod tokens;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::ProcessIdentity;
use segue_core::id::{NativeId, ProviderId, SessionId, TurnId};
use segue_core::policy::ProviderHealth;
use segue_core::session::{Message, Project, Role, Session, Title, Turn, TurnState, Usage};

use crate::{
    Lease, LeaseRequest, NewLeg, NewSession, Result, SettleEffects, Store, StoreClock, TurnEnding,
};

pub use checkpoints::{
    a_checkpoint_follows_the_head, a_checkpoint_on_a_shared_turn_belongs_to_one_session,
    a_compaction_is_committed_in_one_operation, a_fork_shares_the_checkpoints_of_its_origin,
    a_version_stores_the_last_read_turn_and_item_number, every_version_of_a_checkpoint_can_be_read,
};
pub use context::a_project_context_is_stored_with_its_session;
pub use feed::{
    a_cursor_of_another_store_is_refused, a_deleted_session_stays_in_the_feed_without_content,
    an_operation_that_fails_is_not_in_the_feed, the_feed_contains_every_change_of_a_session,
    the_feed_contains_every_step_of_a_turn, the_feed_is_read_from_any_cursor,
};
pub use import::{a_session_is_imported_once_per_project, an_imported_session_is_complete};
pub use lease::{
    a_client_with_a_wrong_clock_steals_and_loses_nothing,
    a_lease_excludes_other_processes_until_released, a_silent_holder_loses_its_lease,
    a_stale_lease_cannot_write, exactly_one_concurrent_lease_request_is_granted,
    the_lease_of_a_dead_holder_is_taken_over,
};
pub use provider_health::{
    a_cooldown_applies_to_a_provider_in_all_sessions,
    a_handoff_changes_the_provider_and_ends_the_leg, a_turn_ends_together_with_its_effects,
    provider_health_is_stored_per_provider_and_session,
};
pub use reconcile::{
    a_leg_has_the_mark_of_its_last_marked_attempt, a_native_update_is_applied_in_one_operation,
    native_turns_on_a_reverted_path_become_a_separate_session,
};
pub use revert::{
    a_fork_shares_earlier_turns_but_not_later_ones, a_revert_can_be_undone_after_later_turns,
    a_revert_moves_the_head_and_an_undo_restores_it, an_ended_leg_is_reopened_as_a_new_leg,
    deleting_a_session_retains_turns_that_its_forks_share, every_earlier_head_can_be_forked,
    two_undos_reverse_two_reverts_newest_first,
};
pub use scopes::{
    a_fork_has_its_own_purpose, a_purpose_query_returns_the_newest_session_of_a_provider,
    concurrent_starts_create_one_session_per_purpose, each_purpose_finds_only_its_own_sessions,
};
pub use sessions::{
    a_created_session_can_be_read_back,
    a_reference_matches_sessions_by_id_native_id_prefix_and_suffix,
    a_session_starts_with_its_lease_and_first_turn, a_user_title_is_not_replaced_by_a_suggestion,
    an_adopted_native_session_has_all_its_turns, attached_native_sessions_are_listed,
    decisions_are_returned_in_order, each_filter_field_selects_sessions, every_decision_survives,
    paging_returns_each_session_once, session_ids_are_unique_and_unknown_ids_are_errors,
    session_stamps_show_which_sessions_changed,
};
pub use tags::{
    a_fork_copies_the_tags_of_its_origin, a_missing_session_cannot_be_tagged,
    a_tag_filter_selects_sessions_with_all_tags, each_tag_is_counted_once_per_session,
    tags_are_added_and_removed,
};
pub use tokens::{
    an_unknown_estimate_stays_unknown, estimates_are_paired_with_the_counts_of_a_provider,
    recent_turns_are_read_until_the_token_budget_is_full,
    token_counts_are_stored_and_missing_ones_are_filled,
};
pub use turns::{
    a_context_loss_is_recorded_until_the_reminder, a_failed_attempt_allows_another_attempt,
    a_failure_is_stored_with_its_turn_and_attempt, a_finished_turn_is_immutable,
    a_leg_can_receive_its_native_id_later, a_prompt_and_its_attempt_are_recorded_together,
    a_session_runs_one_turn_at_a_time, a_snapshot_contains_the_state_that_plans_depend_on,
    a_turn_is_recorded_completely, a_turn_records_whether_its_prompt_was_sent,
    a_withdrawn_turn_is_not_in_the_history, an_added_message_is_a_finished_unsent_turn,
    concurrent_appends_are_all_recorded, drafts_become_messages, every_hint_survives,
    every_kind_of_part_survives, ids_reveal_no_row_numbers,
};

/// Creates a test from each contract case.
///
/// `$open` is a function that takes a [`StoreClock`] and returns a new store with that clock, and a guard for its
/// storage: `(store, guard)`. The calling crate needs `tokio` with `rt` and `macros`.
#[macro_export]
macro_rules! store_contract {
    ($open:expr) => {
        $crate::store_contract!(@cases $open;
            an_adopted_native_session_has_all_its_turns
            a_failed_attempt_allows_another_attempt
            a_compaction_is_committed_in_one_operation
            a_prompt_and_its_attempt_are_recorded_together
            a_snapshot_contains_the_state_that_plans_depend_on
            a_withdrawn_turn_is_not_in_the_history
            a_context_loss_is_recorded_until_the_reminder
            a_leg_can_receive_its_native_id_later
            a_leg_has_the_mark_of_its_last_marked_attempt
            a_native_update_is_applied_in_one_operation
            native_turns_on_a_reverted_path_become_a_separate_session
            a_created_session_can_be_read_back
            session_ids_are_unique_and_unknown_ids_are_errors
            each_filter_field_selects_sessions
            paging_returns_each_session_once
            a_reference_matches_sessions_by_id_native_id_prefix_and_suffix
            attached_native_sessions_are_listed
            session_stamps_show_which_sessions_changed
            decisions_are_returned_in_order
            every_decision_survives
            a_session_starts_with_its_lease_and_first_turn
            a_user_title_is_not_replaced_by_a_suggestion
            each_purpose_finds_only_its_own_sessions
            a_purpose_query_returns_the_newest_session_of_a_provider
            a_fork_has_its_own_purpose
            concurrent_starts_create_one_session_per_purpose
            tags_are_added_and_removed
            a_tag_filter_selects_sessions_with_all_tags
            each_tag_is_counted_once_per_session
            a_fork_copies_the_tags_of_its_origin
            a_missing_session_cannot_be_tagged
            a_turn_is_recorded_completely
            every_kind_of_part_survives
            every_hint_survives
            ids_reveal_no_row_numbers
            drafts_become_messages
            a_session_runs_one_turn_at_a_time
            a_finished_turn_is_immutable
            a_turn_records_whether_its_prompt_was_sent
            an_added_message_is_a_finished_unsent_turn
            a_failure_is_stored_with_its_turn_and_attempt
            concurrent_appends_are_all_recorded
            token_counts_are_stored_and_missing_ones_are_filled
            recent_turns_are_read_until_the_token_budget_is_full
            estimates_are_paired_with_the_counts_of_a_provider
            an_unknown_estimate_stays_unknown
            a_revert_moves_the_head_and_an_undo_restores_it
            a_revert_can_be_undone_after_later_turns
            two_undos_reverse_two_reverts_newest_first
            every_earlier_head_can_be_forked
            an_ended_leg_is_reopened_as_a_new_leg
            a_fork_shares_earlier_turns_but_not_later_ones
            deleting_a_session_retains_turns_that_its_forks_share
            a_checkpoint_follows_the_head
            every_version_of_a_checkpoint_can_be_read
            a_fork_shares_the_checkpoints_of_its_origin
            a_checkpoint_on_a_shared_turn_belongs_to_one_session
            a_version_stores_the_last_read_turn_and_item_number
            a_project_context_is_stored_with_its_session
            an_imported_session_is_complete
            a_session_is_imported_once_per_project
            a_handoff_changes_the_provider_and_ends_the_leg
            a_turn_ends_together_with_its_effects
            provider_health_is_stored_per_provider_and_session
            a_cooldown_applies_to_a_provider_in_all_sessions
            a_lease_excludes_other_processes_until_released
            the_lease_of_a_dead_holder_is_taken_over
            a_stale_lease_cannot_write
            exactly_one_concurrent_lease_request_is_granted
            the_feed_contains_every_step_of_a_turn
            the_feed_contains_every_change_of_a_session
            an_operation_that_fails_is_not_in_the_feed
            a_deleted_session_stays_in_the_feed_without_content
            a_cursor_of_another_store_is_refused
        );
        $crate::store_contract!(@clock_cases $open;
            a_silent_holder_loses_its_lease
            a_client_with_a_wrong_clock_steals_and_loses_nothing
            the_feed_is_read_from_any_cursor
        );
    };
    (@cases $open:expr; $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let clock = $crate::contract::ManualClock::default();
                let (store, _guard) = $open(clock.to_store_clock());
                $crate::contract::$case(&store).await;
            }
        )*
    };
    (@clock_cases $open:expr; $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let clock = $crate::contract::ManualClock::default();
                let (store, _guard) = $open(clock.to_store_clock());
                $crate::contract::$case(&store, &clock).await;
            }
        )*
    };
}

/// A clock that a test sets.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Returns the clock for a store.
    #[must_use]
    pub fn to_store_clock(&self) -> StoreClock {
        let seconds = Arc::clone(&self.0);
        Arc::new(move || time_at(seconds.load(Ordering::SeqCst)))
    }

    /// Sets the time in seconds from the start of the test.
    fn set(&self, second: i64) {
        self.0.store(second, Ordering::SeqCst);
    }
}

/// Time without a heartbeat after which a lease expires: five minutes.
const LEASE_TIMEOUT: SignedDuration = SignedDuration::from_secs(300);

/// Returns a point in time, in seconds from the start of a test.
fn time_at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + second)
}

fn owner(pid: u32) -> ProcessIdentity {
    ProcessIdentity {
        host: "here".into(),
        pid,
        start_time: "then".into(),
    }
}

/// Returns the id of session number `n` of a test.
fn session_id(n: u32) -> SessionId {
    SessionId::from_timestamp(time_at(i64::from(n)), n)
}

fn new_session(n: u32) -> NewSession {
    NewSession {
        id: session_id(n),
        project: Project {
            key: "/src/app/.git".into(),
            cwd: "/src/app".into(),
        },
        title: Title::from_prompt(&format!("session {n}")),
        purpose: None,
        provider: ProviderId::rehearsal(),
        at: time_at(i64::from(n)),
        conflict_filter: None,
    }
}

fn lease_request(session: &SessionId, pid: u32) -> LeaseRequest {
    LeaseRequest {
        session: session.clone(),
        owner: owner(pid),
        expires_after: LEASE_TIMEOUT,
        dead_epoch: None,
    }
}

/// Creates a session and acquires its lease.
async fn open_session(store: &dyn Store, n: u32) -> (Session, Lease) {
    let session = store.create_session(new_session(n)).await.unwrap();
    let granted = store
        .acquire_lease(lease_request(&session.id, 1))
        .await
        .unwrap();
    (session, granted.lease)
}

fn prompt(text: &str, second: i64) -> Message {
    Message::from_text(Role::User, text, time_at(second))
}

fn finished_ending(second: i64) -> TurnEnding {
    TurnEnding {
        state: TurnState::Finished,
        messages: Vec::new(),
        usage: Usage::default(),
        failure: None,
        at: time_at(second),
    }
}

fn new_leg(name: &str) -> NewLeg {
    NewLeg {
        provider: ProviderId::rehearsal(),
        native_id: Some(NativeId::parse(name).unwrap()),
        at: time_at(0),
    }
}

/// Shorthands of the test cases.
impl dyn Store + '_ {
    /// Records a prompt as the next turn.
    async fn begin_turn(&self, lease: &Lease, prompt: &Message) -> Result<Turn> {
        self.start_turn(lease, prompt.clone().into()).await
    }

    /// Ends a turn without consequences.
    async fn finish_turn(&self, lease: &Lease, turn: TurnId, ending: TurnEnding) -> Result<()> {
        self.settle_turn(lease, turn, ending, SettleEffects::default())
            .await
    }

    /// Returns the health of a provider in a session.
    async fn provider_health(
        &self,
        id: &SessionId,
        provider: &ProviderId,
    ) -> Result<ProviderHealth> {
        let snapshot = self.session_snapshot(id).await?;
        Ok(snapshot.map_or_else(ProviderHealth::default, |snapshot| {
            snapshot.providers.health_of(provider)
        }))
    }
}

/// Takes a lease over, as if its owner were dead.
async fn take_over(store: &dyn Store, lease: &Lease) -> Lease {
    let mut request = lease_request(&lease.session, 2);
    request.dead_epoch = Some(lease.epoch);
    store.acquire_lease(request).await.unwrap().lease
}

/// Records a turn from its prompt to its end.
async fn record_turn(store: &dyn Store, lease: &Lease, text: &str) -> Turn {
    let turn = store.begin_turn(lease, &prompt(text, 0)).await.unwrap();
    store
        .finish_turn(lease, turn.id, finished_ending(1))
        .await
        .unwrap();
    turn
}

/// Returns the prompts that lead to a session's head.
async fn list_prompts(store: &dyn Store, id: &SessionId) -> Vec<String> {
    let mut prompts = Vec::new();
    for turn in store.turns(id).await.unwrap() {
        let messages = store.messages(turn.id).await.unwrap();
        prompts.push(messages[0].plain_text());
    }
    prompts
}
