//! Text form of a project context, for the brief.

use std::fmt::Write as _;

use super::{Document, FeatureContext, ProjectContext, ProjectStructure, TaskContext, TaskSummary};

impl ProjectContext {
    /// Renders the project context. Empty if the context is empty.
    #[must_use]
    pub fn render(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(render_structure(&self.structure));
        if !self.commits.is_empty() {
            let mut text = "# Recent commits\n".to_owned();
            for commit in &self.commits {
                // The time of day is omitted, because it does not help an agent to understand the history.
                let day = commit.date.split('T').next().unwrap_or_default();
                let _ = writeln!(
                    text,
                    "- {} {day} {} ({})",
                    commit.hash, commit.message, commit.author
                );
            }
            parts.push(text);
        }
        parts.extend(self.documents.iter().map(render_document));
        parts.extend(self.feature.iter().map(render_feature));
        parts.extend(self.task.iter().map(render_task));
        if !self.notes.is_empty() {
            let mut text = "# Missing information\n".to_owned();
            for note in &self.notes {
                let _ = writeln!(text, "- {note}");
            }
            parts.push(text);
        }
        parts.join("\n")
    }
}

fn render_structure(structure: &ProjectStructure) -> Option<String> {
    if *structure == ProjectStructure::default() {
        return None;
    }
    let mut text = "# Project\n".to_owned();
    let mut push_list = |label: &str, names: &[String]| {
        if !names.is_empty() {
            let _ = writeln!(text, "{label}: {}", names.join(", "));
        }
    };
    push_list("Sources", &structure.src_dirs);
    push_list("Configuration", &structure.config_files);
    let value_or_none = |is_present, value| if is_present { value } else { "none" };
    let _ = writeln!(
        text,
        "Tests: {}; documentation: {}",
        value_or_none(structure.has_tests, "yes"),
        value_or_none(structure.has_docs, "yes")
    );
    Some(text)
}

fn render_document(document: &Document) -> String {
    format!("# {}\n{}", document.name, render_document_body(document))
}

fn render_document_body(document: &Document) -> String {
    let mut text = document.text.trim_matches('\n').to_owned();
    text.push('\n');
    if document.is_truncated() {
        let _ = writeln!(
            text,
            "(truncated: the first {} of {} bytes; read {} for the complete text)",
            document.text.len(),
            document.size,
            document.name
        );
    }
    text
}

fn render_feature(feature: &FeatureContext) -> String {
    let mut text = format!("# Feature {}\n", feature.name);
    if let Some(spec) = &feature.spec {
        text.push_str(&render_document_body(spec));
    }
    if !feature.tasks.is_empty() {
        text.push_str("Tasks:\n");
        text.extend(feature.tasks.iter().map(render_task_line));
    }
    if feature.more_tasks > 0 {
        let _ = writeln!(text, "- and {} more", feature.more_tasks);
    }
    text
}

fn render_task(task: &TaskContext) -> String {
    let mut text = format!("# Task {}\n", task.title);
    let description = task.description.trim_matches('\n');
    if !description.is_empty() {
        let _ = writeln!(text, "{description}");
    }
    for (caption, tasks) in [
        ("Depends on:\n", &task.dependencies),
        ("Required by:\n", &task.dependents),
    ] {
        if !tasks.is_empty() {
            text.push_str(caption);
            text.extend(tasks.iter().map(render_task_line));
        }
    }
    text
}

fn render_task_line(task: &TaskSummary) -> String {
    let status = task.status.as_deref();
    let status = status.map_or(String::new(), |status| format!(" [{status}]"));
    let title = if task.title == task.id {
        String::new()
    } else {
        format!(" {}", task.title)
    };
    let description = task.description.as_deref().and_then(|text| {
        let first_line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        (first_line != task.title).then(|| format!(": {}", super::excerpt(first_line, 200)))
    });
    format!(
        "- {}{status}{title}{}\n",
        task.id,
        description.unwrap_or_default()
    )
}
