//! The commands `segue session delete` and `forget`.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

use segue_catalog::Belongings;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Leg, SessionRef};
use segue_engine::{Conversation, DeletePlan, Deleted, Doomed, EngineError, Extent, Fate, Means};
use serde_json::{Value, json};

use crate::app::{self, App};
use crate::cli::{DeleteArgs, ForgetArgs};
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Style, clean, one_line, print, say, say_decision};

pub(super) async fn run(app: &App, args: &DeleteArgs) -> Result<(), CliError> {
    if !args.dry_run {
        by_name(&args.one.id)?;
    }
    let extent = if args.native {
        Extent::Native
    } else {
        Extent::Everything
    };
    let fate = if args.purge { Fate::Purge } else { Fate::Trash };
    let found = app.engine.find_any(&args.one.id, &app.standpoint()).await;
    let conversation = match (found, &args.one.id) {
        // The session may exist only as a copy.
        (Err(EngineError::NoMatch(text)), SessionRef::Text(_)) => {
            return only_copies(app, args, &text);
        }
        (found, _) => found?,
    };
    let plan = app.engine.plan_delete(&conversation, extent, fate).await?;
    if args.dry_run {
        tell_plan(&conversation, &plan, args);
        return Ok(());
    }
    let sure = args.yes || plan.is_empty();
    if !sure && !confirmed(&question(&conversation, &plan), "deleting")? {
        say("nothing was deleted");
        return Ok(());
    }
    for doomed in &plan.natives {
        if let Some(seconds) = doomed.fresh {
            let mark = Style::stderr().yellow("segue:");
            let id = doomed.id();
            say(&format!(
                "{mark} {id} was written to {seconds} s ago; an agent that is still at work in it would write on"
            ));
        }
    }
    let deleted = app.engine.delete_conversation(&plan).await?;
    deleted.decisions.iter().for_each(say_decision);
    tell_deleted(&conversation, &plan, &deleted, args);
    Ok(())
}

/// Rejects a number from a list, because it may refer to another session in the next list.
fn by_name(id: &SessionRef) -> Result<(), CliError> {
    match id {
        SessionRef::Number(number) => Err(CliError::usage(format!(
            "to delete a session, name it: {number} may mean another one in the next list"
        ))
        .hint("use its id, or the beginning of it")),
        SessionRef::Latest | SessionRef::Feature(_) | SessionRef::Text(_) => Ok(()),
    }
}

/// Handles a session of which only copies in the archive or the trash exist.
fn only_copies(app: &App, args: &DeleteArgs, text: &str) -> Result<(), CliError> {
    let copy = match app.engine.find_copy(text) {
        Ok(copy) => copy,
        Err(EngineError::NoCopy(_)) => return Err(EngineError::NoMatch(text.to_owned()).into()),
        Err(error) => return Err(error.into()),
    };
    let id = format!("{}:{}", copy.manifest.provider, copy.manifest.id);
    let place = copy.path.display();
    if !args.purge {
        return Err(CliError::failed(format!("{id} is deleted already; a copy is in {place}"))
            .hint(format!(
                "`segue session restore {id}` brings it back; `segue session delete --purge {id}` removes the copy"
            )));
    }
    if args.dry_run {
        print(&format!("Would remove what is kept of {id} in {place}."));
        return Ok(());
    }
    if !args.yes && !confirmed(&format!("Remove what is kept of {id} for good"), "deleting")? {
        say("nothing was deleted");
        return Ok(());
    }
    app.engine.purge_copies(&copy)?;
    if args.one.json {
        print_json(&json!({ "deleted": id, "native": [], "spared": [], "dry_run": false }));
    } else {
        print(&format!("Removed what was kept of {id}."));
    }
    Ok(())
}

fn title(conversation: &Conversation) -> String {
    match conversation {
        Conversation::Session(session, _) => clean(session.title.as_str()),
        Conversation::Native(native) => one_line(&super::list::title(native)),
    }
}

fn question(conversation: &Conversation, plan: &DeletePlan) -> String {
    let id = conversation.id();
    let title = title(conversation);
    let turns = match conversation {
        Conversation::Session(session, _) => format!(", {}", turns(session.turns)),
        Conversation::Native(_) => String::new(),
    };
    let natives: Vec<String> = match conversation {
        Conversation::Session(..) => {
            let doomed = plan.natives.iter().map(|doomed| doomed.id().to_string());
            // Other native sessions may go to the trash, but this one is always deleted permanently.
            let alone = if plan.natives.is_empty() {
                ""
            } else {
                " (for good)"
            };
            let rehearsed = plan.rehearsed.iter();
            let rehearsed = rehearsed.map(|(id, _)| format!("{}{alone}", rehearsed_name(id)));
            doomed.chain(rehearsed).collect()
        }
        Conversation::Native(_) => Vec::new(),
    };
    let fate = match plan.fate {
        Fate::Purge => " for good",
        Fate::Trash if plan.keeps_nothing() => " for good: nothing of it goes to the trash",
        Fate::Trash => "",
    };
    let with = match (plan.extent, natives.is_empty()) {
        (_, true) => String::new(),
        (Extent::Everything, false) => format!(" with {}", natives.join(", ")),
        (Extent::Native, false) => {
            return format!("Delete {} of {id} ({title}){fate}", natives.join(", "));
        }
    };
    format!("Delete {id} ({title}{turns}){with}{fate}")
}

