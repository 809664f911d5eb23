//! Sessions of a given length whose last turn is running.

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::ProcessMark;
use segue_core::id::{ProviderId, SessionId, TurnId};
use segue_core::session::{Message, Project, Role, Title, TurnState, Usage};
use segue_sqlite::SqliteStore;
use segue_store::{Entry, Finish, Lease, LeaseRequest, NewSession, Store};

/// Number of messages in a turn, including the prompt.
const MESSAGES_A_TURN: u32 = 10;

/// A session with a running turn, to which messages are appended.
pub(crate) struct Conversation {
    lease: Lease,
    turn: TurnId,
    next_seq: u32,
}

impl Conversation {
    /// Creates session `number` of the store. The next message that is appended to it is its `nth`.
    pub(crate) async fn before(nth: u32, store: &SqliteStore, number: u32, text: &str) -> Self {
        assert!(nth > 1, "a turn begins with its prompt");
        let lease = claimed_session(store, number).await;
        let written = nth - 1;
        // At least the prompt remains for the turn that stays open.
        let whole_turns = (written - 1) / MESSAGES_A_TURN;
        for _ in 0..whole_turns {
            write_whole_turn(store, &lease, text).await;
        }
        let turn = store.begin_turn(&lease, &prompt()).await.unwrap();
        let mut conversation = Self {
            lease,
            turn: turn.id,
            next_seq: 1,
        };
        for _ in whole_turns * MESSAGES_A_TURN + 1..written {
            conversation.append(store, text).await;
        }
        conversation
    }

    /// Appends a message, which is on the disk when this returns.
    pub(crate) async fn append(&mut self, store: &SqliteStore, text: &str) {
        let entry = Entry::Message {
            seq: self.next_seq,
            message: answer(text),
        };
        store.append(&self.lease, self.turn, entry).await.unwrap();
        self.next_seq += 1;
    }
}

async fn claimed_session(store: &SqliteStore, number: u32) -> Lease {
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(i64::from(number));
    let new = NewSession {
        id: SessionId::at(at, number),
        project: Project {
            key: "/src/app/.git".into(),
            cwd: "/src/app".into(),
        },
        title: Title::from_prompt(&format!("session {number}")),
        purpose: None,
        provider: ProviderId::rehearsal(),
        at,
        unless: None,
    };
    let session = store.create(new).await.unwrap();
    let request = LeaseRequest {
        session: session.id,
        owner: ProcessMark {
            host: "here".into(),
            pid: 1,
            started: "then".into(),
        },
        at,
        expires_after: SignedDuration::from_mins(5),
        dead_epoch: None,
    };
    store.acquire(request).await.unwrap().lease
}

async fn write_whole_turn(store: &SqliteStore, lease: &Lease, text: &str) {
    let turn = store.begin_turn(lease, &prompt()).await.unwrap();
    let finish = Finish {
        state: TurnState::Finished,
        messages: (1..MESSAGES_A_TURN)
            .map(|seq| (seq, answer(text)))
            .collect(),
        usage: Usage::default(),
        failure: None,
        at: Timestamp::now(),
    };
    store.finish_turn(lease, turn.id, finish).await.unwrap();
}

fn prompt() -> Message {
    Message::text(Role::User, "go on", Timestamp::now())
}

fn answer(text: &str) -> Message {
    Message::text(Role::Assistant, text, Timestamp::now())
}
