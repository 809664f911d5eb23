//! The contract of all stores, run on [`SqliteStore`].

use segue_sqlite::SqliteStore;
use segue_store::StoreClock;

fn open_temp_store(clock: StoreClock) -> (SqliteStore, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_with_clock(directory.path(), clock);
    (store.unwrap(), directory)
}

segue_store::store_contract!(open_temp_store);
