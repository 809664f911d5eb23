use std::fmt::Write;
use std::fs;

use jiff::Timestamp;
use proptest::prelude::*;
use segue_core::session::{Message, Part, Role};

use super::*;
use crate::TurnBuilder;
use crate::reader::line_format::{LineEvents, LineFormat};
use crate::{Mark, NativeRecord, read_outline, read_turns};

/// Formats messages in one line.
fn format_messages(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "model",
            Role::Tool => "tool",
            Role::System => "note",
        };
        let _ = write!(text, " | {role}");
        for part in &message.parts {
            let _ = match part {
                Part::Text(content) => write!(text, " {content}"),
                Part::Thought(content) => write!(text, " thinks {content}"),
                Part::FunctionCall { id, name, args } => {
                    write!(text, " {id}={name}{}", args.as_str())
                }
                Part::FunctionResponse {
                    call_id,
                    name,
                    response,
                    is_error,
                } => {
                    let failed = if *is_error { " failed" } else { "" };
                    write!(text, " {call_id}={name}:{}{failed}", response.as_str())
                }
                Part::InlineData(data) => write!(text, " <{}>", data.mime_type),
                Part::Unknown(json) => write!(text, " ?{}", json.as_str()),
            };
        }
    }
    text
}

fn format_turns(turns: &[NativeTurn]) -> Vec<String> {
    let line = |turn: &NativeTurn| {
        let compacted = if turn.compacted { " compacted" } else { "" };
        format!(
            "{:?}{compacted}{}",
            turn.state,
            format_messages(&turn.messages)
        )
    };
    turns.iter().map(line).collect()
}

/// Expands an abbreviated line: `@7` is a time, `'` a quote.
fn expand_line(line: &str) -> String {
    let mut text = String::new();
    let mut remainder = line;
    while let Some((before, after)) = remainder.split_once('@') {
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (second, after) = after.split_at(digits);
        let _ = write!(
            text,
            "{before}'timestamp':'2026-11-16T00:00:{second:0>2}.000Z'"
        );
        remainder = after;
    }
    text.push_str(remainder);
    text.replace('\'', "\"")
}

const HEADER_LINE: &str = r"{'sessionId':'5e55-1','projectHash':'h','startTime':'2026-11-16T00:00:00Z','lastUpdated':'2026-11-16T00:00:00Z','kind':'main'}";
const CONTEXT: &str =
    r"{'id':'ctx',@0,'type':'user','content':[{'text':'<session_context>\nhello'}]}";

struct GeminiTestHome {
    directory: tempfile::TempDir,
    reader: GeminiReader,
}

impl GeminiTestHome {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let reader = GeminiReader::new(directory.path());
        Self { directory, reader }
    }

    fn write_session(&self, name: &str, text: &str) -> SessionLocation {
        let path = self.directory.path().join("tmp/proj/chats").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let mut locations = self.reader.scan_sessions().locations.into_iter();
        locations.find(|location| location.path == path).unwrap()
    }

    fn write_log(&self, lines: &[&str]) -> SessionLocation {
        let mut text = expand_line(HEADER_LINE) + "\n";
        for line in lines {
            text += &expand_line(line);
            text.push('\n');
        }
        self.write_session("session-2026-11-16T00-00-5e55-1.jsonl", &text)
    }

    fn build_turns(&self, location: &SessionLocation) -> TurnBuilder {
        let mut records = self
            .reader
            .open_records(location, &ReadStart::Beginning)
            .unwrap();
        let builder = read_turns(records.as_mut()).unwrap();
        assert!(records.skipped().is_empty(), "{:?}", records.skipped());
        builder
    }

    /// Returns the turns of a file, after checking that all methods of reading return the same.
    fn read_checked_turns(&self, location: &SessionLocation) -> Vec<String> {
        let turns = self.build_turns(location).into_turns();
        let mut records = self
            .reader
            .open_records(location, &ReadStart::Beginning)
            .unwrap();
        let outline = read_outline(records.as_mut()).unwrap();
        for (outlined, full_turn) in outline.turns().iter().zip(&turns) {
            let read = crate::read_turn(&self.reader, location, outlined).unwrap();
            assert_eq!(
                format_messages(&read.messages),
                format_messages(&full_turn.messages)
            );
            // Records after the end of a turn are new.
            let start = ReadStart::After(full_turn.until.clone());
            let mut later = self.reader.open_records(location, &start).unwrap();
            let later = format_turns(read_turns(later.as_mut()).unwrap().turns());
            for line in later {
                assert!(
                    !line.contains(&format_messages(&full_turn.messages)),
                    "{line} is read twice"
                );
            }
        }
        for last in 0..=turns.len() {
            let (recent, is_complete) = self.reader.read_recent_turns(location, last).unwrap();
            let expected = format_turns(&turns).split_off(turns.len() - last);
            assert_eq!(format_turns(&recent), expected);
            assert!(!is_complete || last == turns.len());
        }
        format_turns(&turns)
    }
}

