//! Tests of native sessions of a summariser, which are not listed, resumed or counted.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use segue_catalog::index::IndexFilter;
use segue_catalog::{Catalog, Index, Reader};
use segue_core::checkpoint::{Checkpoint, summary_prompt};

use crate::agents::{SAMPLE_AGENTS, sample_with_first_prompt};

#[test]
fn a_session_of_a_summariser_is_not_a_conversation() {
    for agent in SAMPLE_AGENTS {
        let request = summary_prompt(&Checkpoint::default(), &"> long\n".repeat(50_000));
        // A prompt of the user about such a prompt is a conversation like any other.
        let prompt_about_request = format!("what is\n{request}");
        for (prompt, expected) in [(request.as_str(), 0), (prompt_about_request.as_str(), 1)] {
            let home = tempfile::tempdir().unwrap();
            agent.write_session(
                home.path(),
                sample_with_first_prompt(agent, prompt).as_bytes(),
            );
            let reader: Arc<dyn Reader> = Arc::from((agent.new_reader)(home.path()));
            let catalog = Catalog::new(vec![reader]);
            let listing = catalog.list_sessions(None, None);
            assert_eq!(listing.sessions.len(), expected, "{}", agent.name);
            assert!(listing.unreadable.is_empty(), "{}", agent.name);
            let index_dir = tempfile::tempdir().unwrap();
            let index = Index::new(index_dir.path());
            index
                .refresh(&catalog, Timestamp::now(), Duration::from_secs(10), &|_| ())
                .unwrap();
            let rows = index.list_sessions(&IndexFilter::default(), 10, 0).unwrap();
            assert_eq!(rows.len(), expected, "{}", agent.name);
        }
    }
}
