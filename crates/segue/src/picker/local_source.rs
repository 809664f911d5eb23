//! Data source for this machine: queries the engine from a thread of the picker.

mod rows;

use std::path::Path;
use std::sync::{Arc, mpsc};

use jiff::{Timestamp, Zoned};
use rows::{conversation_details, conversation_row, highlight_matches, preview_turn};
use segue_api::text::{ShellActions, format_decision};
use segue_catalog::index::{IndexFilter, OwnSessionStamp, RefreshOutcome};
use segue_catalog::{ArchiveOutcome, Index};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Decision, Session, SessionRef, Tag};
use segue_core::time_input::parse_time_input;
use segue_engine::{
    Conversation, ConversationList, EngineError, Freshness, HitOrder, Library, LibraryError,
    NativeEntry, SearchQuery, SearchRequest,
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
    newest: Option<(String, Timestamp)>,
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

    fn library(&self) -> &Library {
        self.app.engine.library()
    }

    fn list_conversations(
        &self,
        filter: &SessionFilter,
        limit: u32,
    ) -> Result<ConversationList, CliError> {
        let library = self.library();
        let listing = library.list_conversations(filter, limit, Freshness::AsIndexed);
        Ok(self.runtime.block_on(listing)?)
    }

    fn list_newest(&self, query: &RowQuery) -> Result<(Vec<PickerRow>, RowTotal), CliError> {
        let filter = SessionFilter {
            project: self.project_key(query.project_filter),
            ..SessionFilter::default()
        };
        let end = query.offset.saturating_add(query.limit);
        let listed = self.list_conversations(&filter, u32::try_from(end).unwrap_or(u32::MAX))?;
        let fetched = listed.rows.len();
        let total = if listed.has_more {
            RowTotal::AtLeast(fetched.max(self.estimate_count(filter.project)))
        } else {
            RowTotal::Exact(fetched)
        };
        let rows = listed.rows.iter().skip(query.offset).map(conversation_row);
        Ok((rows.collect(), total))
    }

    /// Returns an estimate of the number of conversations, because some native sessions belong to sessions of segue.
    fn estimate_count(&self, project: Option<String>) -> usize {
        let filter = IndexFilter {
            project,
            ..IndexFilter::default()
        };
        let index = self.library().index();
        let count = index.and_then(|index| index.count_sessions(&filter).ok());
        count.map_or(0, |count| usize::try_from(count).unwrap_or(0))
    }

    fn list_fingerprint(&self) -> Result<ListFingerprint, CliError> {
        let index = self.library().index();
        let own_stamps = index.map(Index::own_session_stamps).transpose();
        let listed = self.list_conversations(&SessionFilter::default(), 1)?;
        let newest = listed.rows.first().map(conversation_row);
        Ok(ListFingerprint {
            newest: newest.map(|row| (row.id, row.updated_at)),
            own_stamps: own_stamps.map_err(LibraryError::from)?.unwrap_or_default(),
        })
    }

    fn search(
        &self,
        row_query: &RowQuery,
        query: SearchQuery,
    ) -> Result<(Vec<PickerRow>, RowTotal), CliError> {
        let request = SearchRequest {
            query,
            order: match row_query.order {
                RowOrder::Newest => HitOrder::Newest,
                RowOrder::Best => HitOrder::Best,
            },
            project: self.project_key(row_query.project_filter),
            limit: row_query.limit,
            skip: row_query.offset,
            turns_per_session: 1,
            freshness: Freshness::AsIndexed,
        };
        let report = self.runtime.block_on(self.library().search(&request))?;
        let rows = report.hits.iter().map(|hit| PickerRow {
            snippet: hit
                .turns
                .first()
                .map(|turn| highlight_matches(&turn.snippet)),
            ..conversation_row(&hit.conversation)
        });
        let fetched = row_query.offset + report.hits.len();
        let total = if report.has_more {
            RowTotal::AtLeast(fetched)
        } else {
            RowTotal::Exact(fetched)
        };
        Ok((rows.collect(), total))
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
            && let Some(index) = self.library().index()
            && let Ok(Some(indexed)) = index.find_session(&provider, &id)
        {
            return Ok(Conversation::Native(Box::new(NativeEntry::from(indexed))));
        }
        let reference = row_ref(row)?;
        self.runtime
            .block_on(self.app.find_conversation(&reference))
    }

    /// Returns the last turns, and the decisions from reconciling the session with its native session.
    fn last_turns(
        &self,
        conversation: &Conversation,
    ) -> Result<(Vec<PreviewTurn>, Vec<Decision>), CliError> {
        match conversation {
            Conversation::Native(native) => {
                let library = self.library();
                let (turns, _) =
                    library.read_recent_native_turns(&native.session, PREVIEW_TURNS)?;
                let details = native.details.as_ref();
                let turn_count = details.map_or(0, |details| details.turns as usize);
                let earlier_turns = turn_count.saturating_sub(turns.len());
                let turns = turns.iter().enumerate();
                let turns = turns
                    .map(|(index, turn)| preview_turn(earlier_turns + index + 1, &turn.messages));
                Ok((turns.rev().collect(), Vec::new()))
            }
            Conversation::Session(session, _) => {
                let reconciler = self.app.engine.reconciler();
                let (transcript, decisions) = self.runtime.block_on(async {
                    let (session, decisions) =
                        reconciler.reconcile_if_idle((**session).clone()).await?;
                    let transcript = self.library().transcript(session).await?;
                    Ok::<_, EngineError>((transcript, decisions))
                })?;
                let turns = transcript.turns.iter().rev().take(PREVIEW_TURNS);
                let turns =
                    turns.map(|entry| preview_turn(entry.turn.number as usize, &entry.messages));
                Ok((turns.collect(), decisions))
            }
        }
    }

    /// Returns the session of a row. Adopts a native session and then also returns `true`.
    async fn find_or_adopt(&self, row: &PickerRow) -> Result<(Session, bool), CliError> {
        let (resolver, context) = (self.app.engine.resolver(), self.app.ref_context());
        let (session, adoption) = resolver.find_or_adopt(&row_ref(row)?, &context).await?;
        Ok((session, adoption.is_some()))
    }

    async fn change_tags(&self, row: &PickerRow, text: &str) -> Result<RowActionOutcome, CliError> {
        let change = parse_tag_change(text).map_err(|error| CliError::usage(error.to_string()))?;
        let (session, is_adopted) = self.find_or_adopt(row).await?;
        let sessions = self.app.engine.sessions();
        let session = sessions.change_tags(&session.id, change).await?;
        if is_adopted {
            self.refresh_index().await;
        }
        let tags: Vec<&str> = session.tags.iter().map(Tag::as_str).collect();
        let adoption_note = if is_adopted {
            "; adopted the native session"
        } else {
            ""
        };
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
        let library = self.library();
        let refresh = library.refresh_index(Library::INDEX_LOCK_TIMEOUT, Arc::new(|_| ()));
        let _ = refresh.await;
    }

    async fn archive(&self, row: &PickerRow) -> Result<RowActionOutcome, CliError> {
        let conversation = self.app.find_conversation(&row_ref(row)?).await?;
        let upkeep = self.app.engine.upkeep();
        let natives = upkeep.list_conversation_natives(&conversation).await?;
        if natives.is_empty() {
            return Err(CliError::failed(
                "cannot archive the session: segue cannot read the files of its agent",
            ));
        }
        let mut new_copies = 0;
        for native in &natives {
            let outcome = upkeep.archive_native(native).await?;
            new_copies += usize::from(!matches!(outcome, ArchiveOutcome::Unchanged(_)));
        }
        let message = match (new_copies, natives.first()) {
            (1.., Some(native)) => {
                // Copies are named by the native id, which is too long for the line.
                let id = native.head.id.as_str().chars();
                let id: String = id.take(SHORT_ID_CHARS).collect();
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
        let (session, _) = self.find_or_adopt(row).await?;
        // The fork uses the directory of its origin, unless that no longer exists.
        let project = if Path::new(&session.project.cwd).is_dir() {
            &session.project
        } else {
            &self.app.project
        };
        let sessions = self.app.engine.sessions();
        let fork_outcome = sessions.fork_session(&session, None, None, project).await?;
        self.refresh_index().await;
        let mut messages = vec![format!("forked as {}", fork_outcome.session.id)];
        let decisions = fork_outcome.decisions.iter();
        messages.extend(decisions.map(|decision| format_decision(decision, &ShellActions)));
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
        let providers = self.library().supported_providers();
        let mistake = SearchQuery::find_partial_error(&query.search_text, &parse_time)
            .map(|error| error.to_string());
        let unknown_provider = complete_providers(&mut search_query.providers, &providers);
        let page = if search_query == SearchQuery::default() {
            self.list_newest(query)
        } else {
            self.search(query, search_query)
        };
        let (rows, total) = page.map_err(format_error)?;
        Ok(RowPage {
            rows,
            total,
            ignored_part: mistake.or(unknown_provider),
        })
    }

    fn load_preview(&mut self, row: &PickerRow) -> Result<RowPreview, String> {
        let conversation = self.find_conversation(row).map_err(format_error)?;
        let (last_turns, decisions) = self.last_turns(&conversation).map_err(format_error)?;
        let mut details = conversation_details(&conversation);
        let decisions = decisions.iter();
        let decisions = decisions.map(|decision| format_decision(decision, &ShellActions));
        details.extend(decisions.map(|text| to_single_line(&text)));
        Ok(RowPreview {
            details,
            last_turns,
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
        let library = self.library();
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
                            progress(&format!("reading sessions: {} of {}", last.done, last.total));
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
            Some(RefreshOutcome::Completed(stats))
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
    let mut unknown_name = None;
    let mut completed = Vec::new();
    for prefix in names.drain(..) {
        let is_full_name = supported.contains(&prefix.as_str());
        let matching = supported
            .iter()
            .filter(|name| **name == prefix || !is_full_name && name.starts_with(&prefix));
        let count = completed.len();
        completed.extend(matching.map(ToString::to_string));
        if completed.len() == count {
            unknown_name.get_or_insert(prefix);
        }
    }
    *names = completed;
    unknown_name.map(|name| format!("unknown agent `{name}`"))
}

/// Formats an error and its first hint on one line.
fn format_error(error: CliError) -> String {
    match error.hints.first() {
        Some(hint) => format!("{}; {}", error.message, hint.format(&ShellActions)),
        None => error.message,
    }
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
