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
use segue_core::session::{Leg, SessionRef};
use segue_engine::{
    Conversation, DeleteMethod, DeleteMode, DeleteOutcome, DeletePlan, DeleteScope,
    PlannedDeletion, ResolveError, UpkeepError,
};

use crate::app::{self, App};
use crate::cli::{DeleteArgs, ForgetArgs};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::{path_json, print_json};
use crate::terminal::{
    Style, eprint_decisions, eprint_line, format_plural, print_line, strip_control_chars,
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
    let lookup = app
        .engine
        .resolver()
        .find_conversation(&args.session.id, &app.ref_context())
        .await;
    let conversation = match (lookup, &args.session.id) {
        // The session may exist only as a copy.
        (Err(ResolveError::NoMatch(text)), SessionRef::Text(_)) => {
            return delete_copies(app, args, &text).await;
        }
        (lookup, _) => lookup?,
    };
    let plan = app
        .engine
        .upkeep()
        .plan_delete(&conversation, scope, mode)
        .await?;
    if args.dry_run {
        print_delete_plan(&conversation, &plan, args);
        return Ok(());
    }
    let skip_confirmation = args.yes || plan.is_empty();
    if !skip_confirmation && !ask_confirmation(&format_question(&conversation, &plan), "deleting")?
    {
        eprint_line("nothing was deleted");
        return Ok(());
    }
    for planned in &plan.natives {
        if let Some(seconds) = planned.seconds_since_write {
            let prefix = Style::stderr().yellow("segue:");
            let id = planned.id();
            eprint_line(&format!(
                "{prefix} {id} was last written {seconds} s ago; an agent that still uses it may write it again"
            ));
        }
    }
    let outcome = app.engine.upkeep().delete_conversation(&plan).await?;
    eprint_decisions(&outcome.decisions, Frontend::Shell);
    print_delete_outcome(&conversation, &plan, &outcome, args);
    Ok(())
}

/// Rejects a number from a list, because it may refer to another session in the next list.
fn reject_list_number(id: &SessionRef) -> Result<(), CliError> {
    match id {
        SessionRef::Number(number) => Err(CliError::usage(format!(
            "list number {number} is not accepted here: it may refer to another session by now"
        ))
        .with_hint("use the session ID or a unique prefix of it")),
        SessionRef::Latest | SessionRef::Feature(_) | SessionRef::Text(_) => Ok(()),
    }
}

