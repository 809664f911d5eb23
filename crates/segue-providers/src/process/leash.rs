//! The leash: a small process between segue and an agent, so that no process of the agent outlives segue.
//!
//! The leash starts the agent in its own process group and has one end of a pipe, the lifeline, whose other end only
//! segue has. When the lifeline closes (because segue drops it, or is killed, however suddenly) or when the agent
//! exits, the leash ends all processes that the agent started: it sends SIGTERM, waits, and then kills them. On Linux
//! it also adopts and finds processes that have left the group; on other systems it can reach only the group.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

mod process_tree;

use process_tree::EndSignal;
#[cfg(target_os = "linux")]
pub(crate) use process_tree::ProcStat;

/// Exit code of the leash if the program cannot be started, as in shells.
pub const CANNOT_START_EXIT_CODE: i32 = 127;

/// Time in which an agent may exit on its own once its input is closed.
const STDIN_CLOSE_GRACE: Duration = Duration::from_millis(500);

/// Time in which an agent may exit after SIGTERM; programs on Node then flush their session files.
pub(crate) const SIGTERM_GRACE: Duration = Duration::from_secs(3);

/// Runs a program on the leash until it and all processes that it started have ended. Returns its exit code.
pub async fn run(lifeline: u32, program: OsString, args: Vec<OsString>) -> io::Result<u8> {
    process_tree::adopt_orphans();
    // With a handler installed, a signal to the group reaches the agent and does not end the leash.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut child_ended = signal(SignalKind::child())?;
    let mut lifeline = pipe::Receiver::from_file(File::open(format!("/dev/fd/{lifeline}"))?)?;

    let mut command = Command::new(&program);
    command
        .args(args)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit());
    #[expect(
        clippy::disallowed_methods,
        reason = "the leash itself starts the program"
    )]
    let mut agent = command.spawn()?;

    // The agent's pipes must close when it exits, so the leash must not have them open.
    detach_stdio();

    let mut byte = [0];
    let status = loop {
        tokio::select! {
            status = agent.wait() => break Some(status?),
            _ = lifeline.read(&mut byte) => break wait_for_exit(&mut agent, STDIN_CLOSE_GRACE).await,
            _ = terminate.recv() => break None,
            _ = interrupt.recv() => break None,
            _ = hangup.recv() => break None,
            _ = child_ended.recv() => process_tree::reap_orphans(agent.id()),
        }
    };
    end_processes(&mut agent).await;
    Ok(match status {
        Some(status) => exit_code(status),
        None => agent.wait().await.map_or(1, exit_code),
    })
}

/// Runs a program on the leash as the command line requests, for a program that is its own leash. `args` are the
/// arguments that follow the [`LeashCommand::args`](crate::LeashCommand::args) with which it is started.
pub async fn run_from_args(args: impl IntoIterator<Item = OsString>) -> io::Result<u8> {
    let invalid_args = || io::Error::new(io::ErrorKind::InvalidInput, "invalid leash arguments");
    let (lifeline, program, args) = parse_args(args).ok_or_else(invalid_args)?;
    run(lifeline, program, args).await
}

/// Parses `--lifeline N -- PROGRAM ARGS…`.
fn parse_args(args: impl IntoIterator<Item = OsString>) -> Option<(u32, OsString, Vec<OsString>)> {
    let mut args = args.into_iter();
    args.next().filter(|arg| arg == "--lifeline")?;
    let lifeline = args.next()?.to_str()?.parse().ok()?;
    args.next().filter(|arg| arg == "--")?;
    Some((lifeline, args.next()?, args.collect()))
}

async fn wait_for_exit(agent: &mut Child, max_wait: Duration) -> Option<ExitStatus> {
    tokio::time::timeout(max_wait, agent.wait())
        .await
        .ok()?
        .ok()
}

fn detach_stdio() {
    let null = File::options().read(true).write(true).open("/dev/null");
    if let Ok(null) = null {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Sends SIGTERM to all remaining processes, waits, and kills those that did not exit.
async fn end_processes(agent: &mut Child) {
    let signals = [
        (EndSignal::Term, SIGTERM_GRACE),
        (EndSignal::Kill, Duration::from_secs(2)),
    ];
    for (end_signal, grace_period) in signals {
        process_tree::send_signal(end_signal);
        let deadline = Instant::now() + grace_period;
        while Instant::now() < deadline {
            process_tree::reap_orphans(agent.id());
            if agent.id().is_none() && !process_tree::has_running_descendants() {
                return;
            }
            if wait_for_exit(agent, Duration::from_millis(10))
                .await
                .is_none()
            {
                sleep(Duration::from_millis(10)).await;
            }
            // A process may have started another one while it was being killed.
            if end_signal == EndSignal::Kill {
                process_tree::send_signal(end_signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leash_arguments_are_accepted() {
        let parse = |line: &str| {
            let parsed = parse_args(line.split(' ').map(OsString::from));
            parsed.map(|(lifeline, program, args)| (lifeline, program, args.len()))
        };
        let cases = [
            ("--lifeline 7 -- agent", Some((7, "agent".into(), 0))),
            (
                "--lifeline 7 -- agent --lifeline 8",
                Some((7, "agent".into(), 2)),
            ),
            ("--lifeline 7 --", None),
            ("--lifeline 7 agent", None),
            ("--lifeline x -- agent", None),
            ("agent", None),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
