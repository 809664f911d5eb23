use super::*;

/// Returns the model, the tokens and the cost that a line reports.
fn reported_usage(line: &str) -> Option<(Option<String>, Option<u64>, Option<u64>)> {
    let mut output = LineEvents::default();
    ClaudeLineFormat::default()
        .parse_line(line, &mut output)
        .unwrap();
    output.events.into_iter().find_map(|event| match event {
        RecordEvent::RequestUsage {
            usage, model, cost, ..
        } => Some((model, usage.total_tokens, cost.map(Cost::micros))),
        _ => None,
    })
}

#[test]
fn a_request_reports_its_model_and_its_recorded_cost() {
    let line = |model: &str, extra_fields: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"u","message":{{"id":"m","model":"{model}","content":[],"usage":{{"input_tokens":3,"cache_creation_input_tokens":4,"cache_read_input_tokens":5,"output_tokens":6}}}}{extra_fields}}}"#
        )
    };
    let opus = Some("claude-opus-4".to_owned());
    assert_eq!(
        reported_usage(&line("claude-opus-4", "")),
        Some((opus.clone(), Some(18), None))
    );
    let line_with_cost = line("claude-opus-4", r#","costUSD":0.0123"#);
    assert_eq!(
        reported_usage(&line_with_cost),
        Some((opus, Some(18), Some(12_300)))
    );
    assert_eq!(reported_usage(&line("<synthetic>", "")), None);
}
