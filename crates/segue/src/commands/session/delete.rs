//! The commands `segue session delete` and `forget`.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

use segue_api::delete::{
    DeletedNative, DeletionMethod, DeletionResult, ForgottenSession, SparedNative,
};
use segue_api::text::format_skip_reason;
use segue_catalog::SessionArtifacts;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::SessionRef;
use segue_engine::{
    Conversation, DeleteMethod, DeleteMode, DeleteOutcome, DeletePlan, DeleteScope,
    PlannedDeletion, ResolveError, Upkeep, UpkeepError,
};

use super::list::session_title;
use crate::app::{self, App};
use crate::cli::{DeleteArgs, ForgetArgs};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::{conversation_json, path_json, print_json};
use crate::terminal::{
    eprint_decisions, eprint_line, eprint_note, format_plural, print_line, strip_control_chars,
    to_single_line,
};

pub(super) async fn run(app: &App, args: &DeleteArgs) -> Result<(), CliError> {
    if !args.dry_run {
        reject_list_number(&args.session.id)?;
    }
    let scope = if args.native {
        DeleteScope::Native
    } else {
        DeleteScope::Everything
    };
    let mode = if args.purge {
        DeleteMode::Purge
    } else {
        DeleteMode::Trash
    };
    let (resolver, upkeep) = (app.engine.resolver(), app.engine.upkeep());
    let (id, context) = (&args.session.id, app.ref_context());
    let conversation = match resolver.find_conversation(id, &context).await {
        // The session may exist only as a copy.
        Err(ResolveError::NoMatch(text)) if matches!(id, SessionRef::Text(_)) => {
            return delete_copies(upkeep, args, text).await;
        }
        lookup => lookup?,
    };
    let plan = upkeep.plan_delete(&conversation, scope, mode).await?;
    if args.dry_run {
        if args.session.json {
            print_json(&deletion_json(&conversation, &plan, None));
        } else {
            print_plan(&plan);
        }
        return Ok(());
    }
    let question = format_question(&conversation, &plan);
    if !confirm(
        args.yes || plan.is_empty(),
        &question,
        ("deleting", "deleted"),
    )? {
        return Ok(());
    }
    for planned in &plan.natives {
        if let Some(seconds) = planned.seconds_since_write {
            let id = planned.id();
            eprint_note(&format!(
                "{id} was last written {seconds} s ago; an agent that still uses it may write it again"
            ));
        }
    }
    let outcome = upkeep.delete_conversation(&plan).await?;
    eprint_decisions(&outcome.decisions, Frontend::Shell);
    if args.session.json {
        print_json(&deletion_json(&conversation, &plan, Some(&outcome)));
    } else {
        print_outcome(&conversation, &plan, &outcome);
    }
    Ok(())
}

/// Rejects a number from a list, because it may refer to another session in the next list.
fn reject_list_number(id: &SessionRef) -> Result<(), CliError> {
    let SessionRef::Number(number) = id else {
        return Ok(());
    };
    let error = CliError::usage(format!(
        "list number {number} is not accepted here: it may refer to another session by now"
    ));
    Err(error.with_hint("use the session ID or a unique prefix of it"))
}

/// Handles a session of which only copies in the archive or the trash exist.
async fn delete_copies(
    upkeep: &Upkeep,
    args: &DeleteArgs,
    reference: String,
) -> Result<(), CliError> {
    let copy = match upkeep.find_copy(&reference).await {
        Err(UpkeepError::NoCopy(_)) => return Err(ResolveError::NoMatch(reference).into()),
        lookup => lookup?,
    };
    let id = format!("{}:{}", copy.manifest.provider, copy.manifest.id);
    let path = copy.path.display();
    if !args.purge {
        let error = CliError::failed(format!("{id} is already deleted; a copy is in {path}"));
        return Err(error.with_hint(format!(
            "restore it with `segue session restore {id}`, or delete the copy with \
             `segue session delete --purge {id}`"
        )));
    }
    if args.dry_run {
        print_line(&format!(
            "Would permanently delete all copies of {id}; the newest is {path}."
        ));
        return Ok(());
    }
    let question = format!("Permanently delete all copies of {id}");
    if !confirm(args.yes, &question, ("deleting", "deleted"))? {
        return Ok(());
    }
    upkeep.purge_copies(&copy).await?;
    if args.session.json {
        print_json(&DeletionResult {
            deleted: id,
            native: Vec::new(),
            spared: Vec::new(),
            dry_run: false,
        });
    } else {
        print_line(&format!("Deleted all copies of {id}."));
    }
    Ok(())
}

