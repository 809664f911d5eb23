//! `segue chat`, with valid and invalid input.

use insta::assert_snapshot;

use crate::{count_sessions, new_test_home};

#[test]
fn a_first_turn_streams_the_answer_and_reports_the_chosen_agent() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "hello there"]), @"
    You said: hello there
    This is where our conversation begins.
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    --- exit 0
    ");
    home.assert_no_processes();
}

#[test]
fn the_next_turn_resumes_the_native_session() {
    let home = new_test_home();
    let first = home.run_segue_json(["chat", "--json", "the password is swordfish"]);
    let id = first["session_id"].as_str().unwrap();
    assert_snapshot!(home.run_segue(["chat", "--resume", id, "what was it?"]), @"
    You said: what was it?
    This is turn 2 of our conversation; before this you said: the password is swordfish
    --- exit 0
    ");
    let third = home.run_segue_json(["chat", "--json", "--continue", "and now?"]);
    assert_eq!(third["session_id"], id);
    assert_eq!(
        (third["turn"].as_u64(), third["leg"].as_u64()),
        (Some(3), Some(1))
    );
    assert_eq!(third["opened"], "resumed");
}

#[test]
fn the_json_of_a_turn_has_the_documented_shape() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "--json", "rehearse: think hm; tool; say all done"]), @r#"
    {"session_id":"[SESSION]","turn":1,"provider":"rehearsal","native_session_id":"[NATIVE]","leg":1,"opened":"fresh","opened_why":"a new session","opened_reason":{"type":"new_native","cause":{"type":"new_session"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0},"text":"all done","stop":"finished","usage":{"input_tokens":7,"output_tokens":2,"cached_tokens":null,"total_tokens":9,"context_tokens":9,"context_window":200000},"decisions":["using rehearsal, the built-in offline agent: no other agent was found"],"decision_details":[{"kind":"provider","text":"using rehearsal, the built-in offline agent: no other agent was found","decision":"provider_chosen","provider":"rehearsal","reason":"built_in"}],"error":null}
    --- exit 0
    "#);
}