fn read_log_turns(lines: &[&str]) -> Vec<String> {
    let test_home = GeminiTestHome::new();
    test_home.read_checked_turns(&test_home.write_log(lines))
}

#[test]
fn a_rewritten_message_emits_only_its_new_content() {
    let turns = read_log_turns(&[
        r"{'$set':{'messages':[{'id':'ctx',@0,'type':'user','content':[{'text':'<session_context>x'}]}],'lastUpdated':'2026-11-16T00:00:00Z'}}",
        r"{'id':'u1',@1,'type':'user','content':[{'text':'go'},{'inlineData':{'mimeType':'image/png','data':'AA=='}}]}",
        r"{'$set':{'lastUpdated':'2026-11-16T00:00:01Z'}}",
        r"{'id':'g1',@2,'type':'gemini','content':'Running.','thoughts':[{'subject':'Plan','description':'run it'}],'tokens':{'input':100,'output':20,'cached':10,'thoughts':5,'tool':0,'total':125},'model':'m'}",
        r"{'id':'g1',@2,'type':'gemini','content':'Running.','thoughts':[{'subject':'Plan','description':'run it'}],'tokens':{'input':100,'output':20,'cached':10,'thoughts':5,'tool':0,'total':125},'model':'m','toolCalls':[{'id':'c1','name':'ls','args':{'a':1},'result':[{'functionResponse':{'id':'c1','name':'ls','response':{'output':'x'}}}],'status':'success',@3},{'id':'c2','name':'rm','args':{},'result':[{'functionResponse':{'id':'c2','name':'rm','response':{'error':'no'}}}],'status':'error',@3}]}",
        r"{'id':'r1',@4,'type':'user','content':[{'functionResponse':{'id':'c1','name':'ls','response':{'output':'x'}}},{'functionResponse':{'id':'c2','name':'rm','response':{'error':'no'}}}]}",
        r"{'id':'g2',@5,'type':'gemini','content':'Done.','thoughts':[],'tokens':{'input':200,'output':7,'cached':0,'thoughts':0,'tool':3,'total':210},'model':'m'}",
    ]);
    assert_eq!(
        turns,
        [
            "Finished | user go <image/png> | model thinks **Plan**\nrun it | model Running. | model c1=ls{\"a\":1} | model c2=rm{} | tool c1=ls:{\"output\":\"x\"} | tool c2=rm:{\"error\":\"no\"} failed | model Done."
        ]
    );
}

#[test]
fn usage_counts_each_request_once_and_thoughts_as_output() {
    let test_home = GeminiTestHome::new();
    let answer = r"{'id':'g1',@2,'type':'gemini','content':'A','tokens':{'input':100,'output':20,'cached':10,'thoughts':5,'tool':3,'total':128}}";
    let location = test_home.write_log(&[
        r"{'id':'u1',@1,'type':'user','content':'go'}",
        answer,
        answer,
        r"{'id':'g2',@3,'type':'gemini','content':'B','tokens':{'input':200,'output':7,'cached':0,'thoughts':0,'tool':0,'total':207}}",
    ]);
    let usage = test_home.build_turns(&location).turns()[0].usage;
    assert_eq!(usage.input_tokens, Some(303));
    assert_eq!(usage.output_tokens, Some(32));
    assert_eq!(usage.cached_tokens, Some(10));
    assert_eq!(usage.total_tokens, Some(335));
    assert_eq!(usage.context_tokens, Some(207));
}

