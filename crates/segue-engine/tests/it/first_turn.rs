//! A first turn does not wait for the tokenizer.

use std::process::Command;

use segue_core::session::OpenMode;
use segue_engine::Target;

use crate::scripted::{EngineHarness, session_target};

/// Environment variable of the separate process in which the test runs.
const SEPARATE_PROCESS_VARIABLE: &str = "SEGUE_TEST_ALONE";

#[tokio::test]
async fn the_vocabulary_is_not_loaded_before_a_first_prompt_is_sent() {
    if std::env::var_os(SEPARATE_PROCESS_VARIABLE).is_none() {
        // A test that counts tokens loads the vocabulary for its complete process, so this test needs a separate one.
        let test_binary = std::env::current_exe().unwrap();
        let name = "first_turn::the_vocabulary_is_not_loaded_before_a_first_prompt_is_sent";
        let status = Command::new(test_binary)
            .args(["--exact", name])
            .env(SEPARATE_PROCESS_VARIABLE, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let harness = EngineHarness::new();
    let report = harness.run_turn("hello", Target::New).await;
    assert_eq!(
        harness.agent.received.lock().unwrap().tokenizer_loaded,
        [false]
    );
    // The tokens of a brief are counted, so the second turn loads the vocabulary.
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    harness.run_turn("and now?", session_target(&report)).await;
    assert_eq!(
        harness.agent.received.lock().unwrap().tokenizer_loaded,
        [false, true]
    );
}
