//! Encoding of a project context on disk, with a version number.

use serde::{Deserialize, Serialize};

use super::{
    Commit, ContextSource, Document, FeatureContext, ProjectContext, ProjectStructure, TaskContext,
    TaskSummary,
};

/// Version that this build writes.
const CONTEXT_FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct ContextShape {
    v: u32,
    structure: StructureShape,
    documents: Vec<DocumentShape>,
    commits: Vec<CommitShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feature: Option<FeatureShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskContextShape>,
    notes: Vec<String>,
    sources: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
struct StructureShape {
    src_dirs: Vec<String>,
    config_files: Vec<String>,
    has_tests: bool,
    has_docs: bool,
}

#[derive(Serialize, Deserialize)]
struct DocumentShape {
    name: String,
    text: String,
    size: u64,
}

#[derive(Serialize, Deserialize)]
struct CommitShape {
    hash: String,
    message: String,
    author: String,
    date: String,
}

#[derive(Serialize, Deserialize)]
struct FeatureShape {
    name: String,
    spec: Option<DocumentShape>,
    tasks: Vec<TaskSummaryShape>,
    more_tasks: u32,
}

#[derive(Serialize, Deserialize)]
struct TaskContextShape {
    title: String,
    description: String,
    dependencies: Vec<TaskSummaryShape>,
    dependents: Vec<TaskSummaryShape>,
}

#[derive(Serialize, Deserialize)]
struct TaskSummaryShape {
    id: String,
    title: String,
    status: Option<String>,
    description: Option<String>,
}

/// Error of a stored text that cannot be decoded as a project context.
#[derive(Debug, thiserror::Error)]
#[error("invalid project context: {0}")]
pub struct ContextError(String);

/// Encodes a project context and the sources from which it was gathered.
#[must_use]
pub fn encode_context(context: &ProjectContext, sources: &[ContextSource]) -> String {
    let context = context.clone();
    let shape = ContextShape {
        v: CONTEXT_FORMAT_VERSION,
        structure: StructureShape {
            src_dirs: context.structure.src_dirs,
            config_files: context.structure.config_files,
            has_tests: context.structure.has_tests,
            has_docs: context.structure.has_docs,
        },
        documents: context.documents.into_iter().map(Into::into).collect(),
        commits: context.commits.into_iter().map(Into::into).collect(),
        feature: context.feature.map(|feature| FeatureShape {
            name: feature.name,
            spec: feature.spec.map(Into::into),
            tasks: encode_task_summaries(feature.tasks),
            more_tasks: feature.more_tasks,
        }),
        task: context.task.map(|task| TaskContextShape {
            title: task.title,
            description: task.description,
            dependencies: encode_task_summaries(task.dependencies),
            dependents: encode_task_summaries(task.dependents),
        }),
        notes: context.notes,
        sources: sources
            .iter()
            .map(|source| (source.name.clone(), source.stamp.clone()))
            .collect(),
    };
    // Serialising strings and numbers into a `String` cannot fail.
    serde_json::to_string(&shape).unwrap_or_default()
}

/// Decodes a project context and the sources from which it was gathered. Fails if the text is not valid JSON of this
/// form or has another version.
pub fn decode_context(text: &str) -> Result<(ProjectContext, Vec<ContextSource>), ContextError> {
    let shape: ContextShape =
        serde_json::from_str(text).map_err(|error| ContextError(error.to_string()))?;
    if shape.v != CONTEXT_FORMAT_VERSION {
        return Err(ContextError(format!(
            "version {} is not supported",
            shape.v
        )));
    }
    let context = ProjectContext {
        structure: ProjectStructure {
            src_dirs: shape.structure.src_dirs,
            config_files: shape.structure.config_files,
            has_tests: shape.structure.has_tests,
            has_docs: shape.structure.has_docs,
        },
        documents: shape.documents.into_iter().map(Into::into).collect(),
        commits: shape.commits.into_iter().map(Into::into).collect(),
        feature: shape.feature.map(|feature| FeatureContext {
            name: feature.name,
            spec: feature.spec.map(Into::into),
            tasks: decode_task_summaries(feature.tasks),
            more_tasks: feature.more_tasks,
        }),
        task: shape.task.map(|task| TaskContext {
            title: task.title,
            description: task.description,
            dependencies: decode_task_summaries(task.dependencies),
            dependents: decode_task_summaries(task.dependents),
        }),
        notes: shape.notes,
    };
    let source = |(name, stamp)| ContextSource { name, stamp };
    Ok((context, shape.sources.into_iter().map(source).collect()))
}

fn encode_task_summaries(tasks: Vec<TaskSummary>) -> Vec<TaskSummaryShape> {
    let shape = |task: TaskSummary| TaskSummaryShape {
        id: task.id,
        title: task.title,
        status: task.status,
        description: task.description,
    };
    tasks.into_iter().map(shape).collect()
}

fn decode_task_summaries(tasks: Vec<TaskSummaryShape>) -> Vec<TaskSummary> {
    let task = |shape: TaskSummaryShape| TaskSummary {
        id: shape.id,
        title: shape.title,
        status: shape.status,
        description: shape.description,
    };
    tasks.into_iter().map(task).collect()
}

impl From<Document> for DocumentShape {
    fn from(document: Document) -> Self {
        let Document { name, text, size } = document;
        Self { name, text, size }
    }
}

impl From<DocumentShape> for Document {
    fn from(shape: DocumentShape) -> Self {
        let DocumentShape { name, text, size } = shape;
        Self { name, text, size }
    }
}

impl From<Commit> for CommitShape {
    fn from(commit: Commit) -> Self {
        Self {
            hash: commit.hash,
            message: commit.message,
            author: commit.author,
            date: commit.date,
        }
    }
}

impl From<CommitShape> for Commit {
    fn from(shape: CommitShape) -> Self {
        Self {
            hash: shape.hash,
            message: shape.message,
            author: shape.author,
            date: shape.date,
        }
    }
}