fn conversation_title(conversation: &Conversation) -> String {
    to_single_line(session_title(&conversation_json(conversation)))
}

fn format_question(conversation: &Conversation, plan: &DeletePlan) -> String {
    let (id, title) = (conversation.id(), conversation_title(conversation));
    let ending = match plan.mode {
        DeleteMode::Purge => " permanently",
        DeleteMode::Trash if plan.has_no_copies() => " permanently, without a copy in the trash",
        DeleteMode::Trash => "",
    };
    let Some(session) = &plan.session else {
        return format!("Delete {id} ({title}){ending}");
    };
    // Other native sessions may go to the trash, but one of the rehearsal agent is always deleted permanently.
    let suffix = if plan.natives.is_empty() {
        ""
    } else {
        " (permanently)"
    };
    let planned_ids = plan.natives.iter().map(|planned| planned.id().to_string());
    let rehearsal_names = plan.rehearsal_files.iter();
    let rehearsal_names =
        rehearsal_names.map(|(id, _)| format!("{}{suffix}", rehearsal_session_name(id)));
    let natives: Vec<String> = planned_ids.chain(rehearsal_names).collect();
    let natives = natives.join(", ");
    let turns = format_plural(session.turns, "turn");
    match plan.scope {
        _ if natives.is_empty() => format!("Delete {id} ({title}, {turns}){ending}"),
        DeleteScope::Everything => format!("Delete {id} ({title}, {turns}) with {natives}{ending}"),
        DeleteScope::Native => format!("Delete {natives} of {id} ({title}){ending}"),
    }
}

/// Returns the name of a session of the rehearsal agent.
fn rehearsal_session_name(id: &NativeId) -> String {
    format!("{}:{id}", ProviderId::rehearsal())
}

fn describe_method(method: &DeleteMethod) -> String {
    match method {
        DeleteMethod::AgentCommand(command) => format!("with `{command}`"),
        DeleteMethod::Files => "by removing its files".to_owned(),
        DeleteMethod::ArchiveCopy => "from the archive, which has the only copy".to_owned(),
        DeleteMethod::NoProgram => "with its agent's program, which was not found".to_owned(),
    }
}

fn print_plan(plan: &DeletePlan) {
    if let (Some(session), DeleteScope::Everything) = (&plan.session, plan.scope) {
        let (id, title) = (&session.id, to_single_line(session.title.as_str()));
        let turns = format_plural(session.turns, "turn");
        print_line(&format!("Would delete {id} ({title}, {turns})."));
    }
    for planned in &plan.natives {
        let suffix = match (&plan.mode, &planned.method) {
            (DeleteMode::Trash, DeleteMethod::ArchiveCopy) => ", moving it to the trash",
            (DeleteMode::Trash, _) => ", after copying it to the trash",
            (DeleteMode::Purge, _) => ", permanently",
        };
        let files = list_own_files(planned);
        // An agent that stores sessions in a database has no files.
        let punctuation = if files.is_empty() { "." } else { ":" };
        print_line(&format!(
            "Would delete {} {}{suffix}{punctuation}",
            planned.id(),
            describe_method(&planned.method)
        ));
        for path in files {
            print_line(&format!("  {path}"));
        }
        if let Some(process) = &planned.process {
            let (pid, program) = (process.pid, strip_control_chars(&process.program));
            print_line(&format!("It is in use by process {pid} ({program})."));
        }
        if let Some(seconds) = planned.seconds_since_write {
            print_line(&format!("It was last written {seconds} s ago."));
        }
        if planned.is_archived && planned.method != DeleteMethod::ArchiveCopy {
            print_line(match plan.mode {
                DeleteMode::Trash => "The copy in the archive would remain.",
                DeleteMode::Purge => "The copy in the archive would be deleted too.",
            });
        }
    }
    for (id, path) in &plan.rehearsal_files {
        let name = rehearsal_session_name(id);
        print_line(&format!(
            "Would delete {name} by removing its file, permanently:"
        ));
        print_line(&format!("  {}", path.display()));
    }
    if plan.has_no_copies() && !plan.is_empty() {
        print_line("No copy would go to the trash, so it could not be restored.");
    }
    print_skipped(plan, "Would not delete");
}

