//! The terminal while the picker uses it. It is restored however the picker ends.

use std::io::{self, BufWriter, IsTerminal, Read, Stdout, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use ratatui::layout::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::low_level::pipe;
use signal_hook::{SigId, low_level};

use super::draw;
use super::keys::{self, Key};
use super::state::State;

/// Returns `true` if segue runs in a terminal that can show the picker.
pub(crate) fn is_possible() -> bool {
    let is_able = std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty());
    is_able && stdin().is_terminal() && stdout().is_terminal()
}

/// Maximum time until all threads are stopped.
const STOPPED: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Events that ended a wait.
#[derive(Debug, Default)]
pub(super) struct Woken {
    pub(super) keys: Vec<Key>,
    /// Whether segue was asked to end, or the terminal was lost.
    pub(super) is_over: bool,
}

pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    /// Pipe that is readable after the size of the terminal changed.
    resized: Bell,
    /// Pipe that is readable once segue was asked to end.
    ended: Bell,
    /// Panic hook that was set before the picker.
    hook: Option<Hook>,
}

type Hook = Arc<dyn Fn(&panic::PanicHookInfo<'_>) + Send + Sync>;

impl Screen {
    pub(super) fn take() -> io::Result<Self> {
        let resized = Bell::new(&[SIGWINCH])?;
        let ended = Bell::new(&[SIGTERM, SIGHUP, SIGINT])?;
        let backend = CrosstermBackend::new(BufWriter::new(stdout()));
        let terminal = Terminal::new(backend)?;
        let mut screen = Self {
            terminal,
            resized,
            ended,
            hook: None,
        };
        screen.enter()?;
        screen.hook = Some(hook_panics());
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        self.clear()
    }

    pub(super) fn size(&self) -> io::Result<Size> {
        self.terminal.size()
    }

    pub(super) fn draw(&mut self, state: &State) -> io::Result<()> {
        // Terminals that support these marks show each frame at once. Others ignore them.
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| draw::draw(state, frame))?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    /// Clears the screen, so that the next frame is drawn completely.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` is not used, because it queries the position of the cursor and waits for seconds if the
        // terminal does not answer.
        let size = self.size()?;
        self.terminal.resize(size.into())
    }

    /// Returns the terminal to the shell until the process is continued.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        let woken = Bell::new(&[SIGCONT])?;
        leave();
        kill_current_process_group(Signal::TSTP)?;
        // The stop may reach another thread first. Without the wait, this thread would draw before it is stopped, too.
        // If no shell can continue the process, it is not stopped either, and the wait times out.
        let mut ends = [PollFd::from_borrowed_fd(woken.end(), PollFlags::IN)];
        match poll(&mut ends, Some(&STOPPED)) {
            Ok(_) | Err(Errno::INTR) => self.enter(),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a key, a signal or an answer of the workers.
    pub(super) fn wait(&mut self, bell: BorrowedFd<'_>, at_most: Duration) -> io::Result<Woken> {
        let keyboard = stdin();
        let mut ends = [
            PollFd::from_borrowed_fd(keyboard.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(bell, PollFlags::IN),
            PollFd::from_borrowed_fd(self.resized.end(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.ended.end(), PollFlags::IN),
        ];
        let at_most = Timespec::try_from(at_most).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        match poll(&mut ends, Some(&at_most)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [keyboard, _, _, _] = ends;
        let keyboard = keyboard.revents();
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let mut woken = Woken {
            is_over: keyboard.intersects(gone),
            keys: Vec::new(),
        };
        woken.is_over |= self.ended.rang();
        self.resized.rang();
        let mut is_heard = false;
        while !woken.is_over && event::poll(Duration::ZERO)? {
            woken.keys.extend(keys::key(event::read()?));
            is_heard = true;
        }
        if !is_heard && !woken.is_over && keyboard.contains(PollFlags::IN) {
            say_again(stdin().as_fd())?;
        }
        Ok(woken)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
        // During a panic the hook cannot be changed, and it has already run.
        if let Some(hook) = self.hook.take().filter(|_| !thread::panicking()) {
            drop(panic::take_hook());
            panic::set_hook(Box::new(move |panic| hook(panic)));
        }
    }
}

/// Makes the terminal report its pending input again.
///
/// The event reader is notified only once, and loses the notification if a resize arrives at the same time. Without
/// this call the key would wait for the next key, and the loop would spin.
fn say_again(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // Setting the current attributes changes nothing and notifies all readers.
    let attributes = tcgetattr(terminal)?;
    Ok(tcsetattr(terminal, OptionalActions::Now, &attributes)?)
}

/// Restores the terminal. Ignores errors, because they could not be shown.
fn leave() {
    let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Installs a panic hook that restores the terminal before the panic is printed. The picker reports panics of other
/// threads itself.
fn hook_panics() -> Hook {
    let before: Hook = Arc::from(panic::take_hook());
    let (usual, ours) = (Arc::clone(&before), thread::current().id());
    panic::set_hook(Box::new(move |panic| {
        if thread::current().id() == ours {
            leave();
            usual(panic);
        }
    }));
    before
}

/// A pipe that receives a byte for each signal.
///
/// Once registered, these signals have no default action in this process, even after the picker ends. Later code must
/// register its own handlers.
struct Bell {
    end: UnixStream,
    signals: Vec<SigId>,
}

impl Bell {
    fn new(signals: &[i32]) -> io::Result<Self> {
        let (end, ring) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        let mut bell = Self {
            end,
            signals: Vec::new(),
        };
        for &signal in signals {
            bell.signals
                .push(pipe::register(signal, ring.try_clone()?)?);
        }
        Ok(bell)
    }

    fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Returns `true` if a signal arrived since the last call.
    fn rang(&mut self) -> bool {
        let mut rung = [0; 64];
        matches!(self.end.read(&mut rung), Ok(1..))
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        for signal in self.signals.drain(..) {
            low_level::unregister(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::epoll;
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

    use super::*;

    #[test]
    fn what_was_told_once_can_be_told_again() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = ioctl_tiocgptpeer(&ours, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let once = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&events, &theirs, epoll::EventData::new_u64(1), once).unwrap();
        let told = |at_most: &Timespec| {
            let mut told = [const { std::mem::MaybeUninit::uninit() }; 4];
            let (told, _) = epoll::wait(&events, &mut told, Some(at_most)).unwrap();
            told.len()
        };
        let soon = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let now = Timespec::default();
        rustix::io::write(&ours, b"x\n").unwrap();
        assert_eq!(told(&soon), 1);
        assert_eq!(told(&now), 0);
        say_again(theirs.as_fd()).unwrap();
        assert_eq!(told(&soon), 1);
    }
}
