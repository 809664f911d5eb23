//! Sessions: leases, and changes that the user requests.

pub(crate) mod change;
pub(crate) mod describe;
pub(crate) mod lease;
pub(crate) mod revert;
pub(crate) mod transfer;
