//! Sessions in the format of Claude Code: the chain, its attachments and, since 2.1.3xx, the dumps of the requests.

use std::fs;
use std::path::Path;

use super::CorpusCounts;
use super::file_writer::CorpusFileWriter;
use super::prng::splitmix64;
use super::session::{CorpusFormat, CorpusSession, uuid};
use super::texts::CorpusTexts;

/// Writes a session into a home directory of Claude Code.
pub fn write_session(home: &Path, session: &CorpusSession, texts: &CorpusTexts) -> CorpusCounts {
    let cwd = session.cwd();
    let directory = home.join("projects").join(cwd.replace('/', "-"));
    fs::create_dir_all(&directory).unwrap();
    let (id, branch) = (session.id(), session.branch());
    let (version, entrypoint) = match session.format {
        CorpusFormat::Current => ("2.1.325", r#""entrypoint":"sdk-cli","#),
        CorpusFormat::Legacy => ("2.0.42", ""),
    };
    let mut writer = ClaudeCorpusWriter {
        out: CorpusFileWriter::create(&directory.join(format!("{id}.jsonl"))),
        texts,
        session: *session,
        common_fields: format!(
            r#""userType":"external",{entrypoint}"cwd":"{cwd}","sessionId":"{id}","version":"{version}","gitBranch":"{branch}""#
        ),
        id,
        record_count: 0,
        request_count: 0,
        message_count: 0,
    };
    let mut turns = 0;
    while session.needs_another_turn(turns, writer.out.written_bytes) {
        writer.write_turn(turns);
        turns += 1;
    }
    let bytes = writer
        .out
        .finish(session.modified_time(writer.record_count));
    CorpusCounts {
        sessions: 1,
        turns,
        messages: writer.message_count,
        bytes,
    }
}

struct ClaudeCorpusWriter<'a> {
    out: CorpusFileWriter,
    texts: &'a CorpusTexts,
    session: CorpusSession,
    /// Id of the session.
    id: String,
    /// Fields at the end of every record of the chain.
    common_fields: String,
    /// Number of records in the chain.
    record_count: u64,
    /// Number of requests to the model.
    request_count: u64,
    message_count: u64,
}

