//! Sessions in the format of Claude Code: the chain, its attachments and, since 2.1.3xx, the dumps of the requests.

use std::fs;
use std::path::Path;

use super::Counts;
use super::file_writer::Written;
use super::prng::mixed;
use super::session::{Age, Session, uuid};
use super::texts::Texts;

/// Writes a session into a home directory of Claude Code.
pub fn write(home: &Path, session: &Session, texts: &Texts) -> Counts {
    let cwd = session.cwd();
    let directory = home.join("projects").join(cwd.replace('/', "-"));
    fs::create_dir_all(&directory).unwrap();
    let (id, branch) = (session.id(), session.branch());
    let (version, entrypoint) = match session.age {
        Age::New => ("2.1.325", r#""entrypoint":"sdk-cli","#),
        Age::Old => ("2.0.42", ""),
    };
    let mut file = File {
        out: Written::create(&directory.join(format!("{id}.jsonl"))),
        texts,
        session: *session,
        common: format!(
            r#""userType":"external",{entrypoint}"cwd":"{cwd}","sessionId":"{id}","version":"{version}","gitBranch":"{branch}""#
        ),
        id,
        step: 0,
        requests: 0,
        messages: 0,
    };
    let mut turns = 0;
    while session.goes_on(turns, file.out.bytes) {
        file.turn(turns);
        turns += 1;
    }
    let bytes = file.out.finish(session.modified(file.step));
    Counts {
        sessions: 1,
        turns,
        messages: file.messages,
        bytes,
    }
}

struct File<'a> {
    out: Written,
    texts: &'a Texts,
    session: Session,
    /// Id of the session.
    id: String,
    /// Fields at the end of every record of the chain.
    common: String,
    /// Number of records in the chain.
    step: u64,
    /// Number of requests to the model.
    requests: u64,
    messages: u64,
}

