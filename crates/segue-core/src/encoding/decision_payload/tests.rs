use super::*;
use crate::samples::{sample_decisions, sample_hints};
use crate::session::ResolutionStepKind;

/// Returns the encodings, one per line.
fn join_lines(payloads: impl IntoIterator<Item = String>) -> String {
    let payloads: Vec<String> = payloads.into_iter().collect();
    payloads.join("\n")
}

#[test]
#[expect(clippy::too_many_lines, reason = "one snapshot")]
fn version_1_of_decisions_is_pinned() {
    let decisions = sample_decisions();
    let payloads = decisions.iter().filter_map(encode_decision);
    insta::assert_snapshot!(join_lines(payloads), @r#"
    {"v":1,"decision":"provider_chosen","provider":"claude","reason":"last_used_in_project"}
    {"v":1,"decision":"provider_chosen","provider":"rehearsal","reason":"built_in"}
    {"v":1,"decision":"provider_chosen","provider":"codex","reason":"first_found"}
    {"v":1,"decision":"transport_replaced","provider":"codex","transport":"exec","failed_transport":"app-server","error":"the agent stopped before it completed initialize (exit code 2)"}
    {"v":1,"decision":"session_continued","session":"20261116_101502_m4qc","title":"fix the login","purpose":null}
    {"v":1,"decision":"session_continued","session":"20261116_101502_m4qc","title":"fix the login","purpose":{"feature":"auth","task":"login","task_state":"in_qa","role":"qa"}}
    {"v":1,"decision":"session_continued","session":"20261116_101502_m4qc","title":null,"purpose":{"feature":"auth","task":null,"task_state":null,"role":null}}
    {"v":1,"decision":"session_directory_used","cwd":"/home/mia/app"}
    {"v":1,"decision":"no_session_in_directory"}
    {"v":1,"decision":"no_session_for_purpose","purpose":{"feature":"auth","task":null,"task_state":null,"role":null},"provider":null,"other":null}
    {"v":1,"decision":"no_session_for_purpose","purpose":{"feature":"auth","task":null,"task_state":null,"role":null},"provider":"codex","other":null}
    {"v":1,"decision":"no_session_for_purpose","purpose":{"feature":"auth","task":null,"task_state":null,"role":null},"provider":"codex","other":{"session":"20261117_083000_k3f9","title":"the auth plan","provider":"claude"}}
    {"v":1,"decision":"session_adopted","provider":"claude","native_id":"n-1","session":"20261116_101502_m4qc","turns":1,"matched":null}
    {"v":1,"decision":"session_adopted","provider":"claude","native_id":"n-1","session":"20261116_101502_m4qc","turns":1200,"matched":{"purpose":{"feature":"auth","task":null,"task_state":null,"role":null},"evidence":"tag"}}
    {"v":1,"decision":"session_adopted","provider":"claude","native_id":"n-1","session":"20261116_101502_m4qc","turns":2,"matched":{"purpose":{"feature":"auth","task":null,"task_state":null,"role":null},"evidence":"title"}}
    {"v":1,"decision":"session_imported","format":"dagent","name":"developer","messages":1,"checkpoint":null}
    {"v":1,"decision":"session_imported","format":"dagent","name":"developer","messages":40,"checkpoint":2}
    {"v":1,"decision":"leg_reopened","provider":"claude","native_id":"n-1","session":"20261116_101502_m4qc"}
    {"v":1,"decision":"native_branched","provider":"claude","turn":7,"is_fork":true}
    {"v":1,"decision":"native_branched","provider":"claude","turn":7,"is_fork":false}
    {"v":1,"decision":"native_briefed","cause":{"type":"new_session"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"no_native_yet"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"provider_changed","from":"claude","to":"codex"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"handed_back","provider":"claude"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"full"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"compacted","compaction":null},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"compacted","compaction":{"turns":12,"replaces_checkpoint":false,"replaced_tokens":81234,"checkpoint":3,"tokens":2410}},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"failed_too_often"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"lost"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"unavailable"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"head_mismatch"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"head_moved"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"never_used"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"not_resumed","is_temporary":false},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"not_resumed","is_temporary":true},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"not_found","message":"the agent answered the prompt with an error: unknown session"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0}
    {"v":1,"decision":"native_briefed","cause":{"type":"lost"},"agent_message":"Session not found","has_checkpoint":true,"omitted_turns":1}
    {"v":1,"decision":"native_briefed","cause":{"type":"compacted","compaction":null},"agent_message":"Session not found","has_checkpoint":true,"omitted_turns":4}
    {"v":1,"decision":"native_lost","provider":"claude","native_id":"n-1","loss":"missing"}
    {"v":1,"decision":"native_lost","provider":"claude","native_id":null,"loss":"truncated"}
    {"v":1,"decision":"turn_interrupted","turn":4,"prompt":{"type":"answered","provider":"codex"}}
    {"v":1,"decision":"turn_interrupted","turn":4,"prompt":{"type":"partly_answered","provider":"codex"}}
    {"v":1,"decision":"turn_interrupted","turn":4,"prompt":{"type":"not_in_native","provider":"codex"}}
    {"v":1,"decision":"turn_interrupted","turn":4,"prompt":{"type":"possibly_sent"}}
    {"v":1,"decision":"turn_interrupted","turn":4,"prompt":{"type":"unsent"}}
    {"v":1,"decision":"outside_turns_added","provider":"claude","turns":2}
    {"v":1,"decision":"native_rewound","provider":"claude","session":"20261116_101502_m4qc","to_turn":3,"dropped":1,"added":0}
    {"v":1,"decision":"native_rewound","provider":"claude","session":"20261116_101502_m4qc","to_turn":3,"dropped":3,"added":1}
    {"v":1,"decision":"turns_diverged","provider":"claude","turns":2,"after_turn":5,"fork":"20261117_083000_k3f9"}
    {"v":1,"decision":"prompt_requeued","turn":6}
    {"v":1,"decision":"lease_taken_over","pid":4121,"cause":"died"}
    {"v":1,"decision":"lease_taken_over","pid":4121,"cause":"silent"}
    {"v":1,"decision":"native_protected","action":{"type":"mcp_server_omitted","server":"files","variable":"MY-TOKEN"}}
    {"v":1,"decision":"native_protected","action":{"type":"copy_saved","short_id":"11111111"}}
    {"v":1,"decision":"native_protected","action":{"type":"copy_failed","short_id":"11111111","error":"permission denied","is_at_risk":false}}
    {"v":1,"decision":"native_protected","action":{"type":"copy_failed","short_id":"11111111","error":"permission denied","is_at_risk":true}}
    {"v":1,"decision":"native_protected","action":{"type":"session_restored","short_id":"11111111","cause":"deleted"}}
    {"v":1,"decision":"native_protected","action":{"type":"session_restored","short_id":"11111111","cause":"deleted_by_agent"}}
    {"v":1,"decision":"native_protected","action":{"type":"session_restored","short_id":"11111111","cause":"deleted_in_use"}}
    {"v":1,"decision":"native_protected","action":{"type":"session_restored","short_id":"11111111","cause":"emptied"}}
    {"v":1,"decision":"native_protected","action":{"type":"session_restored","short_id":"11111111","cause":"restarted"}}
    {"v":1,"decision":"native_protected","action":{"type":"restore_failed","short_id":"11111111","error":"permission denied"}}
    {"v":1,"decision":"native_protected","action":{"type":"duplicate_removed","short_id":"11111111"}}
    {"v":1,"decision":"native_protected","action":{"type":"duplicate_not_removed","short_id":"11111111","error":"permission denied"}}
    {"v":1,"decision":"native_protected","action":{"type":"guard_failed"}}
    {"v":1,"decision":"permission_answered","tool":"Edit notes.txt","allowed":true,"by":{"type":"policy","policy":"allow-edits"}}
    {"v":1,"decision":"permission_answered","tool":"Edit notes.txt","allowed":false,"by":{"type":"role","role":"qa"}}
    {"v":1,"decision":"permission_answered","tool":"Edit notes.txt","allowed":true,"by":{"type":"user"}}
    {"v":1,"decision":"permission_answered","tool":"Edit notes.txt","allowed":false,"by":{"type":"unanswered"}}
    {"v":1,"decision":"permission_cancelled","tool":"Edit notes.txt"}
    {"v":1,"decision":"role_violated","tool":"Edit notes.txt","role":"qa"}
    {"v":1,"decision":"native_id_changed","from":"n-1","to":"n-2"}
    {"v":1,"decision":"agent_stopped_at_limit"}
    {"v":1,"decision":"agent_refused"}
    {"v":1,"decision":"unexpected_output","line":"debug: \"x\""}
    {"v":1,"decision":"context_rebuilt","changed":["HEAD","README.md"],"truncated":[],"notes":[]}
    {"v":1,"decision":"context_rebuilt","changed":["HEAD","README.md"],"truncated":[{"name":"SPEC.md","included_bytes":20000,"total_bytes":31415}],"notes":["the project has more files than segue reads"]}
    {"v":1,"decision":"context_incomplete","truncated":[{"name":"SPEC.md","included_bytes":20000,"total_bytes":31415}],"notes":["the project has more files than segue reads"]}
    {"v":1,"decision":"checkpoint_reduced","included":30,"total":41}
    {"v":1,"decision":"agent_compacted","provider":null}
    {"v":1,"decision":"agent_compacted","provider":"codex"}
    {"v":1,"decision":"session_compacted","turns":12,"replaces_checkpoint":false,"replaced_tokens":81234,"checkpoint":3,"tokens":2410}
    {"v":1,"decision":"session_compacted","turns":12,"replaces_checkpoint":true,"replaced_tokens":81234,"checkpoint":3,"tokens":2410}
    {"v":1,"decision":"compaction_failed","error":"disk full"}
    {"v":1,"decision":"summary_applied","provider":"gemini","base":3,"checkpoint":4,"statements":1,"settled":0,"tokens":2600,"is_beginning_omitted":false}
    {"v":1,"decision":"summary_applied","provider":"gemini","base":3,"checkpoint":4,"statements":5,"settled":2,"tokens":2600,"is_beginning_omitted":true}
    {"v":1,"decision":"summary_unused","provider":"gemini","base":3,"reason":{"type":"off_path"}}
    {"v":1,"decision":"summary_unused","provider":"gemini","base":3,"reason":{"type":"nothing_new"}}
    {"v":1,"decision":"summary_unused","provider":"gemini","base":3,"reason":{"type":"no_turns"}}
    {"v":1,"decision":"summary_unused","provider":"gemini","base":3,"reason":{"type":"cooldown","until":"2026-11-16T11:30:05Z"}}
    {"v":1,"decision":"summary_unused","provider":"gemini","base":3,"reason":{"type":"timed_out","seconds":120}}
    {"v":1,"decision":"summary_unused","provider":"gemini","base":3,"reason":{"type":"agent_failed","error":"cannot start gemini"}}
    {"v":1,"decision":"summary_unused","provider":"gemini","base":3,"reason":{"type":"rejected","errors":["the answer contains no JSON object","the answer contains no statements"]}}
    {"v":1,"decision":"leg_rotated","cause":{"type":"context_full"}}
    {"v":1,"decision":"leg_rotated","cause":{"type":"failures","count":3}}
    {"v":1,"decision":"leg_rotated","cause":{"type":"more_failures","count":3}}
    {"v":1,"decision":"leg_rotated","cause":{"type":"forced_prompt_failed"}}
    {"v":1,"decision":"leg_rotated","cause":{"type":"over_limit","tokens":351000,"limit":350000}}
    {"v":1,"decision":"wait_started","provider":"claude","until":"2026-11-16T11:30:05Z","seconds":20,"reason":"failed"}
    {"v":1,"decision":"wait_started","provider":"claude","until":"2026-11-16T11:30:05Z","seconds":20,"reason":"quota"}
    {"v":1,"decision":"wait_started","provider":"claude","until":"2026-11-16T11:30:05Z","seconds":20,"reason":"rate_limited"}
    {"v":1,"decision":"handed_off","from":"claude","to":"codex","cause":{"type":"requested"},"permissions":null,"ignored_model":null}
    {"v":1,"decision":"handed_off","from":"claude","to":"codex","cause":{"type":"cooldown","until":"2026-11-16T11:30:05Z","reason":"quota"},"permissions":"ask","ignored_model":"opus"}
    {"v":1,"decision":"handed_off","from":"claude","to":"codex","cause":{"type":"rejected","class":"rate_limited","until":"2026-11-16T11:30:05Z"},"permissions":null,"ignored_model":null}
    {"v":1,"decision":"handed_off","from":"claude","to":"codex","cause":{"type":"rejected","class":"quota","until":null},"permissions":null,"ignored_model":null}
    {"v":1,"decision":"handed_off","from":"claude","to":"codex","cause":{"type":"rejected","class":"rate_limited","until":null},"permissions":null,"ignored_model":null}
    {"v":1,"decision":"setting_dropped","from":"claude","to":"codex","setting":{"type":"permissions","old":"allow-edits","new":"ask"}}
    {"v":1,"decision":"setting_dropped","from":"claude","to":"codex","setting":{"type":"mode","old":"plan","new":null}}
    {"v":1,"decision":"setting_dropped","from":"claude","to":"codex","setting":{"type":"model","old":"opus","new":"gpt-5"}}
    {"v":1,"decision":"prompt_refused","provider":"claude","refusal":{"type":"retries_exhausted","session":"20261116_101502_m4qc","limit":3}}
    {"v":1,"decision":"prompt_refused","provider":"claude","refusal":{"type":"unavailable","until":"2026-11-16T11:30:05Z","reason":"rate_limited"}}
    {"v":1,"decision":"prompt_withdrawn","reason":"stopped","excerpt":"fix the\nlogin"}
    {"v":1,"decision":"prompt_withdrawn","reason":"brief_too_large","excerpt":"fix the\nlogin"}
    "#);
}

