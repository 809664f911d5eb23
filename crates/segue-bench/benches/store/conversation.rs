//! Sessions of a given length whose last turn is running.

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::ProcessIdentity;
use segue_core::id::{ProviderId, SessionId, TurnId};
use segue_core::session::{Message, Project, Role, Title, TurnState, Usage};
use segue_store::{Lease, LeaseRequest, NewSession, SettleEffects, Store, TurnEnding, TurnEntry};

/// Number of messages in a turn, including the prompt.
const MESSAGES_PER_TURN: u32 = 10;

/// A session with a running turn, to which messages are appended.
pub(crate) struct BenchSession {
    lease: Lease,
    turn: TurnId,
    next_seq: u32,
}

impl BenchSession {
    /// Creates session `number` of the store. The next message that is appended to it is its `nth`.
    pub(crate) async fn with_next_message(
        nth: u32,
        store: &dyn Store,
        number: u32,
        text: &str,
    ) -> Self {
        assert!(nth > 1, "a turn begins with its prompt");
        let lease = create_leased_session(store, number).await;
        let message_count = nth - 1;
        // At least the prompt remains for the turn that stays open.
        let finished_turns = (message_count - 1) / MESSAGES_PER_TURN;
        for _ in 0..finished_turns {
            write_finished_turn(store, &lease, text).await;
        }
        let turn = store.start_turn(&lease, prompt().into()).await.unwrap();
        let mut session = Self {
            lease,
            turn: turn.id,
            next_seq: 1,
        };
        for _ in finished_turns * MESSAGES_PER_TURN + 1..message_count {
            session.append(store, text).await;
        }
        session
    }

    /// Appends a message, which is on the disk when this returns.
    pub(crate) async fn append(&mut self, store: &dyn Store, text: &str) {
        let entry = TurnEntry::Message {
            seq: self.next_seq,
            message: answer(text),
        };
        store
            .append_entry(&self.lease, self.turn, entry)
            .await
            .unwrap();
        self.next_seq += 1;
    }
}

async fn create_leased_session(store: &dyn Store, number: u32) -> Lease {
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(i64::from(number));
    let new = NewSession {
        id: SessionId::from_timestamp(at, number),
        project: Project {
            key: "/src/app/.git".into(),
            cwd: "/src/app".into(),
        },
        title: Title::from_prompt(&format!("session {number}")),
        purpose: None,
        provider: ProviderId::rehearsal(),
        at,
        conflict_filter: None,
    };
    let session = store.create_session(new).await.unwrap();
    let request = LeaseRequest {
        session: session.id,
        owner: ProcessIdentity {
            host: "here".into(),
            pid: 1,
            start_time: "then".into(),
        },
        expires_after: SignedDuration::from_mins(5),
        dead_epoch: None,
    };
    store.acquire_lease(request).await.unwrap().lease
}

async fn write_finished_turn(store: &dyn Store, lease: &Lease, text: &str) {
    let turn = store.start_turn(lease, prompt().into()).await.unwrap();
    let ending = TurnEnding {
        state: TurnState::Finished,
        messages: (1..MESSAGES_PER_TURN)
            .map(|seq| (seq, answer(text)))
            .collect(),
        usage: Usage::default(),
        failure: None,
        at: Timestamp::now(),
    };
    store
        .settle_turn(lease, turn.id, ending, SettleEffects::default())
        .await
        .unwrap();
}

fn prompt() -> Message {
    Message::from_text(Role::User, "go on", Timestamp::now())
}

fn answer(text: &str) -> Message {
    Message::from_text(Role::Assistant, text, Timestamp::now())
}
