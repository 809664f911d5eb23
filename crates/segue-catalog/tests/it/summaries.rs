//! Tests of native sessions of a summariser, which are not listed, resumed or counted.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use segue_catalog::index::IndexFilter;
use segue_catalog::{Catalog, Index, Reader};
use segue_core::checkpoint::{Checkpoint, summary_prompt};

use crate::agents::AGENTS;
use crate::long_prompts::beginning_with;

#[test]
fn a_summarisers_session_is_no_conversation() {
    for agent in AGENTS {
        let asked = summary_prompt(&Checkpoint::default(), &"> long\n".repeat(50_000));
        // A prompt of the user about such a prompt is a conversation like any other.
        let about = format!("what is\n{asked}");
        for (prompt, expected) in [(asked.as_str(), 0), (about.as_str(), 1)] {
            let home = tempfile::tempdir().unwrap();
            agent.put(home.path(), beginning_with(agent, prompt).as_bytes());
            let reader: Arc<dyn Reader> = Arc::from((agent.reader)(home.path()));
            let catalog = Catalog::new(vec![reader]);
            let all = catalog.list_sessions(None, None);
            assert_eq!(all.sessions.len(), expected, "{}", agent.name);
            assert!(all.unreadable.is_empty(), "{}", agent.name);
            let kept = tempfile::tempdir().unwrap();
            let index = Index::new(kept.path());
            index
                .refresh(&catalog, Timestamp::now(), Duration::from_secs(10), &|_| ())
                .unwrap();
            let listed = index.list_sessions(&IndexFilter::default(), 10, 0).unwrap();
            assert_eq!(listed.len(), expected, "{}", agent.name);
        }
    }
}
