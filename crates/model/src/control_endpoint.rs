//! Endpoints that plugins have in the control API. A plugin declares them as data, and control serves those
//! of the plugins in its catalog.

use serde_json::Value;

use crate::instance::InstanceInfo;

/// An endpoint of a plugin, asked with GET.
#[derive(Clone, Copy)]
pub struct ControlEndpoint {
    /// Its path: `/v1/server_info`.
    pub path: &'static str,
    /// Makes the answer. It must not block.
    pub answer: fn(&ControlQuestion<'_>) -> ControlAnswer,
}

/// A request to an endpoint.
pub struct ControlQuestion<'a> {
    /// The query, without `?`; empty if there is none.
    pub query: &'a str,
    /// The running process.
    pub instance: &'a InstanceInfo,
}

/// The answer of an endpoint; its status is 200.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlAnswer {
    /// A JSON value.
    Json(Value),
    /// A text.
    Text(String),
}
