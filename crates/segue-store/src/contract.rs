//! The test suite that every store must pass.
//!
//! Each case is a function that takes a `&dyn Store` to a new, empty store. [`store_contract!`](crate::store_contract)
//! turns all cases into tests of the calling crate.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    reason = "a test suite: a panic is how it speaks"
)]

mod checkpoints;
mod context;
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

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::ProcessMark;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Message, Project, Role, Session, Title, Turn, TurnState, Usage};

use crate::{Finish, Lease, LeaseRequest, NewLeg, NewSession, Store};

pub use checkpoints::{
    a_checkpoint_follows_the_head, a_fork_keeps_its_checkpoints_to_itself,
    a_fork_shares_checkpoints, a_version_tells_what_was_read_and_numbered,
    every_version_of_a_checkpoint_can_be_read,
};
pub use context::a_context_is_kept_with_its_session;
pub use import::{an_imported_session_is_there_whole, the_same_is_imported_once};
pub use lease::{
    a_dead_holder_is_taken_over, a_lease_excludes_others_until_released,
    a_silent_holder_loses_its_lease, a_stale_lease_writes_nothing, one_claim_wins_when_many_race,
};
pub use provider_health::{
    a_session_is_handed_over, a_standing_is_kept_for_each_agent,
    a_turn_ends_with_what_follows_from_it, rests_are_of_the_agent_alone,
};
pub use reconcile::{
    a_leg_knows_the_record_it_ended_at, turns_made_elsewhere_become_a_session_of_their_own,
    what_a_native_session_adds_is_taken_in_at_once,
};
pub use revert::{
    a_fork_shares_and_then_goes_its_own_way, a_leg_is_taken_up_again,
    a_revert_moves_the_head_and_undo_moves_it_back, an_undo_survives_turns_made_in_between,
    deleting_a_session_keeps_what_its_forks_share, undoing_twice_walks_back_through_reverts,
    what_a_head_left_can_be_forked,
};
pub use scopes::{
    a_fork_has_its_own_purpose, a_purpose_finds_the_newest_by_who_carries_it,
    one_session_is_begun_for_a_purpose, purposes_are_told_apart,
};
pub use sessions::{
    a_native_session_is_adopted_whole, a_persons_title_stays, a_session_starts_whole,
    candidates_are_found_by_every_name, carried_native_sessions_are_known,
    decisions_are_kept_in_order, filters_select, ids_are_unique_and_unknown_ones_are_said,
    marks_tell_what_has_changed, paging_sees_each_session_once, what_is_created_is_found_again,
};
pub use tags::{
    a_fork_takes_the_tags_over, a_missing_session_takes_no_tags, tags_are_counted,
    tags_are_put_on_and_taken_off, tags_select,
};
pub use tokens::{
    an_unknown_estimate_stays_unknown, counts_are_kept_and_filled_in,
    estimates_are_measured_by_agent, the_newest_turns_are_read_until_there_is_enough,
};
pub use turns::{
    a_failed_attempt_leaves_room_for_another, a_failure_is_kept_and_counted_once,
    a_finished_turn_is_immutable, a_leg_is_named_later,
    a_leg_that_forgot_is_known_until_it_is_told, a_message_is_added_whole,
    a_turn_is_recorded_whole, a_withdrawn_turn_is_no_part_of_the_history,
    an_unsent_turn_is_told_apart, drafts_become_messages, every_kind_of_part_survives,
    one_turn_at_a_time, parallel_appends_are_all_there,
};

