//! Permission requests of agents, answered by the user or by a policy on the user's behalf.

use crate::enum_names::names;
use crate::session::ToolCall;

/// Effect of a permission option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionKind {
    /// Allows this call.
    AllowOnce,
    /// Allows this call and later calls of its kind.
    AllowAlways,
    /// Refuses this call.
    RejectOnce,
    /// Refuses this call and later calls of its kind.
    RejectAlways,
}

/// An answer that the agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    /// Agent's id of the option.
    pub id: String,
    /// Agent's text for the option.
    pub name: String,
    /// Effect of the option.
    pub kind: PermissionKind,
}

/// A request of the agent for permission to make a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// Tool call that the agent wants to make.
    pub call: ToolCall,
    /// Answers that the agent offers.
    pub options: Vec<PermissionOption>,
}

/// Answer that the agent receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// Chooses the option with this id.
    Choose(String),
    /// Gives no answer, because the turn is being stopped.
    Cancelled,
}

/// Rule by which requests are answered without the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionPolicy {
    /// Asks the user. If no user is present, refuses.
    #[default]
    Ask,
    /// Allows calls that only read.
    AllowReads,
    /// Allows calls that read and calls that edit files.
    AllowEdits,
    /// Allows all calls.
    AllowAll,
    /// Refuses all calls.
    Deny,
}

/// Decision of a policy on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Refuse,
    AskPerson,
}

names!(PermissionPolicy {
    Ask => "ask",
    AllowReads => "allow-reads",
    AllowEdits => "allow-edits",
    AllowAll => "allow-all",
    Deny => "deny",
});

impl PermissionPolicy {
    fn verdict(self, tool_kind: &str) -> Verdict {
        let reads = matches!(tool_kind, "read" | "search" | "think");
        let edits = tool_kind == "edit";
        match self {
            Self::AllowAll => Verdict::Allow,
            Self::Deny => Verdict::Refuse,
            Self::AllowReads if reads => Verdict::Allow,
            Self::AllowEdits if reads || edits => Verdict::Allow,
            Self::Ask | Self::AllowReads | Self::AllowEdits => Verdict::AskPerson,
        }
    }

    /// Returns the policy that allows less.
    #[must_use]
    pub fn narrower(self, other: Self) -> Self {
        let width = |policy| match policy {
            Self::Deny => 0,
            Self::Ask => 1,
            Self::AllowReads => 2,
            Self::AllowEdits => 3,
            Self::AllowAll => 4,
        };
        if width(other) < width(self) {
            other
        } else {
            self
        }
    }

    /// Returns the answer that this policy gives. `None` if the user must be asked.
    #[must_use]
    pub fn answer(self, request: &PermissionRequest) -> Option<PermissionAnswer> {
        match self.verdict(&request.call.kind) {
            Verdict::Allow => Some(request.allow_once()),
            Verdict::Refuse => Some(request.reject()),
            Verdict::AskPerson => None,
        }
    }
}

impl PermissionRequest {
    /// Returns the narrowest answer that allows the call.
    #[must_use]
    pub fn allow_once(&self) -> PermissionAnswer {
        self.first_of([PermissionKind::AllowOnce, PermissionKind::AllowAlways])
    }

    /// Returns the narrowest answer that refuses the call.
    #[must_use]
    pub fn reject(&self) -> PermissionAnswer {
        self.first_of([PermissionKind::RejectOnce, PermissionKind::RejectAlways])
    }

    /// Returns `true` if `answer` allows the call.
    #[must_use]
    pub fn allows(&self, answer: &PermissionAnswer) -> bool {
        match answer {
            PermissionAnswer::Cancelled => false,
            PermissionAnswer::Choose(id) => self.options.iter().any(|option| {
                option.id == *id
                    && matches!(
                        option.kind,
                        PermissionKind::AllowOnce | PermissionKind::AllowAlways
                    )
            }),
        }
    }

    fn first_of(&self, kinds: [PermissionKind; 2]) -> PermissionAnswer {
        kinds
            .into_iter()
            .find_map(|kind| self.options.iter().find(|option| option.kind == kind))
            .map_or(PermissionAnswer::Cancelled, |option| {
                PermissionAnswer::Choose(option.id.clone())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::session::ToolStatus;

    fn request(kind: &str) -> PermissionRequest {
        let option = |id: &str, kind| PermissionOption {
            id: id.into(),
            name: id.into(),
            kind,
        };
        PermissionRequest {
            call: ToolCall {
                id: "c1".into(),
                name: "a tool".into(),
                kind: kind.into(),
                args: Json::empty_object(),
                status: ToolStatus::Pending,
                output: None,
                diffs: Vec::new(),
            },
            options: vec![
                option("always", PermissionKind::AllowAlways),
                option("once", PermissionKind::AllowOnce),
                option("no", PermissionKind::RejectOnce),
            ],
        }
    }

    #[test]
    fn each_policy_answers_what_it_may() {
        use PermissionPolicy::{AllowAll, AllowEdits, AllowReads, Ask, Deny};
        let cases = [
            (Ask, "read", None),
            (AllowReads, "read", Some("once")),
            (AllowReads, "edit", None),
            (AllowEdits, "search", Some("once")),
            (AllowEdits, "edit", Some("once")),
            (AllowEdits, "execute", None),
            (AllowAll, "execute", Some("once")),
            (Deny, "read", Some("no")),
        ];
        for (policy, kind, expected) in cases {
            let answer = policy.answer(&request(kind));
            let expected = expected.map(|id| PermissionAnswer::Choose(id.into()));
            assert_eq!(answer, expected, "{policy:?} on {kind}");
        }
    }

    #[test]
    fn of_two_policies_the_one_that_allows_less_is_narrower() {
        use PermissionPolicy::{AllowAll, AllowEdits, AllowReads, Ask, Deny};
        let from_narrow_to_wide = [Deny, Ask, AllowReads, AllowEdits, AllowAll];
        for (place, narrow) in from_narrow_to_wide.into_iter().enumerate() {
            for &wide in &from_narrow_to_wide[place..] {
                assert_eq!(narrow.narrower(wide), narrow);
                assert_eq!(wide.narrower(narrow), narrow);
            }
        }
    }

    #[test]
    fn without_a_fitting_option_nothing_is_chosen() {
        let mut request = request("edit");
        request.options.retain(|option| option.id == "no");
        assert_eq!(request.allow_once(), PermissionAnswer::Cancelled);
        assert!(!request.allows(&PermissionAnswer::Choose("no".into())));
    }
}
