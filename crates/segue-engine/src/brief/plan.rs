//! Plans of briefs: the sources are loaded, and a pure function composes the brief from them. A preview shows the plan
//! that a new native session would receive.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use segue_catalog::{Catalog, NativeSession, ReadError};
use segue_core::brief::{
    ActiveCheckpoint, Brief, BriefPlan, BriefSources, BriefTurn, Calibration, CalibrationSample,
    budget_for_window, calibrate, min_brief_tokens, needs_compaction, plan_brief,
    prompt_with_added_messages,
};
use segue_core::id::{ProviderId, TurnId};
use segue_core::scope::Purpose;
use segue_core::session::{Decision, Message, Role, Session, Turn, TurnState, unsent_added_turns};
use segue_store::{StoreError, StoredTurn, TokenCount};

use super::BriefPlanner;
use super::project_context::ContextUse;
use crate::context::run_blocking;
use crate::native::{read_native_outline, read_native_turns};
use crate::resolve::adopt::split_brief_from_prompt;
use crate::turn::message_chunks::merge_chunks;
use crate::{Conversation, PlanError, token_count};

/// Number of an agent's newest turns that serve as samples for its calibration.
const CALIBRATION_SAMPLE_TURNS: u32 = 60;

/// The brief that a new native session would receive now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BriefPreview {
    /// Agent that would receive the brief.
    pub provider: ProviderId,
    /// The planned brief.
    pub plan: BriefPlan,
    /// Maximum number of tokens of the brief and the prompt together.
    pub budget: u64,
    /// Size of the request by the agent's own count. `None` if there is no calibration yet.
    pub reported_tokens: Option<u64>,
}

/// Input for the brief of a session.
pub(crate) struct BriefRequest<'a> {
    pub(crate) session: &'a Session,
    pub(crate) provider: &'a ProviderId,
    pub(crate) prompt: &'a str,
    /// Last turn before the prompt; `None` if the prompt is the first one.
    pub(crate) head: Option<TurnId>,
    /// Whether the agent can use segue's own tools to look up messages.
    pub(crate) has_tools: bool,
    pub(crate) context_use: ContextUse,
}

impl BriefPlanner {
    /// Plans the brief of a session. Returns it with the decisions about its content.
    pub(crate) async fn plan_session_brief(
        &self,
        request: BriefRequest<'_>,
    ) -> Result<(BriefPlan, Vec<Decision>), PlanError> {
        let session = request.session;
        let gathered = self.gather_preamble(session, request.context_use).await?;
        let purpose = session.purpose.as_ref();
        let heading = purpose.and_then(|purpose| match request.head {
            None => purpose.heading_for_prompt(request.prompt),
            Some(_) => purpose.heading(),
        });
        if request.head.is_none() && gathered.is_none() {
            // There is nothing to select from, so the turn need not wait for the tokenizer's vocabulary.
            let plan = BriefPlan {
                brief: Brief::from_heading(heading.as_deref()),
                compaction: None,
                reduced_items: None,
            };
            return Ok((plan, Vec::new()));
        }
        let (preamble, mut decisions) = gathered.unwrap_or_default();
        let budget = self.provider_budget(request.provider).await?;
        // Role and project context are never cut. The conversation gets the remainder of the budget.
        let (preamble, conversation_budget) = run_blocking(move || {
            let remaining = preamble.conversation_budget(budget, &segue_tokens::count);
            (preamble, remaining)
        })
        .await;
        let conversation_budget = conversation_budget?;
        let mut sources = BriefSources {
            heading,
            preamble,
            lookup_session_id: self.lookup_id(request.has_tools, session.id.as_str()),
            prompt: request.prompt.to_owned(),
            ..BriefSources::default()
        };
        if let Some(head) = request.head {
            let recent = self.context.store.recent_turns(head, conversation_budget);
            sources.turns = self.load_brief_turns(recent.await?).await;
            let active = self.context.store.checkpoint_at(&session.id, head).await?;
            sources.checkpoint = active.map(ActiveCheckpoint::from);
            let checkpoint = sources.checkpoint.as_ref();
            if needs_compaction(&sources.turns, checkpoint, conversation_budget) {
                let compaction = self.plan_compaction(session, head, request.provider);
                sources.compaction = compaction.await?;
            }
        }
        let plan = run_blocking(move || plan_brief(sources, budget, &segue_tokens::count)).await?;
        let reduced = plan.reduced_items;
        decisions.extend(
            reduced.map(|(included, total)| Decision::CheckpointReduced {
                included: included as u64,
                total: total as u64,
            }),
        );
        Ok((plan, decisions))
    }