/// Over ACP, a second recorder writes the calls of all turns into one message of its own.
#[test]
fn calls_gathered_in_one_message_belong_to_their_own_turns() {
    let call = |id: &str, at: u32, output: &str| {
        format!(
            "{{'id':'{id}','name':'sh','args':{{}},'result':[{{'functionResponse':{{'id':'{id}','name':'sh','response':{{'output':'{output}'}}}}}}],'status':'success',@{at}}}"
        )
    };
    let calls = |calls: &[String]| {
        let calls = calls.join(",");
        format!("{{'id':'acp',@3,'type':'gemini','content':'','toolCalls':[{calls}]}}")
    };
    let (first_call, second_call) = (call("c1", 3, "x"), call("c2", 4, "y"));
    let stopped = call(
        "c3",
        9,
        "Command was cancelled by user before it could complete.",
    );
    let turns = read_log_turns(&[
        r"{'id':'u1',@1,'type':'user','content':[{'text':'first'}]}",
        r"{'id':'g1',@2,'type':'gemini','content':'Running.'}",
        &calls(std::slice::from_ref(&first_call)),
        &calls(&[first_call.clone(), second_call.clone()]),
        r"{'id':'r1',@5,'type':'user','content':[{'functionResponse':{'id':'c1','name':'sh','response':{'output':'x'}}},{'functionResponse':{'id':'c2','name':'sh','response':{'output':'y'}}}]}",
        r"{'id':'g2',@6,'type':'gemini','content':'Done.'}",
        r"{'id':'u2',@7,'type':'user','content':[{'text':'second'}]}",
        r"{'id':'g3',@8,'type':'gemini','content':'Sleeping.'}",
        &calls(&[first_call, second_call, stopped]),
        r"{'id':'u3',@10,'type':'user','content':[{'text':'third'}]}",
        r"{'id':'g4',@11,'type':'gemini','content':'Yes.'}",
    ]);
    assert_eq!(
        turns,
        [
            "Finished | user first | model Running. | model c1=sh{} | tool c1=sh:{\"output\":\"x\"} | model c2=sh{} | tool c2=sh:{\"output\":\"y\"} | model Done.",
            "Cancelled | user second | model Sleeping. | model c3=sh{} | tool c3=sh:{\"output\":\"Command was cancelled by user before it could complete.\"}",
            "Finished | user third | model Yes.",
        ]
    );
}

#[test]
fn a_clock_that_is_set_back_loses_no_messages() {
    let call = |at: u32| {
        format!(
            r"{{'id':'g1',@{at},'type':'gemini','content':'Running.','toolCalls':[{{'id':'c1','name':'ls','args':{{}},'result':[{{'functionResponse':{{'id':'c1','name':'ls','response':{{'output':'x'}}}}}}],'status':'success',@{at}}}]}}"
        )
    };
    let turns = read_log_turns(&[
        r"{'id':'u1',@20,'type':'user','content':'first'}",
        &call(3),
        r"{'id':'g2',@4,'type':'gemini','content':'Done.'}",
        r"{'id':'u2',@30,'type':'user','content':'second'}",
        r"{'id':'g3',@5,'type':'gemini','content':'Two.'}",
    ]);
    assert_eq!(
        turns,
        [
            "Finished | user first | model Running. | model c1=ls{} | tool c1=ls:{\"output\":\"x\"} | model Done.",
            SECOND_TURN
        ]
    );
}

#[test]
fn a_failed_command_is_an_error_even_if_the_tool_succeeded() {
    let cases = [
        (r"Output: one\nExit Code: 3\nProcess Group PGID: 1", true),
        (r"Output: (empty)\nSignal: 9\nBackground PIDs: 2, 3", true),
        (r"Output: (empty)\nExit Code: 127", true),
        (r"Output: one\nProcess Group PGID: 1", false),
        (r"Output: Exit Code: 7\nProcess Group PGID: 1", false),
        (r"Output: Exit Code: 7\nand more\nSignal: 0", false),
        (
            r"Command: x\nDirectory: (root)\nOutput: one\nError: (none)\nExit Code: 0\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 1",
            false,
        ),
        (
            r"Command: x\nDirectory: (root)\nOutput: one\nError: (none)\nExit Code: 2\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 1",
            true,
        ),
    ];
    for (output, expected) in cases {
        let wrapped = format!(r"<untrusted_context>\n{output}\n</untrusted_context>");
        for output in [output, &wrapped] {
            let result = |name: &str| {
                let line = format!(
                    "{{'id':'g1',@2,'type':'gemini','content':'','toolCalls':[{{'id':'c1','name':'{name}','args':{{}},'result':[{{'functionResponse':{{'id':'c1','name':'{name}','response':{{'output':'{output}'}}}}}}],'status':'success',@3}}]}}"
                );
                read_log_turns(&[r"{'id':'u1',@1,'type':'user','content':'go'}", &line])
            };
            let [turn] = &result("run_shell_command")[..] else {
                panic!("one turn")
            };
            assert_eq!(turn.ends_with(" failed"), expected, "{turn}");
            // The output of another tool may look like that.
            assert!(!result("read_file")[0].ends_with(" failed"));
        }
    }
}

