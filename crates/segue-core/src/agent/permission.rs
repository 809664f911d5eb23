//! Permission requests of agents, answered by the user or by a policy on the user's behalf.

use crate::enum_names::named_enum;
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
    Selected(String),
    /// Gives no answer, because the turn is being stopped.
    Cancelled,
}

named_enum! {
    /// Rule by which requests are answered without the user.
    #[derive(Default)]
    pub enum PermissionPolicy {
        /// Asks the user. If no user is present, refuses.
        #[default]
        Ask => "ask",
        /// Allows calls that only read.
        AllowReads => "allow-reads",
        /// Allows calls that read and calls that edit files.
        AllowEdits => "allow-edits",
        /// Allows all calls.
        AllowAll => "allow-all",
        /// Refuses all calls.
        Deny => "deny",
    }
}

impl PermissionPolicy {
    /// Returns the policy that allows less.
    #[must_use]
    pub fn restrict_to(self, limit: Self) -> Self {
        let by_permissions = [
            Self::Deny,
            Self::Ask,
            Self::AllowReads,
            Self::AllowEdits,
            Self::AllowAll,
        ];
        let mut policies = by_permissions.into_iter();
        let narrower = policies.find(|policy| [self, limit].contains(policy));
        narrower.unwrap_or(limit)
    }

    /// Returns the answer that this policy gives. `None` if the user must be asked.
    #[must_use]
    pub fn answer(self, request: &PermissionRequest) -> Option<PermissionAnswer> {
        let kind = request.call.kind.as_str();
        let is_read = matches!(kind, "read" | "search" | "think");
        match self {
            Self::Deny => Some(request.reject_answer()),
            Self::AllowAll => Some(request.allow_answer()),
            Self::AllowReads if is_read => Some(request.allow_answer()),
            Self::AllowEdits if is_read || kind == "edit" => Some(request.allow_answer()),
            Self::Ask | Self::AllowReads | Self::AllowEdits => None,
        }
    }
}

impl PermissionRequest {
    /// Returns the narrowest answer that allows the call.
    #[must_use]
    pub fn allow_answer(&self) -> PermissionAnswer {
        self.choose_option([PermissionKind::AllowOnce, PermissionKind::AllowAlways])
    }

    /// Returns the narrowest answer that refuses the call.
    #[must_use]
    pub fn reject_answer(&self) -> PermissionAnswer {
        self.choose_option([PermissionKind::RejectOnce, PermissionKind::RejectAlways])
    }

    /// Returns `true` if `answer` allows the call.
    #[must_use]
    pub fn is_allowed_by(&self, answer: &PermissionAnswer) -> bool {
        match answer {
            PermissionAnswer::Cancelled => false,
            PermissionAnswer::Selected(id) => self.options.iter().any(|option| {
                option.id == *id
                    && matches!(
                        option.kind,
                        PermissionKind::AllowOnce | PermissionKind::AllowAlways
                    )
            }),
        }
    }

    fn choose_option(&self, kinds: [PermissionKind; 2]) -> PermissionAnswer {
        kinds
            .into_iter()
            .find_map(|kind| self.options.iter().find(|option| option.kind == kind))
            .map_or(PermissionAnswer::Cancelled, |option| {
                PermissionAnswer::Selected(option.id.clone())
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
    fn each_policy_answers_only_the_kinds_it_covers() {
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
            let expected = expected.map(|id| PermissionAnswer::Selected(id.into()));
            assert_eq!(answer, expected, "{policy:?} on {kind}");
        }
    }

    #[test]
    fn restrict_to_returns_the_policy_that_allows_less() {
        use PermissionPolicy::{AllowAll, AllowEdits, AllowReads, Ask, Deny};
        let policies_by_width = [Deny, Ask, AllowReads, AllowEdits, AllowAll];
        for (index, narrow) in policies_by_width.into_iter().enumerate() {
            for &wide in &policies_by_width[index..] {
                assert_eq!(narrow.restrict_to(wide), narrow);
                assert_eq!(wide.restrict_to(narrow), narrow);
            }
        }
    }

    #[test]
    fn a_request_without_a_matching_option_is_cancelled() {
        let mut request = request("edit");
        request.options.retain(|option| option.id == "no");
        assert_eq!(request.allow_answer(), PermissionAnswer::Cancelled);
        assert!(!request.is_allowed_by(&PermissionAnswer::Selected("no".into())));
    }
}
