//! Domain types of segue, and its decisions as pure functions.
//!
//! No function in this crate does I/O, reads a clock or awaits: time, ids and text are parameters, so that every
//! decision can be tested as a table of cases. The model is git: a [`Turn`] is a commit with one parent, a [`Session`]
//! is a branch with a head, and a [`Leg`] is a native session that contains the history up to its tip.

mod brief;
mod calibrate;
mod capability;
mod chain;
mod checkpoint;
mod context;
mod cost;
mod event;
mod failure;
mod figure;
mod head;
mod id;
mod json;
mod leg;
mod links;
mod mcp;
mod message;
mod model;
mod names;
mod next;
mod noted;
mod outside;
mod permission;
mod piped;
mod policy;
mod process;
mod project;
mod reference;
mod rewind;
mod role;
mod roles;
mod same_prompt;
mod scope;
mod session;
pub mod spend;
mod step;
pub mod stored;
mod tag;
mod touched;
mod turn;
mod usage;
mod when;

pub use brief::{
    Brief, BriefError, DEFAULT_BUDGET, END_OF_RECORD, Missing, Section, Sent, Story, ToldTurn,
    compose, least_tokens, prompt_after_brief, told, with_added, with_reminder,
};
pub use calibrate::{Calibration, Sample, budget_within, calibrate};
pub use capability::{Capabilities, How};
pub use chain::{
    TurnNumberError, can_be_branched, can_be_taken_up, can_go_on, close_open_calls, plan_fork,
    plan_revert, untold,
};
pub use checkpoint::{
    Author, Checkpoint, Delta, DeltaError, Item, ItemKind, LoopState, Objection, Occasion, Piece,
    SUMMARISER, Slip, Summary, Version, again, carried_over, decode_delta, encode_delta, extract,
    form, formed, headed, is_summariser, merge, newly_numbered, pieces, question, summary,
    total_saved, written,
};
pub use context::{
    Commit, Context, ContextError, Document, FeatureContext, KeptContext, Source, Structure,
    TaskContext, TaskSummary, changed_sources, decode_context, encode_context, excerpt,
};
pub use cost::Cost;
pub use event::{
    AgentEvent, Decision, DecisionKind, Diff, PlanStatus, PlanStep, StopReason, ToolCall,
    ToolStatus, TurnEnd,
};
pub use failure::{Failure, FailureClass};
pub use figure::figure;
pub use head::{ForkedOff, HeadMove, HeadMoveKind, Lineage};
pub use id::{FeatureId, IdError, LegId, NativeId, ProviderId, SessionId, TurnId};
pub use json::{Json, JsonError};
pub use leg::{Leg, LegEnd, Opened};
pub use links::{FeatureLinks, Linked, TaskLinks, links};
pub use mcp::{McpReach, McpServer};
pub use message::{InlineData, Message, Part, Role};
pub use next::{Hint, NextStep};
pub use noted::{noted_answer, noted_call};
pub use outside::{Changed, Ours, Theirs, Verdict, completed, verdict, whose};
pub use permission::{
    PermissionAnswer, PermissionKind, PermissionOption, PermissionPolicy, PermissionRequest,
};
pub use piped::with_piped;
pub use policy::{
    Admission, Aftermath, Arrival, AutoCompaction, ContextLimits, Haste, LONGEST_WAIT, Next, Pause,
    Policy, Refused, Rest, Setback, Standing, admit, after_refusal, is_due, is_full,
    is_policy_stop, is_worth_it, setback,
};
pub use process::ProcessMark;
pub use project::Project;
pub use reference::{Candidate, MatchedBy, Pick, SessionRef, pick};
pub use rewind::native_turns;
pub use role::RoleDescription;
pub use roles::{RoleChange, Roles};
pub use scope::{
    Evidence, Purpose, RECENT, RoleName, Scope, Sighting, Tagged, TaskId, TaskState, is_recent,
};
pub use session::{Session, SessionStatus, Title, TitleError, TitleSource};
pub use step::{Step, StepKind};
pub use tag::Tag;
pub use touched::{Change, Effects, Touched, effects};
pub use turn::{Attempt, Turn, TurnState};
pub use usage::Usage;
pub use when::{WhenError, parse_when};
