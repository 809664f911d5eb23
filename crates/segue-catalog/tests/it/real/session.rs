//! Script of the CLIs, and the sessions that they write.

use segue_catalog::{SessionLocation, NativeTurn, Reader, ReadStart, read_turns};
use segue_testkit::model::{Call, Failure, Reply, Script};

/// Returns the script of all CLIs: to look around with a tool, to hang, and to break.
pub(crate) fn script(thought: &str) -> Script {
    let looking = Reply::say("I look.").think(thought);
    let looking = looking.call(Call::shell("echo hi-from-here"));
    Script::new()
        .on("look around", [looking, Reply::say("It says hi.")])
        .on("hang", [Reply::say("I begin").failing(Failure::Stall)])
        .on("break", [Reply::fail(Failure::BadRequest)])
        .summary("They looked around.")
        .title("Looking around")
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
