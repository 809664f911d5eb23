//! The conversation at a terminal: a pseudo-terminal made by `script`, with somebody at it who waits for what is shown.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use segue_testkit::World;

use super::{mode, session};
use crate::world;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const UP: &str = "\u{1b}[A";
/// How the editor asks the terminal where the cursor is.
const WHERE: &str = "\u{1b}[6n";
/// What the editor shows when it gives the terminal back.
const TAKEN: &str = "\u{1b}[?2004l";
/// How a full-screen program begins.
const OTHER_SCREEN: &str = "\u{1b}[?1049h";
/// How long is waited for something that must come.
const LIMIT: Duration = Duration::from_mins(1);

/// Somebody at a terminal.
struct Person {
    child: Child,
    keys: Arc<Mutex<ChildStdin>>,
    screen: Arc<(Mutex<String>, Condvar)>,
    watching: Option<JoinHandle<()>>,
    /// How much of the screen was waited for already.
    seen: usize,
}

impl Person {
    fn sit_down(world: &World, arguments: &str) -> Self {
        Self::sit_down_with(world, arguments, "")
    }

    fn sit_down_with(world: &World, arguments: &str, no_colour: &str) -> Self {
        let mut command = world.program("script");
        // The shell in between would have its own opinion about Ctrl-C.
        let line = format!("exec {} {arguments}", env!("CARGO_BIN_EXE_segue"));
        command
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("NO_COLOR", no_colour)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("script is part of every Linux");
        let keys = Arc::new(Mutex::new(child.stdin.take().unwrap()));
        let screen = Arc::<(Mutex<String>, Condvar)>::default();
        let (answers, shown) = (Arc::clone(&keys), Arc::clone(&screen));
        let mut output = child.stdout.take().unwrap();
        let watching = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut piece = [0; 4096];
            let mut answered = 0;
            while let Ok(length @ 1..) = output.read(&mut piece) {
                bytes.extend_from_slice(&piece[..length]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let asked = text.matches(WHERE).count();
                for _ in std::mem::replace(&mut answered, asked)..asked {
                    let _ = answers.lock().unwrap().write_all(b"\x1b[5;1R");
                }
                *shown.0.lock().unwrap() = text;
                shown.1.notify_all();
            }
        });
        Self {
            child,
            keys,
            screen,
            watching: Some(watching),
            seen: 0,
        }
    }

    fn types(&mut self, keys: &str) -> &mut Self {
        let mut stdin = self.keys.lock().unwrap();
        stdin
            .write_all(keys.as_bytes())
            .and_then(|()| stdin.flush())
            .unwrap();
        drop(stdin);
        self
    }

    /// Waits until a text is shown after what was waited for before.
    fn sees(&mut self, text: &str) -> &mut Self {
        let (screen, changed) = &*self.screen;
        let shown = screen.lock().unwrap();
        let seen = self.seen;
        let (shown, waited) = changed
            .wait_timeout_while(shown, LIMIT, |shown| !shown[seen..].contains(text))
            .unwrap();
        assert!(!waited.timed_out(), "no {text:?} in {:?}", &shown[seen..]);
        self.seen += shown[seen..].find(text).unwrap() + text.len();
        drop(shown);
        self
    }

    /// Waits until the editor takes keys.
    fn sees_the_prompt(&mut self) -> &mut Self {
        self.sees(" › ").sees("\u{1b}[?25h")
    }

    /// Has a first word with the agent.
    fn greets(&mut self) -> &mut Self {
        self.sees_the_prompt()
            .types("hello\r")
            .sees("You said: hello")
            .sees_the_prompt()
    }

    /// Waits for the end; what was shown, and the exit code.
    fn leaves(mut self) -> (String, Option<i32>) {
        let code = self.child.wait().unwrap().code();
        self.watching.take().unwrap().join().unwrap();
        let screen = self.screen.0.lock().unwrap().clone();
        (screen, code)
    }
}

