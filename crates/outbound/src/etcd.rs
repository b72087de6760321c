//! A client of etcd: its settings and errors; calls, pages of a range, and plain keys with a watch are below.
//! It does not know the layout of the configuration.

pub mod client;
mod connector;
pub mod message;
pub mod plain;
pub mod range;

use std::path::PathBuf;
use std::time::Duration;

use model::outbound::OutboundPolicy;
use thiserror::Error;

/// The endpoints of etcd, and the settings for calls.
#[derive(Clone)]
pub struct EtcdConfig {
    /// `http://HOST:PORT` or `https://HOST:PORT`, all of one scheme; at least one.
    pub endpoints: Vec<String>,
    /// The common prefix of all keys, without a slash at its end (`/apisix`).
    pub prefix: String,
    /// User and password, if etcd requires them.
    pub user: Option<(String, String)>,
    /// The settings of TLS for `https` endpoints.
    pub tls: EtcdTls,
    /// The addresses that may not be connected to; none: every address may.
    pub policy: Option<OutboundPolicy>,
    /// Time limit for the answer of one endpoint to a call.
    pub timeout: Duration,
    /// Time that a start waits for etcd when there is no copy of its data.
    pub start_timeout: Duration,
    /// Most operations that etcd takes in one transaction (its `max-txn-ops`).
    pub max_operations: usize,
}

/// TLS towards etcd.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    /// Certificates (PEM) that may sign etcd's; none means the system's.
    pub ca: Option<PathBuf>,
    /// Certificate and private key (PEM) of this instance.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that etcd's certificate must have, where it is not the endpoint's host.
    pub server_name: Option<String>,
    /// Whether etcd's certificate is verified; off: any certificate is accepted.
    pub verify: bool,
}

impl std::fmt::Debug for EtcdConfig {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EtcdConfig")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// The reasons why a call of etcd failed.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum EtcdError {
    /// No endpoint answered, and one of them may have received the call; holds the error of the last one.
    #[error("etcd cannot be reached: {0}")]
    Unreachable(String),
    /// No endpoint could be connected to, so that the call was not sent; holds the error of the last one.
    #[error("etcd cannot be reached: {0}")]
    NotConnected(String),
    /// etcd answered with a refusal.
    #[error("etcd refuses: {0}")]
    Refused(String),
    /// The requested revision is no longer kept.
    #[error("etcd no longer keeps that revision")]
    Compacted,
    /// The answer is larger than `MAX_ANSWER_BYTES`.
    #[error("an answer of etcd is larger than {MAX_ANSWER_BYTES} bytes")]
    TooLarge,
    /// A certificate or key cannot be used.
    #[error("{0}")]
    Tls(String),
}

impl EtcdError {
    /// Whether etcd grants the user less than the call needs.
    pub fn is_denied(&self) -> bool {
        matches!(self, EtcdError::Refused(reason) if reason.contains("permission denied"))
    }
}

/// Limit of an answer of etcd. The pages of a load are made smaller until they fit, and no single value comes
/// near the limit (etcd accepts 1.5 MiB by default).
const MAX_ANSWER_BYTES: usize = 64 << 20;
