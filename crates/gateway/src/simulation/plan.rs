//! Parameters of one run, drawn from its seed: how many clients, nodes and workers take part, how the network
//! behaves, which faults occur. About a third of all seeds have no fault; in their runs every request must be
//! answered.

use std::net::{Ipv4Addr, SocketAddr};

use exchange::options::AttemptTimeouts;
use exchange::options::EngineLimits;
use net::env::memory::{LinkBehavior, Random};

/// Parameters of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) workers: usize,
    pub(crate) clients: usize,
    /// Connections that a client makes, one after another.
    pub(crate) connections: u64,
    /// Requests on each connection.
    pub(crate) requests: u64,
    pub(crate) nodes: usize,
    /// Nodes from this number on refuse every connection; at least one node accepts.
    pub(crate) nodes_up: usize,
    pub(crate) routes: usize,
    pub(crate) limits: EngineLimits,
    pub(crate) timeouts: AttemptTimeouts,
    pub(crate) client_link: LinkBehavior,
    pub(crate) node_link: LinkBehavior,
    pub(crate) faults: Faults,
    /// Whether the gateway has a second listener, which may be removed and added again.
    pub(crate) second_listener: bool,
    /// Whether the upstreams eject nodes, break their circuit and limit their requests.
    pub(crate) is_protected: bool,
    /// Number of configuration changes.
    pub(crate) changes: u64,
    /// When the drain begins, even if clients are still at work; `None` begins it when all clients are done.
    pub(crate) drain_after_ms: Option<u64>,
    /// How long an idle connection may wait for one more request after the drain has begun, in milliseconds.
    pub(crate) farewell_ms: u64,
    pub(crate) planted: Option<Plant>,
}

/// How often a fault occurs, in percent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// A response of a node is cut, late, or not HTTP.
    pub(crate) node: u64,
    /// A client gives up a request, sends it too slowly, or does not read the response.
    pub(crate) client: u64,
    /// A node closes a connection that waits for a request. HTTP allows this, but the close may meet the next
    /// request.
    pub(crate) idle_close: u64,
    /// A plugin panics.
    pub(crate) panic: u64,
    /// How often in a run a worker's event loop ends and is started again.
    pub(crate) worker_ends: u64,
}

/// A fault planted in the simulation that its checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A node answers with the identity of another request.
    OtherIdentity,
    /// A node ends a body early and marks it as whole.
    CutPassedAsWhole,
    /// A node executes a request twice.
    DoneTwice,
    /// A node changes a byte in a tunnel.
    TunnelByte,
    /// A node cuts a response without recording an excuse.
    BreaksSilently,
    /// The operator records a destination that a route does not have.
    WrongTarget,
    /// The network delivers every reset as an orderly end.
    ResetsAreSoftened,
    /// The network turns every close into a reset.
    ClosesAreHardened,
    /// A worker counts a connection that does not exist.
    CountLeaks,
    /// A client reads one response fewer than it sent requests.
    AnswerUnread,
    /// The name service never changes an answer.
    StaleName,
    /// A listener is removed without a record in the ledger.
    SilentListener,
    /// The retry policy of every upstream allows unsafe methods.
    UnsafeRetry,
}

impl Plan {
    pub(crate) fn draw(random: &mut Random, planted: Option<Plant>) -> Plan {
        let nodes = random.between(1, 4) as usize;
        let nodes_up = if random.chance(25) { random.between(1, nodes as u64) as usize } else { nodes };
        let mut plan = Plan {
            workers: random.between(1, 3) as usize,
            clients: random.between(1, 6) as usize,
            connections: random.between(1, 3),
            requests: random.between(1, 6),
            nodes,
            nodes_up,
            routes: random.between(1, 3) as usize,
            limits: limits(random),
            timeouts: AttemptTimeouts {
                connect_ms: 500,
                send_ms: 1_000,
                read_ms: 1_000,
                tunnel_idle_ms: 3_000,
            },
            client_link: link(random),
            node_link: link(random),
            faults: Faults::default(),
            second_listener: random.chance(40),
            is_protected: false,
            changes: if random.chance(50) { random.between(1, 8) } else { 0 },
            drain_after_ms: random.chance(30).then(|| random.between(1, 600)),
            farewell_ms: *random.pick(&[0, 0, 300]),
            planted,
        };
        let soft = planted == Some(Plant::ResetsAreSoftened);
        (plan.client_link.softens_resets, plan.node_link.softens_resets) = (soft, soft);
        plan.client_link.hardens_closes = planted == Some(Plant::ClosesAreHardened);
        plan.faults.idle_close = *random.pick(&[0, 0, 30, 80]);
        if random.chance(65) {
            plan.draw_faults(random);
        }
        // Computed from values drawn above instead of drawn, so that every seed keeps its run.
        plan.limits.wait_for_body_bytes =
            [0, 1, 100, 2_048, 20_000][(plan.clients * 6 + plan.requests as usize) % 5];
        plan.is_protected = (plan.clients + plan.nodes + plan.requests as usize).is_multiple_of(3);
        plan
    }

