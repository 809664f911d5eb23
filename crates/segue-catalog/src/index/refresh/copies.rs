//! Copies in the archive, which replace sessions that no longer exist.

use segue_core::id::NativeId;

use super::Work;
use super::walk::Change;
use crate::index::read::{Projects, Told, project_of, read};
use crate::index::write::{Noted, Verdict, Writer};
use crate::index::{IndexError, State};
use crate::{Catalog, Head, IdHint, NativeSession};

/// Indexes a copy in place of a session that no longer exists.
pub(super) fn take_copy(
    catalog: &Catalog,
    copy: &Change,
    writer: &mut Writer<'_>,
    work: &mut Work,
) -> Result<(), IndexError> {
    let Change {
        provider, found, ..
    } = copy;
    let IdHint::Whole(id) = &found.id else {
        return Ok(());
    };
    let Ok(native_id) = NativeId::parse(id) else {
        return Ok(());
    };
    let name = provider.as_str();
    let note = |verdict, why| Noted {
        native_id: Some(id.as_str()),
        why,
        copy: true,
        ..Noted::found(verdict)
    };
    if let Some((session, live)) = writer.holding(name, id)? {
        if live {
            writer.note(name, found, note(Verdict::Twin, None))?;
        } else {
            let source = writer.note(name, found, note(Verdict::Session, None))?;
            writer.attach(session, source)?;
        }
        return Ok(());
    }
    let session = NativeSession {
        provider: provider.clone(),
        found: found.clone(),
        head: Head::new(native_id, found.modified),
    };
    let (reader, unpacked) = match catalog.at(&session) {
        Ok(at) => at,
        Err(error) => {
            writer.note(name, found, note(Verdict::Failed, Some(&error.in_full())))?;
            work.unreadable.push((provider.clone(), error));
            return Ok(());
        }
    };
    let mut growing = writer.grow();
    let mut outcome = Ok(());
    let mut last = None;
    read(
        reader.as_ref(),
        &unpacked,
        None,
        &Projects::default(),
        &mut |told| {
            if let Told::Turns(turns) | Told::Whole { turns, .. } = &told
                && outcome.is_ok()
            {
                outcome = writer.add(&mut growing, turns);
            }
            last = Some(told);
        },
    );
    outcome?;
    work.read += 1;
    let Some(Told::Whole { mut placed, .. }) = last else {
        writer.drop_turns(growing.id, 0)?;
        writer.note(name, found, note(Verdict::Other, None))?;
        return Ok(());
    };
    work.bytes += placed.bytes;
    if placed.head.cwd.is_none()
        && let Some(copied) = catalog.copied_head(provider, &placed.head.id)
    {
        placed.project = copied.cwd.as_deref().and_then(project_of);
        placed.head.cwd = copied.cwd;
    }
    writer.title(growing.id, &placed)?;
    let source = writer.note(name, found, note(Verdict::Session, None))?;
    writer.replace(name, &growing, &placed, Some(source), State::Archived)?;
    Ok(())
}
