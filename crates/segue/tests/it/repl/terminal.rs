//! `segue repl` on a pseudo-terminal of `script`, with a simulated user who waits for texts on the screen.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use segue_testkit::TestHome;

use super::{create_session, file_mode};
use crate::new_test_home;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const ARROW_UP: &str = "\u{1b}[A";
/// Query of the editor for the cursor position.
const CURSOR_POSITION_QUERY: &str = "\u{1b}[6n";
/// Sequence that the editor prints when it restores the terminal.
const BRACKETED_PASTE_OFF: &str = "\u{1b}[?2004l";
/// Sequence with which a full-screen program starts.
const ALTERNATE_SCREEN_ON: &str = "\u{1b}[?1049h";
/// Time limit for an expected text.
const SCREEN_TIMEOUT: Duration = Duration::from_mins(1);

/// A simulated user at a terminal.
struct TerminalUser {
    child: Child,
    keys: Arc<Mutex<ChildStdin>>,
    screen: Arc<(Mutex<String>, Condvar)>,
    reader_thread: Option<JoinHandle<()>>,
    /// End of the last matched text in the screen output.
    matched_bytes: usize,
}

impl TerminalUser {
    fn start(home: &TestHome, arguments: &str) -> Self {
        Self::start_with_no_color(home, arguments, "")
    }

    fn start_with_no_color(home: &TestHome, arguments: &str, no_colour: &str) -> Self {
        let mut command = home.program_command("script");
        // `exec`, because the shell would handle Ctrl-C itself.
        let line = format!("exec {} {arguments}", env!("CARGO_BIN_EXE_segue"));
        command
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("NO_COLOR", no_colour)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("`script` is not installed");
        let keys = Arc::new(Mutex::new(child.stdin.take().unwrap()));
        let screen = Arc::<(Mutex<String>, Condvar)>::default();
        let (reply_keys, shared_screen) = (Arc::clone(&keys), Arc::clone(&screen));
        let mut output = child.stdout.take().unwrap();
        let reader_thread = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut buffer = [0; 4096];
            let mut answered_queries = 0;
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                bytes.extend_from_slice(&buffer[..length]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let queries = text.matches(CURSOR_POSITION_QUERY).count();
                for _ in std::mem::replace(&mut answered_queries, queries)..queries {
                    let _ = reply_keys.lock().unwrap().write_all(b"\x1b[5;1R");
                }
                *shared_screen.0.lock().unwrap() = text;
                shared_screen.1.notify_all();
            }
        });
        Self {
            child,
            keys,
            screen,
            reader_thread: Some(reader_thread),
            matched_bytes: 0,
        }
    }

    fn type_keys(&mut self, keys: &str) -> &mut Self {
        let mut stdin = self.keys.lock().unwrap();
        stdin
            .write_all(keys.as_bytes())
            .and_then(|()| stdin.flush())
            .unwrap();
        drop(stdin);
        self
    }

    /// Waits until `text` is shown after the last matched text.
    fn wait_for(&mut self, text: &str) -> &mut Self {
        let (screen, changed) = &*self.screen;
        let contents = screen.lock().unwrap();
        let matched = self.matched_bytes;
        let (contents, wait_result) = changed
            .wait_timeout_while(contents, SCREEN_TIMEOUT, |contents| {
                !contents[matched..].contains(text)
            })
            .unwrap();
        assert!(
            !wait_result.timed_out(),
            "no {text:?} in {:?}",
            &contents[matched..]
        );
        self.matched_bytes += contents[matched..].find(text).unwrap() + text.len();
        drop(contents);
        self
    }

    /// Waits until the editor accepts keys.
    fn wait_for_prompt(&mut self) -> &mut Self {
        self.wait_for(" › ").wait_for("\u{1b}[?25h")
    }

    /// Sends the first prompt and waits for the answer.
    fn send_greeting(&mut self) -> &mut Self {
        self.wait_for_prompt()
            .type_keys("hello\r")
            .wait_for("You said: hello")
            .wait_for_prompt()
    }

    /// Waits for the exit. Returns the screen output and the exit code.
    fn wait_for_exit(mut self) -> (String, Option<i32>) {
        let code = self.child.wait().unwrap().code();
        self.reader_thread.take().unwrap().join().unwrap();
        let screen = self.screen.0.lock().unwrap().clone();
        (screen, code)
    }
}

