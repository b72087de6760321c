//! Destinations that are known only while requests run: the endpoints that a discovery document lists. It
//! calls none.

use std::sync::Arc;

use model::outbound::OutboundPolicy;
use net::endpoint::KeepAlive;
use net::resolver::Resolver;
use net::tls::identity::ClientIdentities;

use super::destination::OutboundDestination;
use super::grpc::GrpcDestination;
use super::tls::OutboundTls;

/// Opens destinations after the configuration was compiled. A plugin keeps one with its other services.
#[derive(Clone)]
pub struct DestinationOpener {
    resolver: Arc<Resolver>,
    tls: Arc<ClientIdentities>,
    policy: Arc<OutboundPolicy>,
}

impl DestinationOpener {
    pub(crate) fn new(
        resolver: Arc<Resolver>,
        tls: Arc<ClientIdentities>,
        policy: Arc<OutboundPolicy>,
    ) -> DestinationOpener {
        DestinationOpener { resolver, tls, policy }
    }

    /// The destination `uri`, after its name was looked up once or `wait_ms` milliseconds have passed.
    ///
    /// # Errors
    /// Why plugins cannot reach `uri`, a sentence (see [`super::check_uri`]). A name without an address is no
    /// error here: the call to the destination fails with it.
    pub async fn open(
        &self,
        uri: &str,
        keep_alive: KeepAlive,
        tls: &OutboundTls,
        wait_ms: u64,
    ) -> Result<OutboundDestination, String> {
        let policy = self.policy.clone();
        let destination = OutboundDestination::new(uri, keep_alive, tls, &self.tls, &self.resolver, policy)?;
        destination.looked_up(wait_ms).await;
        Ok(destination)
    }

    /// The destination `uri` for unary calls of gRPC, of which scheme, host and port count. Its name is
    /// looked up as that of [`DestinationOpener::open`] is.
    ///
    /// # Errors
    /// As for [`DestinationOpener::open`].
    pub async fn open_grpc(
        &self,
        uri: &str,
        tls: &OutboundTls,
        wait_ms: u64,
    ) -> Result<GrpcDestination, String> {
        let policy = self.policy.clone();
        let destination = GrpcDestination::new(uri, tls, &self.tls, &self.resolver, policy)?;
        destination.looked_up(wait_ms).await;
        Ok(destination)
    }
}
