//! `segue session compact`: manual compaction.

use std::io::{IsTerminal, stderr};

use segue_api::checkpoint::{CompactionResult, SummariserReport};
use segue_api::text::{ActionText, ShellActions, format_decision};
use segue_core::checkpoint::{CompactionPlan, ItemKind, kind_heading};
use segue_core::hint::SuggestedAction;
use segue_core::session::{Session, format_replaced_turns};
use segue_engine::Summariser;

use super::{find_reconciled, require_session};
use crate::app::{self, App};
use crate::cli::{CompactArgs, SummariserArg};
use crate::config::ConfigFlags;
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::print_json;
use crate::terminal::{Style, eprint_decisions, eprint_line, format_plural, print_line};

pub(super) async fn run(
    app: &App,
    frontend: Frontend<'_>,
    args: &CompactArgs,
) -> Result<(), CliError> {
    if args.dry_run {
        return preview_compaction(app, frontend, args).await;
    }
    // A missing summariser is reported before any change.
    let summariser = resolve_summariser(app, args)?;
    let session = app.find_or_adopt(&args.id).await?;
    let outcome = app.engine.compactor().compact(&session).await?;
    eprint_decisions(&outcome.decisions, frontend);
    let summary = match &summariser {
        Some(summariser) => run_summariser(app, frontend, &session, summariser).await?,
        None => None,
    };
    let created = outcome.created.as_ref();
    let result = created.map(|(version, plan)| (Some(version.n), plan));
    print_compaction((args, frontend), &session, result, summary);
    Ok(())
}

/// Builds the summariser from the argument, else from the configuration. `None` if neither names one.
fn resolve_summariser(app: &App, args: &CompactArgs) -> Result<Option<Summariser>, CliError> {
    let config = app::load_config(&ConfigFlags::default())?.config;
    let name = match &args.summariser {
        Some(SummariserArg::None) => None,
        Some(SummariserArg::Agent(name)) => Some(name.clone()),
        None => config.summariser.clone(),
    };
    let selected = name.map(|name| app::build_summariser(&app.home, &config, &name));
    selected.transpose()
}

/// Runs the summariser. `None` if the checkpoint has nothing for it to read.
async fn run_summariser(
    app: &App,
    frontend: Frontend<'_>,
    session: &Session,
    summariser: &Summariser,
) -> Result<Option<SummariserReport>, CliError> {
    let compactor = app.engine.compactor();
    let provider = summariser.agent.provider().clone();
    if stderr().is_terminal() {
        eprint_line(&Style::stderr().dim(&format!("{provider} is refining the checkpoint …")));
    }
    let proposing = compactor.propose_summary(&session.id, summariser);
    let Some(proposal) = proposing.await? else {
        return Ok(None);
    };
    let outcome = compactor.apply_summary_proposal(proposal).await?;
    eprint_decisions(&outcome.decisions, frontend);
    let last_decision = outcome.decisions.last();
    let version = outcome.created.as_ref().map(|(version, _)| version);
    Ok(Some(SummariserReport {
        provider,
        version: version.map(|version| version.n),
        tokens: version.map(|version| version.tokens),
        told: last_decision.map_or_else(String::new, |decision| {
            format_decision(decision, &ShellActions)
        }),
    }))
}

/// Shows the result of a compaction without saving it.
async fn preview_compaction(
    app: &App,
    frontend: Frontend<'_>,
    args: &CompactArgs,
) -> Result<(), CliError> {
    let session = require_session(find_reconciled(app, &args.id).await?)?;
    let plan = match session.head {
        Some(head) => {
            let briefs = app.engine.briefs();
            let planning = briefs.plan_compaction(&session, head, &session.provider);
            planning.await?
        }
        None => None,
    };
    let result = plan.as_ref().map(|plan| (None, plan));
    print_compaction((args, frontend), &session, result, None);
    Ok(())
}

/// Prints the result or the preview of a compaction: the number of the new version, `None` for a preview, and the plan.
fn print_compaction(
    (args, frontend): (&CompactArgs, Frontend<'_>),
    session: &Session,
    result: Option<(Option<u32>, &CompactionPlan)>,
    summary: Option<SummariserReport>,
) {
    let plan = result.map(|(_, plan)| plan);
    if args.json {
        print_json(&CompactionResult {
            session_id: session.id.clone(),
            dry_run: args.dry_run,
            version: result.and_then(|(version, _)| version),
            covers: plan.map(|plan| plan.covers),
            turns: plan.map_or(0, |plan| plan.turns),
            tokens: plan.map(|plan| plan.tokens),
            replaced_tokens: plan.map(|plan| plan.replaced),
            room: plan.map(|plan| plan.max_tokens),
            items: plan.into_iter().flat_map(count_items).collect(),
            summary,
        });
        return;
    }
    let id = &session.id;
    let Some((version, plan)) = result else {
        let consequence = match summary.and_then(|summary| summary.version) {
            Some(_) => "; the next native session receives the summariser's additions",
            None => ", no changes made",
        };
        print_line(&format!(
            "{id}: no new turns since the last compaction{consequence}"
        ));
        return;
    };
    let replaced_turns = format_replaced_turns(plan.turns, plan.replaced, plan.covers > plan.turns);
    let tokens = format_plural(plan.tokens, "token");
    print_line(&match version {
        Some(n) => format!("{id}: compacted {replaced_turns} into checkpoint {n} ({tokens})"),
        None => format!("{id}: would compact {replaced_turns} into {tokens}"),
    });
    for (kind, count) in count_items(plan) {
        print_line(&format!("{count:>6}  {}", kind_heading(kind)));
    }
    if plan.tokens >= plan.replaced {
        print_line(
            "The checkpoint is not smaller than the turns that it replaces: there is little to compact yet.",
        );
    }
    let (lead, action) = match version {
        Some(_) => ("Show it", SuggestedAction::ShowCheckpoint(id.clone())),
        None => ("Compact it", SuggestedAction::Compact(id.clone())),
    };
    print_line(&format!("{lead} with: {}", frontend.format_action(&action)));
}

/// Returns the number of items of each kind.
fn count_items(plan: &CompactionPlan) -> Vec<(ItemKind, usize)> {
    let kinds = ItemKind::ALL.into_iter();
    let counts = kinds.map(|kind| (kind, plan.checkpoint.items_of_kind(kind).count()));
    counts.filter(|(_, count)| *count > 0).collect()
}