/// Handles a session of which only copies in the archive or the trash exist.
async fn delete_copies(app: &App, args: &DeleteArgs, reference: &str) -> Result<(), CliError> {
    let copy = match app.engine.upkeep().find_copy(reference).await {
        Ok(copy) => copy,
        Err(UpkeepError::NoCopy(_)) => {
            return Err(ResolveError::NoMatch(reference.to_owned()).into());
        }
        Err(error) => return Err(error.into()),
    };
    let id = format!("{}:{}", copy.manifest.provider, copy.manifest.id);
    let path = copy.path.display();
    if !args.purge {
        return Err(
            CliError::failed(format!("{id} is already deleted; a copy is in {path}")).with_hint(
                format!(
                    "restore it with `segue session restore {id}`, or delete the copy with \
                 `segue session delete --purge {id}`"
                ),
            ),
        );
    }
    if args.dry_run {
        print_line(&format!(
            "Would permanently delete all copies of {id}; the newest is {path}."
        ));
        return Ok(());
    }
    if !args.yes
        && !ask_confirmation(
            &format!("Permanently delete all copies of {id}"),
            "deleting",
        )?
    {
        eprint_line("nothing was deleted");
        return Ok(());
    }
    app.engine.upkeep().purge_copies(&copy).await?;
    if args.session.json {
        print_json(&DeletionResult {
            deleted: id.clone(),
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
    match conversation {
        Conversation::Session(session, _) => strip_control_chars(session.title.as_str()),
        Conversation::Native(native) => to_single_line(&super::list::native_title(native)),
    }
}

fn format_question(conversation: &Conversation, plan: &DeletePlan) -> String {
    let id = conversation.id();
    let title = conversation_title(conversation);
    let turns = match conversation {
        Conversation::Session(session, _) => format!(", {}", format_turn_count(session.turns)),
        Conversation::Native(_) => String::new(),
    };
    let natives: Vec<String> = match conversation {
        Conversation::Session(..) => {
            let planned_ids = plan.natives.iter().map(|planned| planned.id().to_string());
            // Other native sessions may go to the trash, but this one is always deleted permanently.
            let suffix = if plan.natives.is_empty() {
                ""
            } else {
                " (permanently)"
            };
            let rehearsal_files = plan.rehearsal_files.iter();
            let rehearsal_names =
                rehearsal_files.map(|(id, _)| format!("{}{suffix}", rehearsal_session_name(id)));
            planned_ids.chain(rehearsal_names).collect()
        }
        Conversation::Native(_) => Vec::new(),
    };
    let ending = match plan.mode {
        DeleteMode::Purge => " permanently",
        DeleteMode::Trash if plan.has_no_copies() => " permanently, without a copy in the trash",
        DeleteMode::Trash => "",
    };
    let with_natives = match (plan.scope, natives.is_empty()) {
        (_, true) => String::new(),
        (DeleteScope::Everything, false) => format!(" with {}", natives.join(", ")),
        (DeleteScope::Native, false) => {
            return format!("Delete {} of {id} ({title}){ending}", natives.join(", "));
        }
    };
    format!("Delete {id} ({title}{turns}){with_natives}{ending}")
}

/// Returns the name of a session of the rehearsal agent.
fn rehearsal_session_name(id: &NativeId) -> String {
    format!("{}:{id}", ProviderId::rehearsal())
}

fn format_turn_count(count: u32) -> String {
    format_plural(count, "turn")
}

fn describe_method(method: &DeleteMethod) -> String {
    match method {
        DeleteMethod::AgentCommand(command) => format!("with `{command}`"),
        DeleteMethod::Files => "by removing its files".to_owned(),
        DeleteMethod::ArchiveCopy => "from the archive, which has the only copy".to_owned(),
        DeleteMethod::NoProgram => "with its agent's program, which was not found".to_owned(),
    }
}

/// Prints the planned deletion.
fn print_delete_plan(conversation: &Conversation, plan: &DeletePlan, args: &DeleteArgs) {
    if args.session.json {
        let natives = plan
            .natives
            .iter()
            .map(|planned| native_deletion_json(planned, None));
        print_json(&plan_json(conversation, plan, natives.collect(), true));
        return;
    }
    if let Some(session) = plan
        .session
        .as_ref()
        .filter(|_| plan.scope == DeleteScope::Everything)
    {
        let title = strip_control_chars(session.title.as_str());
        print_line(&format!(
            "Would delete {} ({title}, {}).",
            session.id,
            format_turn_count(session.turns)
        ));
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
            print_line(&format!(
                "It is in use by process {} ({}).",
                process.pid,
                strip_control_chars(&process.program)
            ));
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

fn print_delete_outcome(
    conversation: &Conversation,
    plan: &DeletePlan,
    outcome: &DeleteOutcome,
    args: &DeleteArgs,
) {
    if args.session.json {
        let natives = plan.natives.iter().zip(&outcome.natives);
        let natives =
            natives.map(|(planned, (_, _, copy))| native_deletion_json(planned, copy.as_deref()));
        print_json(&plan_json(conversation, plan, natives.collect(), false));
        return;
    }
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

/// Returns the JSON for a session of the rehearsal agent, which never has a copy.
fn rehearsal_json(id: &NativeId, path: &Path) -> DeletedNative {
    DeletedNative {
        provider: ProviderId::rehearsal(),
        native_session_id: id.clone(),
        by: DeletionMethod::Files,
        command: None,
        files: vec![path_json(path)],
        copy: None,
        in_use_by: None,
    }
}

fn plan_json(
    conversation: &Conversation,
    plan: &DeletePlan,
    mut natives: Vec<DeletedNative>,
    dry_run: bool,
) -> DeletionResult {
    let rehearsal_files = plan.rehearsal_files.iter();
    natives.extend(rehearsal_files.map(|(id, path)| rehearsal_json(id, path)));
    let skipped = plan.skipped.iter().map(|native| SparedNative {
        provider: native.provider.clone(),
        native_session_id: native.id.clone(),
        why: format_skip_reason(&native.provider, &native.reason),
        reason: native.reason.clone(),
    });
    DeletionResult {
        deleted: conversation.id().to_string(),
        native: natives,
        spared: skipped.collect(),
        dry_run,
    }
}

/// Deletes only segue's record of a session.
pub(super) async fn forget_session(app: &App, args: &ForgetArgs) -> Result<(), CliError> {
    reject_list_number(&args.session.id)?;
    let session = app.find_session(&args.session.id).await?;
    let (id, title) = (&session.id, strip_control_chars(session.title.as_str()));
    let legs = app
        .engine
        .library()
        .session_view(session.clone())
        .await?
        .legs;
    let remaining =
        RemainingNatives::from_legs(&legs, |agent| app.engine.upkeep().can_list_sessions(agent));
    let turns = format_turn_count(session.turns);
    let question = format!(
        "Forget {id} ({title}, {turns}){}",
        remaining.confirmation_warning()
    );
    if !args.yes && !ask_confirmation(&question, "forgetting")? {
        eprint_line("nothing was forgotten");
        return Ok(());
    }
    let decisions = app.engine.sessions().delete_session(&session).await?;
    eprint_decisions(&decisions, Frontend::Shell);
    // Copies that protected the native sessions of the session are deleted with it.
    let natives: Vec<_> = legs
        .iter()
        .filter_map(|leg| leg.native_id.as_ref())
        .collect();
    for native in &natives {
        if let Err(error) =
            segue_agents::remove_session_copies(&app::agent_files_dir(&app.home), native)
        {
            eprint_line(&format!("segue: cannot remove a copy of {native}: {error}"));
        }
    }
    if args.session.json {
        print_json(&ForgottenSession {
            forgotten: id.clone(),
        });
    } else {
        print_line(&format!("Forgot {id} ({title})."));
        remaining
            .result_lines()
            .iter()
            .for_each(|line| print_line(line));
    }
    Ok(())
}

/// Native sessions that remain after segue forgets a session.
#[derive(Debug, Default, PartialEq, Eq)]
struct RemainingNatives {
    /// Whether a native session remains that segue lists.
    has_listed_native: bool,
    /// Agents whose native sessions cannot be found without segue's record.
    unlisted_agents: BTreeSet<ProviderId>,
}

impl RemainingNatives {
    fn from_legs(legs: &[Leg], can_list: impl Fn(&ProviderId) -> bool) -> Self {
        let mut remaining = Self::default();
        for leg in legs.iter().filter(|leg| leg.native_id.is_some()) {
            if can_list(&leg.provider) {
                remaining.has_listed_native = true;
            } else {
                remaining.unlisted_agents.insert(leg.provider.clone());
            }
        }
        remaining
    }

    /// Returns the warning for the confirmation.
    fn confirmation_warning(&self) -> &'static str {
        if self.has_listed_native {
            ""
        } else {
            " permanently, with no way to find it again in segue"
        }
    }

    /// Returns the messages after the deletion.
    fn result_lines(&self) -> Vec<String> {
        let listed_line = "Its native session remains, and segue now lists it separately.";
        let mut lines: Vec<String> = self
            .has_listed_native
            .then(|| listed_line.to_owned())
            .into_iter()
            .collect();
        let unlisted_lines = self.unlisted_agents.iter().map(|agent| {
            format!("The native session of {agent} remains, but segue cannot list it.")
        });
        lines.extend(unlisted_lines);
        lines
    }
}

fn ask_confirmation(question: &str, action: &str) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "{action} needs confirmation, but standard input is not a terminal"
        ))
        .with_hint("use `--yes` to skip the confirmation"));
    }
    let _ = write!(std::io::stderr().lock(), "{question}? [y/N] ");
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CliError::failed("cannot read the answer").with_cause(&error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
