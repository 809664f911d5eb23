//! Copies in the archive, which replace sessions that no longer exist.

use segue_core::id::NativeId;

use super::RefreshStats;
use super::scan::SourceChange;
use crate::index::source_reader::{
    ProjectCache, SourceHead, SourceUpdate, project_key_text, read_source,
};
use crate::index::writer::{IndexWriter, PartialSession, SourceResult, SourceVerdict};
use crate::index::{IndexError, NativeStatus};
use crate::{Catalog, IdHint, NativeSession, Reader, SessionHead, SessionLocation};

/// Indexes a copy in place of a session that no longer exists.
pub(super) fn index_archived_copy(
    catalog: &Catalog,
    copy: &SourceChange,
    writer: &mut IndexWriter<'_>,
    stats: &mut RefreshStats,
) -> Result<(), IndexError> {
    let SourceChange {
        provider, location, ..
    } = copy;
    let IdHint::Complete(id) = &location.id_hint else {
        return Ok(());
    };
    let Ok(native_id) = NativeId::parse(id) else {
        return Ok(());
    };
    let name = provider.as_str();
    let source_result = |verdict, reason| SourceResult {
        native_id: Some(id.as_str()),
        reason,
        is_copy: true,
        ..SourceResult::from_verdict(verdict)
    };
    if let Some((session, is_live)) = writer.find_session_with_liveness(name, id)? {
        if is_live {
            writer.save_source(
                name,
                location,
                source_result(SourceVerdict::Duplicate, None),
            )?;
        } else {
            let source =
                writer.save_source(name, location, source_result(SourceVerdict::Session, None))?;
            writer.attach_copy(session, source)?;
        }
        return Ok(());
    }
    let session = NativeSession {
        provider: provider.clone(),
        location: location.clone(),
        head: SessionHead::new(native_id, location.modified),
    };
    let (reader, unpacked) = match catalog.resolve_location(&session) {
        Ok(resolved) => resolved,
        Err(error) => {
            writer.save_source(
                name,
                location,
                source_result(SourceVerdict::Failed, Some(&error.format_error_chain())),
            )?;
            stats.unreadable.push((provider.clone(), error));
            return Ok(());
        }
    };
    let mut partial = writer.start_session();
    let source_head = read_turns_into(writer, &mut partial, reader.as_ref(), &unpacked)?;
    stats.sources_read += 1;
    let Some(mut source_head) = source_head else {
        writer.drop_turns(partial.id, 0)?;
        writer.save_source(
            name,
            location,
            source_result(SourceVerdict::NotAConversation, None),
        )?;
        return Ok(());
    };
    stats.bytes_read += source_head.bytes_read;
    if source_head.head.cwd.is_none()
        && let Some(archived_head) = catalog.archived_head(provider, &source_head.head.id)
    {
        source_head.project = archived_head.cwd.as_deref().and_then(project_key_text);
        source_head.head.cwd = archived_head.cwd;
    }
    writer.insert_title(partial.id, &source_head)?;
    let source = writer.save_source(name, location, source_result(SourceVerdict::Session, None))?;
    writer.replace_session(
        name,
        &partial,
        &source_head,
        Some(source),
        NativeStatus::Archived,
    )?;
    Ok(())
}

/// Reads a copy and adds its turns to a session. Returns the head of the copy; `None` if it is not a complete
/// conversation.
fn read_turns_into(
    writer: &mut IndexWriter<'_>,
    partial: &mut PartialSession,
    reader: &dyn Reader,
    location: &SessionLocation,
) -> Result<Option<SourceHead>, IndexError> {
    let mut outcome = Ok(());
    let mut last = None;
    let mut add_turns = |update| {
        if let SourceUpdate::Turns(turns) | SourceUpdate::Complete { turns, .. } = &update
            && outcome.is_ok()
        {
            outcome = writer.add_turns(partial, turns);
        }
        last = Some(update);
    };
    let projects = ProjectCache::default();
    read_source(reader, location, None, &projects, &mut add_turns);
    outcome?;
    Ok(match last {
        Some(SourceUpdate::Complete { source_head, .. }) => Some(*source_head),
        _ => None,
    })
}