/// Kills `script`, so that a failed test leaves no process: segue ends without its terminal.
impl Drop for TerminalUser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_prompt_shows_the_agent_and_the_session() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.wait_for("/help lists the commands")
        .wait_for("segue")
        .wait_for_prompt();
    user.type_keys("hello\r")
        .wait_for("You said: hello")
        .wait_for_prompt();
    user.type_keys("/exit\r")
        .wait_for("resume with: segue repl --resume ");
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    let id = home.run_segue_json(["session", "list", "--json"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let label = format!("rehearsal {}", &id[id.len() - 4..]);
    assert!(screen.contains(&label), "no {label:?} in {screen:?}");
    assert!(
        screen.contains("\u{1b}[92m"),
        "the prompt is not coloured: {screen:?}"
    );
    home.assert_no_processes();
}

#[test]
fn the_resumed_session_is_announced_once() {
    let home = new_test_home();
    let _ = home.run_segue_json(["chat", "--json", "--feature", "tea", "green or black?"]);
    for options in ["--continue", "--feature tea"] {
        let mut user = TerminalUser::start(&home, &format!("repl {options}"));
        user.wait_for_prompt().type_keys(CTRL_D);
        let (screen, code) = user.wait_for_exit();
        assert_eq!(code, Some(0), "{screen}");
        let announcements = screen.matches("(green or black?)").count();
        assert_eq!(announcements, 1, "{options}: {screen}");
    }
}

#[test]
fn resuming_without_a_prompt_opens_the_repl_or_the_picker() {
    let home = new_test_home();
    let id = create_session(&home, "before");
    let tail = &id[id.len() - 4..];
    let mut user = TerminalUser::start(&home, &format!("session resume {tail}"));
    user.wait_for(&format!("resuming {id} (before), 1 turn, with rehearsal"));
    user.wait_for(&format!("rehearsal {tail}"))
        .wait_for_prompt();
    user.type_keys("after\r")
        .wait_for("You said: after")
        .wait_for_prompt();
    user.type_keys(CTRL_D)
        .wait_for(&format!("resume with: segue repl --resume {id}"));
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    let info = home.run_segue_json(["session", "info", "--json", &id]);
    assert_eq!(info["session"]["turns"], 2, "{screen}");
    // Without an id, the picker is shown.
    let mut user = TerminalUser::start(&home, "session resume");
    user.wait_for(ALTERNATE_SCREEN_ON).type_keys(CTRL_C);
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    home.assert_no_processes();
}

#[test]
fn the_no_color_variable_disables_colours() {
    let home = new_test_home();
    let id = create_session(&home, "before");
    let mut user = TerminalUser::start_with_no_color(&home, &format!("repl --resume {id}"), "1");
    let label = format!("rehearsal {} › ", &id[id.len() - 4..]);
    user.wait_for(&label).type_keys(CTRL_D);
    let (screen, _) = user.wait_for_exit();
    assert!(
        !screen.contains("\u{1b}[9") && !screen.contains("\u{1b}[3"),
        "{screen:?}"
    );
}

#[test]
fn ctrl_c_clears_the_line_and_ctrl_d_ends_the_repl() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.wait_for_prompt()
        .type_keys("never sent")
        .wait_for("never sent");
    user.type_keys(CTRL_C).wait_for_prompt();
    user.type_keys("sent\r")
        .wait_for("You said: sent")
        .wait_for_prompt();
    user.type_keys(CTRL_D);
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("You said: never"), "{screen}");
    home.assert_no_processes();
}

#[test]
fn ctrl_c_stops_the_turn_and_the_conversation_continues() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.wait_for_prompt()
        .type_keys("rehearse: say so far; hang\r");
    user.wait_for(BRACKETED_PASTE_OFF)
        .wait_for("so far")
        .type_keys(CTRL_C);
    user.wait_for("asked the agent to stop; press Ctrl-C again to end it");
    user.wait_for("interrupted").wait_for_prompt();
    user.type_keys("and now?\r")
        .wait_for(BRACKETED_PASTE_OFF)
        .wait_for("This is turn 2")
        .wait_for_prompt();
    user.type_keys("/session\r")
        .wait_for("live: the agent is still running");
    user.wait_for_prompt().type_keys(CTRL_D);
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    home.assert_no_processes();
}

#[test]
fn ctrl_c_during_a_backoff_sends_no_prompt() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.wait_for_prompt()
        .type_keys("rehearse: fail the kettle is cold\r")
        .wait_for("the kettle is cold")
        .wait_for("hint")
        .wait_for_prompt();
    user.type_keys("too early\r")
        .wait_for("s for rehearsal, until")
        .type_keys(CTRL_C);
    user.wait_for("interrupted before the prompt was sent; press Up to recall it")
        .wait_for_prompt();
    user.type_keys(ARROW_UP)
        .wait_for("too early")
        .type_keys(CTRL_C);
    user.wait_for_prompt().type_keys(CTRL_D);
    let (screen, _) = user.wait_for_exit();
    assert!(!screen.contains("asked the agent to stop"), "{screen}");
    let info = home.run_segue_json(["session", "info", "latest", "--json"]);
    assert_eq!(info["session"]["turns"], 1, "{info:#}");
    let log = info["decisions"].to_string();
    assert!(log.contains("before the prompt was sent: "), "{log}");
    home.assert_no_processes();
}