    /// Plans the brief that a new native session of `provider` would receive now. Starts no agent. Changes nothing
    /// except that it saves missing token counts.
    pub async fn preview_brief(
        &self,
        conversation: &Conversation,
        provider: Option<&ProviderId>,
        prompt: &str,
    ) -> Result<BriefPreview, PlanError> {
        let default_provider = match conversation {
            Conversation::Session(session, _) => &session.provider,
            Conversation::Native(native) => &native.session.provider,
        };
        let provider = provider.unwrap_or(default_provider).clone();
        let agent = self.context.agents.get(&provider);
        let has_tools = agent.is_ok_and(|agent| agent.accepts_mcp_servers());
        let (budget, calibration) = self.brief_limits(&provider).await?;
        let plan = match conversation {
            Conversation::Session(session, _) => {
                let request = BriefRequest {
                    session,
                    provider: &provider,
                    prompt,
                    head: session.head,
                    has_tools,
                    context_use: ContextUse::Preview,
                };
                self.plan_session_brief(request).await?.0
            }
            Conversation::Native(native) => {
                let native = native.session.clone();
                let read = move |catalog: &Catalog| read_native_sources(catalog, &native, budget);
                let sources = BriefSources {
                    lookup_session_id: self.lookup_id(has_tools, &conversation.id().to_string()),
                    prompt: prompt.to_owned(),
                    ..self.context.natives.with_catalog(read).await?
                };
                run_blocking(move || plan_brief(sources, budget, &segue_tokens::count)).await?
            }
        };
        let to_reported =
            |calibration: Calibration| calibration.to_reported(plan.brief.total_tokens());
        Ok(BriefPreview {
            provider,
            reported_tokens: calibration.map(to_reported),
            plan,
            budget,
        })
    }

    /// Returns the prompt for a resumed native session, preceded by the added messages in `earlier_turns` that the
    /// native session has not received. `None` if there are no such messages.
    pub(crate) async fn prompt_with_added(
        &self,
        earlier_turns: &[Turn],
        prompt: &str,
    ) -> Result<Option<String>, StoreError> {
        let mut added_turns = Vec::new();
        for turn in unsent_added_turns(earlier_turns) {
            added_turns.push(BriefTurn {
                n: turn.number,
                messages: merge_chunks(self.context.store.messages(turn.id).await?),
            });
        }
        if added_turns.is_empty() {
            return Ok(None);
        }
        let (prompt, budget) = (prompt.to_owned(), self.context.settings.budget);
        let with_added = run_blocking(move || {
            prompt_with_added_messages(&added_turns, &prompt, budget, &segue_tokens::count)
        });
        Ok(Some(with_added.await))
    }

    /// Returns the id with which the agent looks up omitted text. `None` if it has no tools of segue.
    fn lookup_id(&self, has_tools: bool, id: &str) -> Option<String> {
        let has_server = self.context.settings.tools.segue_server.is_some();
        (has_tools && has_server).then(|| id.to_owned())
    }

    /// Returns the maximum number of tokens of a brief and its prompt for an agent.
    pub(crate) async fn provider_budget(&self, provider: &ProviderId) -> Result<u64, StoreError> {
        Ok(self.brief_limits(provider).await?.0)
    }

    /// Returns the budget and the calibration of an agent.
    async fn brief_limits(
        &self,
        provider: &ProviderId,
    ) -> Result<(u64, Option<Calibration>), StoreError> {
        let store = &self.context.store;
        let measuring = store.context_measurements(provider, CALIBRATION_SAMPLE_TURNS);
        let measured = measuring.await?;
        let window = measured.iter().find_map(|turn| turn.context_window);
        let samples: Vec<CalibrationSample> = measured
            .iter()
            .map(|turn| CalibrationSample {
                estimate: turn.estimated_tokens,
                reported: turn.context_tokens,
            })
            .collect();
        let calibration = calibrate(&samples);
        let budget = budget_for_window(self.context.settings.budget, window, calibration);
        Ok((budget, calibration))
    }

