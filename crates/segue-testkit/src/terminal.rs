//! A pseudo-terminal for tests, and an emulator that provides the content of its screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Timeout of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Escape sequences that begin and end a frame (a synchronized update).
const FRAME_BEGIN: &[u8] = b"\x1b[?2026h";
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// Emulated screen, as the output so far has changed it.
pub struct TerminalContent {
    parser: vt100::Parser,
    /// Last bytes of the output, which may be the first part of a frame's escape sequence.
    tail: Vec<u8>,
    /// Whether a frame has begun and not ended.
    is_partial_frame: bool,
}

impl TerminalContent {
    fn process_output(&mut self, output: &[u8]) {
        self.parser.process(output);
        self.tail.extend_from_slice(output);
        let last_position = |sequence: &[u8]| {
            let mut windows = self.tail.windows(sequence.len());
            windows.rposition(|window| window == sequence)
        };
        let (begin, end) = (last_position(FRAME_BEGIN), last_position(FRAME_END));
        // Both are `None` if the output contains neither; the state then stays.
        if begin != end {
            self.is_partial_frame = begin > end;
        }
        self.tail
            .drain(..self.tail.len().saturating_sub(FRAME_BEGIN.len() - 1));
    }

    /// Returns the screen.
    pub fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }
}

/// A program in its own terminal.
pub struct Pty {
    child: Child,
    /// Controlling side of the pseudo-terminal. The test writes keys to it and reads the program's output from it.
    controller: File,
    /// Side of the pseudo-terminal that the program uses. It stays open after the program ends, so that a test can
    /// inspect its modes.
    terminal: OwnedFd,
    /// Content of the screen. The condition variable is notified of each change.
    content: Arc<(Mutex<TerminalContent>, Condvar)>,
    reader_thread: Option<JoinHandle<()>>,
}

impl Pty {
    /// Starts the program of a command, with its arguments and variables, in a new terminal. Ignores the command's
    /// working directory. Panics if the command removes a variable.
    pub fn start(command: &Command, (columns, rows): (u16, u16)) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let controller = File::from(controller);
        set_terminal_size(&controller, columns, rows);
        // The program runs in its own process session, so that signals of the terminal reach only this program.
        let mut session_command = Command::new("setsid");
        session_command
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            session_command.env(name, value.unwrap());
        }
        let clone_terminal = || terminal.try_clone().unwrap();
        session_command
            .stdin(clone_terminal())
            .stdout(clone_terminal())
            .stderr(clone_terminal());
        let child = session_command.spawn().unwrap();
        let content = TerminalContent {
            parser: vt100::Parser::new(rows, columns, 0),
            tail: Vec::new(),
            is_partial_frame: false,
        };
        let shared_content = Arc::new((Mutex::new(content), Condvar::new()));
        let (reader_content, mut output) =
            (Arc::clone(&shared_content), controller.try_clone().unwrap());
        let reader_thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                reader_content
                    .0
                    .lock()
                    .unwrap()
                    .process_output(&buffer[..length]);
                reader_content.1.notify_all();
            }
        });
        Self {
            child,
            controller,
            terminal,
            content: shared_content,
            reader_thread: Some(reader_thread),
        }
    }

    /// Sends keys to the program.
    pub fn type_keys(&mut self, keys: &str) -> &mut Self {
        self.controller.write_all(keys.as_bytes()).unwrap();
        self
    }

    /// Changes the size of the terminal.
    pub fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.content
            .0
            .lock()
            .unwrap()
            .parser
            .screen_mut()
            .set_size(rows, columns);
        set_terminal_size(&self.controller, columns, rows);
        self
    }

    /// Waits until the last frame is complete and the screen matches. `description` names the expected change in the
    /// message of a timeout.
    pub fn wait_until(
        &mut self,
        description: &str,
        matches: impl Fn(&vt100::Screen) -> bool,
    ) -> &mut Self {
        let (content, changed) = &*self.content;
        let guard = content.lock().unwrap();
        let (guard, outcome) = changed
            .wait_timeout_while(guard, WAIT_TIMEOUT, |content_guard| {
                content_guard.is_partial_frame || !matches(content_guard.screen())
            })
            .unwrap();
        let contents = guard.screen().contents();
        drop(guard);
        assert!(
            !outcome.timed_out(),
            "timed out waiting for {description}; the screen is\n{contents}"
        );
        self
    }

    /// Waits until a text is on the screen.
    pub fn wait_for_text(&mut self, text: &str) -> &mut Self {
        self.wait_until(text, |screen| screen.contents().contains(text))
    }

    /// Waits until a text is no longer on the screen.
    pub fn wait_for_absence(&mut self, text: &str) -> &mut Self {
        self.wait_until(&format!("the removal of {text}"), |screen| {
            !screen.contents().contains(text)
        })
    }

    /// Locks and returns the current content of the terminal. Further output is processed only after the caller drops
    /// the guard.
    pub fn lock_content(&self) -> MutexGuard<'_, TerminalContent> {
        self.content.0.lock().unwrap()
    }

    /// Returns the text on the screen after the last frame is complete. Lines have no trailing spaces.
    pub fn contents(&self) -> String {
        let (content, changed) = &*self.content;
        let guard = content.lock().unwrap();
        let (guard, _) = changed
            .wait_timeout_while(guard, WAIT_TIMEOUT, |content_guard| {
                content_guard.is_partial_frame
            })
            .unwrap();
        let contents = guard.screen().contents();
        drop(guard);
        let lines: Vec<&str> = contents.lines().map(str::trim_end).collect();
        lines.join("\n")
    }

    /// Returns the process ID of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program exits and all of its output is processed.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                start.elapsed() < WAIT_TIMEOUT,
                "timed out waiting for the exit of the program; the screen is\n{}",
                self.contents()
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        // Output is processed in order, so all of it was processed when this text is on the screen.
        rustix::io::write(&self.terminal, b"\r\n<end>").unwrap();
        self.wait_for_text("<end>");
        status
    }

    /// Asserts that the terminal is in the state that a shell expects.
    pub fn assert_restored(&self) {
        let content = self.lock_content();
        let screen = content.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is active");
        assert!(!screen.hide_cursor(), "the cursor is hidden");
        assert!(!screen.bracketed_paste(), "bracketed paste is on");
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        let cooked_modes = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        assert!(
            modes.contains(cooked_modes),
            "the terminal is in raw mode: {modes:?}"
        );
    }
}

fn set_terminal_size(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

/// Ends the program even if a test fails.
impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The thread ends when the terminal is closed. `self.terminal` is still open here, so joining the thread would
        // block.
        drop(self.reader_thread.take());
    }
}
