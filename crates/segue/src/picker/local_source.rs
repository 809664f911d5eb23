//! Data source for this machine: queries the engine from a thread of the picker.

mod rows;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use jiff::Zoned;
use segue_catalog::Index;
use segue_catalog::index::OwnMark;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Decision, SessionRef, Tag};
use segue_core::time_input::parse_when;
use segue_engine::{
    Caught, Conversation, EngineError, Freshness, Native, Query, SearchRequest, Transcript,
};
use segue_store::Filter;
use tokio::runtime::Runtime;

use super::data_source::{
    Deed, Done, Exchange, Order, Page, Place, Preview, Question, Refreshed, Row, Shelf, Total,
    retag,
};
use crate::app::App;
use crate::error::CliError;
use crate::terminal::one_line;
use rows::{exchange, facts, marked, row};

/// Number of turns in a preview.
const TURNS: usize = 4;
/// Number of characters of a native id in a message, enough to distinguish ids that begin with a timestamp.
const SHORT: usize = 13;

/// The conversations of this machine.
pub(crate) struct Machine {
    app: App,
    runtime: Runtime,
    /// State after the last refresh.
    before: Option<Trace>,
}

/// State that shows whether the list changed, in addition to the numbers of a refresh, which do not include segue's own
/// sessions.
#[derive(Debug, PartialEq, Eq)]
struct Trace {
    /// Id and time of the conversation that was updated last.
    newest: String,
    /// Index entries of segue's own sessions.
    own: Vec<OwnMark>,
}