const TWO_TURNS: &[&str] = &[
    r"{'$set':{'messages':[{'id':'ctx',@0,'type':'user','content':'<session_context>'}]}}",
    r"{'id':'u1',@1,'type':'user','content':'first'}",
    r"{'id':'g1',@2,'type':'gemini','content':'One.'}",
    r"{'id':'u2',@3,'type':'user','content':'second'}",
    r"{'id':'g2',@4,'type':'gemini','content':'Two.'}",
];
const FIRST_TURN: &str = "Finished | user first | model One.";
const SECOND_TURN: &str = "Finished | user second | model Two.";

fn read_after_two_turns(lines: &[&str]) -> Vec<String> {
    read_log_turns(&[TWO_TURNS, lines].concat())
}

#[test]
fn a_prompt_that_the_list_omits_is_removed() {
    let turns = read_after_two_turns(&[
        r"{'id':'u3',@5,'type':'user','content':'stopped'}",
        r"{'$set':{'messages':[{'id':'ctx',@0,'type':'user','content':'<session_context>'},{'id':'u1',@1,'type':'user','content':[{'text':'first'}]},{'id':'g1',@2,'type':'gemini','content':[{'text':'One.'}]},{'id':'u2',@3,'type':'user','content':'second'},{'id':'g2',@4,'type':'gemini','content':'Two.'}]}}",
        // Notices after that do not concern the previous turn.
        r"{'id':'i1',@6,'type':'info','content':'Request cancelled.'}",
        r"{'id':'e1',@6,'type':'error','content':'[API Error: bad]'}",
        r"{'id':'u4',@7,'type':'user','content':'fourth'}",
        r"{'id':'g4',@8,'type':'gemini','content':'Four.'}",
    ]);
    assert_eq!(
        turns,
        [
            FIRST_TURN,
            SECOND_TURN,
            "Finished | user fourth | model Four."
        ]
    );
}

#[test]
fn a_rewind_removes_the_named_message() {
    let turns = read_after_two_turns(&[
        r"{'$rewindTo':'u2'}",
        r"{'$set':{'messages':[{'id':'u1',@1,'type':'user','content':[{'text':'first'}]},{'id':'g1',@2,'type':'gemini','content':[{'text':'One.'}]}]}}",
        r"{'id':'u3',@5,'type':'user','content':'again'}",
    ]);
    assert_eq!(turns, [FIRST_TURN, "Running | user again"]);
}

#[test]
fn a_resume_rewrites_all_messages_and_emits_none() {
    let turns = read_after_two_turns(&[
        r"{'$set':{'sessionId':'5e55-1'}}",
        r"{'$set':{'messages':[{'id':'u1',@1,'type':'user','content':[{'text':'first'}]},{'id':'g1',@2,'type':'gemini','content':[{'text':'**Plan** x','thought':true},{'text':'One.'},{'functionCall':{'id':'c1','name':'sh','args':{}}}]},{'id':'g1_response',@9,'type':'user','content':[{'functionResponse':{'id':'c1','name':'sh','response':{'output':'x'}}}]},{'id':'u2',@3,'type':'user','content':[{'text':'second'}]},{'id':'g2',@4,'type':'gemini','content':[{'text':'Two.'}]}]}}",
        r"{'id':'u3',@10,'type':'user','content':'third'}",
    ]);
    assert_eq!(turns, [FIRST_TURN, SECOND_TURN, "Running | user third"]);
}

#[test]
fn a_summary_removes_no_messages_and_its_copies_are_not_emitted() {
    let compressed = r"{'$set':{'messages':[{'id':'ctx',@0,'type':'user','content':'<session_context>'},{'id':'s1',@5,'type':'user','content':[{'text':'<state_snapshot>all of it</state_snapshot>'}]},{'id':'s2',@5,'type':'gemini','content':[{'text':'Got it. Thanks for the additional context!'}]},{'id':'u2b',@5,'type':'user','content':[{'text':'second'}]},{'id':'g2b',@5,'type':'gemini','content':[{'text':'Two.'}]}]}}";
    let third = r"{'id':'u3',@6,'type':'user','content':'third'}";
    assert_eq!(
        read_after_two_turns(&[compressed, third]),
        [
            FIRST_TURN,
            "Finished compacted | user second | model Two.",
            "Running | user third"
        ]
    );
    // The list is written a second time, without the failed prompt.
    let turns = read_after_two_turns(&[compressed, third, compressed]);
    assert_eq!(
        turns,
        [FIRST_TURN, "Finished compacted | user second | model Two."]
    );
    // A rewind to a copy is a rewind to its original.
    let rewound = read_after_two_turns(&[compressed, third, r"{'$rewindTo':'u2b'}"]);
    assert_eq!(rewound, [FIRST_TURN]);
}