/// Returns the name of a session of the rehearsal agent.
fn rehearsed_name(id: &NativeId) -> String {
    format!("{}:{id}", ProviderId::rehearsal())
}

fn turns(count: u32) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} turn{s}")
}

fn by(means: &Means) -> String {
    match means {
        Means::Own(command) => format!("by `{command}`"),
        Means::Files => "by removing its files".to_owned(),
        Means::Copy => "from the archive, which alone has it".to_owned(),
        Means::NoProgram => {
            "by nobody: only its agent's program could, and it was not found".to_owned()
        }
    }
}

/// Prints the planned deletion.
fn tell_plan(conversation: &Conversation, plan: &DeletePlan, args: &DeleteArgs) {
    if args.one.json {
        let natives = plan.natives.iter().map(|doomed| native_json(doomed, None));
        print_json(&plan_json(conversation, plan, natives.collect(), true));
        return;
    }
    if let Some(session) = plan
        .session
        .as_ref()
        .filter(|_| plan.extent == Extent::Everything)
    {
        let title = clean(session.title.as_str());
        print(&format!(
            "Would delete {} ({title}, {}).",
            session.id,
            turns(session.turns)
        ));
    }
    for doomed in &plan.natives {
        let after = match (&plan.fate, &doomed.means) {
            (Fate::Trash, Means::Copy) => ", into the trash",
            (Fate::Trash, _) => ", after a copy went to the trash",
            (Fate::Purge, _) => ", for good",
        };
        let files = files(doomed);
        // An agent that stores sessions in a database has no files.
        let end = if files.is_empty() { "." } else { ":" };
        print(&format!(
            "Would delete {} {}{after}{end}",
            doomed.id(),
            by(&doomed.means)
        ));
        for path in files {
            print(&format!("  {path}"));
        }
        if let Some(busy) = &doomed.busy {
            print(&format!(
                "But process {} ({}) is at work in it.",
                busy.pid,
                clean(&busy.program)
            ));
        }
        if let Some(seconds) = doomed.fresh {
            print(&format!("It was written to {seconds} s ago."));
        }
        if doomed.archived && doomed.means != Means::Copy {
            print(match plan.fate {
                Fate::Trash => "The copy in the archive would stay.",
                Fate::Purge => "The copy in the archive would go too.",
            });
        }
    }
    for (id, path) in &plan.rehearsed {
        let name = rehearsed_name(id);
        print(&format!(
            "Would delete {name} by removing its file, for good:"
        ));
        print(&format!("  {}", path.display()));
    }
    if plan.keeps_nothing() && !plan.is_empty() {
        print("Nothing of it would go to the trash, so nothing could bring it back.");
    }
    tell_spared(plan, "Would leave");
}

fn files(doomed: &Doomed) -> Vec<String> {
    let belongings = doomed.belongings.iter();
    let paths = belongings.flat_map(Belongings::own_files);
    paths.map(|path| path.display().to_string()).collect()
}

fn tell_spared(plan: &DeletePlan, what: &str) {
    for spared in &plan.spared {
        let (provider, id, why) = (&spared.provider, &spared.id, &spared.why);
        print(&format!("{what} {provider}:{id}: {why}."));
    }
}

fn tell_deleted(
    conversation: &Conversation,
    plan: &DeletePlan,
    deleted: &Deleted,
    args: &DeleteArgs,
) {
    if args.one.json {
        let natives = plan.natives.iter().zip(&deleted.natives);
        let natives = natives.map(|(doomed, (_, _, copy))| native_json(doomed, copy.as_deref()));
        print_json(&plan_json(conversation, plan, natives.collect(), false));
        return;
    }
    let (id, title) = (conversation.id(), title(conversation));
    match plan.extent {
        Extent::Native if plan.is_empty() => {
            print(&format!("Nothing is there to delete of {id}."));
        }
        Extent::Native if plan.session.is_some() => {
            print(&format!(
                "Deleted what agents have of {id} ({title}); segue's record stays."
            ));
        }
        Extent::Everything | Extent::Native => print(&format!("Deleted {id} ({title}).")),
    }
    for (native, _, copy) in &deleted.natives {
        if copy.is_some() {
            print(&format!(
                "{native} is in the trash; `segue session restore {native}` brings it back."
            ));
        } else if plan.session.is_some() {
            print(&format!("{native} is gone for good."));
        }
    }
    for doomed in &plan.natives {
        if doomed.archived && doomed.means != Means::Copy && plan.fate == Fate::Trash {
            let native = doomed.id();
            print(&format!(
                "The copy of {native} in the archive stays, and is listed; delete it again to be rid of that, too."
            ));
        }
    }
    tell_spared(plan, "Left");
}

