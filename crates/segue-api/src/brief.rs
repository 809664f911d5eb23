//! Briefs and project contexts.

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::brief::{
    BriefSection, Commit, Document, FeatureContext, ProjectContext, ProjectStructure, TaskContext,
    TaskSummary,
};
use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::RoleName;
use serde::{Deserialize, Serialize};

/// Brief that a new native session would receive now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreviewedBrief {
    /// Agent that would receive the brief.
    pub provider: ProviderId,
    /// The brief: all text before the prompt. Empty if the session has no messages.
    pub system_prompt: String,
    /// Text of `--prompt`.
    pub user_prompt: String,
    /// Number of tokens of both, by segue's count.
    pub total_tokens: u64,
    /// Approximate size of the request by the agent's own count; null if it cannot be estimated yet.
    pub reported_tokens: Option<u64>,
    /// Maximum number of tokens of both.
    pub budget: u64,
    /// Whether they have more tokens than the budget. segue never shortens a prompt.
    pub over_budget: bool,
    /// Number of turns, the oldest ones, that are omitted because they do not fit.
    pub turns_left_out: u32,
    /// Number of messages that are omitted from a turn that is too long.
    pub messages_left_out: u32,
    /// Number of messages that are reduced to their beginning and end.
    pub messages_shortened: u32,
    /// Number of bytes by which those messages are shorter.
    pub bytes_shortened: u64,
    /// Sections that are not empty, in order.
    pub sections: Vec<SectionSize>,
}

/// Size of a section of a brief.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SectionSize {
    /// Name of the section.
    pub name: BriefSection,
    /// Size of the section in tokens.
    pub tokens: u64,
}

/// Project context for new native sessions of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionContext {
    /// Content of the context.
    #[serde(flatten)]
    pub content: ContextContent,
    /// Size of the context in tokens.
    pub tokens: u64,
    /// Time at which the context was collected.
    pub updated_at: Timestamp,
    /// Whether this command collected the context.
    pub gathered: bool,
    /// Names of the sources that have changed.
    pub changed: Vec<String>,
    /// The session.
    pub session_id: SessionId,
    /// Role of the agent in the session; null if it has none.
    pub role: Option<RoleName>,
}

/// Content of a project context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextContent {
    /// The project.
    pub project: ProjectSummary,
    /// The feature; null without a feature.
    pub feature: Option<FeatureSummary>,
    /// The task; null without a task.
    pub task: Option<TaskContext>,
    /// Missing or unreadable sources, one line each.
    pub notes: Vec<String>,
}

/// Information on a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectSummary {
    /// Layout of the project.
    pub structure: ProjectStructure,
    /// Documents for agents and people, such as `CLAUDE.md`.
    pub documents: Vec<ContextDocument>,
    /// The newest commits, newest first.
    pub recent_commits: Vec<Commit>,
}

/// A document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextDocument {
    /// Path of the file, relative to the project.
    pub name: String,
    /// Text of the file, or its beginning.
    pub text: String,
    /// Size of the complete file in bytes.
    pub bytes: u64,
    /// Whether `text` is only the beginning of the file.
    pub cut: bool,
}

/// Information on a feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeatureSummary {
    /// Name of the feature.
    pub name: String,
    /// Specification of the feature; null if it has none.
    pub spec: Option<ContextDocument>,
    /// Tasks of the feature.
    pub tasks: Vec<TaskSummary>,
    /// Number of omitted tasks.
    pub more_tasks: u32,
}

impl From<&ProjectContext> for ContextContent {
    fn from(context: &ProjectContext) -> Self {
        Self {
            project: ProjectSummary {
                structure: context.structure.clone(),
                documents: context.documents.iter().map(Into::into).collect(),
                recent_commits: context.commits.clone(),
            },
            feature: context.feature.as_ref().map(Into::into),
            task: context.task.clone(),
            notes: context.notes.clone(),
        }
    }
}

impl From<&Document> for ContextDocument {
    fn from(document: &Document) -> Self {
        Self {
            name: document.name.clone(),
            text: document.text.clone(),
            bytes: document.size,
            cut: document.is_truncated(),
        }
    }
}

impl From<&FeatureContext> for FeatureSummary {
    fn from(feature: &FeatureContext) -> Self {
        Self {
            name: feature.name.clone(),
            spec: feature.spec.as_ref().map(Into::into),
            tasks: feature.tasks.clone(),
            more_tasks: feature.more_tasks,
        }
    }
}
