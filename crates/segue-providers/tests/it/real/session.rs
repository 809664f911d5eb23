//! Script of the CLIs, and the sessions that they write.

use segue_providers::{NativeTurn, ReadStart, Reader, SessionLocation};
use segue_testkit::model::{Reply, Script, ScriptedCall, StubFailure};

/// Returns the script of all CLIs: to look around with a tool, to hang, and to break.
pub(crate) fn cli_script(thought: &str) -> Script {
    let reply = Reply::from_text("I look.").with_thoughts(thought);
    let reply = reply.with_call(ScriptedCall::shell("echo hi-from-here"));
    Script::new()
        .with_rule("look around", [reply, Reply::from_text("It says hi.")])
        .with_rule(
            "hang",
            [Reply::from_text("I begin").with_failure(StubFailure::Stall)],
        )
        .with_rule("break", [Reply::from_failure(StubFailure::BadRequest)])
        .with_summary("They looked around.")
        .with_title("Looking around")
}

/// Formats a turn whose prompt is not in the script.
pub(crate) fn format_echo_turn(n: u32, prompt: &str) -> String {
    format!("{n} finished\n  user: {prompt}\n  assistant: You said: {prompt}\n")
}

/// Reads the complete conversation of a session.
pub(crate) fn read_turns(reader: &dyn Reader, location: &SessionLocation) -> Vec<NativeTurn> {
    let mut records = reader
        .open_records(location, &ReadStart::Beginning)
        .unwrap();
    let turn_builder = segue_providers::read_turns(records.as_mut()).unwrap();
    assert!(records.skipped().is_empty(), "{:?}", records.skipped());
    turn_builder.into_turns()
}

/// Returns the session with this id.
pub(crate) fn find_session(reader: &dyn Reader, id: &str) -> SessionLocation {
    let scan = reader.scan_sessions();
    assert!(scan.unreadable.is_empty(), "{:?}", scan.unreadable);
    let has_id = |location: &SessionLocation| {
        location.id_hint.can_match(id)
            && reader
                .read_head(location)
                .is_ok_and(|head| head.id.as_str() == id)
    };
    let mut locations: Vec<SessionLocation> = scan.locations.into_iter().filter(has_id).collect();
    // An agent may also have written an empty file with this id.
    locations.sort_by_key(|location| location.size);
    locations
        .pop()
        .unwrap_or_else(|| panic!("session {id} not found"))
}