#[test]
fn version_1_of_hints_is_pinned() {
    let hints = sample_hints();
    insta::assert_snapshot!(join_lines(hints.iter().map(encode_hint)), @r#"
    {"v":1,"hint":"check_agents"}
    {"v":1,"hint":"resume","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"resume_with_brief","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"resume_without_strict","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"extend_timeouts","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"wait_or_hand_off","session":"20261116_101502_m4qc","until":null}
    {"v":1,"hint":"wait_or_hand_off","session":"20261116_101502_m4qc","until":"2026-11-16T11:30:05Z"}
    {"v":1,"hint":"wait_for_process","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"log_in","provider":"claude","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"log_in","provider":"codex","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"log_in","provider":"gemini","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"log_in","provider":"rehearsal","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"trust_directory","provider":"codex","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"trust_directory","provider":"gemini","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"trust_directory","provider":"claude","session":"20261116_101502_m4qc"}
    {"v":1,"hint":"recreate_directory"}
    {"v":1,"hint":"hand_off_or_force","first":null,"session":"20261116_101502_m4qc","fallback":null}
    {"v":1,"hint":"hand_off_or_force","first":{"hint":"recreate_directory"},"session":"20261116_101502_m4qc","fallback":"codex"}
    try again
    "#);
}

#[test]
fn encoded_decisions_decode_to_the_same_decisions() {
    for decision in sample_decisions() {
        // The kind comes from the payload, not from the column next to it.
        let decoded = encode_decision(&decision)
            .map(|payload| decode_decision(DecisionKind::Oddity, &payload));
        match decision {
            Decision::Recorded { .. } => assert_eq!(decoded, None),
            decision => assert_eq!(decoded, Some(decision)),
        }
    }
}

#[test]
fn encoded_hints_decode_to_the_same_hints() {
    for hint in sample_hints() {
        assert_eq!(decode_hint(&encode_hint(&hint)), hint);
    }
}

fn recorded(kind: DecisionKind, text: &str) -> Decision {
    let text = text.to_owned();
    Decision::Recorded { kind, text }
}

#[test]
fn a_payload_that_cannot_be_decoded_becomes_text() {
    let payloads = [
        r#"{"v":2,"decision":"agent_refused"}"#,
        r#"{"v":1,"decision":"agent_teleported"}"#,
        r#"{"v":1,"decision":"prompt_requeued","turn":"six"}"#,
        r#"{"v":1,"decision":"agent_refused""#,
        "try again",
        "",
    ];
    for payload in payloads {
        assert_eq!(
            decode_decision(DecisionKind::Oddity, payload),
            recorded(DecisionKind::Oddity, payload)
        );
        let text = payload.to_owned();
        assert_eq!(decode_hint(payload), Hint::Recorded { text });
    }
}

#[test]
fn unknown_fields_of_a_later_version_are_ignored() {
    let payload = r#"{"v":1,"decision":"prompt_requeued","turn":6,"reason":"new"}"#;
    assert_eq!(
        decode_decision(DecisionKind::Oddity, payload),
        Decision::PromptRequeued { turn: 6 }
    );
}

#[test]
fn kind_and_text_can_stand_next_to_the_fields_of_a_decision_and_a_step() {
    let has_none = |json: &serde_json::Value, names: &[&str]| {
        names.iter().all(|name| json.get(name).is_none())
    };
    for decision in sample_decisions() {
        let json = serde_json::to_value(&decision).unwrap();
        assert!(has_none(&json, &["event", "at", "kind", "text"]), "{json}");
    }
    for step in crate::samples::sample_steps() {
        let json = serde_json::to_value(&step).unwrap();
        assert!(has_none(&json, &["step", "text"]), "{json}");
    }
    let json = r#"{"kind":"opened","text":"reopened","decision":"recorded"}"#;
    let decision: Decision = serde_json::from_str(json).unwrap();
    assert_eq!(decision, recorded(DecisionKind::Opened, "reopened"));
    let json = r#"{"step":"new","text":"a session","result":"recorded"}"#;
    let step: crate::session::ResolutionStep = serde_json::from_str(json).unwrap();
    assert_eq!(step.kind(), ResolutionStepKind::New);
}