impl Machine {
    /// Opens the data source without printing problems, because the picker shows them.
    pub(crate) fn open() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let app = {
            let _inside = runtime.enter();
            App::open_quietly().map_err(in_words)?
        };
        Ok(Self {
            app,
            runtime,
            before: None,
        })
    }

    fn newest(&self, question: &Question) -> Result<Page, CliError> {
        let filter = Filter {
            project: self.project(question.place),
            ..Filter::default()
        };
        let end = question.from.saturating_add(question.limit);
        let limit = u32::try_from(end).unwrap_or(u32::MAX);
        let engine = &self.app.engine;
        let listed = engine.conversations(&filter, limit, Freshness::AsIndexed);
        let listed = self.runtime.block_on(listed)?;
        let known = listed.rows.len();
        let rows = listed.rows.iter().skip(question.from).map(row);
        Ok(Page {
            rows: rows.collect(),
            total: if listed.more {
                Total::AtLeast(known.max(self.about(question.place)))
            } else {
                Total::Exactly(known)
            },
            passed_over: None,
        })
    }

    /// Returns an estimate of the number of conversations, because some native sessions belong to sessions of segue.
    fn about(&self, place: Place) -> usize {
        let which = segue_catalog::index::Which {
            project: self.project(place),
            ..Default::default()
        };
        let count = self
            .app
            .engine
            .index()
            .and_then(|index| index.count(&which).ok());
        count
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(0)
    }

    fn trace(&self) -> Result<Trace, CliError> {
        let index = self.app.engine.index();
        let own = index.map(Index::own_marks).transpose();
        Ok(Trace {
            newest: self.touched_last()?,
            own: own.map_err(EngineError::from)?.unwrap_or_default(),
        })
    }

    fn touched_last(&self) -> Result<String, CliError> {
        let engine = &self.app.engine;
        let filter = Filter::default();
        let listed = engine.conversations(&filter, 1, Freshness::AsIndexed);
        let listed = self.runtime.block_on(listed)?;
        let newest = listed.rows.first().map(row);
        let newest = newest.map(|row| format!("{} {}", row.id, row.updated_at));
        Ok(newest.unwrap_or_default())
    }

    fn found(&self, question: &Question, query: Query) -> Result<Page, CliError> {
        let request = SearchRequest {
            query,
            order: match question.order {
                Order::Newest => segue_engine::Order::Newest,
                Order::Best => segue_engine::Order::Best,
            },
            project: self.project(question.place),
            limit: question.limit,
            skip: question.from,
            each: 1,
            freshness: Freshness::AsIndexed,
        };
        let report = self.runtime.block_on(self.app.engine.search(&request))?;
        let rows = report.found.iter().map(|found| {
            let hit = found.turns.first().map(|turn| marked(&turn.snippet));
            Row {
                hit,
                ..row(&found.conversation)
            }
        });
        let rows: Vec<Row> = rows.collect();
        let known = question.from + rows.len();
        Ok(Page {
            rows,
            total: if report.more {
                Total::AtLeast(known)
            } else {
                Total::Exactly(known)
            },
            passed_over: None,
        })
    }

    fn project(&self, place: Place) -> Option<String> {
        match place {
            Place::Here => Some(self.app.project.key.clone()),
            Place::Everywhere => None,
        }
    }

    fn find(&self, row: &Row) -> Result<Conversation, CliError> {
        // The index is faster than the files and has more details.
        if let Some((provider, id)) = row.id.split_once(':')
            && let (Ok(provider), Ok(id)) = (ProviderId::parse(provider), NativeId::parse(id))
            && let Some(index) = self.app.engine.index()
            && let Ok(Some(known)) = index.row(&provider, &id)
        {
            return Ok(Conversation::Native(Box::new(Native::from(known))));
        }
        let reference = reference(row)?;
        self.runtime.block_on(self.app.find_any(&reference))
    }

    /// Returns the last turns, and the decisions from reconciling the session with its native session.
    fn last_turns(
        &self,
        conversation: &Conversation,
    ) -> Result<(Vec<Exchange>, Vec<Decision>), CliError> {
        match conversation {
            Conversation::Native(native) => {
                let (turns, _) = self.app.engine.recent(&native.session, TURNS)?;
                let known = native
                    .known
                    .as_ref()
                    .map_or(0, |known| known.turns as usize);
                let before = known.saturating_sub(turns.len());
                let turns = turns.iter().enumerate();
                let turns = turns.map(|(at, turn)| exchange(before + at + 1, &turn.messages));
                Ok((turns.rev().collect(), Vec::new()))
            }
            Conversation::Session(session, _) => {
                let engine = &self.app.engine;
                let (transcript, told): (Transcript, _) = self.runtime.block_on(async {
                    let (session, told) = engine.refreshed((**session).clone()).await?;
                    Ok::<_, EngineError>((engine.transcript(session).await?, told))
                })?;
                let turns = transcript.turns.iter().rev().take(TURNS);
                let turns = turns.map(|entry| exchange(entry.turn.n as usize, &entry.messages));
                Ok((turns.collect(), told))
            }
        }
    }

    async fn tag(&self, row: &Row, text: &str) -> Result<Done, CliError> {
        let retag = retag(text).map_err(|error| CliError::usage(error.to_string()))?;
        let standpoint = self.app.standpoint();
        let (session, taken) = self.app.engine.take(&reference(row)?, &standpoint).await?;
        let session = self.app.engine.retag(&session.id, retag).await?;
        if taken.is_some() {
            self.index().await;
        }
        let tags: Vec<&str> = session.tags.iter().map(Tag::as_str).collect();
        let taken = taken
            .map(|_| "; segue has taken it over")
            .unwrap_or_default();
        Ok(Done {
            said: match tags.as_slice() {
                [] => format!("no tags any more: {}{taken}", session.id),
                tags => format!("tagged {}: {}{taken}", tags.join(" "), session.id),
            },
            id: session.id.to_string(),
            fork: None,
        })
    }

    /// Updates the index, so that searches find a newly adopted session instead of its native session.
    async fn index(&self) {
        // If this fails, the next refresh updates the index.
        let _ = self.app.engine.refresh(Arc::new(|_| ())).await;
    }

    async fn archive(&self, row: &Row) -> Result<Done, CliError> {
        let conversation = self.app.find_any(&reference(row)?).await?;
        let natives = self.app.engine.natives_of(&conversation).await?;
        if natives.is_empty() {
            return Err(CliError::failed(
                "no agent keeps a copy of it that could be archived",
            ));
        }
        let mut new = 0;
        for native in &natives {
            let saved = self.app.engine.archive(native).await?;
            new += usize::from(!matches!(saved, segue_catalog::Saved::Already(_)));
        }
        let said = match (new, natives.first()) {
            (1.., Some(native)) => {
                // Copies are named by the native id, which is too long for the line.
                let id: String = native.head.id.as_str().chars().take(SHORT).collect();
                format!("archived; `segue session restore {id}` puts it back")
            }
            _ => "it was in the archive as it is".to_owned(),
        };
        Ok(Done {
            said,
            id: row.id.clone(),
            fork: None,
        })
    }

    async fn fork(&self, row: &Row) -> Result<Done, CliError> {
        let standpoint = self.app.standpoint();
        let (session, _) = self.app.engine.take(&reference(row)?, &standpoint).await?;
        // The fork uses the directory of its origin, unless that no longer exists.
        let project = if Path::new(&session.project.cwd).is_dir() {
            &session.project
        } else {
            &self.app.project
        };
        let forked = self.app.engine.fork(&session, None, project).await?;
        self.index().await;
        let told = forked.decisions.into_iter().map(|told| told.text);
        let mut said = vec![format!("forked as {}", forked.session.id)];
        said.extend(told);
        Ok(Done {
            said: said.join("; "),
            id: session.id.to_string(),
            fork: Some(forked.session.id.to_string()),
        })
    }
}

