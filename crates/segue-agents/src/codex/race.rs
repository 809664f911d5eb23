//! Retries for several Codex processes that start at the same time in an unused home: all but one of them exit at once.

use std::time::Duration;

use crate::error::GREETING;
use crate::{AgentError, Opening};

/// Maximum number of retries; `PAUSE` is the delay before each of them.
const RACES: usize = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// Opens a connection. Retries if Codex exited because another one was setting up the home.
pub(super) async fn until_won<F>(open: impl Fn() -> F) -> Result<Opening, AgentError>
where
    F: Future<Output = Result<Opening, AgentError>>,
{
    for _ in 0..RACES {
        match open().await {
            Err(error) if is_lost(&error) => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
    open().await
}

/// Returns `true` if Codex exited because another one was setting up the home.
fn is_lost(error: &AgentError) -> bool {
    let (doing, words) = match error {
        AgentError::Crashed { doing, stderr, .. } => (doing, stderr),
        AgentError::Refused { doing, refusal, .. } => (doing, &refusal.message),
        AgentError::NotStarted { .. }
        | AgentError::NoDirectory(_)
        | AgentError::NothingToResume(_)
        | AgentError::TimedOut { .. } => return false,
    };
    *doing == GREETING && words.contains("failed to initialize sqlite state")
}

#[cfg(test)]
mod tests {
    use segue_core::session::FailureClass;

    use super::*;
    use crate::Exit;
    use crate::classify::Refusal;

    #[test]
    fn only_a_lost_race_is_run_again() {
        const LOST: &str = "Error: failed to initialize sqlite state runtime under /home/.codex";
        let cases = [
            (GREETING, LOST, true),
            (GREETING, "Error: no such option", false),
            ("thread/start", LOST, false),
        ];
        for (doing, words, expected) in cases {
            let crashed = AgentError::Crashed {
                doing,
                exit: Exit::Code(1),
                stderr: words.to_owned(),
            };
            assert_eq!(is_lost(&crashed), expected, "{crashed:?}");
            let refused = AgentError::refused(doing, Refusal::new(FailureClass::Agent, words));
            assert_eq!(is_lost(&refused), expected, "{refused:?}");
        }
    }
}
