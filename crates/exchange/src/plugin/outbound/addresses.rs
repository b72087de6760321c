//! The addresses of one destination: its name is looked up in the background like those of nodes, and each
//! address is held against the policy before anything connects to it. It opens nothing.

use std::sync::Arc;

use model::outbound::OutboundPolicy;
use stdx::published::Published;

use super::error::{OutboundCause, OutboundError};
use net::endpoint::{EndpointProtocol, KeepAlive};
use net::env;
use net::nodes::{NodePlan, NodeSet, PlannedNode};
use net::resolver::Resolver;
use net::tls::client::ClientTls;

/// Milliseconds between two looks whether the name has an address: shorter than a query on a local network is
/// noticed.
const LOOKUP_POLL_MS: u64 = 5;

/// See the module.
pub(super) struct Addresses {
    /// The destination as it was written, for messages.
    place: Box<str>,
    nodes: Arc<Published<NodeSet>>,
    policy: Arc<OutboundPolicy>,
}

/// How connections to the addresses are opened and kept.
pub(super) struct Connecting {
    pub(super) tls: Option<Arc<ClientTls>>,
    pub(super) protocol: EndpointProtocol,
    pub(super) keep_alive: KeepAlive,
}

impl Addresses {
    /// The addresses of `host`, looked up by `resolver` from now on.
    pub(super) fn follow(
        place: &str,
        host: &str,
        port: u16,
        connecting: Connecting,
        resolver: &Resolver,
        policy: Arc<OutboundPolicy>,
    ) -> Addresses {
        let Connecting { tls, protocol, keep_alive } = connecting;
        let node = PlannedNode {
            host: host.into(),
            port,
            authority: host.into(),
            weight: 1,
            priority: 0,
            metadata: None,
        };
        let nodes = Arc::new(Published::new(Arc::new(NodeSet::default())));
        // The policy is asked with each call, so that a failure can say which address it is.
        let plan = NodePlan {
            nodes: vec![node],
            tls,
            protocol,
            keep_alive,
            derive: None,
            note: None,
            refuses: None,
        };
        resolver.follow(&nodes, plan);
        Addresses { place: place.into(), nodes, policy }
    }

    /// The destination as it was written.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// The addresses as they are known now. Takes a lock for as long as a pointer is copied; a call follows
    /// that takes a thousand times longer.
    ///
    /// # Errors
    /// The name has no address, or none that may be reached.
    pub(super) fn nodes(&self) -> Result<Arc<NodeSet>, OutboundError> {
        let set = self.nodes.load();
        if set.nodes.is_empty() {
            let detail = set.note.clone().unwrap_or_else(|| "the name was not looked up yet".to_owned());
            return Err(self.error(OutboundCause::NoAddress, detail));
        }
        for node in &set.nodes {
            let address = node.endpoint.address.ip();
            // One such address among several is reason enough: a name must not lead there by turns.
            if let Some(what) = self.policy.refuses(address) {
                let detail = format!(
                    "{address} is {what}; the setting outbound_allow lists what plugins may reach all the same"
                );
                return Err(self.error(OutboundCause::Forbidden, detail));
            }
        }
        Ok(set)
    }

    /// Whether the name was looked up, with an address or without.
    fn is_looked_up(&self) -> bool {
        let set = self.nodes.load();
        !set.nodes.is_empty() || set.note.is_some()
    }

    /// Waits until the name was looked up, at most `wait_ms` milliseconds; how many it has waited.
    pub(super) async fn looked_up(&self, wait_ms: u64) -> u64 {
        let mut waited_ms = 0;
        while !self.is_looked_up() && waited_ms < wait_ms {
            env::sleep_ms(LOOKUP_POLL_MS).await;
            waited_ms += LOOKUP_POLL_MS;
        }
        waited_ms.min(wait_ms)
    }

    /// A failure at this place.
    pub(super) fn error(&self, cause: OutboundCause, detail: impl Into<String>) -> OutboundError {
        OutboundError { cause, place: self.place.clone(), detail: detail.into() }
    }
}
