//! Session that the options select.

use std::ffi::OsString;

use segue_core::session::{Step, StepKind};
use segue_engine::{ConversationId, Target};

use super::resumable;
use crate::app::App;
use crate::cli::TalkArgs;
use crate::error::CliError;

/// Target of a prompt, and how it was determined.
pub(in crate::commands) struct Aim {
    pub(in crate::commands) target: Target,
    /// Steps that led to the target. `None` if the user did not request them.
    pub(in crate::commands) explain: Option<Vec<Step>>,
}

impl Aim {
    pub(in crate::commands) async fn of(app: &App, args: &TalkArgs) -> Result<Self, CliError> {
        let purpose = args.scope.purpose();
        let mut steps = Vec::new();
        let mut step = |kind, text: &str| steps.push(Step::new(kind, text));
        let target = if let Some(reference) = &args.resume {
            let id = resumable(app, reference, &app.standpoint()).await?.id();
            if let ConversationId::Native(..) = &id {
                step(StepKind::Id, "only an agent has it so far");
            }
            id.into()
        } else if args.continue_last {
            Target::Continue
        } else if args.new {
            step(StepKind::New, "--new asks for one");
            Target::new_for(purpose)
        } else if is_off(std::env::var_os(NO_REUSE)) {
            step(StepKind::New, "SEGUE_NO_REUSE is set, so nothing is reused");
            Target::new_for(purpose)
        } else {
            purpose.map_or(Target::Usual, Target::Scope)
        };
        Ok(Self {
            target,
            explain: args.explain.then_some(steps),
        })
    }
}

/// Variable that disables the reuse of sessions.
const NO_REUSE: &str = "SEGUE_NO_REUSE";

/// Returns `true` if the variable disables the reuse, that is, unless it is unset, empty or 0.
fn is_off(value: Option<OsString>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuse_is_off_by_any_value_but_0() {
        for (value, off) in [
            (None, false),
            (Some(""), false),
            (Some("0"), false),
            (Some("1"), true),
            (Some("yes"), true),
            (Some("false"), true),
        ] {
            assert_eq!(is_off(value.map(OsString::from)), off, "{value:?}");
        }
    }
}
