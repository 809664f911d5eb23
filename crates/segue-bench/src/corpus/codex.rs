//! Sessions in the format of Codex, which writes most content twice: as an item for the model and as an event.

use std::fs;
use std::path::Path;

use super::CorpusCounts;
use super::file_writer::CorpusFileWriter;
use super::session::{CorpusFormat, CorpusSession, uuid};
use super::texts::CorpusTexts;

/// Writes a session into a home directory of Codex. A new session has the format of 0.166, with numbered records and
/// complete items as events; an old one has the format of 0.137 and earlier.
pub fn write_session(home: &Path, session: &CorpusSession, texts: &CorpusTexts) -> CorpusCounts {
    let (at, id) = (session.record_time(0), session.id());
    let directory = home.join("sessions").join(at[..10].replace('-', "/"));
    fs::create_dir_all(&directory).unwrap();
    let name = format!("rollout-{}-{id}.jsonl", at[..19].replace(':', "-"));
    let mut writer = CodexCorpusWriter {
        out: CorpusFileWriter::create(&directory.join(name)),
        texts,
        session: *session,
        id,
        turn_id: String::new(),
        ordinal: 0,
        message_count: 0,
    };
    writer.write_beginning();
    let mut turns = 0;
    while session.needs_another_turn(turns, writer.out.written_bytes) {
        writer.write_turn(turns);
        turns += 1;
    }
    let bytes = writer.out.finish(session.modified_time(writer.ordinal));
    CorpusCounts {
        sessions: 1,
        turns,
        messages: writer.message_count,
        bytes,
    }
}

struct CodexCorpusWriter<'a> {
    out: CorpusFileWriter,
    texts: &'a CorpusTexts,
    session: CorpusSession,
    id: String,
    /// Id of the current turn.
    turn_id: String,
    ordinal: u64,
    message_count: u64,
}

