//! etcd as the source of a cluster (contract 2.2): the client, the follower that reads everything once and
//! then watches, and the operations of a write. It does not know the meaning of the objects; the reconciling
//! thread does.

mod client;
mod follow;
mod history;
mod last_good;
mod lease;
mod load;
mod message;
mod own_place;
mod source;
mod space;
mod status;
mod watch;
mod write;

use std::sync::Arc;

pub use outbound::etcd::{EtcdConfig, EtcdError, EtcdTls};

pub use client::Etcd;
pub(crate) use follow::follow_etcd;
pub use follow::{FollowerCommands, Update};
pub use history::Note;
pub(crate) use history::build_note_operation;
pub use last_good::{EtcdCopy, LastGood};
pub(crate) use lease::LeasedKey;
pub use source::{EtcdSource, EtcdSourceError};
pub use space::{KeySpace, Stray};
pub use status::{EtcdState, EtcdStatus};
pub use watch::EtcdKeyChange;
pub use write::{EtcdOperation, EtcdWriteError, EtcdWriteOutcome, Expected, KeyPrefix};
pub(crate) use write::{MAX_OPERATIONS, MAX_TRANSACTION_BYTES};

/// One object of etcd: its path, and its value with the revisions that created and changed it.
pub type EtcdEntry = (String, crate::source::store::StoredRecord);

/// The client, shared by the follower and the writers.
pub(crate) type SharedEtcd = Arc<Etcd>;
