//! A pseudo-terminal for tests, with the content of its screen.

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
const LIMIT: Duration = Duration::from_mins(1);

/// Escape sequences at the begin and end of a frame.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// Content of a terminal.
pub(super) struct Shown {
    parser: vt100::Parser,
    /// Last bytes of the output, which may contain the start of a begin or end mark.
    tail: Vec<u8>,
    /// Whether only a part of a frame was received.
    is_half: bool,
}

impl Shown {
    fn take(&mut self, output: &[u8]) {
        self.parser.process(output);
        self.tail.extend_from_slice(output);
        let last = |mark: &[u8]| self.tail.windows(mark.len()).rposition(|part| part == mark);
        let (begin, end) = (last(BEGIN), last(END));
        if begin != end {
            self.is_half = begin > end;
        }
        self.tail
            .drain(..self.tail.len().saturating_sub(BEGIN.len() - 1));
    }

    pub(super) fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }
}

/// A program in its own terminal.
pub(super) struct Pty {
    child: Child,
    ours: File,
    /// End of the terminal that the program uses, open after the end of the program, so that a test can inspect it.
    theirs: OwnedFd,
    screen: Arc<(Mutex<Shown>, Condvar)>,
    watching: Option<JoinHandle<()>>,
}

impl Pty {
    /// Starts a program with the arguments and the environment of the command.
    pub(super) fn start(command: &Command, (columns, rows): (u16, u16)) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let ours = File::from(ours);
        resize(&ours, columns, rows);
        // A separate session, so that signals of the terminal reach only this program.
        let mut started = Command::new("setsid");
        started
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            started.env(name, value.unwrap());
        }
        let end = || theirs.try_clone().unwrap();
        started.stdin(end()).stdout(end()).stderr(end());
        let child = started.spawn().unwrap();
        let shown = Shown {
            parser: vt100::Parser::new(rows, columns, 0),
            tail: Vec::new(),
            is_half: false,
        };
        let screen = Arc::new((Mutex::new(shown), Condvar::new()));
        let (shown, mut output) = (Arc::clone(&screen), ours.try_clone().unwrap());
        let watching = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                shown.0.lock().unwrap().take(&piece[..length]);
                shown.1.notify_all();
            }
        });
        Self {
            child,
            ours,
            theirs,
            screen,
            watching: Some(watching),
        }
    }

    pub(super) fn types(&mut self, keys: &str) -> &mut Self {
        self.ours.write_all(keys.as_bytes()).unwrap();
        self
    }

    pub(super) fn resizes(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.screen
            .0
            .lock()
            .unwrap()
            .parser
            .screen_mut()
            .set_size(rows, columns);
        resize(&self.ours, columns, rows);
        self
    }

    /// Waits until the screen matches, with a complete frame.
    pub(super) fn waits(
        &mut self,
        what: &str,
        wanted: impl Fn(&vt100::Screen) -> bool,
    ) -> &mut Self {
        let (screen, changed) = &*self.screen;
        let shown = screen.lock().unwrap();
        let (shown, outcome) = changed
            .wait_timeout_while(shown, LIMIT, |shown| {
                shown.is_half || !wanted(shown.screen())
            })
            .unwrap();
        let contents = shown.screen().contents();
        drop(shown);
        assert!(!outcome.timed_out(), "no {what} in\n{contents}");
        self
    }

    /// Waits until a text is on the screen.
    pub(super) fn sees(&mut self, text: &str) -> &mut Self {
        self.waits(text, |screen| screen.contents().contains(text))
    }

    /// Waits until a text is no longer on the screen.
    pub(super) fn misses(&mut self, text: &str) -> &mut Self {
        self.waits(&format!("end of {text}"), |screen| {
            !screen.contents().contains(text)
        })
    }

    pub(super) fn screen(&self) -> MutexGuard<'_, Shown> {
        self.screen.0.lock().unwrap()
    }

    /// Returns the content of the screen, line by line.
    pub(super) fn contents(&self) -> String {
        let (screen, changed) = &*self.screen;
        let shown = screen.lock().unwrap();
        let (shown, _) = changed
            .wait_timeout_while(shown, LIMIT, |shown| shown.is_half)
            .unwrap();
        let contents = shown.screen().contents();
        drop(shown);
        let lines: Vec<&str> = contents.lines().map(str::trim_end).collect();
        lines.join("\n")
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the program and for all of its output.
    pub(super) fn ends(&mut self) -> ExitStatus {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(since.elapsed() < LIMIT, "no end of\n{}", self.contents());
            std::thread::sleep(Duration::from_millis(5));
        };
        // A mark after the last output shows that all of it was processed.
        rustix::io::write(&self.theirs, b"\r\n<end>").unwrap();
        self.sees("<end>");
        status
    }

    /// Asserts that the terminal is restored for a shell.
    pub(super) fn assert_restored(&self) {
        let parser = self.screen();
        let screen = parser.screen();
        assert!(!screen.alternate_screen(), "the other screen is shown");
        assert!(!screen.hide_cursor(), "the cursor is hidden");
        assert!(!screen.bracketed_paste(), "pastes are bracketed");
        let modes = tcgetattr(&self.theirs).unwrap().local_modes;
        let usual = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        assert!(modes.contains(usual), "the terminal is raw: {modes:?}");
    }
}

fn resize(terminal: &File, columns: u16, rows: u16) {
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
        // The thread ends with the terminal, which this value and the test hold open, so it is not joined.
        drop(self.watching.take());
    }
}
