//! Script of the CLIs, and the sessions that they write.

use segue_catalog::{SessionLocation, NativeTurn, Reader, ReadStart, read_turns};
use segue_testkit::model::{ScriptedCall, StubFailure, Reply, Script};

/// Returns the script of all CLIs: to look around with a tool, to hang, and to break.
pub(crate) fn script(thought: &str) -> Script {
    let looking = Reply::from_text("I look.").with_thoughts(thought);
    let looking = looking.with_call(ScriptedCall::shell("echo hi-from-here"));
    Script::new()
        .with_rule("look around", [looking, Reply::from_text("It says hi.")])
        .with_rule("hang", [Reply::from_text("I begin").with_failure(StubFailure::Stall)])
        .with_rule("break", [Reply::from_failure(StubFailure::BadRequest)])
        .with_summary("They looked around.")
        .with_title("Looking around")
}

/// Formats a turn whose prompt is not in the script.
pub(crate) fn echoed(n: u32, prompt: &str) -> String {
    format!("{n} finished\n  user: {prompt}\n  assistant: You said: {prompt}\n")
}

/// Reads the complete conversation of a session.
pub(crate) fn read(reader: &dyn Reader, found: &SessionLocation) -> Vec<NativeTurn> {
    let mut records = reader.open_records(found, &ReadStart::Beginning).unwrap();
    let fold = read_turns(records.as_mut()).unwrap();
    assert!(records.skipped().is_empty(), "{:?}", records.skipped());
    fold.into_turns()
}

/// Returns the session with this id.
pub(crate) fn find(reader: &dyn Reader, id: &str) -> SessionLocation {
    let there = reader.scan_sessions();
    assert!(there.unreadable.is_empty(), "{:?}", there.unreadable);
    let with_id = |found: &SessionLocation| {
        found.id_hint.can_match(id) && reader.read_head(found).is_ok_and(|head| head.id.as_str() == id)
    };
    let mut found: Vec<SessionLocation> = there.locations.into_iter().filter(with_id).collect();
    // An agent may also have written an empty file with this id.
    found.sort_by_key(|found| found.size);
    found
        .pop()
        .unwrap_or_else(|| panic!("there is no session {id}"))
}
