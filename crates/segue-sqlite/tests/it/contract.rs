//! The contract of all stores, run on [`SqliteStore`].

use segue_sqlite::SqliteStore;

fn open_temp_store() -> (SqliteStore, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (SqliteStore::open(directory.path()).unwrap(), directory)
}

segue_store::store_contract!(open_temp_store());