#[test]
fn events_are_printed_one_per_line_and_end_with_the_result() {
    let home = new_test_home();
    let script = "rehearse: think hm; unknown; ask; say done";
    assert_snapshot!(home.run_segue(["chat", "--events", "--permissions", "allow-edits", script]), @r#"
    {"event":"began","session_id":"[SESSION]","turn":1}
    {"event":"decision","kind":"provider","text":"using rehearsal, the built-in offline agent: no other agent was found","decision":"provider_chosen","provider":"rehearsal","reason":"built_in"}
    {"event":"opened","provider":"rehearsal","native_session_id":"[NATIVE]","leg":1,"opened":"fresh"}
    {"event":"thought","message":1,"text":"hm"}
    {"event":"saved","message":2}
    {"event":"tool","id":"call-1","name":"Edit notes.txt","kind":"edit","status":"in_progress","args":{"path":"notes.txt"},"output":null,"diffs":[]}
    {"event":"saved","message":3}
    {"event":"decision","kind":"permission","text":"allowed \"Edit notes.txt\" by policy allow-edits","decision":"permission_answered","tool":"Edit notes.txt","allowed":true,"by":{"type":"policy","policy":"allow-edits"}}
    {"event":"tool","id":"call-1","name":"Edit notes.txt","kind":"edit","status":"completed","args":{"path":"notes.txt"},"output":{"output":"edited"},"diffs":[]}
    {"event":"saved","message":4}
    {"event":"text","message":5,"text":"I "}
    {"event":"text","message":5,"text":"edited "}
    {"event":"text","message":5,"text":"the "}
    {"event":"text","message":5,"text":"notes. "}
    {"event":"text","message":5,"text":"done"}
    {"event":"usage","input_tokens":null,"output_tokens":null,"cached_tokens":null,"total_tokens":null,"context_tokens":12,"context_window":200000}
    {"event":"saved","message":5}
    {"event":"ended","state":"finished"}
    {"event":"result","session_id":"[SESSION]","turn":1,"provider":"rehearsal","native_session_id":"[NATIVE]","leg":1,"opened":"fresh","opened_why":"a new session","opened_reason":{"type":"new_native","cause":{"type":"new_session"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0},"text":"I edited the notes. done","stop":"finished","usage":{"input_tokens":7,"output_tokens":5,"cached_tokens":null,"total_tokens":12,"context_tokens":12,"context_window":200000},"decisions":["using rehearsal, the built-in offline agent: no other agent was found","allowed \"Edit notes.txt\" by policy allow-edits"],"decision_details":[{"kind":"provider","text":"using rehearsal, the built-in offline agent: no other agent was found","decision":"provider_chosen","provider":"rehearsal","reason":"built_in"},{"kind":"permission","text":"allowed \"Edit notes.txt\" by policy allow-edits","decision":"permission_answered","tool":"Edit notes.txt","allowed":true,"by":{"type":"policy","policy":"allow-edits"}}],"error":null}
    --- exit 0
    "#);
}

#[test]
fn a_prompt_is_read_from_standard_input() {
    let home = new_test_home();
    let output =
        home.run_segue_with_input(["chat", "-"], "-rf is how it starts\nand more".as_bytes());
    assert!(
        output
            .stdout
            .starts_with("You said: -rf is how it starts\n"),
        "{output}"
    );
    let output = home.run_segue_with_input(["chat"], b"no dash needed");
    assert!(
        output.stdout.starts_with("You said: no dash needed\n"),
        "{output}"
    );
}

#[test]
fn an_invalid_prompt_is_refused_and_creates_no_session() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", ""]), @r#"
    --- stderr
    error: the prompt is empty
    hint: run `segue chat "your prompt"`
    --- exit 2
    "#);
    assert_snapshot!(home.run_segue_with_input(["chat", "-"], b" \n"), @"
    --- stderr
    error: the prompt is empty
    hint: standard input was empty; pipe a prompt, or pass it as an argument
    --- exit 2
    ");
    assert_snapshot!(home.run_segue_with_input(["chat", "-"], b"a\0b"), @"
    --- stderr
    error: the prompt contains a NUL character, which agents do not accept
    --- exit 2
    ");
    assert_snapshot!(home.run_segue_with_input(["chat", "-"], b"\xff\xfe"), @"
    --- stderr
    error: standard input is not valid UTF-8 (at byte 0); nothing was sent
    hint: convert it with `iconv -f LATIN1 -t UTF-8`, or name the file in the prompt
    --- exit 2
    ");
    assert_eq!(count_sessions(&home), 0);
}

#[test]
fn resume_and_continue_exclude_each_other() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "--resume", "latest", "--continue", "hi"]), @"
    --- stderr
    error: the argument '--resume <ID>' cannot be used with '--continue'

    Usage: segue chat --resume <ID> <PROMPT>

    For more information, try '--help'.
    --- exit 2
    ");
}

#[test]
fn continuing_without_a_session_starts_one_and_reports_it() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "--continue", "hi"]), @"
    You said: hi
    This is where our conversation begins.
    --- stderr
    segue: no session to continue in this directory; starting a new one
    segue: using rehearsal, the built-in offline agent: no other agent was found
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["chat", "--resume", "latest", "--json", "hi"]).code.unwrap(), @"0");
}

#[test]
fn notices_in_a_shared_pipe_begin_on_their_own_line() {
    let home = new_test_home();
    let script = format!(
        "exec {} chat --permissions deny 'rehearse: say no end; ask; say so' 2>&1",
        env!("CARGO_BIN_EXE_segue")
    );
    let output = home
        .program_command("sh")
        .args(["-c", &script])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nsegue: refused"), "{text}");
}

#[test]
fn resuming_an_unknown_session_starts_none() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "--resume", "20200101_000000_aaaa", "hi"]), @r#"
    --- stderr
    error: no session matches "[SESSION]"
    hint: run `segue session list --all` to list all sessions
    --- exit 1
    "#);
    assert_snapshot!(home.run_segue(["chat", "--resume", "latest", "--json", "hi"]), @r#"
    {"session_id":null,"turn":null,"provider":null,"native_session_id":null,"leg":null,"opened":null,"opened_why":null,"opened_reason":null,"text":"","stop":"failed","usage":{"input_tokens":null,"output_tokens":null,"cached_tokens":null,"total_tokens":null,"context_tokens":null,"context_window":null},"decisions":[],"decision_details":[],"error":{"class":"failed","message":"no session matches \"latest\"","hint":"run `segue session list --all` to list all sessions","hints":["run `segue session list --all` to list all sessions"],"advice":null,"stderr":null,"retry_at":null,"held_by":null}}
    --- exit 1
    "#);
    assert_eq!(count_sessions(&home), 0);
}