    /// Converts turns for a brief. The input is newest first and the output oldest first. Counts tokens where a count
    /// is missing.
    pub(crate) async fn load_brief_turns(
        &self,
        mut stored_turns: Vec<StoredTurn>,
    ) -> Vec<BriefTurn> {
        if stored_turns.iter().all(is_counted) {
            return stored_turns.into_iter().rev().map(to_brief_turn).collect();
        }
        let (turns, counts) = run_blocking(move || {
            let counts = count_missing_tokens(&mut stored_turns);
            let turns = stored_turns.into_iter().rev().map(to_brief_turn);
            (turns.collect(), counts)
        })
        .await;
        // If the counts cannot be saved, they serve for this brief only.
        let _ = self.context.store.fill_token_counts(counts).await;
        turns
    }
}

/// Returns `true` if a turn can be converted for a brief without counting tokens.
fn is_counted(stored: &StoredTurn) -> bool {
    let mut messages = stored.messages.iter();
    messages.all(|message| message.tokens.is_some()) && unfinished_turn_note(stored.state).is_none()
}

/// Counts the messages without a token count. Returns the counts to save.
fn count_missing_tokens(stored_turns: &mut [StoredTurn]) -> Vec<TokenCount> {
    let mut counts = Vec::new();
    for stored in stored_turns {
        for (seq, message) in (0..).zip(&mut stored.messages) {
            if message.tokens.is_none() {
                counts.push(TokenCount {
                    turn: stored.turn,
                    seq,
                    tokens: token_count::count_message_tokens(message),
                });
            }
        }
    }
    counts
}

fn to_brief_turn(stored: StoredTurn) -> BriefTurn {
    let mut messages = merge_chunks(stored.messages);
    let at = messages.last().map(|last| last.at);
    if let (Some(note), Some(at)) = (unfinished_turn_note(stored.state), at) {
        let mut end_message = Message::from_text(Role::System, note, at);
        token_count::count_message_tokens(&mut end_message);
        messages.push(end_message);
    }
    BriefTurn {
        n: stored.number,
        messages,
    }
}

/// Returns a note about a turn that did not finish. Without it, the prompt would appear to be unanswered.
fn unfinished_turn_note(state: TurnState) -> Option<&'static str> {
    match state {
        TurnState::Finished | TurnState::Running => None,
        TurnState::Cancelled => Some("The user stopped this turn."),
        TurnState::Failed => Some("This turn failed."),
        TurnState::Interrupted => Some("This turn was interrupted."),
    }
}

/// Reads the newest turns of a native session and the purpose in its prompt header, as they would be after an adoption.
fn read_native_sources(
    catalog: &Catalog,
    native: &NativeSession,
    budget: u64,
) -> Result<BriefSources, ReadError> {
    let mut purpose: Option<Purpose> = None;
    let outline = read_native_outline(catalog, native)?;
    let mut turns: VecDeque<(BriefTurn, u64)> = VecDeque::new();
    let mut needed = 0;
    read_native_turns(catalog, native, &outline, 0, &mut |index, mut turn| {
        if index == 0 {
            purpose = split_brief_from_prompt(&mut turn);
        }
        let mut min_tokens = 0;
        for message in &mut turn.messages {
            token_count::count_message_tokens(message);
            min_tokens += min_brief_tokens(message, budget);
        }
        needed += min_tokens;
        let brief_turn = BriefTurn {
            n: u32::try_from(index + 1).unwrap_or(u32::MAX),
            messages: turn.messages,
        };
        turns.push_back((brief_turn, min_tokens));
        while let Some((_, oldest)) = turns.front()
            && needed - oldest > budget
        {
            needed -= oldest;
            turns.pop_front();
        }
        ControlFlow::Continue(())
    })?;
    Ok(BriefSources {
        heading: purpose.and_then(|purpose| purpose.heading()),
        turns: turns.into_iter().map(|(turn, _)| turn).collect(),
        ..BriefSources::default()
    })
}
