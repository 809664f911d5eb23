//! Sessions as Codex writes them: each thing that is said twice, as an item for the model and as an event.

use std::fs;
use std::path::Path;

use crate::texts::{Texts, mixed, time, uuid};
use crate::written::Written;

/// What Codex 0.166 writes. Records are numbered, and events are whole items.
pub(crate) fn write_paginated(home: &Path, session: u64, bytes: u64, texts: &Texts) -> u64 {
    write(home, session, bytes, texts, Dialect::Paginated)
}

/// What Codex 0.137 and those before it wrote.
pub(crate) fn write_legacy(home: &Path, session: u64, bytes: u64, texts: &Texts) -> u64 {
    write(home, session, bytes, texts, Dialect::Legacy)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Paginated,
    Legacy,
}

fn write(home: &Path, session: u64, bytes: u64, texts: &Texts, dialect: Dialect) -> u64 {
    let (at, id) = (time(session, 0), uuid(session, 0));
    let directory = home.join("sessions").join(at[..10].replace('-', "/"));
    fs::create_dir_all(&directory).unwrap();
    let name = format!("rollout-{}-{id}.jsonl", at[..19].replace(':', "-"));
    let mut file = File {
        out: Written::create(&directory.join(name)),
        texts,
        session,
        dialect,
        id,
        turn: String::new(),
        ordinal: 0,
    };
    file.beginning();
    let mut turns = 0;
    while turns == 0 || file.out.bytes < bytes {
        file.turn(turns);
        turns += 1;
    }
    file.out.finish();
    turns
}

struct File<'a> {
    out: Written,
    texts: &'a Texts,
    session: u64,
    dialect: Dialect,
    id: String,
    /// The id of the turn.
    turn: String,
    ordinal: u64,
}