#[test]
fn a_second_ctrl_c_ends_an_agent_that_does_not_stop() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.wait_for_prompt()
        .type_keys("rehearse: say so far; hang\r");
    user.wait_for(BRACKETED_PASTE_OFF).wait_for("so far");
    // A stopped agent does not react to the interrupt.
    send_signal(&home, "-STOP", " rehearsal-agent ");
    user.type_keys(CTRL_C)
        .wait_for("press Ctrl-C again to end it");
    user.type_keys(CTRL_C)
        .wait_for("interrupted")
        .wait_for_prompt();
    user.type_keys("and now?\r")
        .wait_for(BRACKETED_PASTE_OFF)
        .wait_for("This is turn 2")
        .wait_for_prompt();
    user.type_keys("/session\r")
        .wait_for("opened")
        .wait_for("resumed: ");
    user.wait_for_prompt().type_keys(CTRL_D);
    assert_eq!(user.wait_for_exit().1, Some(0));
    home.assert_no_processes();
}

#[test]
fn an_unanswered_question_consumes_no_keys_of_the_next_prompt() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.wait_for_prompt()
        .type_keys("rehearse: ask\r")
        .wait_for("Your choice (1-2, y or n):");
    user.type_keys("1\r")
        .wait_for("I edited the notes.")
        .wait_for_prompt();
    user.type_keys("rehearse: ask\r")
        .wait_for("Your choice (1-2, y or n):")
        .type_keys(CTRL_C);
    user.wait_for("interrupted").wait_for_prompt();
    user.type_keys("hello there\r")
        .wait_for("You said: hello there")
        .wait_for_prompt();
    user.type_keys(CTRL_D);
    assert_eq!(user.wait_for_exit().1, Some(0));
    home.assert_no_processes();
}

#[test]
fn a_multiline_prompt_is_sent_once_and_saved_in_the_history() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.wait_for_prompt()
        .type_keys("one \\\r")
        .wait_for("… ")
        .type_keys("two\r");
    user.wait_for("You said: one").wait_for_prompt();
    user.type_keys("\u{1b}[200~cc a.c \\\r  -o a\r\u{1b}[201~")
        .wait_for("-o a")
        .type_keys("\r");
    user.wait_for("You said: cc").wait_for_prompt();
    user.type_keys(" a secret\r")
        .wait_for("You said:")
        .wait_for_prompt();
    user.type_keys(CTRL_D);
    user.wait_for_exit();
    // A later run has the history.
    let mut user = TerminalUser::start(&home, "repl --continue");
    user.wait_for_prompt()
        .type_keys(ARROW_UP)
        .wait_for("-o a")
        .type_keys("\r");
    user.wait_for(BRACKETED_PASTE_OFF)
        .wait_for("You said: cc")
        .wait_for_prompt()
        .type_keys(CTRL_D);
    user.wait_for_exit();
    let transcript = home.run_segue_json(["session", "show", "latest", "--json"]);
    let turns = transcript["turns"].as_array().unwrap().iter();
    let prompts: Vec<&str> = turns
        .map(|turn| turn["messages"][0]["parts"][0]["text"].as_str().unwrap())
        .collect();
    let pasted = "cc a.c \\\n  -o a\n";
    assert_eq!(prompts, ["one \ntwo", pasted, " a secret", pasted]);
    let history = home.segue_home().join("history");
    assert_eq!(file_mode(&history), 0o600);
    let history_text = std::fs::read_to_string(history).unwrap();
    assert!(
        !history_text.contains("secret") && history_text.contains("one"),
        "{history_text}"
    );
}

#[test]
fn commands_are_completed_with_tab() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.wait_for_prompt()
        .type_keys("/perm\t")
        .wait_for("/permissions");
    user.type_keys(" de\t")
        .wait_for("deny")
        .type_keys("\r")
        .wait_for("set the permission policy to deny");
    user.wait_for_prompt().type_keys(CTRL_D);
    assert_eq!(user.wait_for_exit().1, Some(0));
}

#[test]
fn a_sigterm_restores_the_terminal() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.send_greeting();
    user.type_keys("half a li").wait_for("half a li");
    send_signal(&home, "-TERM", " repl ");
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(130), "{screen}");
    let (_, end) = screen.rsplit_once("half a li").unwrap();
    assert!(end.contains("\u{1b}[?2004l"), "{end:?}");
    home.assert_no_processes();
}

#[test]
fn losing_the_terminal_ends_the_repl_and_its_agent() {
    let home = new_test_home();
    for prompts in [0, 1] {
        let mut user = TerminalUser::start(&home, "repl");
        user.wait_for_prompt();
        for _ in 0..prompts {
            user.type_keys("hello\r")
                .wait_for("You said: hello")
                .wait_for_prompt();
        }
        // The terminal is closed without a regular exit.
        drop(user);
        home.assert_no_processes();
    }
}

