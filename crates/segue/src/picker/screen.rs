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
use super::keys::{self, PickerKey};
use super::state::PickerState;

/// Returns `true` if segue runs in a terminal that can show the picker.
pub(crate) fn is_terminal_supported() -> bool {
    let has_capable_terminal =
        std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty());
    has_capable_terminal && stdin().is_terminal() && stdout().is_terminal()
}

/// Maximum time until all threads are stopped.
const STOP_TIMEOUT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    /// Pipe that is readable after the size of the terminal changed.
    resize_signals: SignalPipe,
    /// Pipe that is readable once segue was asked to end.
    end_signals: SignalPipe,
    /// Panic hook that was set before the picker.
    previous_hook: Option<PanicHook>,
}

type PanicHook = Arc<dyn Fn(&panic::PanicHookInfo<'_>) + Send + Sync>;

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let resize_signals = SignalPipe::new(&[SIGWINCH])?;
        let end_signals = SignalPipe::new(&[SIGTERM, SIGHUP, SIGINT])?;
        let backend = CrosstermBackend::new(BufWriter::new(stdout()));
        let terminal = Terminal::new(backend)?;
        let mut screen = Self {
            terminal,
            resize_signals,
            end_signals,
            previous_hook: None,
        };
        screen.enter_picker_mode()?;
        screen.previous_hook = Some(install_panic_hook());
        Ok(screen)
    }

    fn enter_picker_mode(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        self.clear()
    }

    pub(super) fn size(&self) -> io::Result<Size> {
        self.terminal.size()
    }

    pub(super) fn draw(&mut self, state: &PickerState) -> io::Result<()> {
        // Terminals that support these marks show each frame at once. Others ignore them.
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal
            .draw(|frame| draw::draw_screen(state, frame))?;
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
        let continue_signals = SignalPipe::new(&[SIGCONT])?;
        restore_terminal();
        kill_current_process_group(Signal::TSTP)?;
        // The stop may reach another thread first. Without the wait, this thread would draw before it is stopped, too.
        // If no shell can continue the process, it is not stopped either, and the wait times out.
        let mut poll_fds = [PollFd::from_borrowed_fd(
            continue_signals.reader_fd(),
            PollFlags::IN,
        )];
        match poll(&mut poll_fds, Some(&STOP_TIMEOUT)) {
            Ok(_) | Err(Errno::INTR) => self.enter_picker_mode(),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for keys, a signal or an answer of the workers. Returns the keys; `None` if segue was asked to end, or the
    /// terminal was lost.
    pub(super) fn wait(
        &mut self,
        answers_fd: BorrowedFd<'_>,
        timeout: Duration,
    ) -> io::Result<Option<Vec<PickerKey>>> {
        let keyboard = stdin();
        let mut poll_fds = [
            PollFd::from_borrowed_fd(keyboard.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(answers_fd, PollFlags::IN),
            PollFd::from_borrowed_fd(self.resize_signals.reader_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.end_signals.reader_fd(), PollFlags::IN),
        ];
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        match poll(&mut poll_fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let keyboard = poll_fds[0].revents();
        let closed_flags = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if self.end_signals.take_signal() || keyboard.intersects(closed_flags) {
            return Ok(None);
        }
        self.resize_signals.take_signal();
        let mut keys = Vec::new();
        let mut has_events = false;
        while event::poll(Duration::ZERO)? {
            keys.extend(keys::translate_event(event::read()?));
            has_events = true;
        }
        if !has_events && keyboard.contains(PollFlags::IN) {
            renotify_input(stdin().as_fd())?;
        }
        Ok(Some(keys))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal();
        // During a panic the hook cannot be changed, and it has already run.
        if let Some(hook) = self.previous_hook.take().filter(|_| !thread::panicking()) {
            drop(panic::take_hook());
            panic::set_hook(Box::new(move |panic| hook(panic)));
        }
    }
}

/// Makes the terminal report its pending input again.
///
/// The event reader is notified only once, and loses the notification if a resize arrives at the same time. Without
/// this call the key would wait for the next key, and the loop would spin.
fn renotify_input(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // Setting the current attributes changes nothing and notifies all readers.
    let attributes = tcgetattr(terminal)?;
    Ok(tcsetattr(terminal, OptionalActions::Now, &attributes)?)
}

/// Restores the terminal. Ignores errors, because they could not be shown.
fn restore_terminal() {
    let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Installs a panic hook that restores the terminal before the panic is printed. The picker reports panics of other
/// threads itself.
fn install_panic_hook() -> PanicHook {
    let previous_hook: PanicHook = Arc::from(panic::take_hook());
    let (print_panic, picker_thread) = (Arc::clone(&previous_hook), thread::current().id());
    panic::set_hook(Box::new(move |panic| {
        if thread::current().id() == picker_thread {
            restore_terminal();
            print_panic(panic);
        }
    }));
    previous_hook
}

/// A pipe that receives a byte for each signal.
///
/// Once registered, these signals have no default action in this process, even after the picker ends. Later code must
/// register its own handlers.
struct SignalPipe {
    reader: UnixStream,
    registrations: Vec<SigId>,
}

impl SignalPipe {
    fn new(signals: &[i32]) -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        let mut signal_pipe = Self {
            reader,
            registrations: Vec::new(),
        };
        for &signal in signals {
            signal_pipe
                .registrations
                .push(pipe::register(signal, writer.try_clone()?)?);
        }
        Ok(signal_pipe)
    }

    fn reader_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Returns `true` if a signal arrived since the last call.
    fn take_signal(&mut self) -> bool {
        let mut buffer = [0; 64];
        matches!(self.reader.read(&mut buffer), Ok(1..))
    }
}

impl Drop for SignalPipe {
    fn drop(&mut self) {
        for registration in self.registrations.drain(..) {
            low_level::unregister(registration);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::epoll;
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

    use super::*;

    #[test]
    fn pending_input_is_reported_again() {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let terminal =
            ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let edge_triggered = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(
            &events,
            &terminal,
            epoll::EventData::new_u64(1),
            edge_triggered,
        )
        .unwrap();
        let count_events = |timeout: &Timespec| {
            let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4];
            let (ready, _) = epoll::wait(&events, &mut buffer, Some(timeout)).unwrap();
            ready.len()
        };
        let long_timeout = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let no_wait = Timespec::default();
        rustix::io::write(&controller, b"x\n").unwrap();
        assert_eq!(count_events(&long_timeout), 1);
        assert_eq!(count_events(&no_wait), 0);
        renotify_input(terminal.as_fd()).unwrap();
        assert_eq!(count_events(&long_timeout), 1);
    }
}