fn list_own_files(planned: &PlannedDeletion) -> Vec<String> {
    let artifacts = planned.artifacts.iter();
    let paths = artifacts.flat_map(SessionArtifacts::own_files);
    paths.map(|path| path.display().to_string()).collect()
}

fn print_skipped(plan: &DeletePlan, action: &str) {
    for skipped in &plan.skipped {
        let (provider, id) = (&skipped.provider, &skipped.id);
        let reason = format_skip_reason(provider, &skipped.reason);
        print_line(&format!("{action} {provider}:{id}: {reason}."));
    }
}

fn print_outcome(conversation: &Conversation, plan: &DeletePlan, outcome: &DeleteOutcome) {
    let (id, title) = (conversation.id(), conversation_title(conversation));
    match plan.scope {
        DeleteScope::Native if plan.is_empty() => {
            print_line(&format!("{id} has no native session to delete."));
        }
        DeleteScope::Native if plan.session.is_some() => {
            print_line(&format!(
                "Deleted the native sessions of {id} ({title}); segue's record remains."
            ));
        }
        DeleteScope::Everything | DeleteScope::Native => {
            print_line(&format!("Deleted {id} ({title})."));
        }
    }
    for (native, _, copy) in &outcome.natives {
        if copy.is_some() {
            print_line(&format!(
                "{native} is in the trash; restore it with `segue session restore {native}`."
            ));
        } else if plan.session.is_some() {
            print_line(&format!("{native} was deleted permanently."));
        }
    }
    for planned in &plan.natives {
        if planned.is_archived
            && planned.method != DeleteMethod::ArchiveCopy
            && plan.mode == DeleteMode::Trash
        {
            let native = planned.id();
            print_line(&format!(
                "The copy of {native} in the archive remains listed; run the command again to delete it too."
            ));
        }
    }
    print_skipped(plan, "Did not delete");
}

/// Returns the JSON of a deletion. `outcome` is `None` if the deletion is only planned.
fn deletion_json(
    conversation: &Conversation,
    plan: &DeletePlan,
    outcome: Option<&DeleteOutcome>,
) -> DeletionResult {
    let planned = plan.natives.iter().enumerate().map(|(index, planned)| {
        let deleted = outcome.and_then(|outcome| outcome.natives.get(index));
        native_deletion_json(planned, deleted.and_then(|(_, _, copy)| copy.as_deref()))
    });
    // Sessions of the rehearsal agent never have a copy.
    let rehearsal_files = plan.rehearsal_files.iter();
    let rehearsal_sessions = rehearsal_files.map(|(id, path)| DeletedNative {
        provider: ProviderId::rehearsal(),
        native_session_id: id.clone(),
        by: DeletionMethod::Files,
        command: None,
        files: vec![path_json(path)],
        copy: None,
        in_use_by: None,
    });
    let skipped = plan.skipped.iter().map(|native| SparedNative {
        provider: native.provider.clone(),
        native_session_id: native.id.clone(),
        why: format_skip_reason(&native.provider, &native.reason),
        reason: native.reason.clone(),
    });
    DeletionResult {
        deleted: conversation.id().to_string(),
        native: planned.chain(rehearsal_sessions).collect(),
        spared: skipped.collect(),
        dry_run: outcome.is_none(),
    }
}

