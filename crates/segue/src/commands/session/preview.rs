//! `segue session preview`: the brief for a new native session.

use std::ops::ControlFlow;

use segue_api::brief::{PreviewedBrief, SectionSize};
use segue_core::number_format::format_count;
use segue_engine::{AccessError, BriefPreview};

use super::find_reconciled;
use super::stats::{draw_bar, has_unicode_locale};
use crate::app::App;
use crate::cli::PreviewArgs;
use crate::commands::chat::read_prompt;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{
    Style, eprint_line, format_plural, print_line, strip_control_chars, try_print_line,
};

/// Width of the bar for the complete budget.
const BUDGET_BAR_WIDTH: usize = 40;

pub(super) async fn run(app: &App, args: &PreviewArgs) -> Result<(), CliError> {
    let prompt = match args.prompt.as_deref() {
        None => String::new(),
        Some(text) => read_prompt(Some(text))?,
    };
    if let Some(provider) = &args.provider
        && !app.engine.library().is_supported_provider(provider)
    {
        let error = AccessError::UnknownProvider {
            provider: provider.clone(),
            available: app.engine.agents().providers().cloned().collect(),
        };
        return Err(error.into());
    }
    let conversation = find_reconciled(app, &args.session.id).await?;
    let (briefs, provider) = (app.engine.briefs(), args.provider.as_ref());
    let planning = briefs.preview_brief(&conversation, provider, &prompt);
    let preview = planning.await?;
    if args.session.json {
        print_json(&preview_json(&preview, prompt));
    } else {
        print_preview(&preview, &prompt);
    }
    Ok(())
}

fn preview_json(preview: &BriefPreview, prompt: String) -> PreviewedBrief {
    let brief = &preview.plan.brief;
    let sections = brief.sections.iter();
    PreviewedBrief {
        provider: preview.provider.clone(),
        system_prompt: brief.text.clone(),
        user_prompt: prompt,
        total_tokens: brief.total_tokens(),
        reported_tokens: preview.reported_tokens,
        budget: preview.budget,
        over_budget: excess_tokens(preview).is_some(),
        turns_left_out: brief.omitted_turns,
        messages_left_out: brief.omissions.omitted_messages,
        messages_shortened: brief.omissions.shortened_messages,
        bytes_shortened: brief.omissions.cut_bytes,
        sections: sections
            .map(|&(name, tokens)| SectionSize { name, tokens })
            .collect(),
    }
}

fn print_preview(preview: &BriefPreview, prompt: &str) {
    let brief = &preview.plan.brief;
    if brief.text.is_empty() {
        eprint_line("the brief is empty: the session has no messages yet");
    }
    for line in strip_control_chars(&brief.prepend_to(prompt)).lines() {
        if let ControlFlow::Break(()) = try_print_line(line) {
            return;
        }
    }
    let style = Style::stdout();
    let unicode = has_unicode_locale(|name| std::env::var(name).ok());
    let print_row = |name: &str, tokens: u64, bar: &str| {
        let name = style.dim(&format!("{name:<10}"));
        let line = format!("{name} {:>9}  {bar}", format_count(tokens));
        print_line(line.trim_end());
    };
    print_line("");
    let total = brief.total_tokens();
    let sections = brief.sections.iter();
    let sections = sections.map(|(name, tokens)| (name.as_str(), *tokens));
    for (name, tokens) in sections.chain([("total", total)]) {
        let largest = preview.budget.max(tokens);
        let bar = draw_bar(tokens, largest, BUDGET_BAR_WIDTH, unicode);
        print_row(name, tokens, &bar);
    }
    let full_bar = draw_bar(1, 1, BUDGET_BAR_WIDTH, unicode);
    print_row("budget", preview.budget, &style.dim(&full_bar));
    let provider = &preview.provider;
    let estimated = format_count(total);
    print_line(&match preview.reported_tokens {
        Some(tokens) => format!(
            "about {} tokens for {provider} ({estimated} by segue's tokenizer)",
            format_count(tokens)
        ),
        None => format!(
            "{estimated} tokens by segue's tokenizer; {provider} has not reported token counts yet"
        ),
    });
    for line in describe_omissions(preview) {
        print_line(&line);
    }
}

/// Returns the number of tokens above the budget. `None` if the brief fits.
fn excess_tokens(preview: &BriefPreview) -> Option<u64> {
    let tokens = preview.plan.brief.total_tokens();
    (tokens > preview.budget).then(|| tokens - preview.budget)
}

/// Lists what the brief omits, with the reasons.
fn describe_omissions(preview: &BriefPreview) -> Vec<String> {
    let brief = &preview.plan.brief;
    let omissions = &brief.omissions;
    let mut lines = Vec::new();
    if let Some(excess) = excess_tokens(preview) {
        let excess = format_plural(excess, "token");
        lines.push(format!(
            "over the budget by {excess}: the prompt is never shortened"
        ));
    }
    match brief.omitted_turns {
        0 => {}
        1 => lines.push("omitted turn 1: it does not fit into the budget".to_owned()),
        n => lines.push(format!(
            "omitted turns 1 to {n}: they do not fit into the budget"
        )),
    }
    if omissions.omitted_messages > 0 {
        let messages = format_plural(omissions.omitted_messages, "message");
        lines.push(format!(
            "omitted {messages} of a turn that does not fit into the budget"
        ));
    }
    if omissions.shortened_messages > 0 {
        let messages = format_plural(omissions.shortened_messages, "message");
        let bytes = format_plural(omissions.cut_bytes, "byte");
        lines.push(format!(
            "shortened {messages} by {bytes}: tool output of older turns, and messages that are too long"
        ));
    }
    lines
}
