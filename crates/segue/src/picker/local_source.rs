//! Data source for this machine: queries the engine from a thread of the picker.

mod rows;

use std::path::Path;
use std::sync::{Arc, mpsc};

use jiff::Zoned;
use rows::{conversation_details, conversation_row, highlight_matches, preview_turn};
use segue_api::text::{ShellActions, format_decision};
use segue_catalog::Index;
use segue_catalog::index::OwnSessionStamp;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Decision, SessionRef, Tag};
use segue_core::time_input::parse_time_input;
use segue_engine::{
    Conversation, EngineError, Freshness, IndexSync, Library, LibraryError, NativeEntry,
    SearchQuery, SearchRequest, Transcript,
};
use segue_store::SessionFilter;
use tokio::runtime::Runtime;

use super::data_source::{
    DataSource, ListRefresh, PickerRow, PreviewTurn, ProjectFilter, RowAction, RowActionOutcome,
    RowOrder, RowPage, RowPreview, RowQuery, RowTotal, parse_tag_change,
};
use crate::app::App;
use crate::error::CliError;
use crate::terminal::to_single_line;

/// Number of turns in a preview.
const PREVIEW_TURNS: usize = 4;
/// Number of characters of a native id in a message, enough to distinguish ids that begin with a timestamp.
const SHORT_ID_CHARS: usize = 13;

/// The conversations of this machine.
pub(crate) struct LocalSource {
    app: App,
    runtime: Runtime,
    /// State after the last refresh.
    last_fingerprint: Option<ListFingerprint>,
}

/// State that shows whether the list changed, in addition to the numbers of a refresh, which do not include segue's own
/// sessions.
#[derive(Debug, PartialEq, Eq)]
struct ListFingerprint {
    /// Id and time of the conversation that was updated last.
    newest: String,
    /// Index entries of segue's own sessions.
    own_stamps: Vec<OwnSessionStamp>,
}

