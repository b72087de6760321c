//! The measurements of all workers at the nodes of upstreams, for reports. Workers are asked when a report is
//! wanted, so that requests pay nothing for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use net::nodes::NodeSet;
use stdx::published::Published;

/// Nodes in the answer of one worker at most; a report of more would keep the worker from its requests for
/// milliseconds.
pub const NODES_MAX: usize = 10_000;

/// The nodes of an upstream, the same for all its forms.
pub type NodesCell = Arc<Published<NodeSet>>;

/// A question to a worker.
pub struct NodeLoadQuery {
    /// The upstream that is meant; none: all.
    pub only: Option<NodesCell>,
    /// Dropped by a worker that cannot answer.
    pub answer: Sender<Vec<Measured>>,
}

/// The measurements of one worker at one node.
pub struct Measured {
    /// The upstream.
    pub cell: NodesCell,
    /// The endpoint.
    pub endpoint_id: u64,
    /// Attempts in flight.
    pub in_flight: u32,
    /// The moving average of the response time in microseconds. None for a method that does not measure, and
    /// before the first response.
    pub latency_us: Option<f64>,
}

/// The measurements at one node, over all workers that answered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeLoad {
    /// Attempts in flight.
    pub in_flight: u32,
    /// The moving average of the response time in microseconds: the mean of those of the workers. None for a
    /// method that does not measure, and before the first response.
    pub latency_us: Option<f64>,
}

/// The measurements at nodes, by upstream and endpoint.
#[derive(Default)]
pub struct NodeLoads {
    nodes: HashMap<(usize, u64), Sum>,
    /// Keeps the cells alive, because their addresses are keys.
    cells: Vec<NodesCell>,
}

#[derive(Default)]
struct Sum {
    in_flight: u32,
    latency_us: f64,
    measuring: u32,
}

impl NodeLoads {
    /// Adds the answer of a worker.
    pub fn add(&mut self, measured: Vec<Measured>) {
        for Measured { cell, endpoint_id, in_flight, latency_us } in measured {
            let sum = self.nodes.entry((Arc::as_ptr(&cell).addr(), endpoint_id)).or_default();
            sum.in_flight += in_flight;
            sum.latency_us += latency_us.unwrap_or_default();
            sum.measuring += u32::from(latency_us.is_some());
            if !self.cells.last().is_some_and(|last| Arc::ptr_eq(last, &cell)) {
                self.cells.push(cell);
            }
        }
    }

    /// The measurements at the endpoint of the upstream with this cell; zero if no worker has used it.
    pub fn at(&self, cell: &NodesCell, endpoint_id: u64) -> NodeLoad {
        let Some(sum) = self.nodes.get(&(Arc::as_ptr(cell).addr(), endpoint_id)) else {
            return NodeLoad::default();
        };
        let latency_us = (sum.measuring > 0).then(|| sum.latency_us / f64::from(sum.measuring));
        NodeLoad { in_flight: sum.in_flight, latency_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_of_workers_add_up_by_upstream_and_endpoint() {
        let cell = || Arc::new(Published::new(Arc::new(NodeSet::default())));
        let (one, other) = (cell(), cell());
        let measured = |cell: &NodesCell, endpoint_id, in_flight, latency_us| Measured {
            cell: cell.clone(),
            endpoint_id,
            in_flight,
            latency_us,
        };
        let mut loads = NodeLoads::default();
        loads.add(vec![measured(&one, 1, 2, Some(100.0)), measured(&other, 1, 7, None)]);
        loads.add(vec![measured(&one, 1, 3, Some(300.0)), measured(&one, 2, 1, None)]);
        assert_eq!(loads.at(&one, 1), NodeLoad { in_flight: 5, latency_us: Some(200.0) });
        assert_eq!(loads.at(&one, 2), NodeLoad { in_flight: 1, latency_us: None });
        assert_eq!(loads.at(&other, 1), NodeLoad { in_flight: 7, latency_us: None });
        assert_eq!(loads.at(&other, 2), NodeLoad::default());
    }
}
