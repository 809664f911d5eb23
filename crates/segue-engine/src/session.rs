//! Sessions: leases, and changes that the user requests.

pub(crate) mod change;
pub(crate) mod describe;
pub(crate) mod lease;
pub(crate) mod revert;
pub(crate) mod transfer;

use std::sync::Arc;

use crate::context::EngineContext;
use crate::library::Library;
use crate::reconcile::Reconciler;

/// Component that changes sessions at the user's request.
#[derive(Clone)]
pub struct SessionEditor {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) library: Library,
    pub(crate) reconciler: Reconciler,
}