impl LocalSource {
    /// Opens the data source without printing problems, because the picker shows them.
    pub(crate) fn open() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let app = {
            let _inside = runtime.enter();
            App::open_quiet().map_err(format_error)?
        };
        Ok(Self {
            app,
            runtime,
            last_fingerprint: None,
        })
    }

    fn list_newest(&self, query: &RowQuery) -> Result<RowPage, CliError> {
        let filter = SessionFilter {
            project: self.project_key(query.project_filter),
            ..SessionFilter::default()
        };
        let end = query.offset.saturating_add(query.limit);
        let limit = u32::try_from(end).unwrap_or(u32::MAX);
        let engine = &self.app.engine;
        let listed = engine
            .library()
            .list_conversations(&filter, limit, Freshness::AsIndexed);
        let listed = self.runtime.block_on(listed)?;
        let fetched = listed.rows.len();
        let rows = listed.rows.iter().skip(query.offset).map(conversation_row);
        Ok(RowPage {
            rows: rows.collect(),
            total: if listed.has_more {
                RowTotal::AtLeast(fetched.max(self.estimate_count(query.project_filter)))
            } else {
                RowTotal::Exact(fetched)
            },
            ignored_part: None,
        })
    }

    /// Returns an estimate of the number of conversations, because some native sessions belong to sessions of segue.
    fn estimate_count(&self, project_filter: ProjectFilter) -> usize {
        let filter = segue_catalog::index::IndexFilter {
            project: self.project_key(project_filter),
            ..Default::default()
        };
        let count = self
            .app
            .engine
            .library()
            .index()
            .and_then(|index| index.count_sessions(&filter).ok());
        count
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(0)
    }

    fn list_fingerprint(&self) -> Result<ListFingerprint, CliError> {
        let index = self.app.engine.library().index();
        let own_stamps = index.map(Index::own_session_stamps).transpose();
        Ok(ListFingerprint {
            newest: self.newest_stamp()?,
            own_stamps: own_stamps.map_err(LibraryError::from)?.unwrap_or_default(),
        })
    }

    fn newest_stamp(&self) -> Result<String, CliError> {
        let engine = &self.app.engine;
        let filter = SessionFilter::default();
        let listed = engine
            .library()
            .list_conversations(&filter, 1, Freshness::AsIndexed);
        let listed = self.runtime.block_on(listed)?;
        let newest = listed.rows.first().map(conversation_row);
        let newest = newest.map(|row| format!("{} {}", row.id, row.updated_at));
        Ok(newest.unwrap_or_default())
    }

    fn search(&self, row_query: &RowQuery, search_query: SearchQuery) -> Result<RowPage, CliError> {
        let request = SearchRequest {
            query: search_query,
            order: match row_query.order {
                RowOrder::Newest => segue_engine::HitOrder::Newest,
                RowOrder::Best => segue_engine::HitOrder::Best,
            },
            project: self.project_key(row_query.project_filter),
            limit: row_query.limit,
            skip: row_query.offset,
            turns_per_session: 1,
            freshness: Freshness::AsIndexed,
        };
        let report = self
            .runtime
            .block_on(self.app.engine.library().search(&request))?;
        let rows = report.hits.iter().map(|hit| {
            let snippet = hit
                .turns
                .first()
                .map(|turn| highlight_matches(&turn.snippet));
            PickerRow {
                snippet,
                ..conversation_row(&hit.conversation)
            }
        });
        let rows: Vec<PickerRow> = rows.collect();
        let fetched = row_query.offset + rows.len();
        Ok(RowPage {
            rows,
            total: if report.has_more {
                RowTotal::AtLeast(fetched)
            } else {
                RowTotal::Exact(fetched)
            },
            ignored_part: None,
        })
    }

    fn project_key(&self, project_filter: ProjectFilter) -> Option<String> {
        match project_filter {
            ProjectFilter::Current => Some(self.app.project.key.clone()),
            ProjectFilter::All => None,
        }
    }

    fn find_conversation(&self, row: &PickerRow) -> Result<Conversation, CliError> {
        // The index is faster than the files and has more details.
        if let Some((provider, id)) = row.id.split_once(':')
            && let (Ok(provider), Ok(id)) = (ProviderId::parse(provider), NativeId::parse(id))
            && let Some(index) = self.app.engine.library().index()
            && let Ok(Some(indexed)) = index.find_session(&provider, &id)
        {
            return Ok(Conversation::Native(Box::new(NativeEntry::from(indexed))));
        }
        let session_ref = row_ref(row)?;
        self.runtime
            .block_on(self.app.find_conversation(&session_ref))
    }

    /// Returns the last turns, and the decisions from reconciling the session with its native session.
    fn last_turns(
        &self,
        conversation: &Conversation,
    ) -> Result<(Vec<PreviewTurn>, Vec<Decision>), CliError> {
        match conversation {
            Conversation::Native(native) => {
                let (turns, _) = self
                    .app
                    .engine
                    .library()
                    .read_recent_native_turns(&native.session, PREVIEW_TURNS)?;
                let turn_count = native
                    .details
                    .as_ref()
                    .map_or(0, |details| details.turns as usize);
                let earlier_turns = turn_count.saturating_sub(turns.len());
                let turns = turns.iter().enumerate();
                let turns = turns
                    .map(|(index, turn)| preview_turn(earlier_turns + index + 1, &turn.messages));
                Ok((turns.rev().collect(), Vec::new()))
            }
            Conversation::Session(session, _) => {
                let engine = &self.app.engine;
                let (transcript, decisions): (Transcript, _) = self.runtime.block_on(async {
                    let (session, decisions) = engine
                        .reconciler()
                        .reconcile_if_idle((**session).clone())
                        .await?;
                    Ok::<_, EngineError>((engine.library().transcript(session).await?, decisions))
                })?;
                let turns = transcript.turns.iter().rev().take(PREVIEW_TURNS);
                let turns =
                    turns.map(|entry| preview_turn(entry.turn.number as usize, &entry.messages));
                Ok((turns.collect(), decisions))
            }
        }
    }

    async fn change_tags(&self, row: &PickerRow, text: &str) -> Result<RowActionOutcome, CliError> {
        let change = parse_tag_change(text).map_err(|error| CliError::usage(error.to_string()))?;
        let ref_context = self.app.ref_context();
        let (session, adoption) = self
            .app
            .engine
            .resolver()
            .find_or_adopt(&row_ref(row)?, &ref_context)
            .await?;
        let session = self
            .app
            .engine
            .sessions()
            .change_tags(&session.id, change)
            .await?;
        if adoption.is_some() {
            self.refresh_index().await;
        }
        let tags: Vec<&str> = session.tags.iter().map(Tag::as_str).collect();
        let adoption_note = adoption
            .map(|_| "; adopted the native session")
            .unwrap_or_default();
        Ok(RowActionOutcome {
            message: match tags.as_slice() {
                [] => format!("removed all tags: {}{adoption_note}", session.id),
                tags => format!("tagged {}: {}{adoption_note}", tags.join(" "), session.id),
            },
            id: session.id.to_string(),
            fork_id: None,
        })
    }

    /// Updates the index, so that searches find a newly adopted session instead of its native session.
    async fn refresh_index(&self) {
        // If this fails, the next refresh updates the index.
        let _ = self
            .app
            .engine
            .library()
            .refresh_index(Library::INDEX_LOCK_TIMEOUT, Arc::new(|_| ()))
            .await;
    }

    async fn archive(&self, row: &PickerRow) -> Result<RowActionOutcome, CliError> {
        let conversation = self.app.find_conversation(&row_ref(row)?).await?;
        let natives = self
            .app
            .engine
            .upkeep()
            .list_conversation_natives(&conversation)
            .await?;
        if natives.is_empty() {
            return Err(CliError::failed(
                "cannot archive the session: segue cannot read the files of its agent",
            ));
        }
        let mut new_copies = 0;
        for native in &natives {
            let outcome = self.app.engine.upkeep().archive_native(native).await?;
            new_copies += usize::from(!matches!(
                outcome,
                segue_catalog::ArchiveOutcome::Unchanged(_)
            ));
        }
        let message = match (new_copies, natives.first()) {
            (1.., Some(native)) => {
                // Copies are named by the native id, which is too long for the line.
                let id: String = native
                    .head
                    .id
                    .as_str()
                    .chars()
                    .take(SHORT_ID_CHARS)
                    .collect();
                format!("archived; restore with `segue session restore {id}`")
            }
            _ => "already archived".to_owned(),
        };
        Ok(RowActionOutcome {
            message,
            id: row.id.clone(),
            fork_id: None,
        })
    }

    async fn fork(&self, row: &PickerRow) -> Result<RowActionOutcome, CliError> {
        let ref_context = self.app.ref_context();
        let (session, _) = self
            .app
            .engine
            .resolver()
            .find_or_adopt(&row_ref(row)?, &ref_context)
            .await?;
        // The fork uses the directory of its origin, unless that no longer exists.
        let project = if Path::new(&session.project.cwd).is_dir() {
            &session.project
        } else {
            &self.app.project
        };
        let fork_outcome = self
            .app
            .engine
            .sessions()
            .fork_session(&session, None, project)
            .await?;
        self.refresh_index().await;
        let decisions = fork_outcome
            .decisions
            .into_iter()
            .map(|decision| format_decision(&decision, &ShellActions));
        let mut messages = vec![format!("forked as {}", fork_outcome.session.id)];
        messages.extend(decisions);
        Ok(RowActionOutcome {
            message: messages.join("; "),
            id: session.id.to_string(),
            fork_id: Some(fork_outcome.session.id.to_string()),
        })
    }
}