impl ClaudeCorpusWriter<'_> {
    fn write_turn(&mut self, turn: u64) {
        let prompt = self.texts.prompt(self.session.seed(self.record_count));
        self.write_queue_operations(&prompt);
        let message = format!(r#"{{"role":"user","content":"{prompt}"}}"#);
        let extra_fields = match self.session.format {
            CorpusFormat::Current => {
                r#""permissionMode":"default","promptSource":"sdk","turnOrigin":"sdk","#
            }
            CorpusFormat::Legacy => "",
        };
        self.write_chain_record(
            &format!(r#""type":"user","message":{message},"#),
            extra_fields,
        );
        if turn == 0 {
            self.write_attachments();
        }
        // Claude Code writes the request shape again when the tools change.
        if turn.is_multiple_of(40) {
            self.write_request_shape();
        }
        self.write_request_blob(&message);
        for _ in 0..self.session.call_count(turn) {
            self.write_request();
            self.write_tool_call();
        }
        self.write_request();
        let (n, length) = (
            self.session.seed(self.record_count),
            self.session.answer_length(self.record_count),
        );
        let answer = self.texts.answer(n, length);
        let text = format!(r#"{{"text":"{answer}","type":"text"}}"#);
        self.write_assistant_record(&text, "end_turn");
        self.write_state(&prompt);
        self.message_count += 2;
    }

    /// Writes a record of the chain, with a reference to the previous record.
    fn write_chain_record(&mut self, fields: &str, extra_fields: &str) {
        let Self {
            session,
            record_count,
            ..
        } = *self;
        let parent = match record_count {
            0 => "null".to_owned(),
            _ => format!(r#""{}""#, uuid(session.number, record_count)),
        };
        let id = uuid(session.number, record_count + 1);
        let (at, common) = (session.record_time(record_count), &self.common_fields);
        self.out.write_line(format_args!(
            r#"{{"parentUuid":{parent},"isSidechain":false,{fields}"uuid":"{id}","timestamp":"{at}",{extra_fields}{common}}}"#
        ));
        self.record_count += 1;
    }

    fn write_assistant_record(&mut self, block: &str, stop_reason: &str) {
        let request = self.session.number << 20 | self.request_count;
        if self.session.format == CorpusFormat::Legacy {
            self.write_chain_record(&format!(
                r#""message":{{"id":"msg_{request:012}","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{block}],"stop_reason":"{stop_reason}","stop_sequence":null,"usage":{{"input_tokens":101,"cache_creation_input_tokens":7,"cache_read_input_tokens":34011,"output_tokens":420,"service_tier":"standard"}}}},"requestId":"req_{request:012}","type":"assistant","#
            ), "");
            return;
        }
        let fields = format!(
            r#""message":{{"content":[{block}],"id":"msg_{request:012}","model":"claude-opus-5-5","role":"assistant","stop_reason":"{stop_reason}","stop_sequence":null,"type":"message","usage":{{"input_tokens":101,"cache_creation_input_tokens":7,"cache_read_input_tokens":34011,"output_tokens":420,"output_tokens_details":{{"thinking_tokens":0}},"server_tool_use":{{"web_search_requests":0,"web_fetch_requests":0}},"service_tier":"standard","cache_creation":{{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0}},"inference_geo":"","iterations":[],"speed":"standard","fallback_credit":null}},"stop_details":null}},"toolInputStreamMs":4,"apiBlockIndex":0,"requestRef":"c6e86fe9-307e-49be-b069-b6adda2d1fd0","requestedModel":"claude-opus-5-5","promptCacheRequested":"5m","type":"assistant","#
        );
        let extra_fields = r#""effort":"medium","perTurnEffort":"medium","madeBy":"model","#;
        self.write_chain_record(&fields, extra_fields);
    }

    /// Writes an optional thought, a tool call and its result. The record contains the result twice: for the model and
    /// for the screen.
    fn write_tool_call(&mut self) {
        let n = self.session.seed(self.record_count);
        let call = n >> 1;
        if self.session.has_thought(self.record_count) {
            let (thought, signature) = (self.texts.thought(n), self.texts.blob(n));
            let thought = format!(
                r#"{{"signature":"{signature}","thinking":"{thought}","type":"thinking"}}"#
            );
            self.write_assistant_record(&thought, "tool_use");
        }
        let path = format!("{}/{}", self.session.cwd(), self.texts.path(n));
        let tool_use = format!(
            r#"{{"id":"toolu_{call:020}","input":{{"file_path":"{path}","limit":400}},"name":"Read","type":"tool_use"}}"#
        );
        self.write_assistant_record(&tool_use, "tool_use");
        let listing = self
            .texts
            .listing(n, self.session.output_length(self.record_count));
        let message = format!(
            r#"{{"role":"user","content":[{{"tool_use_id":"toolu_{call:020}","type":"tool_result","content":"{listing}"}}]}}"#
        );
        let source_fields = match self.session.format {
            CorpusFormat::Current => format!(
                r#""sandboxed":false,"sourceToolAssistantUUID":"{}","#,
                uuid(self.session.number, self.record_count)
            ),
            CorpusFormat::Legacy => String::new(),
        };
        let extra_fields = format!(
            r#""toolUseResult":{{"type":"text","file":{{"filePath":"{path}","content":"{listing}","numLines":120,"startLine":1,"totalLines":120}}}},{source_fields}"#
        );
        self.write_chain_record(
            &format!(r#""type":"user","message":{message},"#),
            &extra_fields,
        );
        self.write_request_blob(&message);
        self.message_count += 2;
    }

    fn write_queue_operations(&mut self, prompt: &str) {
        if self.session.format == CorpusFormat::Legacy {
            return;
        }
        let (id, at) = (&self.id, self.session.record_time(self.record_count));
        let operation = r#"{"type":"queue-operation","operation":"#;
        self.out.write_line(format_args!(
            r#"{operation}"enqueue","timestamp":"{at}","sessionId":"{id}","content":"{prompt}"}}"#
        ));
        self.out.write_line(format_args!(
            r#"{operation}"dequeue","timestamp":"{at}","sessionId":"{id}"}}"#
        ));
    }

    /// Writes the attachments that the model receives once, such as the list of its skills. Old versions write none.
    fn write_attachments(&mut self) {
        if self.session.format == CorpusFormat::Legacy {
            return;
        }
        for length in [700, 160, 400, 1700, 6000, 600, 70, 580, 6000] {
            let text = self.texts.instructions_prefix(length);
            let fields = format!(
                r#""attachment":{{"type":"skill_listing","content":"{text}","names":["run","review","init"]}},"type":"attachment","#
            );
            let extra_fields = format!(
                r#""rendered":[{{"content":"<system-reminder>\n{text}\n</system-reminder>"}}],"renderedRole":"system","#
            );
            self.write_chain_record(&fields, &extra_fields);
        }
    }

    fn write_request_shape(&mut self) {
        if self.session.format == CorpusFormat::Legacy {
            return;
        }
        let (id, at) = (&self.id, self.session.record_time(self.record_count));
        let instructions = self.texts.instructions_prefix(12_000);
        self.out.write_line(format_args!(
            r#"{{"type":"api-request-shape","sessionId":"{id}","shapeHash":"d03d0f8d1d0ed2d397d9db1913710f7a0f1b8c80b6c2b5e2d879ea188f070178","timestamp":"{at}","version":"2.1.325","shape":{{"system":[{{"type":"text","text":"{instructions}"}}],"tools":[{{"name":"Bash","description":"{instructions}","input_schema":{{"type":"object","properties":{{"command":{{"description":"The command to execute","type":"string"}}}}}}}},{{"name":"Agent","description":"{instructions}"}}]}}}}"#
        ));
    }

    fn write_request_blob(&mut self, message: &str) {
        if self.session.format == CorpusFormat::Legacy {
            return;
        }
        let (id, hash) = (&self.id, splitmix64(self.record_count));
        self.out.write_line(format_args!(
            r#"{{"type":"api-request-blob","sessionId":"{id}","hash":"{hash:064x}","message":{message}}}"#
        ));
    }

    fn write_request(&mut self) {
        self.request_count += 1;
        if self.session.format == CorpusFormat::Legacy {
            return;
        }
        let (id, at) = (&self.id, self.session.record_time(self.record_count));
        let (request_id, hash) = (
            uuid(self.session.number, 1 << 41 | self.request_count),
            splitmix64(self.record_count),
        );
        self.out.write_line(format_args!(
            r#"{{"type":"api-request","sessionId":"{id}","id":"{request_id}","timestamp":"{at}","version":"2.1.325","querySource":"sdk","shapeHash":"d03d0f8d1d0ed2d397d9db1913710f7a0f1b8c80b6c2b5e2d879ea188f070178","params":{{"model":"claude-opus-5-5","betas":["claude-code-20250219","interleaved-thinking-2025-05-14","context-management-2025-06-27"],"max_tokens":128000,"thinking":{{"type":"adaptive","display":"omitted"}},"output_config":{{"effort":"medium"}}}},"keep":2,"tail":["{hash:064x}","{hash:064x}"],"cacheControl":[{{"path":["system",0],"value":{{"type":"ephemeral"}}}}],"requestDigest":"{hash:064x}"}}"#
        ));
    }

    fn write_state(&mut self, prompt: &str) {
        if self.session.format == CorpusFormat::Legacy {
            return;
        }
        let (id, leaf) = (&self.id, uuid(self.session.number, self.record_count));
        self.out.write_line(format_args!(
            r#"{{"type":"last-prompt","lastPrompt":"{prompt}","leafUuid":"{leaf}","sessionId":"{id}"}}"#
        ));
        self.out.write_line(format_args!(
            r#"{{"type":"cost-state","sessionId":"{id}","totalCostUSD":0.0016824,"totalAPIDuration":174,"modelUsage":{{"claude-opus-5-5":{{"inputTokens":202,"outputTokens":40,"costUSD":0.0016824}}}},"hasUnknownModelCost":false}}"#
        ));
    }
}
