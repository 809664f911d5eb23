use std::collections::BTreeSet;

use schemars::JsonSchema;
use segue_core::hint::{Hint, SuggestedAction};
use segue_core::id::ProviderId;
use segue_core::samples::{
    sample_decisions, sample_guard_actions, sample_hints, sample_open_reasons, sample_session,
    sample_steps,
};
use segue_core::session::{Decision, GuardAction, OpenReason, ResolutionStep, SkipReason};
use serde::Serialize;
use serde_json::Value;

use super::*;

/// Returns the lines as one text.
fn join_lines(lines: impl IntoIterator<Item = String>) -> String {
    let lines: Vec<String> = lines.into_iter().collect();
    lines.join("\n")
}

#[test]
#[expect(clippy::too_many_lines, reason = "one snapshot")]
fn every_decision_has_its_text() {
    let decisions = sample_decisions();
    let lines = decisions.iter().map(|decision| {
        let kind = decision.kind().as_str();
        format!("{kind}: {}", format_decision(decision, &ShellActions))
    });
    insta::assert_snapshot!(join_lines(lines), @r#"
    provider: using claude, the agent last used in this project
    provider: using rehearsal, the built-in offline agent: no other agent was found
    provider: using codex, the first agent found on this machine
    provider: connected to codex over exec instead of app-server: the agent stopped before it completed initialize (exit code 2)
    continued: continuing session 20261116_101502_m4qc (fix the login)
    continued: continuing session 20261116_101502_m4qc (fix the login) for task login in state in_qa of feature auth as qa
    continued: continuing session 20261116_101502_m4qc for feature auth
    session: working in /home/mia/app, the directory of the session
    session: no session to continue in this directory; starting a new one
    session: no session exists for feature auth yet; starting one
    session: no session exists for feature auth with codex yet; starting one
    session: no session exists for feature auth with codex yet; starting one. To continue 20261117_083000_k3f9 (the auth plan) of claude instead, run `segue session handoff 20261117_083000_k3f9 -p codex`
    session: adopted claude:n-1 as session 20261116_101502_m4qc, with 1 turn
    session: adopted claude:n-1 as session 20261116_101502_m4qc, with 1,200 turns, for feature auth: its first prompt begins with [Feature: auth]
    session: adopted claude:n-1 as session 20261116_101502_m4qc, with 2 turns, for feature auth: its title matches
    session: imported from dagent session developer, with 1 message
    session: imported from dagent session developer, with 40 messages and checkpoint 2
    opened: reopened native session claude:n-1, which contains all turns of 20261116_101502_m4qc
    opened: claude branched off from its native session after turn 7
    opened: claude rewound its native session to turn 7
    opened: started a new native session with a brief of this session: a new session
    opened: started a new native session with a brief of this session: the session has no native session yet
    opened: started a new native session with a brief of this session: codex took over from claude
    opened: started a new native session with a brief of this session: the session was handed back to claude
    opened: started a new native session with a brief of this session: the last native session was full
    opened: started a new native session with a brief of this session: earlier turns were compacted
    opened: started a new native session with a brief of this session: compacted 12 turns (81,234 tokens) into checkpoint 3 (2,410 tokens)
    opened: started a new native session with a brief of this session: the last native session failed too often in a row
    opened: started a new native session with a brief of this session: the last native session is lost
    opened: started a new native session with a brief of this session: the last native session could not be resumed at that time
    opened: started a new native session with a brief of this session: the last native session no longer matches the head of the session
    opened: started a new native session with a brief of this session: the session was moved to another turn by a revert or an undo
    opened: started a new native session with a brief of this session: the last native session was never used
    opened: started a new native session with a brief of this session: the agent could not resume its native session
    opened: started a new native session with a brief of this session: the agent could not resume its native session at this time
    opened: started a new native session with a brief of this session: the agent did not find its native session: the agent answered the prompt with an error: unknown session
    opened: started a new native session with a brief of this session: the last native session is lost (Session not found); the brief contains a checkpoint of earlier turns; turn 1 did not fit into the brief
    opened: started a new native session with a brief of this session: earlier turns were compacted (Session not found); turns 1 to 4 did not fit into the brief
    opened: claude no longer has its native session (n-1); segue starts a new one with a brief
    opened: claude no longer has all turns of its native session (-); segue starts a new one with a brief
    recovered: turn 4 was interrupted: its answer was taken from the native session of codex
    recovered: turn 4 was interrupted: the prompt is not sent again, and the partial answer was taken from the native session of codex
    recovered: turn 4 was interrupted: codex has no record of its prompt, which is not sent again
    recovered: turn 4 was interrupted: its prompt may have reached the agent, so segue does not send it again
    recovered: turn 4 was interrupted: its prompt never reached the agent; send it again to get an answer
    outside: added 2 turns made in claude outside segue
    outside: claude rewound to turn 3: moved the head with it and dropped 1 turn; `segue session undo 20261116_101502_m4qc` restores it
    outside: claude rewound to turn 3: moved the head with it, added 1 turn made there and dropped 3 turns; `segue session undo 20261116_101502_m4qc` restores them
    outside: moved 2 turns made in claude outside segue after turn 5 to another session: the head of this session has moved; run `segue session resume 20261117_083000_k3f9` to continue there
    outside: queued the prompt again as turn 6: the native session gained turns while it waited
    taken_over: took over the session from process 4121: it died while it used the session
    taken_over: took over the session from process 4121: it sent no heartbeat for too long
    protected: omitted the MCP server files: `codex exec` cannot pass the variable "MY-TOKEN" to it
    protected: saved a copy of Gemini session 11111111; if Gemini CLI deletes the session, the next segue command restores it
    protected: could not copy Gemini session 11111111: permission denied
    protected: could not copy Gemini session 11111111, which Gemini CLI may delete: permission denied
    protected: restored Gemini session 11111111: it had been deleted
    protected: restored Gemini session 11111111: Gemini CLI had deleted it
    protected: restored Gemini session 11111111: Gemini CLI had deleted it while it was in use
    protected: restored Gemini session 11111111: Gemini CLI had emptied it
    protected: restored Gemini session 11111111: Gemini CLI had restarted it
    protected: could not restore Gemini session 11111111: permission denied
    protected: removed an empty duplicate of Gemini session 11111111: Gemini CLI would have deleted both
    protected: could not remove an empty duplicate of Gemini session 11111111: permission denied
    protected: could not protect the Gemini sessions of this directory
    permission: allowed "Edit notes.txt" by policy allow-edits
    permission: refused "Edit notes.txt" because the role qa does not allow it
    permission: allowed "Edit notes.txt" by the user
    permission: refused "Edit notes.txt" because the user did not or could not answer, and no policy allows it
    permission: stopped before the permission request for "Edit notes.txt" was answered
    permission: the agent used "Edit notes.txt" without requesting permission; the role qa does not allow it
    oddity: the agent continued in native session n-2 instead of n-1
    oddity: the agent stopped at a limit of its own and may not have finished
    oddity: the agent refused to continue
    oddity: the agent printed a line that is not part of the protocol: "debug: \"x\""
    rotated: ended the native session
    context: rebuilt the project context after changes in HEAD, README.md
    context: rebuilt the project context after changes in HEAD, README.md; SPEC.md is truncated to 20000 of 31415 bytes; the project has more files than segue reads
    context: the project context is incomplete: SPEC.md is truncated to 20000 of 31415 bytes; the project has more files than segue reads
    context: the brief contains 30 of 41 items of the checkpoint: `budget` has no room for more
    compacted: the agent compacted its own context; the next prompt repeats the goal, the rules and the pinned items
    compacted: codex compacted its own context; the next prompt repeats the goal, the rules and the pinned items
    compacted: compacted 12 turns (81,234 tokens) into checkpoint 3 (2,410 tokens); the next prompt starts a new native session
    compacted: compacted 12 turns and the previous checkpoint (81,234 tokens) into checkpoint 3 (2,410 tokens); the next prompt starts a new native session
    compacted: could not compact the session: disk full; segue retries after the next turn
    compacted: gemini added 1 statement to checkpoint 3: checkpoint 4 has 2,600 tokens
    compacted: gemini added 5 statements to checkpoint 3 and settled 2 items: checkpoint 4 has 2,600 tokens; the beginning was too long to send
    compacted: gemini added nothing to checkpoint 3: the session was reverted to a turn before it; the extracted checkpoint stays active
    compacted: gemini added nothing to checkpoint 3: it had nothing new that fits the budget; the extracted checkpoint stays active
    compacted: gemini added nothing to checkpoint 3: no turns to summarise; the extracted checkpoint stays active
    compacted: gemini added nothing to checkpoint 3: it is in cooldown until 2026-11-16 11:30:05 UTC; the extracted checkpoint stays active
    compacted: gemini added nothing to checkpoint 3: it did not answer within 120 seconds; the extracted checkpoint stays active
    compacted: gemini added nothing to checkpoint 3: cannot start gemini; the extracted checkpoint stays active
    compacted: gemini added nothing to checkpoint 3: no usable answer: the answer contains no JSON object; then the answer contains no statements; the extracted checkpoint stays active
    rotated: ended the native session because its context is full; the next prompt starts a new one with a brief of this session
    rotated: ended the native session after 3 failures in a row; the next prompt starts a new one with a brief of this session
    rotated: ended the native session after 3 more failures in a row; segue does not start another one automatically
    rotated: ended the native session after another failure; segue does not start another one automatically
    rotated: ended the native session at 351,000 tokens, over the limit of 350,000; the next prompt starts a new one with a brief of this session
    backed_off: waiting 20 s for claude, until 2026-11-16 11:30:05 UTC: the last turn failed
    backed_off: waiting 20 s for claude, until 2026-11-16 11:30:05 UTC: the quota is used up
    backed_off: waiting 20 s for claude, until 2026-11-16 11:30:05 UTC: too many requests
    handed_over: handed off from claude to codex, as requested
    handed_over: codex took over: claude is in cooldown until 2026-11-16 11:30:05 UTC (the quota is used up); the permission policy is ask; ignored the model opus, which belongs to claude
    handed_over: codex took over the prompt from claude, which is in cooldown until 2026-11-16 11:30:05 UTC
    handed_over: codex took over the prompt from claude, which has no quota left
    handed_over: codex took over the prompt from claude, which accepts no more prompts
    handed_over: the permission policy is ask, as configured for codex; for claude it is allow-edits
    handed_over: the mode "plan" belongs to claude; codex uses its default
    handed_over: the model "opus" belongs to claude; codex uses "gpt-5"
    stopped: claude failed too often in session 20261116_101502_m4qc: 3 failures in a row, and 3 more in a new native session
    stopped: claude is in cooldown until 2026-11-16 11:30:05 UTC: too many requests
    stopped: stopped before the prompt was sent: "fix the\nlogin"
    stopped: the prompt could not be sent: "fix the\nlogin"
    "#);
}

#[test]
fn every_resolution_step_has_its_text() {
    let steps = sample_steps();
    let lines = steps
        .iter()
        .map(|step| format!("{}: {}", step.kind().as_str(), format_resolution_step(step)));
    insta::assert_snapshot!(join_lines(lines), @r"
    id: not requested
    task: not requested
    id: a native session that segue has not adopted yet
    id: session 20261116_101502_m4qc (fix the login)
    id: claude:n-1, which is session 20261116_101502_m4qc (fix the login)
    task: the newest session for task login in state in_qa of feature auth as qa with codex is 20261116_101502_m4qc (fix the login), last used 2026-11-16 11:30:05 UTC
    feature: the store has no session for feature auth
    project: the store has no session for the project with claude
    catalog: found 0 native sessions of the last 7 days that no segue session uses, none for feature auth
    catalog: found 1 native session of the last 7 days that no segue session uses; the newest for feature auth is codex:n-1: its first prompt begins with [Feature: auth]
    catalog: found 12 native sessions of the last 7 days that no segue session uses; the newest for feature auth is codex:n-1: its title matches
    directory: the newest session in this directory is 20261116_101502_m4qc (fix the login)
    directory: no session in this directory
    configured: claude starts a new session
    configured: claude resumes the newest session in the directory
    configured: claude resumes session 20261116_101502_m4qc
    configured: claude resumes claude:n-1
    new: --new requests a new session
    new: SEGUE_NO_REUSE disables the reuse of sessions
    new: a session
    new: a session for feature auth
    provider: codex, as requested
    provider: claude, the agent of the session
    provider: claude, now the agent of the session
    provider: codex, the first agent found on this machine
    opening: resume native session claude:n-1 (leg 2), which is still running
    opening: resume native session claude:- (leg 2)
    opening: start a native session of claude: the last native session was full
    new: a session
    ");
}

#[test]
fn every_hint_has_its_text() {
    let hints = sample_hints();
    let lines = hints.iter().map(|hint| format_hint(hint, &ShellActions));
    insta::assert_snapshot!(join_lines(lines), @r#"
    run `segue doctor` to see which agents can be started
    all messages so far are saved; resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    the next prompt starts a new native session with a brief; resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    without `--strict`, segue starts a new native session with a brief; resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    retry with longer timeouts: `segue chat --resume 20261116_101502_m4qc --open-timeout 120 --timeout 3600 "…"`
    wait a while, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`; or hand the session off with `segue session handoff 20261116_101502_m4qc -p NAME`
    wait until 2026-11-16 11:30:05 UTC, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`; or hand the session off with `segue session handoff 20261116_101502_m4qc -p NAME`
    wait until it has finished, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    run `claude` and log in with `/login`, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    run `codex login`, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    run `gemini` and log in with `/auth`, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    log in with the program of rehearsal, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    run `codex` in this directory once and trust the directory, or run `git init`, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    run `gemini` in this directory once and trust the directory, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    run the program of claude in this directory once and trust the directory, then resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    recreate the directory, or run `segue session fork` to fork the session into the current directory
    hand the session off with `segue session handoff 20261116_101502_m4qc -p NAME`; or retry anyway with `segue chat --resume 20261116_101502_m4qc --anyway "…"`
    recreate the directory, or run `segue session fork` to fork the session into the current directory; hand the session off with `segue session handoff 20261116_101502_m4qc -p codex`; or retry anyway with `segue chat --resume 20261116_101502_m4qc --anyway "…"`
    try again
    "#);
}

#[test]
fn every_open_reason_has_its_text() {
    let reasons = sample_open_reasons();
    insta::assert_snapshot!(join_lines(reasons.iter().map(format_open_reason)), @r"
    the agent is still running
    the native session contains all earlier turns
    claude branched off from its native session after turn 7
    claude rewound its native session to turn 7
    a new session
    the session has no native session yet
    codex took over from claude
    the session was handed back to claude
    the last native session was full
    earlier turns were compacted
    compacted 12 turns (81,234 tokens) into checkpoint 3 (2,410 tokens)
    the last native session failed too often in a row
    the last native session is lost
    the last native session could not be resumed at that time
    the last native session no longer matches the head of the session
    the session was moved to another turn by a revert or an undo
    the last native session was never used
    the agent could not resume its native session
    the agent could not resume its native session at this time
    the agent did not find its native session: the agent answered the prompt with an error: unknown session
    the last native session is lost (Session not found); the brief contains a checkpoint of earlier turns; turn 1 did not fit into the brief
    earlier turns were compacted (Session not found); turns 1 to 4 did not fit into the brief
    ");
}

#[test]
fn every_skip_reason_has_its_text() {
    let session = sample_session;
    let reasons = [
        SkipReason::StorageUnknown,
        SkipReason::UsedBySession { session: session() },
        SkipReason::NeededByFork { session: session() },
    ];
    assert_eq!(
        sample_variants(&reasons, "type"),
        schema_variants::<SkipReason>("type")
    );
    let codex = ProviderId::codex();
    let lines = reasons
        .iter()
        .map(|reason| format_skip_reason(&codex, reason));
    insta::assert_snapshot!(join_lines(lines), @r"
    segue does not know where codex stores it
    session 20261116_101502_m4qc also uses it
    session 20261116_101502_m4qc is a branch of it
    ");
}

#[test]
fn every_action_has_a_shell_command() {
    let id = sample_session;
    let codex = || Some(ProviderId::codex());
    let actions = [
        SuggestedAction::Resume(id()),
        SuggestedAction::Open(id()),
        SuggestedAction::ExtendTimeouts(id()),
        SuggestedAction::ForceRetry(id()),
        SuggestedAction::SkipCooldown,
        SuggestedAction::HandOff(id(), codex()),
        SuggestedAction::HandOff(id(), None),
        SuggestedAction::UseOtherAgent(codex()),
        SuggestedAction::Start,
        SuggestedAction::StartAnother,
        SuggestedAction::StartWithOtherAgent,
        SuggestedAction::List,
        SuggestedAction::ListAll,
        SuggestedAction::Fork(id()),
        SuggestedAction::Undo(id()),
        SuggestedAction::Compact(id()),
        SuggestedAction::ShowCheckpoint(id()),
    ];
    let lines = actions
        .iter()
        .map(|action| ShellActions.format_action(action));
    insta::assert_snapshot!(join_lines(lines), @r#"
    resume the session with `segue chat --resume 20261116_101502_m4qc "…"`
    segue session resume 20261116_101502_m4qc
    retry with longer timeouts: `segue chat --resume 20261116_101502_m4qc --open-timeout 120 --timeout 3600 "…"`
    retry anyway with `segue chat --resume 20261116_101502_m4qc --anyway "…"`
    use `--now` to send the prompt anyway
    hand the session off with `segue session handoff 20261116_101502_m4qc -p codex`
    hand the session off with `segue session handoff 20261116_101502_m4qc -p NAME`
    use another agent with `-p codex`
    start a session with `segue chat "…"`
    use `--new` to start another session
    start a session with the other agent: `segue chat -p NAME "…"`
    segue session list
    segue session list --all
    segue session fork 20261116_101502_m4qc
    segue session undo 20261116_101502_m4qc
    segue session compact 20261116_101502_m4qc
    segue session checkpoint 20261116_101502_m4qc
    "#);
}

/// Wording of a frontend whose commands begin with a slash.
struct SlashActions;

impl ActionText for SlashActions {
    fn format_action(&self, action: &SuggestedAction) -> String {
        format!("press the button {}", self.format_command(action))
    }

    fn format_command(&self, action: &SuggestedAction) -> String {
        match action {
            SuggestedAction::Undo(_) => "/undo".to_owned(),
            SuggestedAction::Resume(_) => "/resume".to_owned(),
            _ => "/other".to_owned(),
        }
    }
}

#[test]
fn a_frontend_words_the_actions_of_decisions_and_hints() {
    let decision = Decision::NativeRewound {
        provider: ProviderId::claude(),
        session: sample_session(),
        to_turn: 3,
        dropped: 1,
        added: 0,
    };
    assert_eq!(
        format_decision(&decision, &SlashActions),
        "claude rewound to turn 3: moved the head with it and dropped 1 turn; `/undo` restores it"
    );
    let hint = Hint::Resume {
        session: sample_session(),
    };
    assert_eq!(
        format_hint(&hint, &SlashActions),
        "all messages so far are saved; press the button /resume"
    );
}

/// Returns the names of all variants in the schema of an enum whose variants are named by `tag`.
fn schema_variants<T: JsonSchema>(tag: &str) -> BTreeSet<String> {
    let schema = schemars::schema_for!(T).to_value();
    let variants = schema["oneOf"].as_array().unwrap().iter();
    let names = variants.map(|variant| &variant["properties"][tag]["const"]);
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// Returns the names of the variants of some values.
fn sample_variants<T: Serialize>(values: &[T], tag: &str) -> BTreeSet<String> {
    let name = |value: &T| -> String {
        let json: Value = serde_json::to_value(value).unwrap();
        json[tag].as_str().unwrap().to_owned()
    };
    values.iter().map(name).collect()
}

#[test]
fn the_samples_contain_every_variant() {
    assert_eq!(
        sample_variants(&sample_decisions(), "decision"),
        schema_variants::<Decision>("decision")
    );
    assert_eq!(
        sample_variants(&sample_steps(), "result"),
        schema_variants::<ResolutionStep>("result")
    );
    assert_eq!(
        sample_variants(&sample_hints(), "hint"),
        schema_variants::<Hint>("hint")
    );
    assert_eq!(
        sample_variants(&sample_guard_actions(), "type"),
        schema_variants::<GuardAction>("type")
    );
    assert_eq!(
        sample_variants(&sample_open_reasons(), "type"),
        schema_variants::<OpenReason>("type")
    );
}