#[test]
fn a_rewritten_history_replaces_the_old_one() {
    let test_home = GeminiTestHome::new();
    let location = test_home.write_log(
        &[
            TWO_TURNS,
            &[
                r"{'id':'u1c',@5,'type':'user','content':'first, shorter'}",
                r"{'id':'g1c',@5,'type':'gemini','content':'1.'}",
                r"{'$set':{'messages':[{'id':'u1c',@5,'type':'user','content':'first, shorter'},{'id':'g1c',@5,'type':'gemini','content':'1.'}]}}",
                r"{'id':'u3',@6,'type':'user','content':'third'}",
            ],
        ]
        .concat(),
    );
    assert_eq!(
        test_home.read_checked_turns(&location),
        [
            "Finished | user first, shorter | model 1.",
            "Running | user third"
        ]
    );
}

#[test]
fn turns_end_as_their_messages_report() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "Running | user go"),
        (
            &[r"{'id':'e',@2,'type':'error','content':'[API Error: bad]'}"],
            "Failed | user go | note [API Error: bad]",
        ),
        (
            &[r"{'id':'i',@2,'type':'info','content':'Request cancelled.'}"],
            "Cancelled | user go",
        ),
        (
            &[
                r"{'id':'i',@2,'type':'info','content':'Switched to another model'}",
                r"{'id':'g',@3,'type':'gemini','content':'Hi.'}",
                r"{'id':'i2',@4,'type':'info','content':'Update available!'}",
            ],
            "Finished | user go | note Switched to another model | model Hi.",
        ),
        (
            &[
                r"{'id':'g',@2,'type':'gemini','content':'','toolCalls':[{'id':'c','name':'sh','args':{},'result':[{'functionResponse':{'id':'c','name':'sh','response':{'error':'stopped'}}}],'status':'cancelled',@2}]}",
            ],
            "Cancelled | user go | model c=sh{} | tool c=sh:{\"error\":\"stopped\"} failed",
        ),
        // If a call was not allowed, only its result is recorded.
        (
            &[
                r"{'id':'g',@2,'type':'gemini','content':'Sleeping.'}",
                r"{'id':'r',@3,'type':'user','content':[{'functionResponse':{'id':'c','name':'sh','response':{'error':'not allowed'}}}]}",
            ],
            "Running | user go | model Sleeping. | tool c=sh:{\"error\":\"not allowed\"} failed",
        ),
        // A message before a call does not end the turn, even if the call is not in that message.
        (
            &[r"{'id':'g',@2,'type':'gemini','content':'','tokens':{'input':1}}"],
            "Running | user go",
        ),
    ];
    for (lines, expected) in cases {
        let prompt: &[&str] = &[r"{'id':'u1',@1,'type':'user','content':'go'}"];
        assert_eq!(read_log_turns(&[prompt, lines].concat()), [*expected]);
    }
}

#[test]
fn content_is_read_in_all_shapes() {
    let turns = read_log_turns(&[
        r"{'id':'u1',@1,'type':'user','content':['go ',{'text':'on'},null,{'fileData':{'fileUri':'x'}}],'displayContent':[{'text':'go #x'}]}",
        r"{'id':'g1',@2,'type':'gemini','content':{'text':'One.'},'thoughts':null,'tokens':null,'toolCalls':[{'id':'c1','name':'a','args':{},'result':'plain','status':'success'},{'id':'c2','name':'b','result':{'functionResponse':{'name':'b','response':{'output':1},'parts':[{'inlineData':{'mimeType':'image/png','data':'AA'}}]}},'status':'success'},{'id':'c3','name':'c','args':{},'result':null,'status':'executing'}]}",
        r"{'id':'g2',@3,'type':'gemini','content':[{'text':'Binary content received. Proceeding with analysis.','thought':true,'thoughtSignature':'x'}]}",
        r"{'id':'g3',@4,'type':'gemini','content':[{'text':'hm','thought':true},{'text':'Two.'},{'executableCode':{'code':'1'}}]}",
        r"{'id':'x1',@5,'type':'something new','content':'x'}",
    ]);
    assert_eq!(
        turns,
        [
            "Finished | user go #x ?{\"fileData\":{\"fileUri\":\"x\"}} | model One. | model c1=a{} | model c2=b{} | model c3=c{} | tool c1=a:\"plain\" | tool c2=b:{\"output\":1} <image/png> | model thinks hm | model Two. | model ?{\"executableCode\":{\"code\":\"1\"}}"
        ]
    );
}