impl DataSource for LocalSource {
    fn fetch_page(&mut self, query: &RowQuery) -> Result<RowPage, String> {
        let parse_time =
            |text: &str| parse_time_input(text, &Zoned::now()).map_err(|error| error.to_string());
        let mut search_query = SearchQuery::parse_partial(&query.search_text, &parse_time);
        let providers = self.app.engine.library().supported_providers();
        let mistake = SearchQuery::find_partial_error(&query.search_text, &parse_time)
            .map(|error| error.to_string());
        let unknown_provider = complete_providers(&mut search_query.providers, &providers);
        let page = if search_query == SearchQuery::default() {
            self.list_newest(query)
        } else {
            self.search(query, search_query)
        };
        Ok(RowPage {
            ignored_part: mistake.or(unknown_provider),
            ..page.map_err(format_error)?
        })
    }

    fn load_preview(&mut self, row: &PickerRow) -> Result<RowPreview, String> {
        let conversation = self.find_conversation(row).map_err(format_error)?;
        let (turns, decisions) = self.last_turns(&conversation).map_err(format_error)?;
        let mut details = conversation_details(&conversation);
        details.extend(
            decisions
                .iter()
                .map(|decision| to_single_line(&format_decision(decision, &ShellActions))),
        );
        Ok(RowPreview {
            details,
            snippet: row.snippet.clone(),
            last_turns: turns,
        })
    }

    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<ListRefresh, String> {
        let before = match self.last_fingerprint.take() {
            Some(before) => before,
            None => self.list_fingerprint().map_err(format_error)?,
        };
        let (sender, progress_updates) = mpsc::channel();
        let report_progress = Arc::new(move |step| {
            let _ = sender.send(step);
        });
        let library = self.app.engine.library();
        let refresh = library.refresh_index(Library::INDEX_LOCK_TIMEOUT, report_progress);
        // Other threads read the files and report their progress.
        let sync = self.runtime.block_on(async {
            tokio::pin!(refresh);
            let mut ticker = tokio::time::interval(std::time::Duration::from_millis(100));
            loop {
                tokio::select! {
                    sync = &mut refresh => return sync,
                    _ = ticker.tick() => {
                        if let Some(last) = progress_updates.try_iter().last() {
                            let segue_catalog::index::Progress { done, total: all } = last;
                            progress(&format!("reading sessions: {done} of {all}"));
                        }
                    }
                }
            }
        });
        let sync = sync.map_err(|error| format_error(error.into()))?;
        let after = self
            .last_fingerprint
            .insert(self.list_fingerprint().map_err(format_error)?);
        Ok(match sync {
            Some(IndexSync::UpToDate(stats))
                if stats.sources_read == 0 && stats.sources_missing == 0 && before == *after =>
            {
                ListRefresh::Unchanged
            }
            _ => ListRefresh::Changed,
        })
    }