/// Whoever fails a test leaves nobody behind: without its terminal, segue ends.
impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_prompt_says_who_answers_and_in_which_session() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person
        .sees("/help lists the commands")
        .sees("segue")
        .sees_the_prompt();
    person
        .types("hello\r")
        .sees("You said: hello")
        .sees_the_prompt();
    person
        .types("/exit\r")
        .sees("go on with: segue repl --resume ");
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(0), "{screen}");
    let id = world.json(["session", "list", "--json"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let label = format!("rehearsal {}", &id[id.len() - 4..]);
    assert!(screen.contains(&label), "no {label:?} in {screen:?}");
    assert!(screen.contains("\u{1b}[92m"), "it is coloured: {screen:?}");
    world.assert_nothing_runs();
}

#[test]
fn it_is_said_once_where_the_conversation_goes_on() {
    let world = world();
    let _ = world.json(["chat", "--json", "--feature", "tea", "green or black?"]);
    for options in ["--continue", "--feature tea"] {
        let mut person = Person::sit_down(&world, &format!("repl {options}"));
        person.sees_the_prompt().types(CTRL_D);
        let (screen, code) = person.leaves();
        assert_eq!(code, Some(0), "{screen}");
        let said = screen.matches("(green or black?)").count();
        assert_eq!(said, 1, "{options}: {screen}");
    }
}

#[test]
fn resuming_without_a_prompt_is_a_conversation() {
    let world = world();
    let id = session(&world, "before");
    let tail = &id[id.len() - 4..];
    let mut person = Person::sit_down(&world, &format!("session resume {tail}"));
    person.sees(&format!(
        "going on with {id} (before), 1 turn(s), with rehearsal"
    ));
    person.sees(&format!("rehearsal {tail}")).sees_the_prompt();
    person
        .types("after\r")
        .sees("You said: after")
        .sees_the_prompt();
    person
        .types(CTRL_D)
        .sees(&format!("go on with: segue repl --resume {id}"));
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(0), "{screen}");
    let shown = world.json(["session", "info", "--json", &id]);
    assert_eq!(shown["session"]["turns"], 2, "{screen}");
    // Without an id there is the picker.
    let mut person = Person::sit_down(&world, "session resume");
    person.sees(OTHER_SCREEN).types(CTRL_C);
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(0), "{screen}");
    world.assert_nothing_runs();
}

#[test]
fn without_colour_there_is_none() {
    let world = world();
    let id = session(&world, "before");
    let mut person = Person::sit_down_with(&world, &format!("repl --resume {id}"), "1");
    let label = format!("rehearsal {} › ", &id[id.len() - 4..]);
    person.sees(&label).types(CTRL_D);
    let (screen, _) = person.leaves();
    assert!(
        !screen.contains("\u{1b}[9") && !screen.contains("\u{1b}[3"),
        "{screen:?}"
    );
}

#[test]
fn ctrl_c_clears_the_line_and_ctrl_d_ends() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person
        .sees_the_prompt()
        .types("never sent")
        .sees("never sent");
    person.types(CTRL_C).sees_the_prompt();
    person
        .types("sent\r")
        .sees("You said: sent")
        .sees_the_prompt();
    person.types(CTRL_D);
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("You said: never"), "{screen}");
    world.assert_nothing_runs();
}

#[test]
fn ctrl_c_stops_a_turn_and_the_conversation_goes_on() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person
        .sees_the_prompt()
        .types("rehearse: say so far; hang\r");
    person.sees(TAKEN).sees("so far").types(CTRL_C);
    person.sees("asking the agent to stop; Ctrl-C again ends it");
    person.sees("interrupted").sees_the_prompt();
    person
        .types("and now?\r")
        .sees(TAKEN)
        .sees("This is turn 2")
        .sees_the_prompt();
    person
        .types("/session\r")
        .sees("live: the agent is still running");
    person.sees_the_prompt().types(CTRL_D);
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(0), "{screen}");
    world.assert_nothing_runs();
}

#[test]
fn ctrl_c_while_a_prompt_waits_sends_nothing() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person
        .sees_the_prompt()
        .types("rehearse: fail the kettle is cold\r")
        .sees("the kettle is cold")
        .sees("hint")
        .sees_the_prompt();
    person
        .types("too early\r")
        .sees("s for rehearsal, until")
        .types(CTRL_C);
    person
        .sees("interrupted before the prompt was sent; Up brings it back")
        .sees_the_prompt();
    person.types(UP).sees("too early").types(CTRL_C);
    person.sees_the_prompt().types(CTRL_D);
    let (screen, _) = person.leaves();
    assert!(!screen.contains("asking the agent to stop"), "{screen}");
    let shown = world.json(["session", "info", "latest", "--json"]);
    assert_eq!(shown["session"]["turns"], 1, "{shown:#}");
    let log = shown["decisions"].to_string();
    assert!(log.contains("before the prompt was sent: "), "{log}");
    world.assert_nothing_runs();
}

