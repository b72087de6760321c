//! The Admin API (contract 2.1), request by request. It knows no sockets and does not store anything: it reads the view
//! and sends writes to the reconciling thread.

pub mod auth;
mod conditions;
mod configs;
mod extensions;
mod guesses;
mod kinds;
mod listing;
mod object_path;
pub mod openapi;
mod origin;
pub(crate) mod patch;
mod plugins;
mod query;
mod refusals;
mod resources;
pub(crate) mod respond;
mod schema;
mod server;
mod ui;
mod validate;
mod weir;

pub(crate) use kinds::{hidden, secret_places};
pub(crate) use listing::shown_key;
pub(crate) use object_path::ObjectPath;
pub(crate) use plugins::all as all_plugins;
pub(crate) use query::{Query, segments};
pub use respond::ApiHeaders;
pub(crate) use server::max_set_bytes;
pub use server::{Admin, AdminParts};
pub(crate) use weir::list_query;
pub(crate) use weir::versions::{version_value, versions_value};

#[cfg(test)]
mod tests;
