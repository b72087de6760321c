//! The Admin API (contract 2.1), request by request. It knows no sockets and does not store anything: it
//! reads the view and sends writes to the reconciling thread.

pub mod auth;
pub(crate) mod call;
mod conditions;
mod configs;
mod denial;
mod endpoint;
mod extensions;
mod guesses;
mod kinds;
pub(crate) mod listing;
pub(crate) mod live;
pub mod openapi;
mod origin;
pub(crate) mod plugins;
mod refusals;
mod resources;
mod schema;
pub(crate) mod server;
mod ui;
mod validate;
pub(crate) mod weir;

#[cfg(test)]
mod tests;
