use super::*;

/// Returns the model, the tokens and the cost that a line reports.
fn used(line: &str) -> Option<(Option<String>, Option<u64>, Option<u64>)> {
    let mut told = Told::default();
    Lines::default().read(line, &mut told).unwrap();
    told.events.into_iter().find_map(|event| match event {
        Event::Used {
            usage, model, cost, ..
        } => Some((model, usage.total_tokens, cost.map(Cost::micros))),
        _ => None,
    })
}

#[test]
fn a_request_tells_its_model_and_what_it_cost_if_it_was_written() {
    let line = |model: &str, more: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"u","message":{{"id":"m","model":"{model}","content":[],"usage":{{"input_tokens":3,"cache_creation_input_tokens":4,"cache_read_input_tokens":5,"output_tokens":6}}}}{more}}}"#
        )
    };
    let opus = Some("claude-opus-4".to_owned());
    assert_eq!(
        used(&line("claude-opus-4", "")),
        Some((opus.clone(), Some(18), None))
    );
    let old = line("claude-opus-4", r#","costUSD":0.0123"#);
    assert_eq!(used(&old), Some((opus, Some(18), Some(12_300))));
    assert_eq!(used(&line("<synthetic>", "")), None);
}