fn native_json(doomed: &Doomed, copy: Option<&Path>) -> Value {
    let (by, command) = match &doomed.means {
        Means::Own(command) => ("agent", Some(command)),
        Means::Files => ("files", None),
        Means::Copy => ("archive", None),
        Means::NoProgram => ("nobody", None),
    };
    json!({
        "provider": doomed.session.provider.as_str(),
        "native_session_id": doomed.session.head.id.as_str(),
        "by": by,
        "command": command,
        "files": files(doomed),
        "copy": copy.map(|path| path.display().to_string()),
        "in_use_by": doomed.busy.as_ref().map(|busy| busy.pid),
    })
}

/// Returns the JSON for a session of the rehearsal agent, which never has a copy.
fn rehearsed_json(id: &NativeId, path: &Path) -> Value {
    json!({
        "provider": ProviderId::rehearsal().as_str(),
        "native_session_id": id.as_str(),
        "by": "files",
        "command": null,
        "files": [path.display().to_string()],
        "copy": null,
        "in_use_by": null,
    })
}

fn plan_json(
    conversation: &Conversation,
    plan: &DeletePlan,
    mut natives: Vec<Value>,
    dry_run: bool,
) -> Value {
    let rehearsed = plan.rehearsed.iter();
    natives.extend(rehearsed.map(|(id, path)| rehearsed_json(id, path)));
    let spared = plan.spared.iter().map(|spared| {
        json!({
            "provider": spared.provider.as_str(),
            "native_session_id": spared.id.as_str(),
            "why": spared.why,
        })
    });
    json!({
        "deleted": conversation.id().to_string(),
        "native": natives,
        "spared": spared.collect::<Vec<_>>(),
        "dry_run": dry_run,
    })
}

/// Deletes only segue's record of a session.
pub(super) async fn forget(app: &App, args: &ForgetArgs) -> Result<(), CliError> {
    by_name(&args.one.id)?;
    let session = app.find(&args.one.id).await?;
    let (id, title) = (&session.id, clean(session.title.as_str()));
    let legs = app.engine.view(session.clone()).await?.legs;
    let left = Left::by(&legs, |agent| app.engine.lists(agent));
    let turns = turns(session.turns);
    let question = format!("Forget {id} ({title}, {turns}){}", left.before());
    if !args.yes && !confirmed(&question, "forgetting")? {
        say("nothing was forgotten");
        return Ok(());
    }
    app.engine
        .delete(&session)
        .await?
        .iter()
        .for_each(say_decision);
    // Copies that protected the native sessions of the session are deleted with it.
    let natives: Vec<_> = legs
        .iter()
        .filter_map(|leg| leg.native_id.as_ref())
        .collect();
    for native in &natives {
        if let Err(error) = segue_agents::forget_kept(&app::kept(&app.home), native) {
            say(&format!(
                "segue: a copy of {native} could not be removed: {error}"
            ));
        }
    }
    if args.one.json {
        print_json(&json!({ "forgotten": id.as_str() }));
    } else {
        print(&format!("Forgot {id} ({title})."));
        left.after().iter().for_each(|line| print(line));
    }
    Ok(())
}

/// Native sessions that remain after segue forgets a session.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// Whether a native session remains that segue lists.
    listed: bool,
    /// Agents whose native sessions cannot be found without segue's record.
    out_of_reach: BTreeSet<ProviderId>,
}

impl Left {
    fn by(legs: &[Leg], lists: impl Fn(&ProviderId) -> bool) -> Self {
        let mut left = Self::default();
        for leg in legs.iter().filter(|leg| leg.native_id.is_some()) {
            if lists(&leg.provider) {
                left.listed = true;
            } else {
                left.out_of_reach.insert(leg.provider.clone());
            }
        }
        left
    }

    /// Returns the warning for the confirmation.
    fn before(&self) -> &'static str {
        if self.listed {
            ""
        } else {
            " for good: nothing of it can be found through segue then"
        }
    }

    /// Returns the messages after the deletion.
    fn after(&self) -> Vec<String> {
        let listed = "What its agent has of it stays, and is listed by itself from now on.";
        let mut lines: Vec<String> = self.listed.then(|| listed.to_owned()).into_iter().collect();
        let lost = self.out_of_reach.iter().map(|agent| {
            format!("What {agent} has of it stays, but can't be found through segue any more.")
        });
        lines.extend(lost);
        lines
    }
}

fn confirmed(question: &str, doing: &str) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "{doing} needs a confirmation, and there is no terminal to ask on"
        ))
        .hint("add --yes"));
    }
    let _ = write!(std::io::stderr().lock(), "{question}? [y/N] ");
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| CliError::failed("cannot read the answer").because(&error))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
