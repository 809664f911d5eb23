//! Records of a native session after a mark.

use crate::record::Back;
use crate::{Event, Fold, NativeTurn, ReadError, Records};

/// Turns and changes after a mark.
#[derive(Debug)]
pub struct Since {
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
pub fn since(records: &mut dyn Records) -> Result<Since, ReadError> {
    let mut fold = Fold::whole();
    let mut rewound = false;
    let mut compacted = false;
    while let Some(record) = records.next()? {
        let mut begins = !fold.turns().is_empty();
        for event in &record.events {
            match event {
                Event::Prompt(_) => begins = true,
                Event::Rewind(Back::ToTheBeginning) => rewound = true,
                Event::Rewind(_) => rewound |= !begins,
                Event::Compacted(_) => compacted = true,
                Event::Said(_)
                | Event::Step(_)
                | Event::Used { .. }
                | Event::Ended(_)
                | Event::Titled { .. } => {}
            }
        }
        if begins {
            fold.add(record);
        }
    }
    Ok(Since {
        rewound: rewound || fold.is_unresolved(),
        compacted,
        turns: fold.into_turns(),
    })
}
