//! Session that the options select.

use std::ffi::OsString;

use segue_core::session::ResolutionStep;
use segue_engine::{ConversationId, Target};

use super::find_resumable;
use crate::app::App;
use crate::cli::ConversationArgs;
use crate::error::CliError;

/// Target of a prompt, and how it was determined.
pub(in crate::commands) struct ChatTarget {
    pub(in crate::commands) target: Target,
    /// Steps that led to the target. `None` if the user did not request them.
    pub(in crate::commands) resolution_steps: Option<Vec<ResolutionStep>>,
}

impl ChatTarget {
    pub(in crate::commands) async fn from_args(
        app: &App,
        args: &ConversationArgs,
    ) -> Result<Self, CliError> {
        let purpose = args.scope.purpose();
        let mut steps = Vec::new();
        let target = if let Some(reference) = &args.resume {
            let id = find_resumable(app, reference, &app.ref_context())
                .await?
                .id();
            if let ConversationId::Native(..) = &id {
                steps.push(ResolutionStep::NativeNotAdopted);
            }
            id.into()
        } else if args.continue_last {
            Target::NewestInDirectory
        } else if args.new {
            steps.push(ResolutionStep::NewSessionRequested);
            Target::new_with_purpose(purpose)
        } else if is_reuse_disabled(std::env::var_os(NO_REUSE_VARIABLE)) {
            steps.push(ResolutionStep::ReuseDisabled);
            Target::new_with_purpose(purpose)
        } else {
            purpose.map_or(Target::Default, Target::Scope)
        };
        Ok(Self {
            target,
            resolution_steps: args.explain.then_some(steps),
        })
    }
}

/// Variable that disables the reuse of sessions.
const NO_REUSE_VARIABLE: &str = "SEGUE_NO_REUSE";

/// Returns `true` if the variable disables the reuse, that is, unless it is unset, empty or 0.
fn is_reuse_disabled(value: Option<OsString>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_except_empty_and_0_disables_reuse() {
        for (value, is_disabled) in [
            (None, false),
            (Some(""), false),
            (Some("0"), false),
            (Some("1"), true),
            (Some("yes"), true),
            (Some("false"), true),
        ] {
            assert_eq!(
                is_reuse_disabled(value.map(OsString::from)),
                is_disabled,
                "{value:?}"
            );
        }
    }
}