#[test]
fn an_open_repl_locks_its_session_until_it_exits() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.send_greeting();
    let id = home.run_segue_json(["session", "list", "--json"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = home.run_segue(["chat", "--resume", &id, "me too"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    let expected_messages = [
        "session [SESSION] is open in process [PID] on ",
        "hint: it has been open there since [TIME] UTC (",
        "continue there, or close it first (`/quit` in `segue repl`)\n",
        "hint: run `segue session fork [SESSION]` to continue in a fork",
    ];
    for message in expected_messages {
        assert!(refused.stderr.contains(message), "{message:?} in {refused}");
    }
    let info = home.run_segue(["session", "info", &id]);
    assert!(info.stdout.contains("idle, open in process"), "{info}");
    // The REPL itself can still change the session.
    user.type_keys("/rename at work\r")
        .wait_for("renamed ")
        .wait_for(" to \"at work\"")
        .wait_for_prompt();
    user.type_keys("and now?\r")
        .wait_for("This is turn 2")
        .wait_for_prompt();
    user.type_keys("/backtoturn 1\r")
        .wait_for("Undo with: /undo")
        .wait_for_prompt();
    user.type_keys("/undo\r")
        .wait_for("turn 2")
        .wait_for_prompt();
    user.type_keys("/quit\r");
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    let third = home.run_segue_json(["chat", "--resume", &id, "--json", "me too"]);
    assert_eq!(
        (&third["turn"], &third["opened"]),
        (&3.into(), &"resumed".into())
    );
    home.assert_no_processes();
}

#[test]
fn a_killed_repl_does_not_block_its_session() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl");
    user.send_greeting();
    send_signal(&home, "-KILL", " repl ");
    user.wait_for_exit();
    let next = home.run_segue(["chat", "--continue", "me too"]);
    assert_eq!(next.code, Some(0), "{next}");
    assert!(next.stderr.contains("took over the session"), "{next}");
    home.assert_no_processes();
}

#[test]
fn a_repl_follows_a_handoff_by_another_process() {
    let home = crate::policy::home_with_second_agent("");
    let id = home.run_segue_json(["chat", "-p", "rehearsal", "--json", "before"])["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut user = TerminalUser::start(&home, &format!("repl --resume {id}"));
    user.send_greeting();
    // The lease is released when the REPL notices that the agent has died.
    send_signal(&home, "-KILL", " rehearsal-agent ");
    let is_handed_off = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let output = home.run_segue(["session", "handoff", &id, "-p", "acp:second"]);
        output.code == Some(0)
    });
    assert!(is_handed_off, "the lease was never released");
    user.type_keys("and now?\r")
        .wait_for("another process handed the session off to acp:second, which answers from now on")
        .wait_for("I received a brief of our conversation")
        .wait_for("acp:second")
        .wait_for_prompt()
        .type_keys(CTRL_D);
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    home.assert_no_processes();
}

/// Sends a signal to the process whose command line contains `pattern`, except for the leash and `script`.
fn send_signal(home: &TestHome, signal: &str, pattern: &str) {
    let running = home.processes();
    let found = running.iter().find(|line| {
        line.contains(pattern) && !line.contains(" leash ") && !line.contains("script")
    });
    let (pid, _) = found.and_then(|line| line.split_once(':')).unwrap();
    let status = home
        .program_command("kill")
        .args([signal, pid])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_pm_session_for_a_feature_is_read_only_and_resumed() {
    let home = new_test_home();
    let mut user = TerminalUser::start(&home, "repl --feature auth --role pm");
    user.wait_for_prompt()
        .type_keys("what do we want?\r")
        .wait_for("no session exists for feature auth as pm yet")
        .wait_for("You said: what do we want?")
        .wait_for_prompt();
    // The role has no write access, so the user is not asked.
    user.type_keys("rehearse: ask\r")
        .wait_for("refused \"Edit notes.txt\" because the role pm does not allow it")
        .wait_for("I was not allowed to edit the notes.")
        .wait_for_prompt();
    user.type_keys(CTRL_D);
    let (screen, code) = user.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("Allow this tool call?"), "{screen}");
    let list = home.run_segue_json(["session", "list", "--role", "pm", "--json"]);
    assert_eq!(
        (&list[0]["feature"], &list[0]["turns"]),
        (&"auth".into(), &2.into())
    );
    // The same options resume the same session.
    let mut user = TerminalUser::start(&home, "repl --feature auth --role pm");
    user.wait_for_prompt()
        .type_keys("and now?\r")
        .wait_for("This is turn 3 of our conversation")
        .wait_for_prompt();
    user.type_keys(CTRL_D);
    assert_eq!(user.wait_for_exit().1, Some(0));
    home.assert_no_processes();
}
