//! A first turn does not wait for the tokenizer.

use std::process::Command;

use segue_core::session::OpenMode;
use segue_engine::Target;

use crate::scripted::{Stage, same};

/// Environment variable of the separate process in which the test runs.
const ALONE: &str = "SEGUE_TEST_ALONE";

#[tokio::test]
async fn the_vocabulary_is_not_loaded_before_a_first_prompt_is_sent() {
    if std::env::var_os(ALONE).is_none() {
        // A test that counts tokens loads the vocabulary for its complete process, so this test needs a separate one.
        let own = std::env::current_exe().unwrap();
        let name = "first_turn::the_vocabulary_is_not_loaded_before_a_first_prompt_is_sent";
        let status = Command::new(own)
            .args(["--exact", name])
            .env(ALONE, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let stage = Stage::new();
    let report = stage.turn("hello", Target::New).await;
    assert_eq!(stage.agent.heard.lock().unwrap().countable, [false]);
    // The tokens of a brief are counted, so the second turn loads the vocabulary.
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    stage.turn("and now?", same(&report)).await;
    assert_eq!(stage.agent.heard.lock().unwrap().countable, [false, true]);
}
