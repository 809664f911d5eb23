//! What a native session tells past a mark.

use crate::record::Back;
use crate::{Event, Fold, NativeTurn, ReadError, Records};

/// The turns that follow a record, and what else does.
#[derive(Debug)]
pub struct Since {
    /// The turns that began after it, with what was said.
    pub turns: Vec<NativeTurn>,
    /// Whether the conversation may have gone back to before it: then what came earlier has to be looked at, too.
    pub rewound: bool,
    /// Whether the agent made its own context smaller.
    pub compacted: bool,
}

/// Reads on from a mark. What follows it before the next prompt belongs to the turn that is known: agents write the end
/// of a turn after they have told it.
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