#[test]
fn a_second_ctrl_c_ends_an_agent_that_does_not_stop() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person
        .sees_the_prompt()
        .types("rehearse: say so far; hang\r");
    person.sees(TAKEN).sees("so far");
    // Whoever is frozen hears nothing.
    signal(&world, "-STOP", " rehearsal-agent ");
    person.types(CTRL_C).sees("Ctrl-C again ends it");
    person.types(CTRL_C).sees("interrupted").sees_the_prompt();
    person
        .types("and now?\r")
        .sees(TAKEN)
        .sees("This is turn 2")
        .sees_the_prompt();
    person.types("/session\r").sees("opened").sees("resumed: ");
    person.sees_the_prompt().types(CTRL_D);
    assert_eq!(person.leaves().1, Some(0));
    world.assert_nothing_runs();
}

#[test]
fn a_question_that_is_not_answered_takes_no_keys_of_the_next_prompt() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person
        .sees_the_prompt()
        .types("rehearse: ask\r")
        .sees("Your choice, 1 to 2, or y or n:");
    person
        .types("1\r")
        .sees("I edited the notes.")
        .sees_the_prompt();
    person
        .types("rehearse: ask\r")
        .sees("Your choice, 1 to 2, or y or n:")
        .types(CTRL_C);
    person.sees("interrupted").sees_the_prompt();
    person
        .types("hello there\r")
        .sees("You said: hello there")
        .sees_the_prompt();
    person.types(CTRL_D);
    assert_eq!(person.leaves().1, Some(0));
    world.assert_nothing_runs();
}

#[test]
fn several_lines_are_one_prompt_and_are_remembered() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person
        .sees_the_prompt()
        .types("one \\\r")
        .sees("… ")
        .types("two\r");
    person.sees("You said: one").sees_the_prompt();
    person
        .types("\u{1b}[200~cc a.c \\\r  -o a\r\u{1b}[201~")
        .sees("-o a")
        .types("\r");
    person.sees("You said: cc").sees_the_prompt();
    person
        .types(" a secret\r")
        .sees("You said:")
        .sees_the_prompt();
    person.types(CTRL_D);
    person.leaves();
    // Somebody comes back the next day.
    let mut person = Person::sit_down(&world, "repl --continue");
    person.sees_the_prompt().types(UP).sees("-o a").types("\r");
    person
        .sees(TAKEN)
        .sees("You said: cc")
        .sees_the_prompt()
        .types(CTRL_D);
    person.leaves();
    let shown = world.json(["session", "show", "latest", "--json"]);
    let turns = shown["turns"].as_array().unwrap().iter();
    let prompts: Vec<&str> = turns
        .map(|turn| turn["messages"][0]["parts"][0]["text"].as_str().unwrap())
        .collect();
    let pasted = "cc a.c \\\n  -o a\n";
    assert_eq!(prompts, ["one \ntwo", pasted, " a secret", pasted]);
    let history = world.home().join("history");
    assert_eq!(mode(&history), 0o600);
    let kept = std::fs::read_to_string(history).unwrap();
    assert!(!kept.contains("secret") && kept.contains("one"), "{kept}");
}

#[test]
fn commands_are_completed() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person
        .sees_the_prompt()
        .types("/perm\t")
        .sees("/permissions");
    person
        .types(" de\t")
        .sees("deny")
        .types("\r")
        .sees("permissions from now on: deny");
    person.sees_the_prompt().types(CTRL_D);
    assert_eq!(person.leaves().1, Some(0));
}

#[test]
fn a_request_to_end_gives_the_terminal_back() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person.greets();
    person.types("half a li").sees("half a li");
    signal(&world, "-TERM", " repl ");
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(130), "{screen}");
    let (_, end) = screen.rsplit_once("half a li").unwrap();
    assert!(end.contains("\u{1b}[?2004l"), "{end:?}");
    world.assert_nothing_runs();
}

#[test]
fn without_its_terminal_it_ends_and_so_does_its_agent() {
    let world = world();
    for prompts in [0, 1] {
        let mut person = Person::sit_down(&world, "repl");
        person.sees_the_prompt();
        for _ in 0..prompts {
            person
                .types("hello\r")
                .sees("You said: hello")
                .sees_the_prompt();
        }
        // Whoever kills the terminal gives nobody the time to say goodbye.
        drop(person);
        world.assert_nothing_runs();
    }
}