impl CodexCorpusWriter<'_> {
    fn write_record(&mut self, kind: &str, payload: &str) {
        let (at, ordinal) = (self.session.record_time(self.ordinal), self.ordinal);
        let ordinal = match self.session.format {
            CorpusFormat::Current => format!(r#""ordinal":{ordinal},"#),
            CorpusFormat::Legacy => String::new(),
        };
        self.out.write_line(format_args!(
            r#"{{"timestamp":"{at}",{ordinal}"type":"{kind}","payload":{{{payload}}}}}"#
        ));
        self.ordinal += 1;
    }

    /// Writes an item of the conversation with the model.
    fn write_item(&mut self, fields: &str) {
        let metadata = if fields.contains("<environment_context>") {
            r#","content_item_kinds":["environments.environment_context"],"content_item_metadata":[{"provenance":{"type":"harness","hook":false}}]"#
        } else if fields.contains(r#""role":"user""#) {
            r#","content_item_kinds":["user.text"],"content_item_metadata":[{"provenance":{"type":"user"}}]"#
        } else {
            ""
        };
        let extra_fields = match self.session.format {
            CorpusFormat::Current => format!(
                r#","internal_chat_message_metadata_passthrough":{{"turn_id":"{}","create_time":1794792514.360485{metadata}}}"#,
                self.turn_id
            ),
            CorpusFormat::Legacy => String::new(),
        };
        self.write_record("response_item", &format!("{fields}{extra_fields}"));
    }

    /// Writes the event that repeats an item for the screen. New versions write `item_fields`; old versions write
    /// `message`, or no event if `message` is empty.
    fn write_event(&mut self, item_fields: &str, message: &str) {
        let payload = match self.session.format {
            CorpusFormat::Current => format!(
                r#""type":"item_completed","thread_id":"{}","turn_id":"{}","item":{{{item_fields}}},"started_at_ms":1794792514361,"completed_at_ms":1794792514361"#,
                self.id, self.turn_id
            ),
            CorpusFormat::Legacy if message.is_empty() => return,
            CorpusFormat::Legacy => message.to_owned(),
        };
        self.write_record("event_msg", &payload);
    }

    fn write_beginning(&mut self) {
        let (id, at) = (&self.id, self.session.record_time(0));
        let (cwd, branch) = (self.session.cwd(), self.session.branch());
        let (mode, version, instruction_length) = match self.session.format {
            CorpusFormat::Current => (r#""history_mode":"paginated","#, "0.166.0", 21_600),
            CorpusFormat::Legacy => ("", "0.137.0", 8000),
        };
        let instructions = self.texts.instructions_prefix(instruction_length);
        let payload = format!(
            r#""session_id":"{id}","id":"{id}","timestamp":"{at}","cwd":"{cwd}","originator":"codex_exec","cli_version":"{version}","source":"exec","thread_source":"user","model_provider":"openai","base_instructions":{{"text":"{instructions}"}},{mode}"git":{{"commit_hash":"d6812e23cdac5780aaf8b84ab359f7d2a4dc4141","branch":"{branch}"}}"#
        );
        self.write_record("session_meta", &payload);
        self.write_turn_start(0);
        let skills = self.texts.instructions_prefix(match self.session.format {
            CorpusFormat::Current => 4500,
            CorpusFormat::Legacy => 1000,
        });
        self.write_item(&format!(
            r#""type":"message","role":"developer","content":[{{"type":"input_text","text":"<skills_instructions>\n{skills}\n</skills_instructions>"}}]"#
        ));
        let environment = self.texts.instructions_prefix(400);
        self.write_item(&format!(
            r#""type":"message","role":"user","content":[{{"type":"input_text","text":"<environment_context>\n{environment}\n</environment_context>"}}]"#
        ));
        if self.session.format == CorpusFormat::Current {
            self.write_record("world_state", &format!(
                r#""full":true,"state":{{"agents_md":{{}},"host_skills":{{"body":"{skills}","includeInstructions":true}}}}"#
            ));
        }
    }

    fn write_turn_start(&mut self, turn: u64) {
        self.turn_id = uuid(self.session.number, (1 << 40) + turn);
        let id = self.turn_id.clone();
        self.write_record("event_msg", &format!(
            r#""type":"task_started","turn_id":"{id}","started_at":1794792514,"model_context_window":258400,"collaboration_mode_kind":"default""#
        ));
        self.write_record("turn_context", &format!(
            r#""turn_id":"{id}","cwd":"/src/app","approval_policy":"never","approvals_reviewer":"user","sandbox_policy":{{"type":"danger-full-access"}},"model":"gpt-5.5","collaboration_mode":{{"mode":"default","settings":{{"model":"gpt-5.5","reasoning_effort":null,"developer_instructions":null}}}},"summary":"none""#
        ));
    }

    fn write_turn(&mut self, turn: u64) {
        if turn > 0 {
            self.write_turn_start(turn);
        }
        let prompt = self.texts.prompt(self.session.seed(self.ordinal));
        self.write_item(&format!(
            r#""type":"message","role":"user","content":[{{"type":"input_text","text":"{prompt}"}}]"#
        ));
        self.write_event(
            &format!(
                r#""type":"UserMessage","id":"u{turn}","content":[{{"type":"text","text":"{prompt}","text_elements":[]}}]"#
            ),
            &format!(
                r#""type":"user_message","message":"{prompt}","images":[],"local_images":[],"text_elements":[]"#
            ),
        );
        for _ in 0..self.session.call_count(turn) {
            self.write_tool_call();
        }
        let n = self.ordinal;
        let answer = self
            .texts
            .answer(self.session.seed(n), self.session.answer_length(n));
        self.message_count += 2;
        self.write_event(
            &format!(
                r#""type":"AgentMessage","id":"msg_{n}","content":[{{"type":"Text","text":"{answer}"}}]"#
            ),
            &format!(r#""type":"agent_message","message":"{answer}","phase":null"#),
        );
        self.write_item(&format!(
            r#""type":"message","status":"completed","id":"msg_{n}","role":"assistant","content":[{{"type":"output_text","text":"{answer}","annotations":[]}}]"#
        ));
        self.write_token_counts();
        let id = &self.turn_id;
        let payload = format!(
            r#""type":"task_complete","turn_id":"{id}","last_agent_message":"{answer}","completed_at":1794792514,"duration_ms":241"#
        );
        self.write_record("event_msg", &payload);
    }

    fn write_tool_call(&mut self) {
        let n = self.session.seed(self.ordinal);
        let length = self.session.output_length(self.ordinal);
        if self.session.has_thought(self.ordinal) {
            self.write_thought(n);
        }
        let (path, listing) = (self.texts.path(n), self.texts.listing(n, length));
        self.write_item(&format!(
            r#""type":"function_call","id":"fc_{n}","name":"exec_command","arguments":"{{\"cmd\":\"sed -n 1,200p {path}\"}}","call_id":"call_{n}""#
        ));
        self.write_event(
            &format!(
                r#""type":"CommandExecution","id":"call_{n}","process_id":"94269","command":["/bin/bash","-lc","sed -n 1,200p {path}"],"cwd":"file:///src/app","source":"unified_exec_startup","status":"completed","aggregated_output":"{listing}","exit_code":0,"duration":{{"secs":0,"nanos":4939}}"#
            ),
            "",
        );
        self.write_item(&format!(
            r#""type":"function_call_output","call_id":"call_{n}","output":"Chunk ID: 7b21d1\nWall time: 0.0000 seconds\nProcess exited with code 0\nOutput:\n{listing}""#
        ));
        self.write_token_counts();
        self.message_count += 2;
    }

    fn write_thought(&mut self, n: u64) {
        let (thought, blob) = (self.texts.thought(n), self.texts.blob(n));
        self.write_event(
            &format!(
                r#""type":"Reasoning","id":"rs_{n}","summary_text":["{thought}"],"raw_content":[]"#
            ),
            &format!(r#""type":"agent_reasoning","text":"{thought}""#),
        );
        self.write_item(&format!(
            r#""type":"reasoning","id":"rs_{n}","summary":[{{"type":"summary_text","text":"{thought}"}}],"content":null,"encrypted_content":"{blob}""#
        ));
    }

    fn write_token_counts(&mut self) {
        let usage = r#"{"input_tokens":10100,"cached_input_tokens":9000,"cache_write_input_tokens":0,"output_tokens":420,"reasoning_output_tokens":50,"total_tokens":10520}"#;
        if self.session.format == CorpusFormat::Current {
            let (id, turn) = (&self.id, &self.turn_id);
            let payload = format!(
                r#""thread_id":"{id}","turn_id":"{turn}","session_id":"{id}","usage":{usage},"turn_token_usage":{usage},"thread_token_usage":{usage}"#
            );
            self.write_record("token_usage_record", &payload);
        }
        self.write_record("event_msg", &format!(
            r#""type":"token_count","info":{{"total_token_usage":{usage},"last_token_usage":{usage},"model_context_window":258400}},"rate_limits":{{"limit_id":"codex","limit_name":null,"primary":null,"secondary":null,"credits":null}}"#
        ));
    }
}