/// Creates a test from each contract case.
///
/// `$open` is an expression that returns a new store and a guard for its storage: `(store, guard)`. The calling crate
/// needs `tokio` with `rt` and `macros`.
#[macro_export]
macro_rules! store_contract {
    ($open:expr) => {
        $crate::store_contract!(@cases $open;
            a_native_session_is_adopted_whole
            a_failed_attempt_leaves_room_for_another
            a_withdrawn_turn_is_no_part_of_the_history
            a_leg_that_forgot_is_known_until_it_is_told
            a_leg_is_named_later
            a_leg_knows_the_record_it_ended_at
            what_a_native_session_adds_is_taken_in_at_once
            turns_made_elsewhere_become_a_session_of_their_own
            what_is_created_is_found_again
            ids_are_unique_and_unknown_ones_are_said
            filters_select
            paging_sees_each_session_once
            candidates_are_found_by_every_name
            carried_native_sessions_are_known
            marks_tell_what_has_changed
            decisions_are_kept_in_order
            a_session_starts_whole
            a_persons_title_stays
            purposes_are_told_apart
            a_purpose_finds_the_newest_by_who_carries_it
            a_fork_has_its_own_purpose
            one_session_is_begun_for_a_purpose
            tags_are_put_on_and_taken_off
            tags_select
            tags_are_counted
            a_fork_takes_the_tags_over
            a_missing_session_takes_no_tags
            a_turn_is_recorded_whole
            every_kind_of_part_survives
            drafts_become_messages
            one_turn_at_a_time
            a_finished_turn_is_immutable
            an_unsent_turn_is_told_apart
            a_message_is_added_whole
            a_failure_is_kept_and_counted_once
            parallel_appends_are_all_there
            counts_are_kept_and_filled_in
            the_newest_turns_are_read_until_there_is_enough
            estimates_are_measured_by_agent
            an_unknown_estimate_stays_unknown
            a_revert_moves_the_head_and_undo_moves_it_back
            an_undo_survives_turns_made_in_between
            undoing_twice_walks_back_through_reverts
            what_a_head_left_can_be_forked
            a_leg_is_taken_up_again
            a_fork_shares_and_then_goes_its_own_way
            deleting_a_session_keeps_what_its_forks_share
            a_checkpoint_follows_the_head
            every_version_of_a_checkpoint_can_be_read
            a_fork_shares_checkpoints
            a_fork_keeps_its_checkpoints_to_itself
            a_version_tells_what_was_read_and_numbered
            a_context_is_kept_with_its_session
            an_imported_session_is_there_whole
            the_same_is_imported_once
            a_session_is_handed_over
            a_turn_ends_with_what_follows_from_it
            a_standing_is_kept_for_each_agent
            rests_are_of_the_agent_alone
            a_lease_excludes_others_until_released
            a_silent_holder_loses_its_lease
            a_dead_holder_is_taken_over
            a_stale_lease_writes_nothing
            one_claim_wins_when_many_race
        );
    };
    (@cases $open:expr; $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let (store, _guard) = $open;
                $crate::contract::$case(&store).await;
            }
        )*
    };
}

/// Time without a heartbeat after which a lease expires: five minutes.
const PATIENCE: SignedDuration = SignedDuration::from_secs(300);

/// Returns a point in time, in seconds from the start of a test.
fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + second)
}

fn owner(pid: u32) -> ProcessMark {
    ProcessMark {
        host: "here".into(),
        pid,
        started: "then".into(),
    }
}

/// Returns the id of session number `n` of a test.
fn id(n: u32) -> SessionId {
    SessionId::at(at(i64::from(n)), n)
}

fn new_session(n: u32) -> NewSession {
    NewSession {
        id: id(n),
        project: Project {
            key: "/src/app/.git".into(),
            cwd: "/src/app".into(),
        },
        title: Title::from_prompt(&format!("session {n}")),
        purpose: None,
        provider: ProviderId::rehearsal(),
        at: at(i64::from(n)),
        unless: None,
    }
}

fn claim(session: &SessionId, pid: u32, second: i64) -> LeaseRequest {
    LeaseRequest {
        session: session.clone(),
        owner: owner(pid),
        at: at(second),
        expires_after: PATIENCE,
        dead_epoch: None,
    }
}

/// Creates a session and acquires its lease.
async fn open_session(store: &dyn Store, n: u32) -> (Session, Lease) {
    let session = store.create(new_session(n)).await.unwrap();
    let granted = store
        .acquire(claim(&session.id, 1, i64::from(n)))
        .await
        .unwrap();
    (session, granted.lease)
}

fn prompt(text: &str, second: i64) -> Message {
    Message::text(Role::User, text, at(second))
}

fn finished(second: i64) -> Finish {
    Finish {
        state: TurnState::Finished,
        messages: Vec::new(),
        usage: Usage::default(),
        failure: None,
        at: at(second),
    }
}

fn native(name: &str) -> NewLeg {
    NewLeg {
        provider: ProviderId::rehearsal(),
        native_id: Some(NativeId::parse(name).unwrap()),
        at: at(0),
    }
}

/// Records a turn from its prompt to its end.
async fn whole_turn(store: &dyn Store, lease: &Lease, text: &str) -> Turn {
    let turn = store.begin_turn(lease, &prompt(text, 0)).await.unwrap();
    store
        .finish_turn(lease, turn.id, finished(1))
        .await
        .unwrap();
    turn
}

/// Returns the prompts that lead to a session's head.
async fn story(store: &dyn Store, id: &SessionId) -> Vec<String> {
    let mut told = Vec::new();
    for turn in store.turns(id).await.unwrap() {
        let messages = store.messages(turn.id).await.unwrap();
        told.push(messages[0].words());
    }
    told
}