const DOCUMENT: &str = r#"{
  "sessionId": "5e55-2",
  "projectHash": "h",
  "startTime": "2025-11-16T00:00:00.000Z",
  "lastUpdated": "2025-11-16T00:00:09.000Z",
  "messages": [
    {"id": "a", "timestamp": "2025-11-16T00:00:01.000Z", "type": "user", "content": "say \"]}\\"},
    {"id": "b", "timestamp": "2025-11-16T00:00:02.000Z", "type": "gemini", "content": "]}",
     "toolCalls": [{"id": "c", "name": "sh", "args": {"x": [1, {}]}, "result": [{"functionResponse": {"id": "c", "name": "sh", "response": {"output": "ok"}}}], "status": "success"}],
     "thoughts": [], "tokens": {"input": 1, "output": 2, "cached": 0, "total": 3}, "model": "m"},
    {"id": "d", "timestamp": "2025-11-16T00:00:03.000Z", "type": "gemini", "content": "Done."},
    {"id": "e", "timestamp": "2025-11-16T00:00:04.000Z", "type": "user", "content": [{"text": "second"}]},
    {"id": "f", "timestamp": "2025-11-16T00:00:05.000Z", "type": "gemini", "content": "Two."}
  ],
  "summary": "What it is about"
}
"#;

#[test]
fn an_older_document_reads_the_same_in_any_layout() {
    let test_home = GeminiTestHome::new();
    let mut value: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
    let compact = value.to_string();
    // The order changes: the messages first.
    let messages = value.as_object_mut().unwrap().remove("messages").unwrap();
    let other_fields = value.to_string();
    let first = format!(
        "{{\"messages\":{messages},{}",
        other_fields.strip_prefix('{').unwrap()
    );
    let layouts = [
        DOCUMENT.to_owned(),
        compact,
        first,
        format!("\n\n{DOCUMENT}\n\n"),
    ];
    for (index, text) in layouts.iter().enumerate() {
        let name = format!("session-2025-11-16T00-0{index}-5e55-2.json");
        let location = test_home.write_session(&name, text);
        assert_eq!(
            test_home.read_checked_turns(&location),
            [
                "Finished | user say \"]}\\ | model ]} | model c=sh{\"x\":[1,{}]} | tool c=sh:{\"output\":\"ok\"} | model Done.".replace("[1,{}]", if text.contains("[1, {}]") { "[1, {}]" } else { "[1,{}]" }).replace("{\"x\":", if text.contains("\"x\": ") { "{\"x\": " } else { "{\"x\":" }).replace("{\"output\":", if text.contains("\"output\": ") { "{\"output\": " } else { "{\"output\":" }),
                "Finished | user second | model Two.".to_owned(),
            ],
            "{text}"
        );
        let builder = test_home.build_turns(&location);
        assert_eq!(builder.title().unwrap().as_str(), "What it is about");
        let head = test_home.reader.read_head(&location).unwrap();
        assert_eq!(head.id.as_str(), "5e55-2");
        assert_eq!(head.kind, NativeSessionKind::Conversation);
        assert_eq!(head.title.unwrap().as_str(), "What it is about");
        assert_eq!(head.updated_at, "2025-11-16T00:00:09Z".parse().unwrap());
        assert_eq!(head.created_at, "2025-11-16T00:00:00Z".parse().ok());
        assert_eq!(head.first_prompt.as_deref(), Some("say \"]}\\"));
    }
}