impl Shelf for Machine {
    fn look(&mut self, question: &Question) -> Result<Page, String> {
        let when = |text: &str| parse_when(text, &Zoned::now()).map_err(|error| error.to_string());
        let mut query = Query::typed(&question.typed, &when);
        let known = self.app.engine.known_providers();
        let mistake = Query::mistake(&question.typed, &when).map(|error| error.to_string());
        let nobody = complete(&mut query.providers, &known);
        let page = if query == Query::default() {
            self.newest(question)
        } else {
            self.found(question, query)
        };
        Ok(Page {
            passed_over: mistake.or(nobody),
            ..page.map_err(in_words)?
        })
    }

    fn preview(&mut self, row: &Row) -> Result<Preview, String> {
        let conversation = self.find(row).map_err(in_words)?;
        let (turns, told) = self.last_turns(&conversation).map_err(in_words)?;
        let mut facts = facts(&conversation);
        facts.extend(told.iter().map(|decision| one_line(&decision.text)));
        Ok(Preview {
            facts,
            hit: row.hit.clone(),
            turns,
        })
    }

    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<Refreshed, String> {
        let before = match self.before.take() {
            Some(before) => before,
            None => self.trace().map_err(in_words)?,
        };
        let (sender, told) = mpsc::channel();
        let tell = Arc::new(move |step| {
            let _ = sender.send(step);
        });
        let refresh = self.app.engine.refresh(tell);
        // Other threads read the files and report their progress.
        let caught = self.runtime.block_on(async {
            tokio::pin!(refresh);
            let mut often = tokio::time::interval(std::time::Duration::from_millis(100));
            loop {
                tokio::select! {
                    caught = &mut refresh => return caught,
                    _ = often.tick() => {
                        if let Some(last) = told.try_iter().last() {
                            let segue_catalog::index::Progress { done, all } = last;
                            progress(&format!("reading sessions: {done} of {all}"));
                        }
                    }
                }
            }
        });
        let caught = caught.map_err(|error| in_words(error.into()))?;
        let after = self.before.insert(self.trace().map_err(in_words)?);
        Ok(match caught {
            Some(Caught::Up(work)) if work.read == 0 && work.gone == 0 && before == *after => {
                Refreshed::Nothing
            }
            _ => Refreshed::Changed,
        })
    }

    fn act(&mut self, row: &Row, deed: &Deed) -> Result<Done, String> {
        let done = self.runtime.block_on(async {
            match deed {
                Deed::Tag(text) => self.tag(row, text).await,
                Deed::Archive => self.archive(row).await,
                Deed::Fork => self.fork(row).await,
            }
        });
        done.map_err(in_words)
    }
}

/// Completes partially typed agents to all agents with this prefix. Ignores an unknown agent and returns a message
/// about it.
fn complete(typed: &mut Vec<String>, known: &[&str]) -> Option<String> {
    let fits_nobody = |begun: &&String| !known.iter().any(|name| name.starts_with(begun.as_str()));
    let nobody = typed.iter().find(fits_nobody);
    let told = nobody.map(|name| format!("nobody here is called {name}"));
    let meant = typed.iter().flat_map(|begun| {
        let whole = known.contains(&begun.as_str());
        let fits = move |name: &&&str| {
            if whole {
                **name == begun
            } else {
                name.starts_with(begun)
            }
        };
        known.iter().filter(fits).map(ToString::to_string)
    });
    *typed = meant.collect();
    told
}

/// Formats an error and its first hint on one line.
fn in_words(error: CliError) -> String {
    let mut words = error.message;
    if let Some(hint) = error.hints.first() {
        words.push_str("; ");
        words.push_str(&hint.to_string());
    }
    words
}

/// Returns the reference for a row, which every command accepts.
pub(crate) fn reference(row: &Row) -> Result<SessionRef, CliError> {
    SessionRef::parse(&row.id).map_err(|error| CliError::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_typed_agent_is_all_that_begin_so() {
        let known = ["acp:codex", "claude", "codex", "codex-acp"];
        let cases: [(&[&str], &[&str], Option<&str>); 5] = [
            (&["cod"], &["codex", "codex-acp"], None),
            (&["codex"], &["codex"], None),
            (&["codex", "cl"], &["codex", "claude"], None),
            (&["nemo"], &[], Some("nobody here is called nemo")),
            (&[], &[], None),
        ];
        for (typed, expected, told) in cases {
            let mut names: Vec<String> = typed.iter().map(ToString::to_string).collect();
            assert_eq!(complete(&mut names, &known).as_deref(), told, "{typed:?}");
            assert_eq!(names, expected, "{typed:?}");
        }
    }
}
