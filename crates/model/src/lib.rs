//! The objects that a user may write: resources, their JSON Schemas, the checks on them, and the snapshot
//! they live in.
//!
//! This crate knows nothing of sockets, files, clocks, threads or randomness: texts and revisions are handed
//! in, values come out. `control` feeds it, `gateway` compiles what it accepts.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod acme;
pub mod apisix_plugins;
pub mod catalog;
pub mod check;
pub mod contract;
pub mod control_endpoint;
pub mod discovery;
pub mod extension;
pub mod fault;
pub mod instance;
mod key;
pub mod key_type;
mod kind;
pub mod lenient_json;
pub mod loaded_endpoint;
pub mod merge;
mod number;
pub mod outbound;
pub mod report;
pub mod resource;
pub mod schema;
pub mod search;
pub mod secret_field;
pub mod secret_reference;
pub mod settings;
pub mod snapshot;
pub mod staple;
pub mod tickets;
pub mod unsupported;
pub mod validate;
mod written;

pub use catalog::{PluginCatalog, PluginInfo};
pub use fault::{ConfigFault, ObjectRefusal, Warning};
pub use key::{ID_BYTES_MAX, Id, IdError, ObjectKey, USERNAME_BYTES_MAX};
pub use kind::ObjectKind;
pub use snapshot::{Applied, Difference, FaultPolicy, Snapshot, SnapshotChange, SnapshotObject};
pub use written::WrittenObject;
