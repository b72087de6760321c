//! etcd as the source of a cluster (contract 2.2): the client, the follower that reads everything once and then watches,
//! and what a write becomes there. It refuses to know what the objects mean; the reconciling thread decides that.

mod client;
mod connector;
mod follow;
mod history;
mod last_good;
mod load;
mod message;
mod metrics;
mod source;
mod space;
mod watch;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub use client::Etcd;
pub(crate) use follow::follow;
pub use follow::{Follower, Update};
pub use history::Note;
pub(crate) use history::note;
pub use last_good::{Kept, LastGood};
pub(crate) use metrics::write_metrics;
pub use source::{EtcdSource, EtcdSourceError};
pub use space::{KeySpace, Stray};
pub use watch::Changed;
pub use write::{Expected, Failed, Operation, Outcome, Place};
pub(crate) use write::{MAX_OPERATIONS, MAX_TRANSACTION_BYTES};

/// Where etcd is and how to talk to it.
#[derive(Clone)]
pub struct EtcdConfig {
    /// `http://HOST:PORT` or `https://HOST:PORT`, all of one scheme; at least one.
    pub endpoints: Vec<String>,
    /// What every key begins with, without a slash at its end (`/apisix`).
    pub prefix: String,
    /// User and password, where etcd asks for them.
    pub user: Option<(String, String)>,
    /// How `https` endpoints are checked, and what is shown to them.
    pub tls: EtcdTls,
    /// How long one endpoint may take to answer a call.
    pub timeout: Duration,
    /// How long a start waits for etcd when there is no copy of what it held.
    pub start_timeout: Duration,
    /// Most operations that etcd takes in one transaction (its `max-txn-ops`).
    pub max_operations: usize,
}

/// TLS towards etcd.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    /// Certificates (PEM) that etcd's may be signed by; none means the system's.
    pub ca: Option<PathBuf>,
    /// Certificate and private key (PEM) of this node.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name etcd's certificate must have, where it is not the endpoint's host.
    pub server_name: Option<String>,
    /// Off: any certificate is taken.
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

/// Why a call of etcd did not succeed.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum EtcdError {
    /// No endpoint answered, and one of them may have got the call; what the last one of them said.
    #[error("etcd cannot be reached: {0}")]
    Unreachable(String),
    /// No endpoint could be connected to, so that the call was not sent; what the last one of them said.
    #[error("etcd cannot be reached: {0}")]
    NotConnected(String),
    /// etcd answered and refuses.
    #[error("etcd refuses: {0}")]
    Refused(String),
    /// The revision that was asked for is no longer kept.
    #[error("etcd no longer keeps that revision")]
    Compacted,
    /// The answer is larger than what is taken.
    #[error("an answer of etcd is larger than {MAX_ANSWER_BYTES} bytes")]
    TooLarge,
    /// Certificates or keys cannot be used.
    #[error("{0}")]
    Tls(String),
}

/// One object as etcd holds it: its value and the revisions that made and changed it.
pub type Entry = (String, crate::source::store::Record);

/// An answer of etcd larger than this is not read: pages of a load are made smaller until they fit, and no single value
/// comes near it (etcd takes 1.5 MiB unless told otherwise).
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The client, shared by the follower and by whoever writes.
pub(crate) type SharedEtcd = Arc<Etcd>;
