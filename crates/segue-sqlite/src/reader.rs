//! A small pool of read-only connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use segue_store::{Result, StoreError};

use crate::connection::{self, Db, StoreProperties};
use crate::error::OpError;

/// Maximum number of idle connections in the pool.
const MAX_IDLE_CONNECTIONS: usize = 4;

pub(crate) struct ReaderPool {
    path: PathBuf,
    properties: StoreProperties,
    idle: Arc<Mutex<Vec<Db>>>,
}

impl ReaderPool {
    /// Creates a pool that contains one open connection.
    pub(crate) fn new(path: PathBuf, first: Db) -> Self {
        Self {
            path,
            properties: first.properties().clone(),
            idle: Arc::new(Mutex::new(vec![first])),
        }
    }

    pub(crate) async fn run<T, F>(&self, operation: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Db) -> std::result::Result<T, OpError> + Send + 'static,
    {
        let (path, properties, idle) = (
            self.path.clone(),
            self.properties.clone(),
            Arc::clone(&self.idle),
        );
        let task = tokio::task::spawn_blocking(move || {
            let idle_connection = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let run_work = || -> std::result::Result<T, OpError> {
                let db = match idle_connection {
                    Some(db) => db,
                    None => Db::new(connection::open_reader(&path)?, properties),
                };
                // The work runs in one transaction, so that all its statements see one state.
                db.execute_batch("BEGIN")?;
                let outcome = work(&db);
                db.execute_batch("COMMIT")?;
                let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < MAX_IDLE_CONNECTIONS {
                    idle.push(db);
                }
                outcome
            };
            run_work().map_err(|op_error| op_error.into_store_error(operation))
        });
        task.await.unwrap_or_else(|join_error| {
            Err(StoreError::Backend {
                operation,
                source: join_error.into(),
            })
        })
    }
}
