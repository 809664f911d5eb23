//! The words of segue as types, and its decisions as pure functions.
//!
//! Nothing here does I/O, reads a clock or awaits: time, ids and text come in as values, so that every
//! decision can be tested as a table of cases. The picture to have in mind is git: a [`Turn`] is a commit
//! with one parent, a [`Session`] is a branch with a head, and a [`Leg`] is a native session that has seen
//! the history up to its tip.

mod brief;
mod capability;
mod chain;
mod cost;
mod event;
mod failure;
mod id;
mod json;
mod leg;
mod mcp;
mod message;
mod model;
mod names;
mod permission;
mod policy;
mod process;
mod project;
mod reference;
mod session;
pub mod spend;
pub mod stored;
mod tag;
mod turn;
mod usage;
mod when;

pub use brief::{END_OF_RECORD, TELLABLE, recent_messages};
pub use capability::{Capabilities, How};
pub use chain::{TurnNumberError, can_go_on, close_open_calls, plan_fork, plan_revert};
pub use cost::Cost;
pub use event::{
    AgentEvent, Decision, DecisionKind, Diff, PlanStatus, PlanStep, StopReason, ToolCall,
    ToolStatus, TurnEnd,
};
pub use failure::{Failure, FailureClass};
pub use id::{FeatureId, IdError, LegId, NativeId, ProviderId, SessionId, TurnId};
pub use json::{Json, JsonError};
pub use leg::{Leg, LegEnd, Opened};
pub use mcp::{McpReach, McpServer};
pub use message::{InlineData, Message, Part, Role};
pub use permission::{
    PermissionAnswer, PermissionKind, PermissionOption, PermissionPolicy, PermissionRequest,
};
pub use policy::{
    Admission, Aftermath, Arrival, ContextLimits, Haste, LONGEST_WAIT, Next, Pause, Policy,
    Refused, Rest, Setback, Standing, admit, after_refusal, is_full, is_policy_stop, setback,
};
pub use process::ProcessMark;
pub use project::Project;
pub use reference::{Candidate, MatchedBy, Pick, SessionRef, pick};
pub use session::{Session, SessionStatus, Title, TitleError, TitleSource};
pub use tag::Tag;
pub use turn::{Attempt, Turn, TurnState};
pub use usage::Usage;
pub use when::{WhenError, parse_when};