#[test]
fn an_unknown_provider_is_refused() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "-p", "hal9000", "hi"]), @"
    --- stderr
    error: unknown agent `hal9000`
    hint: available agents: rehearsal; configure another ACP agent as [acp.NAME]
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["chat", "-p", "../x", "hi"]), @"
    --- stderr
    error: invalid value '../x' for '--provider <AGENT>': a provider name may not contain '/'

    For more information, try '--help'.
    --- exit 2
    ");
}

#[test]
fn permission_requests_follow_the_policy() {
    let home = new_test_home();
    let cases = [
        ("ask", "I was not allowed to edit the notes. "),
        ("allow-reads", "I was not allowed to edit the notes. "),
        ("allow-edits", "I edited the notes. "),
        ("allow-all", "I edited the notes. "),
        ("deny", "I was not allowed to edit the notes. "),
    ];
    for (policy, text) in cases {
        let turn =
            home.run_segue_json(["chat", "--json", "--permissions", policy, "rehearse: ask"]);
        assert_eq!(turn["text"], text, "{policy}");
        assert_eq!(turn["stop"], "finished");
    }
}

#[test]
fn piped_output_has_no_colour_and_no_progress() {
    let home = new_test_home();
    let output = home.run_segue([
        "chat",
        "rehearse: slow 400ms; say one two; think so; tool; say three",
    ]);
    assert_snapshot!(output, @"
    one two
    three
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    --- exit 0
    ");
}

#[test]
fn agent_output_outside_the_protocol_does_not_stop_the_turn() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "rehearse: garbage; bad-utf8; unknown; say still here"]), @r#"
    before � after
    still here
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    segue: the agent printed a line that is not part of the protocol: "this is not a message"
    --- exit 0
    "#);
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    let parts = transcript["turns"][0]["messages"].to_string();
    assert!(parts.contains("before \u{fffd} after"), "{parts}");
    assert!(
        parts.contains("hologram"),
        "the update of an unknown kind is not stored: {parts}"
    );
}

#[test]
fn an_answer_longer_than_one_chunk_is_stored_completely() {
    let home = new_test_home();
    let events = home
        .run_segue(["chat", "--events", "rehearse: stream 3mb"])
        .stdout;
    let events: Vec<serde_json::Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let streamed_text: String = events
        .iter()
        .filter(|event| event["event"] == "text")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(streamed_text.len(), 3_000_000);
    let result = events.last().unwrap();
    assert_eq!(
        (&result["event"], &result["stop"]),
        (&"result".into(), &"finished".into())
    );
    assert!(
        result["text"].is_null(),
        "the result repeats the streamed text"
    );
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    let messages = transcript["turns"][0]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1]["complete"], true);
    assert!(messages[1]["parts"][0]["text"] == streamed_text.as_str());
    let turn = home.run_segue_json(["chat", "--json", "rehearse: stream 3mb"]);
    assert!(turn["text"] == streamed_text.as_str());
}

#[test]
fn a_title_by_the_user_overrides_a_title_by_the_agent() {
    let home = new_test_home();
    let title = || {
        let list = home.run_segue_json(["session", "list", "--json"]);
        (list[0]["title"].clone(), list[0]["title_from"].clone())
    };
    let _ = home.run_segue(["chat", "rehearse: say hi"]);
    assert_eq!(title(), ("rehearse: say hi".into(), "prompt".into()));
    let _ = home.run_segue(["chat", "--continue", "rehearse: title Greetings"]);
    assert_eq!(title(), ("Greetings".into(), "model".into()));
    let _ = home.run_segue(["session", "rename", "latest", "My own name"]);
    let _ = home.run_segue(["chat", "--continue", "rehearse: title Something else"]);
    assert_eq!(title(), ("My own name".into(), "user".into()));
}

