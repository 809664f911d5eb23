//! Sessions that a CLI just wrote.

use segue_catalog::{Found, NativeTurn, Reader, Start, conversation};

/// The whole conversation of a session.
pub(crate) fn read(reader: &dyn Reader, found: &Found) -> Vec<NativeTurn> {
    let mut records = reader.records(found, &Start::Beginning).unwrap();
    let fold = conversation(records.as_mut()).unwrap();
    assert!(records.skipped().is_nothing(), "{:?}", records.skipped());
    fold.into_turns()
}

/// The session with this id.
pub(crate) fn find(reader: &dyn Reader, id: &str) -> Found {
    let there = reader.find();
    assert!(there.unreadable.is_empty(), "{:?}", there.unreadable);
    let with_id = |found: &Found| {
        found.id.fits(id) && reader.head(found).is_ok_and(|head| head.id.as_str() == id)
    };
    let mut found: Vec<Found> = there.found.into_iter().filter(with_id).collect();
    // An agent may leave an empty twin behind.
    found.sort_by_key(|found| found.size);
    found
        .pop()
        .unwrap_or_else(|| panic!("there is no session {id}"))
}
