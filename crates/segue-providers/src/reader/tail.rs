//! Records of a native session after a mark.

use crate::reader::record::RewindTarget;
use crate::{NativeTurn, ReadError, RecordEvent, Records, TurnBuilder};

/// Turns and changes after a mark.
#[derive(Debug)]
pub struct TailTurns {
    /// Turns that began after the mark, with their messages.
    pub turns: Vec<NativeTurn>,
    /// Whether the conversation may have been rewound to a position before the mark. The caller must then read earlier
    /// records, too.
    pub rewound: bool,
    /// Whether the agent compacted its context.
    pub compacted: bool,
}

/// Reads the records after a mark. Records before the next prompt belong to the turn that the caller already has,
/// because agents write the end of a turn after they have reported it.
pub fn read_tail(records: &mut dyn Records) -> Result<TailTurns, ReadError> {
    let mut builder = TurnBuilder::with_messages();
    let mut rewound = false;
    let mut compacted = false;
    while let Some(record) = records.next()? {
        let mut has_begun = !builder.turns().is_empty();
        for event in &record.events {
            match event {
                RecordEvent::Prompt(_) => has_begun = true,
                RecordEvent::Rewind(RewindTarget::Beginning) => rewound = true,
                RecordEvent::Rewind(_) => rewound |= !has_begun,
                RecordEvent::Compacted(_) => compacted = true,
                RecordEvent::Message(_)
                | RecordEvent::Anchor(_)
                | RecordEvent::RequestUsage { .. }
                | RecordEvent::TurnEnded(_)
                | RecordEvent::TitleChanged { .. } => {}
            }
        }
        if has_begun {
            builder.add_record(record);
        }
    }
    Ok(TailTurns {
        rewound: rewound || builder.is_unresolved(),
        compacted,
        turns: builder.into_turns(),
    })
}
