//! The embedded store: the contract of all stores, and what is special to a file.

mod contract;
mod files;