impl File<'_> {
    fn turn(&mut self, turn: u64) {
        let prompt = self.texts.prompt(self.session.seed(self.step));
        self.queue(&prompt);
        let said = format!(r#"{{"role":"user","content":"{prompt}"}}"#);
        let more = match self.session.age {
            Age::New => r#""permissionMode":"default","promptSource":"sdk","turnOrigin":"sdk","#,
            Age::Old => "",
        };
        self.link(&format!(r#""type":"user","message":{said},"#), more);
        if turn == 0 {
            self.attachments();
        }
        // Claude Code writes the request shape again when the tools change.
        if turn.is_multiple_of(40) {
            self.shape();
        }
        self.blob(&said);
        for _ in 0..self.session.calls(turn) {
            self.request();
            self.tool_call();
        }
        self.request();
        let (n, length) = (
            self.session.seed(self.step),
            self.session.answer_length(self.step),
        );
        let answer = self.texts.answer(n, length);
        let text = format!(r#"{{"text":"{answer}","type":"text"}}"#);
        self.assistant(&text, "end_turn");
        self.state(&prompt);
        self.messages += 2;
    }

    /// Writes a record of the chain, with a reference to the previous record.
    fn link(&mut self, what: &str, more: &str) {
        let Self { session, step, .. } = *self;
        let parent = match step {
            0 => "null".to_owned(),
            _ => format!(r#""{}""#, uuid(session.number, step)),
        };
        let key = uuid(session.number, step + 1);
        let (at, common) = (session.time(step), &self.common);
        self.out.line(format_args!(
            r#"{{"parentUuid":{parent},"isSidechain":false,{what}"uuid":"{key}","timestamp":"{at}",{more}{common}}}"#
        ));
        self.step += 1;
    }

    fn assistant(&mut self, block: &str, stop: &str) {
        let request = self.session.number << 20 | self.requests;
        if self.session.age == Age::Old {
            self.link(&format!(
                r#""message":{{"id":"msg_{request:012}","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{block}],"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":101,"cache_creation_input_tokens":7,"cache_read_input_tokens":34011,"output_tokens":420,"service_tier":"standard"}}}},"requestId":"req_{request:012}","type":"assistant","#
            ), "");
            return;
        }
        let what = format!(
            r#""message":{{"content":[{block}],"id":"msg_{request:012}","model":"claude-opus-5-5","role":"assistant","stop_reason":"{stop}","stop_sequence":null,"type":"message","usage":{{"input_tokens":101,"cache_creation_input_tokens":7,"cache_read_input_tokens":34011,"output_tokens":420,"output_tokens_details":{{"thinking_tokens":0}},"server_tool_use":{{"web_search_requests":0,"web_fetch_requests":0}},"service_tier":"standard","cache_creation":{{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0}},"inference_geo":"","iterations":[],"speed":"standard","fallback_credit":null}},"stop_details":null}},"toolInputStreamMs":4,"apiBlockIndex":0,"requestRef":"c6e86fe9-307e-49be-b069-b6adda2d1fd0","requestedModel":"claude-opus-5-5","promptCacheRequested":"5m","type":"assistant","#
        );
        let more = r#""effort":"medium","perTurnEffort":"medium","madeBy":"model","#;
        self.link(&what, more);
    }

    /// Writes an optional thought, a tool call and its result. The record contains the result twice: for the model and
    /// for the screen.
    fn tool_call(&mut self) {
        let n = self.session.seed(self.step);
        let call = n >> 1;
        if self.session.thinks(self.step) {
            let (thought, signature) = (self.texts.thought(n), self.texts.blob(n));
            let thought = format!(
                r#"{{"signature":"{signature}","thinking":"{thought}","type":"thinking"}}"#
            );
            self.assistant(&thought, "tool_use");
        }
        let path = format!("{}/{}", self.session.cwd(), self.texts.path(n));
        let use_of_tool = format!(
            r#"{{"id":"toolu_{call:020}","input":{{"file_path":"{path}","limit":400}},"name":"Read","type":"tool_use"}}"#
        );
        self.assistant(&use_of_tool, "tool_use");
        let listing = self.texts.listing(n, self.session.output_length(self.step));
        let said = format!(
            r#"{{"role":"user","content":[{{"tool_use_id":"toolu_{call:020}","type":"tool_result","content":"{listing}"}}]}}"#
        );
        let source = match self.session.age {
            Age::New => format!(
                r#""sandboxed":false,"sourceToolAssistantUUID":"{}","#,
                uuid(self.session.number, self.step)
            ),
            Age::Old => String::new(),
        };
        let more = format!(
            r#""toolUseResult":{{"type":"text","file":{{"filePath":"{path}","content":"{listing}","numLines":120,"startLine":1,"totalLines":120}}}},{source}"#
        );
        self.link(&format!(r#""type":"user","message":{said},"#), &more);
        self.blob(&said);
        self.messages += 2;
    }

    fn queue(&mut self, prompt: &str) {
        if self.session.age == Age::Old {
            return;
        }
        let (id, at) = (&self.id, self.session.time(self.step));
        let operation = r#"{"type":"queue-operation","operation":"#;
        self.out.line(format_args!(
            r#"{operation}"enqueue","timestamp":"{at}","sessionId":"{id}","content":"{prompt}"}}"#
        ));
        self.out.line(format_args!(
            r#"{operation}"dequeue","timestamp":"{at}","sessionId":"{id}"}}"#
        ));
    }

    /// Writes the attachments that the model receives once, such as the list of its skills. Old versions write none.
    fn attachments(&mut self) {
        if self.session.age == Age::Old {
            return;
        }
        for length in [700, 160, 400, 1700, 6000, 600, 70, 580, 6000] {
            let text = self.texts.instructions_of(length);
            let what = format!(
                r#""attachment":{{"type":"skill_listing","content":"{text}","names":["run","review","init"]}},"type":"attachment","#
            );
            let more = format!(
                r#""rendered":[{{"content":"<system-reminder>\n{text}\n</system-reminder>"}}],"renderedRole":"system","#
            );
            self.link(&what, &more);
        }
    }

    fn shape(&mut self) {
        if self.session.age == Age::Old {
            return;
        }
        let (id, at) = (&self.id, self.session.time(self.step));
        let instructions = self.texts.instructions_of(12_000);
        self.out.line(format_args!(
            r#"{{"type":"api-request-shape","sessionId":"{id}","shapeHash":"d03d0f8d1d0ed2d397d9db1913710f7a0f1b8c80b6c2b5e2d879ea188f070178","timestamp":"{at}","version":"2.1.325","shape":{{"system":[{{"type":"text","text":"{instructions}"}}],"tools":[{{"name":"Bash","description":"{instructions}","input_schema":{{"type":"object","properties":{{"command":{{"description":"The command to execute","type":"string"}}}}}}}},{{"name":"Agent","description":"{instructions}"}}]}}}}"#
        ));
    }

    fn blob(&mut self, said: &str) {
        if self.session.age == Age::Old {
            return;
        }
        let (id, hash) = (&self.id, mixed(self.step));
        self.out.line(format_args!(
            r#"{{"type":"api-request-blob","sessionId":"{id}","hash":"{hash:064x}","message":{said}}}"#
        ));
    }

    fn request(&mut self) {
        self.requests += 1;
        if self.session.age == Age::Old {
            return;
        }
        let (id, at) = (&self.id, self.session.time(self.step));
        let (own, hash) = (
            uuid(self.session.number, 1 << 41 | self.requests),
            mixed(self.step),
        );
        self.out.line(format_args!(
            r#"{{"type":"api-request","sessionId":"{id}","id":"{own}","timestamp":"{at}","version":"2.1.325","querySource":"sdk","shapeHash":"d03d0f8d1d0ed2d397d9db1913710f7a0f1b8c80b6c2b5e2d879ea188f070178","params":{{"model":"claude-opus-5-5","betas":["claude-code-20250219","interleaved-thinking-2025-05-14","context-management-2025-06-27"],"max_tokens":128000,"thinking":{{"type":"adaptive","display":"omitted"}},"output_config":{{"effort":"medium"}}}},"keep":2,"tail":["{hash:064x}","{hash:064x}"],"cacheControl":[{{"path":["system",0],"value":{{"type":"ephemeral"}}}}],"requestDigest":"{hash:064x}"}}"#
        ));
    }

    fn state(&mut self, prompt: &str) {
        if self.session.age == Age::Old {
            return;
        }
        let (id, leaf) = (&self.id, uuid(self.session.number, self.step));
        self.out.line(format_args!(
            r#"{{"type":"last-prompt","lastPrompt":"{prompt}","leafUuid":"{leaf}","sessionId":"{id}"}}"#
        ));
        self.out.line(format_args!(
            r#"{{"type":"cost-state","sessionId":"{id}","totalCostUSD":0.0016824,"totalAPIDuration":174,"modelUsage":{{"claude-opus-5-5":{{"inputTokens":202,"outputTokens":40,"costUSD":0.0016824}}}},"hasUnknownModelCost":false}}"#
        ));
    }
}
