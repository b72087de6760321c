//! The client of the cluster that holds the configuration: calls, and the place of Weir's own keys as far as
//! it is known. The calls themselves are in `outbound`.

use outbound::etcd::client::EtcdClient;

use super::own_place::OwnPlace;
use super::{EtcdConfig, EtcdError};

/// A client of one etcd cluster.
#[derive(Debug)]
pub struct Etcd {
    /// Makes the calls.
    pub(super) calls: EtcdClient,
    /// Where Weir's own keys are.
    pub(super) own_place: OwnPlace,
}

impl Etcd {
    /// A client that connects at its first call. It must be created within a tokio runtime, because its
    /// connections are tasks of that runtime.
    ///
    /// # Errors
    /// As of [`EtcdClient::new`].
    pub fn new(config: EtcdConfig) -> Result<Etcd, EtcdError> {
        Ok(Etcd { calls: EtcdClient::new(config)?, own_place: OwnPlace::default() })
    }

    /// The endpoint that is called first.
    pub fn endpoint(&self) -> &str {
        self.calls.endpoint()
    }

    /// Uses another endpoint from now on.
    pub fn turn_away(&self) {
        self.calls.turn_away();
    }
}