    fn perform_action(
        &mut self,
        row: &PickerRow,
        action: &RowAction,
    ) -> Result<RowActionOutcome, String> {
        let outcome = self.runtime.block_on(async {
            match action {
                RowAction::Tag(text) => self.change_tags(row, text).await,
                RowAction::Archive => self.archive(row).await,
                RowAction::Fork => self.fork(row).await,
            }
        });
        outcome.map_err(format_error)
    }
}

/// Completes partially typed agents to all agents with this prefix. Ignores an unknown agent and returns a message
/// about it.
fn complete_providers(names: &mut Vec<String>, supported: &[&str]) -> Option<String> {
    let is_unknown = |prefix: &&String| {
        !supported
            .iter()
            .any(|name| name.starts_with(prefix.as_str()))
    };
    let unknown_name = names.iter().find(is_unknown);
    let message = unknown_name.map(|name| format!("unknown agent `{name}`"));
    let completed = names.iter().flat_map(|prefix| {
        let is_full_name = supported.contains(&prefix.as_str());
        let is_match = move |name: &&&str| {
            if is_full_name {
                **name == prefix
            } else {
                name.starts_with(prefix)
            }
        };
        supported.iter().filter(is_match).map(ToString::to_string)
    });
    *names = completed.collect();
    message
}

/// Formats an error and its first hint on one line.
fn format_error(error: CliError) -> String {
    let mut message = error.message;
    if let Some(hint) = error.hints.first() {
        message.push_str("; ");
        message.push_str(&hint.format(&ShellActions));
    }
    message
}

/// Returns the reference for a row, which every command accepts.
pub(crate) fn row_ref(row: &PickerRow) -> Result<SessionRef, CliError> {
    SessionRef::parse(&row.id).map_err(|error| CliError::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_agent_name_completes_to_all_agents_with_this_prefix() {
        let supported = ["acp:codex", "claude", "codex", "codex-acp"];
        let cases: [(&[&str], &[&str], Option<&str>); 5] = [
            (&["cod"], &["codex", "codex-acp"], None),
            (&["codex"], &["codex"], None),
            (&["codex", "cl"], &["codex", "claude"], None),
            (&["nemo"], &[], Some("unknown agent `nemo`")),
            (&[], &[], None),
        ];
        for (typed, expected, message) in cases {
            let mut names: Vec<String> = typed.iter().map(ToString::to_string).collect();
            assert_eq!(
                complete_providers(&mut names, &supported).as_deref(),
                message,
                "{typed:?}"
            );
            assert_eq!(names, expected, "{typed:?}");
        }
    }
}
