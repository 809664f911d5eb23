//! `segue chat`, when all goes well and when the caller makes mistakes.

use insta::assert_snapshot;

use crate::{count_sessions, new_test_home};

#[test]
fn a_first_turn_streams_the_answer_and_reports_the_chosen_agent() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "hello there"]), @"
    You said: hello there
    This is where our conversation begins.
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
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
    {"session_id":"[SESSION]","turn":1,"provider":"rehearsal","native_session_id":"[NATIVE]","leg":1,"opened":"fresh","opened_why":"a new session","text":"all done","stop":"finished","usage":{"input_tokens":7,"output_tokens":2,"cached_tokens":null,"total_tokens":9,"context_tokens":9,"context_window":200000},"decisions":["using rehearsal, the built-in offline agent: no other was found on this machine"],"error":null}
    --- exit 0
    "#);
}

#[test]
fn events_are_printed_one_per_line_and_end_with_the_result() {
    let home = new_test_home();
    let script = "rehearse: think hm; unknown; ask; say done";
    assert_snapshot!(home.run_segue(["chat", "--events", "--permissions", "allow-edits", script]), @r#"
    {"event":"began","session_id":"[SESSION]","turn":1}
    {"event":"decision","kind":"provider","text":"using rehearsal, the built-in offline agent: no other was found on this machine"}
    {"event":"opened","provider":"rehearsal","native_session_id":"[NATIVE]","leg":1,"opened":"fresh"}
    {"event":"thought","message":1,"text":"hm"}
    {"event":"saved","message":2}
    {"event":"tool","id":"call-1","name":"Edit notes.txt","kind":"edit","status":"in_progress","args":{"path":"notes.txt"},"output":null,"diffs":[]}
    {"event":"saved","message":3}
    {"event":"decision","kind":"permission","text":"allowed \"Edit notes.txt\" by policy allow-edits"}
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
    {"event":"result","session_id":"[SESSION]","turn":1,"provider":"rehearsal","native_session_id":"[NATIVE]","leg":1,"opened":"fresh","opened_why":"a new session","text":"I edited the notes. done","stop":"finished","usage":{"input_tokens":7,"output_tokens":5,"cached_tokens":null,"total_tokens":12,"context_tokens":12,"context_window":200000},"decisions":["using rehearsal, the built-in offline agent: no other was found on this machine","allowed \"Edit notes.txt\" by policy allow-edits"],"error":null}
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
    assert_snapshot!(home.run_segue(["chat", ""]), @"
    --- stderr
    error: the prompt is empty
    hint: write in it what you want to say
    --- exit 2
    ");
    assert_snapshot!(home.run_segue_with_input(["chat", "-"], b" \n"), @"
    --- stderr
    error: the prompt is empty
    hint: standard input held nothing; pipe the prompt, or write it as an argument
    --- exit 2
    ");
    assert_snapshot!(home.run_segue_with_input(["chat", "-"], b"a\0b"), @"
    --- stderr
    error: the prompt contains a NUL character, which no agent can take
    --- exit 2
    ");
    assert_snapshot!(home.run_segue_with_input(["chat", "-"], b"\xff\xfe"), @"
    --- stderr
    error: standard input is not valid UTF-8 (at byte 0); nothing was sent
    hint: `iconv -f LATIN1 -t UTF-8` makes it so; or name the file in the prompt
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
    segue: there is nothing to continue in this directory; starting a new session
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
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
    hint: `segue session list --all` shows every session there is
    --- exit 1
    "#);
    assert_snapshot!(home.run_segue(["chat", "--resume", "latest", "--json", "hi"]), @r#"
    {"session_id":null,"turn":null,"provider":null,"native_session_id":null,"leg":null,"opened":null,"opened_why":null,"text":"","stop":"failed","usage":{"input_tokens":null,"output_tokens":null,"cached_tokens":null,"total_tokens":null,"context_tokens":null,"context_window":null},"decisions":[],"error":{"class":"failed","message":"no session matches \"latest\"","hint":"`segue session list --all` shows every session there is","hints":["`segue session list --all` shows every session there is"],"stderr":null,"retry_at":null,"held_by":null}}
    --- exit 1
    "#);
    assert_eq!(count_sessions(&home), 0);
}

#[test]
fn an_unknown_provider_is_refused() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "-p", "hal9000", "hi"]), @"
    --- stderr
    error: provider hal9000 can't be driven by this segue
    hint: it drives: rehearsal; any other that speaks ACP needs [acp.NAME] in the configuration
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["chat", "-p", "../x", "hi"]), @"
    --- stderr
    error: invalid value '../x' for '--provider <NAME>': a provider name may not contain '/'

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
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
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
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    segue: the agent printed something that is not the protocol: "this is not a message"
    --- exit 0
    "#);
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    let parts = transcript["turns"][0]["messages"].to_string();
    assert!(parts.contains("before \u{fffd} after"), "{parts}");
    assert!(
        parts.contains("hologram"),
        "an update of an unknown kind is kept: {parts}"
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
    assert!(result["text"].is_null(), "what was told is not told again");
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
    The session layer for AI coding agents: sessions that outlive the agent's process.

    segue drives an agent, writes down every turn before and while it happens, and goes on where it was
    after any kill. Without an agent on this machine it talks to `rehearsal`, a built-in one that needs
    no network.

    Usage: segue [COMMAND]

    Commands:
      chat         Say one thing to an agent and stream its answer
      repl         Hold a conversation with an agent: every line is a turn
      session      List, show and change sessions
      role         Show what agents can be told to be
      index        Look after the index that lists and searches ask
      mcp          Let an agent ask segue: an MCP server over standard input and output
      doctor       Show which agents are on this machine, what they can do, and whether the store is
                   healthy
      config       Show what is configured, where it comes from, and whether the files are good
      trust        Trust this project's `segue.toml` to start programs and to set permissions
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      segue                                    on a terminal: choose from all sessions
      segue chat "explain this repository"     start a session
      segue chat --continue "go on"            go on with the newest one of this directory
      segue repl                               a conversation, prompt by prompt
      segue session list                       what there is
      segue session show latest                what was said

    Exit codes: 0 done, 1 failed, 2 wrong usage or ambiguous, 3 the agent failed, 4 a policy stopped it,
    130 interrupted. The data is in $SEGUE_HOME, else in the user's data directory; `segue doctor` shows
    where.
    --- exit 0
    "#);
}

#[test]
fn help_of_chat_shows_options_and_examples() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "--help"]), @r#"
    Say one thing to an agent and stream its answer

    The prompt is on the disk before it is sent, and the answer as it comes. A new session is started
    unless --resume, --continue, or what it is for (--feature, --task, --role) names one. What is piped
    goes with the prompt, after it and set apart.

    Usage: segue chat [OPTIONS] [PROMPT]

    Arguments:
      [PROMPT]
              What to say; `-`, or none at all in a pipe, takes all of it from standard input

    Options:
          --resume <ID>
              Go on with this session: an id, a unique beginning or end of one, a native id, `latest`,
              `feature:NAME`, or a number from the last list

          --continue
              Go on with the newest session of this directory (of the agent, with -p), or start one if
              there is none

          --new
              Start a new session, whatever is configured

          --feature <NAME>
              Go on with the session of this feature (of the agent, with -p), or start it

          --task <NAME>
              Go on with the session of this task in its state, or start it; with --feature, of that
              feature's task

          --state <NAME>
              The state that the task is in, such as `planning`, `in_dev` or `in_qa`

          --role <NAME>
              What the agent is in the session, such as `dev` or `qa`; each role has a session of its
              own

          --explain
              Say how the session was found, step by step

      -p, --provider <NAME>
              The agent to use (`segue doctor` lists them)
              
              [env: SEGUE_PROVIDER=]

      -m, --model <NAME>
              The model to use, by the agent's own name for it

          --strict
              Fail rather than tell a new native session what was said before

          --now
              Ask the agent now, also where it failed a moment ago or rests

          --anyway
              Ask the agent once more though it failed in one native session after another

          --permissions <POLICY>
              How to answer when the agent asks for permission [default: as configured, else ask]

              Possible values:
              - ask:         Ask on the terminal; refuse where there is none
              - allow-reads: Allow what only reads, ask for the rest
              - allow-edits: Allow reading and editing files, ask for the rest
              - allow-all:   Allow everything
              - deny:        Refuse everything

          --open-timeout <SECONDS>
              How long the agent may take to start, in seconds [default: as configured, else 60]
              
              [env: SEGUE_OPEN_TIMEOUT=]

          --timeout <SECONDS>
              How long the whole turn may take, in seconds [default: as configured, else for ever]

          --json
              Print one JSON object when the turn is over, instead of the answer as it comes

          --events
              Print one JSON event a line as things happen; the last one is the result

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