#[test]
fn a_misplaced_subcommand_gets_a_suggestion() {
    let home = new_test_home();
    for (typed, suggestion) in [("list", "session list"), ("search", "session search")] {
        let output = home.run_segue([typed, "milk"]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(
            output.stderr.contains(&format!("'{suggestion}'")),
            "{output}"
        );
    }
    let no_args_output = home.run_segue::<&str>([]);
    assert_eq!(no_args_output.code, Some(2), "{no_args_output}");
    let last_line = no_args_output.stderr.lines().last().unwrap();
    assert!(last_line.contains("needs a terminal"), "{no_args_output}");
}

#[test]
fn help_shows_commands_examples_and_exit_codes() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["--help"]), @r#"
    The session layer for AI coding agents

    segue runs your coding agent, saves every turn to disk as it happens, and resumes after a crash or a
    kill. If no agent is installed, it uses `rehearsal`, a built-in offline agent.

    Usage: segue [OPTIONS] [COMMAND]

    Commands:
      chat         Send one prompt to an agent and stream the answer
      repl         Start an interactive conversation with an agent
      session      Manage sessions
      role         Show the roles of agents
      index        Manage the session index
      mcp          Run the MCP server over standard input and output
      events       Print what happens in all sessions
      doctor       Check installed agents, their capabilities, and the store
      config       Show and check the configuration
      trust        Trust this project's `segue.toml` to start programs and set permissions
      schema       Print the JSON Schema of the output of a command
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
          --log <FILE>
              Append a log to this file; `SEGUE_LOG` sets the levels [default: debug]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      segue                                    open the session picker (on a terminal)
      segue chat "explain this repository"     start a session
      segue chat --continue "run the tests"    resume the newest session in this directory
      segue repl                               start an interactive conversation
      segue session list                       list the sessions of this project
      segue session show latest                show the transcript of the newest session

    Exit codes: 0 success, 1 error, 2 usage error or ambiguous session, 3 the agent failed, 4 stopped
    by a policy, 130 interrupted. segue stores its data in $SEGUE_HOME, by default in the user's data
    directory; `segue doctor` prints the path.
    --- exit 0
    "#);
}

#[test]
fn help_of_chat_shows_options_and_examples() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "--help"]), @r#"
    Send one prompt to an agent and stream the answer

    segue saves the prompt before it sends it, and the answer as it arrives. The prompt starts a new
    session unless --resume, --continue or a purpose (--feature, --task, --role) selects an existing
    one. Piped input is appended to the prompt as a quoted block.

    Usage: segue chat [OPTIONS] [PROMPT]

    Arguments:
      [PROMPT]
              Prompt text; `-` reads standard input (the default in a pipe)

    Options:
          --resume <ID>
              Resume a session: ID, unique ID prefix or suffix, native ID, `latest`, `feature:NAME`, or
              list number

          --continue
              Resume the newest session in this directory (with -p: of that agent), or start one

          --new
              Start a new session, regardless of the configuration

          --feature <NAME>
              Resume the session of this feature (with -p: of that agent), or start one

          --task <NAME>
              Resume the session of this task in its state, or start one

          --state <NAME>
              State of the task, such as `planning`, `in_dev` or `in_qa`

          --role <NAME>
              Role of the agent, such as `dev` or `qa`; each role has its own session

          --explain
              Explain how segue selected the session, step by step

      -p, --provider <AGENT>
              Agent to use (`segue doctor` lists them)
              
              [env: SEGUE_PROVIDER=]

      -m, --model <MODEL>
              Model to use, by the agent's name for it

          --strict
              Fail if the native session cannot be resumed

          --now
              Send the prompt now, ignoring backoff and cooldown

          --anyway
              Retry an agent after repeated failures in this session

          --permissions <POLICY>
              Answer to permission requests of the agent [default: as configured, or ask]

              Possible values:
              - ask:         Ask on the terminal; deny without a terminal
              - allow-reads: Allow read-only tools, ask for others
              - allow-edits: Allow reading and editing files, ask for other tools
              - allow-all:   Allow every request
              - deny:        Deny every request

          --open-timeout <SECONDS>
              Maximum time for the agent to start, in seconds [default: as configured, or 60]
              
              [env: SEGUE_OPEN_TIMEOUT=]

          --timeout <SECONDS>
              Maximum time for the turn, in seconds [default: as configured, or no limit]

          --json
              Print the result as one JSON object instead of streaming the answer

          --events
              Print events as JSON lines; the last line is the result

          --log <FILE>
              Append a log to this file; `SEGUE_LOG` sets the levels [default: debug]

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue chat "explain this repository"
      make 2>&1 | segue chat "why does the build fail?"
      git diff | segue chat --continue -
      segue chat --resume latest --json "and now?"
      segue chat --feature auth --explain "add the login form"
      segue chat "rehearse: think hm; tool; ask; say done"    (rehearsal plays a script)
    --- exit 0
    "#);
}

#[test]
fn completions_are_generated_for_each_shell() {
    let home = new_test_home();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = home.run_segue(["completions", shell]);
        assert_eq!(output.code, Some(0));
        assert!(output.stdout.contains("segue"), "{shell}");
    }
}