#[test]
fn a_document_title_is_read_from_the_fields_after_its_messages() {
    let test_home = GeminiTestHome::new();
    let long = DOCUMENT.replace("Two.", &"long ".repeat(20_000));
    for text in [DOCUMENT, &long] {
        for (fields, expected) in [
            (r#""summary": "Fix arr[0] bug""#, "Fix arr[0] bug"),
            (r#""summary": "Fix \"[1, {\" \\""#, r#"Fix "[1, {" \"#),
            (
                r#""summary": "First", "directories": ["/a", "/b"], "kind": "main""#,
                "First",
            ),
            (
                r#""kind": "main", "more": {"summary": "no"}"#,
                r#"say "]}\"#,
            ),
        ] {
            let text = text.replace(r#""summary": "What it is about""#, fields);
            let location = test_home.write_session("session-2025-11-16T00-00-5e55-2.json", &text);
            let head = test_home.reader.read_head(&location).unwrap();
            assert_eq!(head.title.unwrap().as_str(), expected);
        }
        // The order changes: the messages last.
        let text = text.replace("\n  ],\n  \"summary\": \"What it is about\"", "]");
        let location = test_home.write_session("session-2025-11-16T00-00-5e55-2.json", &text);
        let head = test_home.reader.read_head(&location).unwrap();
        assert_eq!(head.title.unwrap().as_str(), r#"say "]}\"#);
    }
}

#[test]
fn a_missing_mark_is_an_error() {
    let test_home = GeminiTestHome::new();
    let location = test_home.write_session("session-2025-11-16T00-00-5e55-2.json", DOCUMENT);
    for mark in [Mark::Id("missing".into()), Mark::for_line(3, b"x")] {
        let error = test_home
            .reader
            .open_records(&location, &ReadStart::After(mark))
            .err();
        assert!(matches!(error, Some(ReadError::MarkNotFound { .. })));
    }
}

#[test]
fn a_truncated_document_is_read_up_to_its_end() {
    let test_home = GeminiTestHome::new();
    let (truncated, _) = DOCUMENT.split_at(DOCUMENT.find("second").unwrap());
    let location = test_home.write_session("session-2025-11-16T00-00-5e55-2.json", truncated);
    let mut records = test_home
        .reader
        .open_records(&location, &ReadStart::Beginning)
        .unwrap();
    let builder = read_turns(records.as_mut()).unwrap();
    assert_eq!(builder.turns().len(), 1);
    assert!(records.skipped().truncated);
}

#[test]
fn a_head_describes_its_session() {
    let test_home = GeminiTestHome::new();
    let head = |lines: &[&str]| {
        let location = test_home.write_log(lines);
        let head = test_home.reader.read_head(&location).unwrap();
        let title = head.title.as_ref().map(|title| title.as_str().to_owned());
        (head.kind, title.unwrap_or_default(), head.updated_at)
    };
    let at =
        |second: i8| -> Timestamp { format!("2026-11-16T00:00:{second:02}Z").parse().unwrap() };
    let context =
        &format!("{{'$set':{{'messages':[{CONTEXT}],'lastUpdated':'2026-11-16T00:00:00Z'}}}}");
    let command = r"{'id':'u0',@1,'type':'user','content':[{'text':'/stats'}]}";
    let prompt = r"{'id':'u1',@2,'type':'user','content':[{'text':'fix it'}]}";
    let time_update = r"{'$set':{'lastUpdated':'2026-11-16T00:00:05Z'}}";
    let title_update = r"{'$set':{'summary':'A summary','memoryScratchpad':{'version':1}}}";
    assert_eq!(
        head(&[context, HEADER_LINE, context]),
        (NativeSessionKind::Empty, String::new(), at(0))
    );
    assert_eq!(
        head(&[context, command, prompt, time_update]),
        (NativeSessionKind::Conversation, "fix it".into(), at(5))
    );
    assert_eq!(
        head(&[context, prompt, time_update, title_update]),
        (NativeSessionKind::Conversation, "A summary".into(), at(5))
    );
    // The only prompt failed, or a load emptied the list. The prompt can still be read.
    assert_eq!(
        head(&[context, prompt, context]).0,
        NativeSessionKind::Conversation
    );
    assert_eq!(head(&[context, command]).0, NativeSessionKind::Conversation);
}

#[test]
fn a_prompt_behind_a_long_context_is_found() {
    let test_home = GeminiTestHome::new();
    let context = format!(
        "{{'id':'ctx',@0,'type':'user','content':'<session_context>{}'}}",
        "x".repeat(40_000)
    );
    let tail = format!(
        "{{'id':'g',@2,'type':'gemini','content':'{}'}}",
        "y".repeat(700_000)
    );
    let location = test_home.write_log(&[
        &context,
        r"{'id':'u1',@1,'type':'user','content':'fix it'}",
        &tail,
        r"{'$set':{'summary':'A summary'}}",
    ]);
    let head = test_home.reader.read_head(&location).unwrap();
    assert_eq!(head.first_prompt.as_deref(), Some("fix it"));
    assert_eq!(head.title.unwrap().as_str(), "A summary");
}

#[test]
fn session_files_are_found_and_other_files_are_ignored() {
    let test_home = GeminiTestHome::new();
    let chats = test_home.directory.path().join("tmp/proj/chats");
    for name in [
        "session-2026-11-16T00-37-58be647e.jsonl",
        "session-2026-11-16T00-39-58be647e.jsonl",
        "session-2025-11-16T00-39-00000000.json",
        // Resumed by a newer version.
        "session-2025-11-16T00-40-aaaaaaaa.json",
        "session-2025-11-16T00-40-aaaaaaaa.jsonl",
        "58be647e-5946-4e56-b23e-74bb6814d03e/a12f66f8.jsonl",
        "session-2025-11-16T00-40-bbbbbbbb.jsonl.unreadable-17",
        "session-nonsense.jsonl",
        "notes.json",
    ] {
        let path = chats.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::create_dir(chats.join("session-2025-11-16T00-40-dddddddd.jsonl")).unwrap();
    fs::write(test_home.directory.path().join("tmp/file"), "").unwrap();
    let scan = test_home.reader.scan_sessions();
    assert!(scan.unreadable.is_empty());
    let mut sessions: Vec<_> = scan
        .locations
        .iter()
        .map(|location| {
            (
                location
                    .path
                    .strip_prefix(&chats)
                    .unwrap()
                    .to_str()
                    .unwrap(),
                location.id_hint.clone(),
            )
        })
        .collect();
    sessions.sort_by_key(|(name, _)| *name);
    let id_prefix = |id: &str| IdHint::Prefix(id.to_owned());
    assert_eq!(
        sessions,
        [
            (
                "58be647e-5946-4e56-b23e-74bb6814d03e/a12f66f8.jsonl",
                IdHint::Complete("a12f66f8".into())
            ),
            (
                "session-2025-11-16T00-39-00000000.json",
                id_prefix("00000000")
            ),
            (
                "session-2025-11-16T00-40-aaaaaaaa.jsonl",
                id_prefix("aaaaaaaa")
            ),
            (
                "session-2026-11-16T00-37-58be647e.jsonl",
                id_prefix("58be647e")
            ),
            (
                "session-2026-11-16T00-39-58be647e.jsonl",
                id_prefix("58be647e")
            ),
        ]
    );
}

#[test]
fn files_without_a_session_are_rejected() {
    let test_home = GeminiTestHome::new();
    for text in [
        "",
        "[]",
        "null",
        "{}",
        "garbage\nmore",
        "{\"sessionId\":\"../../etc\",\"projectHash\":\"h\"}",
    ] {
        let location = test_home.write_session("session-2026-11-16T00-00-5e551111.jsonl", text);
        let head = test_home.reader.read_head(&location);
        assert!(
            matches!(head, Err(ReadError::NotASession { .. })),
            "{text}: {head:?}"
        );
    }
}

fn read_all(test_home: &GeminiTestHome, bytes: &[u8]) {
    let path = test_home
        .directory
        .path()
        .join("tmp/proj/chats/session-2026-11-16T00-00-5e551111.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    let location = test_home.reader.scan_sessions().locations.pop().unwrap();
    let _ = test_home.reader.read_head(&location);
    let mut records = test_home
        .reader
        .open_records(&location, &ReadStart::Beginning)
        .unwrap();
    let mut builder = TurnBuilder::with_messages();
    while let Some(record) = records.next().unwrap() {
        builder.add_record(record);
    }
    let _ = test_home.reader.read_recent_turns(&location, 2).unwrap();
    let mut records = DocumentRecords::open(&location.path, &ReadStart::Beginning).unwrap();
    while records.next().unwrap().is_some() {}
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&GeminiTestHome::new(), &bytes);
    }

    #[test]
    fn any_truncated_or_changed_file_is_read_without_panic(from in 0usize..3000, to in 0usize..3000, byte in any::<u8>(), document in any::<bool>()) {
        let text = if document {
            DOCUMENT.to_owned()
        } else {
            [&[HEADER_LINE], TWO_TURNS].concat().iter().map(|line| expand_line(line) + "\n").collect()
        };
        let mut bytes = text.into_bytes();
        let from = from % bytes.len();
        bytes[from] = byte;
        bytes.truncate(to);
        read_all(&GeminiTestHome::new(), &bytes);
    }

    /// Reads lines in any order, each any number of times.
    #[test]
    fn lines_in_any_order_are_read_without_error(picks in prop::collection::vec(0usize..9, 0..30)) {
        let mut lines = TWO_TURNS.to_vec();
        lines.extend([
            HEADER_LINE,
            r"{'$rewindTo':'u1'}",
            r"{'$rewindTo':'missing'}",
            r"{'$set':{'messages':[{'id':'u2',@3,'type':'user','content':'second'},{'id':'g2',@4,'type':'gemini','content':'Two.'}]}}",
        ]);
        let mut format = GeminiLineFormat::default();
        let mut builder = TurnBuilder::with_messages();
        for pick in picks {
            let mut output = LineEvents::default();
            let line = expand_line(lines[pick]);
            prop_assert!(format.parse_line(&line, &mut output).is_ok());
            builder.add_record(NativeRecord { mark: Mark::Id(pick.to_string()), at: output.at, events: output.events });
        }
        for turn in builder.turns() {
            prop_assert_eq!(turn.message_count as usize, turn.messages.len());
        }
    }
}