impl File<'_> {
    fn record(&mut self, kind: &str, payload: &str) {
        let (at, ordinal) = (time(self.session, self.ordinal), self.ordinal);
        let ordinal = match self.dialect {
            Dialect::Paginated => format!(r#""ordinal":{ordinal},"#),
            Dialect::Legacy => String::new(),
        };
        self.out.line(format_args!(
            r#"{{"timestamp":"{at}",{ordinal}"type":"{kind}","payload":{{{payload}}}}}"#
        ));
        self.ordinal += 1;
    }

    /// An item of the conversation with the model.
    fn item(&mut self, item: &str) {
        let by_user = item.contains(r#""role":"user""#);
        let about = if by_user {
            r#","content_item_kinds":["user.text"],"content_item_metadata":[{"provenance":{"type":"user"}}]"#
        } else {
            ""
        };
        let more = match self.dialect {
            Dialect::Paginated => format!(
                r#","internal_chat_message_metadata_passthrough":{{"turn_id":"{}","create_time":1794792514.360485{about}}}"#,
                self.turn
            ),
            Dialect::Legacy => String::new(),
        };
        self.record("response_item", &format!("{item}{more}"));
    }

    /// The same for the screen, in the words of either dialect.
    fn event(&mut self, item: &str, message: &str) {
        let payload = match self.dialect {
            Dialect::Paginated => format!(
                r#""type":"item_completed","thread_id":"{}","turn_id":"{}","item":{{{item}}},"started_at_ms":1794792514361,"completed_at_ms":1794792514361"#,
                self.id, self.turn
            ),
            Dialect::Legacy if message.is_empty() => return,
            Dialect::Legacy => message.to_owned(),
        };
        self.record("event_msg", &payload);
    }

    fn beginning(&mut self) {
        let (id, at) = (&self.id, time(self.session, 0));
        let (project, instructions) = (self.session % 50, self.texts.instructions_of(21_600));
        let mode = match self.dialect {
            Dialect::Paginated => r#""history_mode":"paginated","#,
            Dialect::Legacy => "",
        };
        let payload = format!(
            r#""session_id":"{id}","id":"{id}","timestamp":"{at}","cwd":"/src/app-{project}","originator":"codex_exec","cli_version":"0.166.0","source":"exec","thread_source":"user","model_provider":"openai","base_instructions":{{"text":"{instructions}"}},{mode}"git":{{"commit_hash":"d6812e23cdac5780aaf8b84ab359f7d2a4dc4141","branch":"main"}}"#
        );
        self.record("session_meta", &payload);
        self.begin_turn(0);
        let skills = self.texts.instructions_of(4500);
        self.item(&format!(
            r#""type":"message","role":"developer","content":[{{"type":"input_text","text":"<skills_instructions>{skills}"}}]"#
        ));
        let place = self.texts.instructions_of(400);
        self.item(&format!(
            r#""type":"message","role":"user","content":[{{"type":"input_text","text":"<environment_context>{place}"}}]"#
        ));
        if self.dialect == Dialect::Paginated {
            self.record("world_state", &format!(
                r#""full":true,"state":{{"agents_md":{{}},"host_skills":{{"body":"{skills}","includeInstructions":true}}}}"#
            ));
        }
    }

    fn begin_turn(&mut self, turn: u64) {
        self.turn = uuid(self.session, (1 << 40) + turn);
        let id = self.turn.clone();
        self.record("event_msg", &format!(
            r#""type":"task_started","turn_id":"{id}","started_at":1794792514,"model_context_window":258400,"collaboration_mode_kind":"default""#
        ));
        self.record("turn_context", &format!(
            r#""turn_id":"{id}","cwd":"/src/app","approval_policy":"never","approvals_reviewer":"user","sandbox_policy":{{"type":"danger-full-access"}},"model":"gpt-5.5","collaboration_mode":{{"mode":"default","settings":{{"model":"gpt-5.5","reasoning_effort":null,"developer_instructions":null}}}},"summary":"none""#
        ));
    }

    fn turn(&mut self, turn: u64) {
        if turn > 0 {
            self.begin_turn(turn);
        }
        let prompt = self.texts.prompt(self.session + turn);
        self.item(&format!(
            r#""type":"message","role":"user","content":[{{"type":"input_text","text":"{prompt}"}}]"#
        ));
        self.event(
            &format!(
                r#""type":"UserMessage","id":"u{turn}","content":[{{"type":"text","text":"{prompt}","text_elements":[]}}]"#
            ),
            &format!(
                r#""type":"user_message","message":"{prompt}","images":[],"local_images":[],"text_elements":[]"#
            ),
        );
        for _ in 0..=mixed(turn) % 8 {
            self.tool_call();
        }
        let n = self.ordinal;
        let answer = self.texts.answer(n);
        self.event(
            &format!(
                r#""type":"AgentMessage","id":"msg_{n}","content":[{{"type":"Text","text":"{answer}"}}]"#
            ),
            &format!(r#""type":"agent_message","message":"{answer}","phase":null"#),
        );
        self.item(&format!(
            r#""type":"message","status":"completed","id":"msg_{n}","role":"assistant","content":[{{"type":"output_text","text":"{answer}","annotations":[]}}]"#
        ));
        self.tokens();
        let id = &self.turn;
        let payload = format!(
            r#""type":"task_complete","turn_id":"{id}","last_agent_message":"{answer}","completed_at":1794792514,"duration_ms":241"#
        );
        self.record("event_msg", &payload);
    }

    fn tool_call(&mut self) {
        let n = self.session + self.ordinal;
        let (thought, blob) = (self.texts.thought(n), self.texts.blob(n));
        self.event(
            &format!(
                r#""type":"Reasoning","id":"rs_{n}","summary_text":["{thought}"],"raw_content":[]"#
            ),
            &format!(r#""type":"agent_reasoning","text":"{thought}""#),
        );
        self.item(&format!(
            r#""type":"reasoning","id":"rs_{n}","summary":[{{"type":"summary_text","text":"{thought}"}}],"content":null,"encrypted_content":"{blob}""#
        ));
        self.item(&format!(
            r#""type":"function_call","id":"fc_{n}","name":"exec_command","arguments":"{{\"cmd\":\"sed -n 1,200p src/lib-{n}.rs\"}}","call_id":"call_{n}""#
        ));
        let listing = self.texts.listing(n);
        self.event(
            &format!(
                r#""type":"CommandExecution","id":"call_{n}","process_id":"94269","command":["/bin/bash","-lc","sed -n 1,200p src/lib-{n}.rs"],"cwd":"file:///src/app","source":"unified_exec_startup","status":"completed","aggregated_output":"{listing}","exit_code":0,"duration":{{"secs":0,"nanos":4939}}"#
            ),
            "",
        );
        self.item(&format!(
            r#""type":"function_call_output","call_id":"call_{n}","output":"Chunk ID: 7b21d1\nWall time: 0.0000 seconds\nProcess exited with code 0\nOutput:\n{listing}""#
        ));
        self.tokens();
    }

    fn tokens(&mut self) {
        let usage = r#"{"input_tokens":10100,"cached_input_tokens":9000,"cache_write_input_tokens":0,"output_tokens":420,"reasoning_output_tokens":50,"total_tokens":10520}"#;
        if self.dialect == Dialect::Paginated {
            let (id, turn) = (&self.id, &self.turn);
            let payload = format!(
                r#""thread_id":"{id}","turn_id":"{turn}","session_id":"{id}","usage":{usage},"turn_token_usage":{usage},"thread_token_usage":{usage}"#
            );
            self.record("token_usage_record", &payload);
        }
        self.record("event_msg", &format!(
            r#""type":"token_count","info":{{"total_token_usage":{usage},"last_token_usage":{usage},"model_context_window":258400}},"rate_limits":{{"limit_id":"codex","limit_name":null,"primary":null,"secondary":null,"credits":null}}"#
        ));
    }
}