fn native_deletion_json(planned: &PlannedDeletion, copy: Option<&Path>) -> DeletedNative {
    let (method, command) = match &planned.method {
        DeleteMethod::AgentCommand(command) => (DeletionMethod::Agent, Some(command.clone())),
        DeleteMethod::Files => (DeletionMethod::Files, None),
        DeleteMethod::ArchiveCopy => (DeletionMethod::Archive, None),
        DeleteMethod::NoProgram => (DeletionMethod::Nobody, None),
    };
    DeletedNative {
        provider: planned.session.provider.clone(),
        native_session_id: planned.session.head.id.clone(),
        by: method,
        command,
        files: list_own_files(planned),
        copy: copy.map(path_json),
        in_use_by: planned.process.as_ref().map(|process| process.pid),
    }
}

/// Deletes only segue's record of a session.
pub(super) async fn forget_session(app: &App, args: &ForgetArgs) -> Result<(), CliError> {
    reject_list_number(&args.session.id)?;
    let session = app.find_session(&args.session.id).await?;
    let (id, title) = (&session.id, to_single_line(session.title.as_str()));
    let view = app.engine.library().session_view(session.clone()).await?;
    let native_ids = view.legs.iter().filter_map(|leg| leg.native_id.as_ref());
    let legs = view.legs.iter().filter(|leg| leg.native_id.is_some());
    let agents: BTreeSet<&ProviderId> = legs.map(|leg| &leg.provider).collect();
    let upkeep = app.engine.upkeep();
    // The native sessions of the other agents cannot be found without segue's record.
    let (listed, unlisted): (Vec<_>, Vec<_>) = agents
        .into_iter()
        .partition(|agent| upkeep.can_list_sessions(agent));
    let warning = if listed.is_empty() {
        " permanently, with no way to find it again in segue"
    } else {
        ""
    };
    let turns = format_plural(session.turns, "turn");
    let question = format!("Forget {id} ({title}, {turns}){warning}");
    if !confirm(args.yes, &question, ("forgetting", "forgotten"))? {
        return Ok(());
    }
    let decisions = app.engine.sessions().delete_session(&session).await?;
    eprint_decisions(&decisions, Frontend::Shell);
    // Copies that protected the native sessions of the session are deleted with it.
    let copies_dir = app::agent_files_dir(&app.home);
    for native in native_ids {
        if let Err(error) = segue_providers::remove_session_copies(&copies_dir, native) {
            eprint_line(&format!("segue: cannot remove a copy of {native}: {error}"));
        }
    }
    if args.session.json {
        let forgotten = id.clone();
        print_json(&ForgottenSession { forgotten });
        return Ok(());
    }
    print_line(&format!("Forgot {id} ({title})."));
    if !listed.is_empty() {
        print_line("Its native session remains, and segue now lists it separately.");
    }
    for agent in unlisted {
        print_line(&format!(
            "The native session of {agent} remains, but segue cannot list it."
        ));
    }
    Ok(())
}

/// Asks the user to confirm an action, unless `yes` is set. The action is worded as in `deleting` and `deleted`.
fn confirm(yes: bool, question: &str, (action, done): (&str, &str)) -> Result<bool, CliError> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "{action} needs confirmation, but standard input is not a terminal"
        ))
        .with_hint("use `--yes` to skip the confirmation"));
    }
    let _ = write!(std::io::stderr().lock(), "{question}? [y/N] ");
    let mut answer = String::new();
    let reading = std::io::stdin().lock().read_line(&mut answer);
    reading.map_err(|error| CliError::failed("cannot read the answer").with_cause(&error))?;
    let is_confirmed = matches!(answer.trim(), "y" | "Y" | "yes");
    if !is_confirmed {
        eprint_line(&format!("nothing was {done}"));
    }
    Ok(is_confirmed)
}
