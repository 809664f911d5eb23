//! JSON output for transcripts.

use segue_api::session::ListedSession;
use segue_api::transcript::{SessionTranscript, TurnTranscript};
use segue_catalog::NativeTurn;
use segue_engine::Transcript;

/// Returns the output of `session show --json`.
pub(crate) fn transcript_json(transcript: Transcript) -> SessionTranscript {
    let turns = transcript.turns.into_iter().map(|entry| TurnTranscript {
        n: Some(entry.turn.number),
        state: entry.turn.state,
        provider: Some(entry.provider),
        outside: entry.turn.made_outside,
        messages: entry.messages.into_iter().map(Into::into).collect(),
        usage: entry.turn.usage,
        error: entry.turn.failure.as_ref().map(Into::into),
        started_at: Some(entry.turn.started_at),
        ended_at: entry.turn.ended_at,
    });
    SessionTranscript::Recorded {
        session: Box::new(ListedSession::new(&transcript.session, transcript.status)),
        legs: transcript.legs.iter().map(Into::into).collect(),
        turns: turns.collect(),
    }
}

/// Returns a turn of a native session. `n` is `None` if only the end of the file was read.
pub(crate) fn native_turn_json(n: Option<u32>, turn: NativeTurn) -> TurnTranscript {
    TurnTranscript {
        n,
        state: turn.state,
        provider: None,
        outside: true,
        messages: turn.messages.into_iter().map(Into::into).collect(),
        usage: turn.usage,
        error: None,
        started_at: turn.started_at,
        ended_at: turn.ended_at,
    }
}
