//! A first turn waits for no tokenizer. A program of its own, since whoever counts loads it for all.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

#[path = "it/scripted.rs"]
#[allow(dead_code, reason = "the stage has more than is needed here")]
mod scripted;

use segue_core::Opened;
use segue_engine::Target;

use scripted::{Stage, same};

#[tokio::test]
async fn the_vocabulary_is_not_loaded_before_a_first_prompt_is_sent() {
    let stage = Stage::new();
    let report = stage.turn("hello", Target::New).await;
    assert_eq!(stage.agent.heard.lock().unwrap().countable, [false]);
    // Who is told something is told what was counted.
    *stage.agent.goes_on.lock().unwrap() = Opened::Fresh;
    stage.turn("and now?", same(&report)).await;
    assert_eq!(stage.agent.heard.lock().unwrap().countable, [false, true]);
}