    /// Whether a circuit breaker may refuse requests: only failures open it.
    pub(crate) fn may_refuse(&self) -> bool {
        let Faults { node, client, panic, worker_ends, .. } = self.faults;
        let links = [&self.client_link, &self.node_link];
        let is_harmed = links.iter().any(|link| {
            link.reset_percent + link.stall_percent + link.refuse_percent + link.hang_percent > 0
        });
        self.is_protected
            && (is_harmed || node + client + panic + worker_ends > 0 || self.nodes_up < self.nodes)
    }

    /// Whether all clients speak HTTP/2.
    #[cfg(test)]
    pub(crate) fn is_http2_alone(&self) -> bool {
        (0..self.clients).all(|client| self.speaks_http2(client))
    }

    /// Whether the connections of this client are of HTTP/2.
    pub(crate) fn speaks_http2(&self, client: usize) -> bool {
        // Computed instead of drawn, so that the other clients of every seed keep their requests.
        (client + self.requests as usize).is_multiple_of(3)
    }

    fn draw_faults(&mut self, random: &mut Random) {
        let mut often = || *random.pick(&[0, 0, 5, 30]);
        (self.faults.node, self.faults.client, self.faults.panic) = (often(), often(), often());
        self.faults.worker_ends = if random.chance(10) { 2 } else { 0 };
        for link in [&mut self.client_link, &mut self.node_link] {
            let mut often = || *random.pick(&[0, 0, 0, 5, 25]);
            (link.reset_percent, link.stall_percent) = (often(), often());
            link.stall_ns = (100_000_000, 2_500_000_000);
            link.harm_within_ns = *random.pick(&[5_000_000, 100_000_000, 2_000_000_000]);
        }
        let mut often = || *random.pick(&[0, 0, 0, 10]);
        (self.node_link.refuse_percent, self.node_link.hang_percent) = (often(), often());
    }
}

fn limits(random: &mut Random) -> EngineLimits {
    EngineLimits {
        head_timeout_ms: 1_000,
        idle_timeout_ms: 1_500,
        body_timeout_ms: 1_000,
        send_timeout_ms: 1_000,
        max_requests_per_connection: *random.pick(&[0, 0, 1, 2, 3]),
        max_connections: *random.pick(&[100_000, 100_000, 100_000, 3]),
        ..EngineLimits::default()
    }
}

fn link(random: &mut Random) -> LinkBehavior {
    LinkBehavior {
        latency_ns: (0, *random.pick(&[1_000, 100_000, 1_000_000, 5_000_000])),
        room_bytes: *random.pick(&[(65_536, 65_536), (1_048_576, 1_048_576), (4_000, 20_000), (300, 3_000)]),
        pieces_percent: *random.pick(&[0, 0, 10, 50]),
        lag_percent: *random.pick(&[0, 10, 50]),
        ..LinkBehavior::default()
    }
}

/// Address of the gateway's listener.
pub(crate) fn proxy_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9_080))
}

/// Address of the gateway's second listener.
pub(crate) fn second_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9_081))
}

/// Whether `address` belongs to a listener of the gateway.
pub(crate) fn is_proxy(address: SocketAddr) -> bool {
    address == proxy_address() || address == second_address()
}

/// Address of a node.
pub(crate) fn node_address(node: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 1, 0, node as u8 + 1), 80))
}

/// Address of a client's connection.
pub(crate) fn client_address(client: usize, connection: u64) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 2, 0, client as u8 + 1), 1_024 + connection as u16))
}
