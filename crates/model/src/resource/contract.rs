//! A contract: the document of a service that its routes are made of. Knows its fields; `contract` makes the
//! routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::common::{ObjectLabels, Timeout, on, status};
use super::{Plugins, UpstreamConfig};
use crate::contract::ContractRoutes;
use crate::{Id, number};

/// The document of a service, and how its operations are served.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: ObjectLabels,
    #[serde(rename = "kind")]
    _kind: Option<Box<str>>,
    /// The document, in YAML or JSON.
    pub content: Arc<str>,
    /// The path in front of those of the document; none: the path of its first server.
    pub base_path: Option<Box<str>>,
    /// The path in front of those that nodes are sent; none: the path of the document's first server.
    pub upstream_base_path: Option<Box<str>>,
    /// The hosts that it serves; empty: its service's, else any.
    #[serde(default)]
    pub hosts: Box<[Box<str>]>,
    /// The upstream that requests go to.
    pub upstream_id: Option<Id>,
    /// An upstream of its own.
    pub upstream: Option<Arc<UpstreamConfig>>,
    /// The service that its routes take the rest from.
    pub service_id: Option<Id>,
    /// The plugins of all operations.
    #[serde(default)]
    pub plugins: Plugins,
    /// The timeouts of all operations.
    pub timeout: Option<Timeout>,
    /// Rules of single operations, by `operationId`.
    #[serde(default)]
    pub operations: BTreeMap<Box<str>, OperationRules>,
    /// The plugin that checks each security scheme of the document, by the name of the scheme; an empty
    /// object: nothing checks it here.
    #[serde(default)]
    pub security: BTreeMap<Box<str>, Plugins>,
    /// The answer to a path below `base_path` that the document does not have.
    #[serde(default)]
    pub unknown: UnknownOperations,
    /// The check of requests.
    #[serde(default = "enforce")]
    pub request: ContractChecks,
    /// The check of responses.
    #[serde(default = "off")]
    pub response: ContractChecks,
    /// The fields of requests that are sent on.
    #[serde(default)]
    pub headers: PassedHeaders,
    /// Answers made of the document.
    #[serde(default)]
    pub mock: ContractMocks,
    /// A page for readers of the contract.
    pub docs: Option<ContractPage>,
    /// Among routes of the same path, the highest is tried first.
    #[serde(default, deserialize_with = "number::deserialize_integer")]
    pub priority: i64,
    /// Whether it serves.
    #[serde(default = "on", deserialize_with = "status")]
    pub status: bool,
    /// The routes of the document, made by the check.
    #[serde(skip)]
    pub routes: Arc<ContractRoutes>,
}

/// Rules of one operation, over those of the contract.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationRules {
    /// Its plugins.
    #[serde(default)]
    pub plugins: Plugins,
    /// Its authentication, in place of that of the document; an empty object: none.
    pub auth: Option<Plugins>,
    /// Its timeouts.
    pub timeout: Option<Timeout>,
    /// The upstream that its requests go to.
    pub upstream_id: Option<Id>,
    /// The check of its requests.
    pub request: Option<ContractChecks>,
    /// The check of its responses.
    pub response: Option<ContractChecks>,
    /// Answers made of the document.
    pub mock: Option<ContractMocks>,
}

/// A page for readers of a contract.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContractPage {
    /// Its path; the document is at `PATH/openapi.json`.
    pub path: Box<str>,
}

/// The answer to paths that a document does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownOperations {
    /// 404.
    #[default]
    Reject,
    /// They go to the upstream.
    Pass,
}

/// The check of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContractChecks {
    /// None.
    Off,
    /// Faults are logged.
    Warn,
    /// Faulty messages are refused.
    Enforce,
}

/// The fields of requests that are sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassedHeaders {
    /// All.
    #[default]
    All,
    /// Those that the operation declares, and those of HTTP itself.
    Declared,
}

/// Answers made of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContractMocks {
    /// None.
    #[default]
    Off,
    /// All.
    Always,
}

impl ContractChecks {
    /// As written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ContractChecks::Off => "off",
            ContractChecks::Warn => "warn",
            ContractChecks::Enforce => "enforce",
        }
    }
}

const fn enforce() -> ContractChecks {
    ContractChecks::Enforce
}

const fn off() -> ContractChecks {
    ContractChecks::Off
}
