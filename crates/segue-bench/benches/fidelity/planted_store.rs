//! Sessions with planted facts in a store, with a given number of compactions.

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use segue_bench::fact_sessions::{self, PlantedAction, PlantedSession};
use segue_catalog::Catalog;
use segue_core::brief::BriefTurn;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::json::Json;
use segue_core::session::{Message, Part, Project, Role, Session, Title, TurnState, Usage};
use segue_engine::{Engine, EngineSettings, Environment};
use segue_sqlite::SqliteStore;
use segue_store::{
    AdoptedSession, AdoptedTurn, LeaseRequest, NativeUpdate, NewLeg, NewSession, Store,
};

/// Size of a session to build: at least ten times `budget`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlantedSessionSize {
    pub(crate) turns: usize,
    pub(crate) budget: u64,
    pub(crate) seed: u64,
}

impl PlantedSessionSize {
    pub(crate) fn build_session(self) -> PlantedSession {
        // A token has at most four bytes; 20 % are added as a margin.
        let bytes = usize::try_from(self.budget).unwrap() * 10 * 4 * 6 / 5;
        fact_sessions::build_planted_session(
            crate::selected_prose(),
            self.turns,
            bytes / self.turns,
            self.seed,
        )
    }
}

/// Converts the turns of a session, with the tokens of each message counted.
pub(crate) fn to_brief_turns(session: &PlantedSession) -> Vec<BriefTurn> {
    let turns = session.turns.iter().zip(1..);
    turns
        .map(|(turn, n)| BriefTurn {
            n,
            messages: build_messages(turn),
        })
        .collect()
}

/// Returns the number of tokens in `turns`.
pub(crate) fn count_tokens(turns: &[BriefTurn]) -> u64 {
    let messages = turns.iter().flat_map(|turn| &turn.messages);
    messages.filter_map(|message| message.tokens).sum()
}

fn build_messages(turn: &fact_sessions::PlantedTurn) -> Vec<Message> {
    let at = fixed_time();
    let mut messages = vec![Message::from_text(Role::User, turn.prompt.clone(), at)];
    for (index, action) in turn.actions.iter().enumerate() {
        match action {
            PlantedAction::Message(text) => {
                messages.push(Message::from_text(Role::Assistant, text.clone(), at));
            }
            PlantedAction::ToolCall {
                tool,
                args,
                output,
                failed,
            } => {
                let call = Part::FunctionCall {
                    id: format!("call-{index}"),
                    name: (*tool).to_owned(),
                    args: Json::from(args.clone()),
                };
                let answer = Part::FunctionResponse {
                    call_id: format!("call-{index}"),
                    name: (*tool).to_owned(),
                    response: Json::string(output),
                    is_error: *failed,
                };
                messages.push(Message::new(Role::Assistant, vec![call], at));
                messages.push(Message::new(Role::Tool, vec![answer], at));
            }
        }
    }
    for message in &mut messages {
        message.tokens = Some(segue_tokens::count(&segue_core::brief::message_text(
            message,
        )));
    }
    messages
}

fn fixed_time() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(480_000)
}

/// Opens a store in `home` and an engine whose briefs have at most `budget` tokens.
pub(crate) fn open_engine(home: &Path, budget: u64) -> (Engine, Arc<dyn Store>) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(home).unwrap());
    let environment = Environment {
        now: fixed_time,
        random: || 7,
        process: segue_providers::identify_process(std::process::id()).unwrap(),
    };
    let engine = Engine::builder(store.clone(), Vec::new(), Catalog::default(), environment);
    let settings = EngineSettings {
        budget,
        ..EngineSettings::default()
    };
    (engine.with_settings(settings).build(), store)
}

/// Inserts a session of a provider into a store and compacts it `compactions` times, the last time after its last turn.
pub(crate) async fn insert_session(
    (engine, store): (&Engine, &dyn Store),
    turns: &[BriefTurn],
    (provider, project_dir): (&str, &Path),
    compactions: usize,
) -> Session {
    let process = segue_providers::identify_process(std::process::id()).unwrap();
    let project_path = project_dir.to_str().unwrap().to_owned();
    let provider = ProviderId::parse(provider).unwrap();
    let id = SessionId::from_timestamp(fixed_time(), 1);
    let new_session = NewSession {
        id: id.clone(),
        project: Project {
            key: project_path.clone(),
            cwd: project_path,
        },
        title: Title::from_prompt("planted"),
        purpose: None,
        provider: provider.clone(),
        at: fixed_time(),
        conflict_filter: None,
    };
    let turns_per_compaction = turns.len().div_ceil(compactions.max(1));
    for (index, chunk) in turns.chunks(turns_per_compaction).enumerate() {
        let native_id = NativeId::parse(&format!("planted-{index}")).unwrap();
        let turns = chunk.iter().map(to_adopted_turn).collect();
        let lease = if index == 0 {
            let native = AdoptedSession { native_id, turns };
            store
                .adopt_native_session(new_session.clone(), process.clone(), native)
                .await
                .unwrap()
        } else {
            let lease = store.acquire_lease(lease_request(&id)).await.unwrap().lease;
            let leg = NewLeg {
                provider: provider.clone(),
                native_id: Some(native_id),
                at: fixed_time(),
            };
            let leg = store.open_leg(&lease, leg).await.unwrap().id;
            let update = NativeUpdate {
                leg,
                interrupted_turn: None,
                rewound_to: None,
                turns,
                at: fixed_time(),
            };
            store.apply_native_update(&lease, update).await.unwrap();
            lease
        };
        store.release_lease(&lease).await.unwrap();
        if compactions > 0 {
            let session = store.session(&id).await.unwrap().unwrap();
            engine
                .compactor()
                .compact(&session)
                .await
                .unwrap()
                .created
                .unwrap();
        }
    }
    store.session(&id).await.unwrap().unwrap()
}

fn lease_request(id: &SessionId) -> LeaseRequest {
    LeaseRequest {
        session: id.clone(),
        owner: segue_providers::identify_process(std::process::id()).unwrap(),
        expires_after: SignedDuration::from_secs(30),
        dead_epoch: None,
    }
}

fn to_adopted_turn(turn: &BriefTurn) -> AdoptedTurn {
    AdoptedTurn {
        state: TurnState::Finished,
        messages: turn.messages.clone(),
        usage: Usage::default(),
        started_at: fixed_time(),
        ended_at: fixed_time(),
        mark: None,
    }
}