#[test]
fn a_conversation_that_waits_keeps_others_out_until_it_is_left() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person.greets();
    let id = world.json(["session", "list", "--json"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = world.segue(["chat", "--resume", &id, "me too"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    let told = [
        "session [SESSION] is open in process [PID] on ",
        "hint: it has been open there since [TIME] UTC (",
        "leave it there first (/quit in `segue repl`)\n",
        "hint: `segue session fork [SESSION]` branches off",
    ];
    for told in told {
        assert!(refused.stderr.contains(told), "{told:?} in {refused}");
    }
    let info = world.segue(["session", "info", &id]);
    assert!(info.stdout.contains("idle, open in process"), "{info}");
    // What is done here goes on as ever.
    person
        .types("/rename at work\r")
        .sees("is now called")
        .sees_the_prompt();
    person
        .types("and now?\r")
        .sees("This is turn 2")
        .sees_the_prompt();
    person
        .types("/backtoturn 1\r")
        .sees("/undo takes it back")
        .sees_the_prompt();
    person.types("/undo\r").sees("turn 2").sees_the_prompt();
    person.types("/quit\r");
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(0), "{screen}");
    let third = world.json(["chat", "--resume", &id, "--json", "me too"]);
    assert_eq!(
        (&third["turn"], &third["opened"]),
        (&3.into(), &"resumed".into())
    );
    world.assert_nothing_runs();
}

#[test]
fn whoever_is_killed_while_the_agent_waits_keeps_nobody_out() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl");
    person.greets();
    signal(&world, "-KILL", " repl ");
    person.leaves();
    let next = world.segue(["chat", "--continue", "me too"]);
    assert_eq!(next.code, Some(0), "{next}");
    assert!(next.stderr.contains("took the session over"), "{next}");
    world.assert_nothing_runs();
}

#[test]
fn a_session_that_was_handed_over_elsewhere_is_not_taken_back_unasked() {
    let world = crate::policy::with_second("");
    let id = world.json(["chat", "-p", "rehearsal", "--json", "before"])["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut person = Person::sit_down(&world, &format!("repl --resume {id}"));
    person.greets();
    // An agent that is gone holds nothing, once that is noticed.
    signal(&world, "-KILL", " rehearsal-agent ");
    let handed = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let handed = world.segue(["session", "handoff", &id, "-p", "acp:second"]);
        handed.code == Some(0)
    });
    assert!(handed, "the session never came free");
    person
        .types("and now?\r")
        .sees("the session was handed to acp:second elsewhere, who answers from now on")
        .sees("I was told what was said before")
        .sees("acp:second")
        .sees_the_prompt()
        .types(CTRL_D);
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(0), "{screen}");
    world.assert_nothing_runs();
}

/// Sends a signal to the process with this in its command line, and no leash.
fn signal(world: &World, signal: &str, named: &str) {
    let running = world.processes();
    let found = running
        .iter()
        .find(|line| line.contains(named) && !line.contains(" leash ") && !line.contains("script"));
    let (pid, _) = found.and_then(|line| line.split_once(':')).unwrap();
    let sent = world.program("kill").args([signal, pid]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_project_manager_is_talked_to_about_a_feature() {
    let world = world();
    let mut person = Person::sit_down(&world, "repl --feature auth --role pm");
    person
        .sees_the_prompt()
        .types("what do we want?\r")
        .sees("there is no session for feature auth as pm yet")
        .sees("You said: what do we want?")
        .sees_the_prompt();
    // It may not change anything, and nobody is asked about it.
    person
        .types("rehearse: ask\r")
        .sees("refused \"Edit notes.txt\" since the role pm may not use it")
        .sees("I was not allowed to edit the notes.")
        .sees_the_prompt();
    person.types(CTRL_D);
    let (screen, code) = person.leaves();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("May the agent do this?"), "{screen}");
    let list = world.json(["session", "list", "--role", "pm", "--json"]);
    assert_eq!(
        (&list[0]["feature"], &list[0]["turns"]),
        (&"auth".into(), &2.into())
    );
    // The same again is the same conversation.
    let mut person = Person::sit_down(&world, "repl --feature auth --role pm");
    person
        .sees_the_prompt()
        .types("and now?\r")
        .sees("This is turn 3 of our conversation")
        .sees_the_prompt();
    person.types(CTRL_D);
    assert_eq!(person.leaves().1, Some(0));
    world.assert_nothing_runs();
}
