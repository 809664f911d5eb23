//! A small pool of read-only connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use segue_store::{Result, StoreError};

use crate::connection;
use crate::error::Fault;

/// Maximum number of idle connections in the pool.
const KEPT: usize = 4;

pub(crate) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    /// Creates a pool that contains one open connection.
    pub(crate) fn new(path: PathBuf, first: Connection) -> Self {
        Self {
            path,
            idle: Arc::new(Mutex::new(vec![first])),
        }
    }

    pub(crate) async fn run<T, F>(&self, doing: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        let (path, idle) = (self.path.clone(), Arc::clone(&self.idle));
        let task = tokio::task::spawn_blocking(move || {
            let spare = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let look = || -> std::result::Result<T, Fault> {
                let db = match spare {
                    Some(db) => db,
                    None => connection::open_reader(&path)?,
                };
                // The work runs in one transaction, so that all its statements see one state.
                db.execute_batch("BEGIN")?;
                let outcome = work(&db);
                db.execute_batch("COMMIT")?;
                let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < KEPT {
                    idle.push(db);
                }
                outcome
            };
            look().map_err(|fault| fault.into_store_error(doing, &path))
        });
        task.await.unwrap_or_else(|panicked| {
            Err(StoreError::Backend {
                doing,
                path: self.path.clone(),
                source: panicked.into(),
            })
        })
    }
}
