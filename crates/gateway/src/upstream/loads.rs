//! The measurements of one worker at the nodes of an upstream: requests in flight and response times. Kept by
//! node, apart from the groups that balancers choose from, so that they survive every change that leaves the
//! node in place.

use std::collections::HashMap;

use net::nodes::NodeSet;

/// Time after which an average has lost all but 1/e of its weight; the usual choice, long compared with a
/// request and short compared with a deployment.
const DECAY_MS: f64 = 10_000.0;
/// The latency that a failed attempt counts as, because otherwise a node that refuses quickly would look
/// fast.
const FAILURE_PENALTY_US: f64 = 5_000_000.0;
/// The least weight of a response in the average over all nodes, so that it follows when there are many in a
/// moment.
const TYPICAL_SHARE_MIN: f64 = 1.0 / 32.0;

/// The measurements at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct NodeMeasurement {
    /// Attempts in flight.
    active: u32,
    /// The moving average of the response time, in microseconds; none before the first response.
    latency: Option<Average>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Average {
    us: f64,
    /// When it was last updated, in milliseconds of the monotonic clock.
    at_ms: u64,
}

/// The measurements at the nodes of an upstream, by index.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    nodes: Vec<NodeMeasurement>,
    /// The average over the successful responses of all nodes: the cost of a node of which nothing is known.
    typical: Average,
}

impl Loads {
    /// Without any measurement.
    pub fn new(nodes: usize) -> Loads {
        Loads { nodes: vec![NodeMeasurement::default(); nodes], typical: Average::default() }
    }

    /// The measurements for the set `new` at the nodes that it shares with `old`; and for each node of `new`
    /// its index in `old`. Of several nodes with one endpoint the first has the measurements of all, because
    /// the end of an attempt is counted there.
    pub(crate) fn carried_over(&self, old: &NodeSet, new: &NodeSet) -> (Loads, Vec<Option<u32>>) {
        let (before, now) = (first_indices(old), first_indices(new));
        let mut loads =
            Loads { nodes: vec![NodeMeasurement::default(); new.nodes.len()], typical: self.typical };
        for (node, load) in old.nodes.iter().zip(&self.nodes) {
            if let Some(index) = now.get(&node.endpoint.id) {
                let carried = &mut loads.nodes[*index as usize];
                carried.active += load.active;
                carried.latency = carried.latency.or(load.latency);
            }
        }
        (loads, new.nodes.iter().map(|node| before.get(&node.endpoint.id).copied()).collect())
    }

    /// Attempts in flight at `node`.
    #[inline]
    pub fn active(&self, node: usize) -> u32 {
        self.nodes[node].active
    }

    /// The expected response time of `node` in microseconds: its average, which approaches that of all nodes
    /// while it has no responses.
    #[inline]
    pub fn latency_us(&self, node: usize, now_ms: u64) -> f64 {
        match self.nodes[node].latency {
            Some(average) => self.typical.us + (average.us - self.typical.us) * decay(now_ms, average.at_ms),
            None => self.typical.us,
        }
    }

    /// Records that an attempt at `node` begins; returns those in flight.
    #[inline]
    pub fn started(&mut self, node: usize) -> u32 {
        self.nodes[node].active += 1;
        self.nodes[node].active
    }

    /// Records that an attempt at `node` has ended; returns those in flight.
    #[inline]
    pub fn finished(&mut self, node: usize) -> u32 {
        // A node that came back under another set begins with none of its earlier requests.
        self.nodes[node].active = self.nodes[node].active.saturating_sub(1);
        self.nodes[node].active
    }

    /// Records a response time; a failed attempt counts as slow.
    pub fn measured(&mut self, node: usize, latency_us: u64, now_ms: u64, has_failed: bool) {
        let mut sample = latency_us as f64;
        if has_failed {
            sample = FAILURE_PENALTY_US.max(sample);
        } else {
            let share = (1.0 - decay(now_ms, self.typical.at_ms)).max(TYPICAL_SHARE_MIN);
            let share = if self.typical.us == 0.0 { 1.0 } else { share };
            self.typical =
                Average { us: self.typical.us + (sample - self.typical.us) * share, at_ms: now_ms };
        }
        let us = match self.nodes[node].latency {
            // A rise is followed at once, and forgotten slowly.
            Some(average) if sample <= average.us => {
                let kept = decay(now_ms, average.at_ms);
                average.us * kept + sample * (1.0 - kept)
            }
            _ => sample,
        };
        self.nodes[node].latency = Some(Average { us, at_ms: now_ms });
    }

    /// The average response time of `node` in microseconds, as of its last response; none before the first
    /// one.
    pub(crate) fn average_us(&self, node: usize) -> Option<f64> {
        self.nodes[node].latency.map(|average| average.us)
    }

    /// Attempts in flight at all nodes.
    #[cfg(feature = "simulation")]
    pub(crate) fn active_total(&self) -> usize {
        self.nodes.iter().map(|load| load.active as usize).sum()
    }
}

/// By endpoint, the first node of the set.
fn first_indices(set: &NodeSet) -> HashMap<u64, u32> {
    let mut indices = HashMap::with_capacity(set.nodes.len());
    for (index, node) in (0..).zip(&set.nodes) {
        indices.entry(node.endpoint.id).or_insert(index);
    }
    indices
}

#[inline]
fn decay(now_ms: u64, at_ms: u64) -> f64 {
    (-(now_ms.saturating_sub(at_ms) as f64) / DECAY_MS).exp()
}

#[cfg(test)]
mod tests {
    use super::super::balance::testing::set;
    use super::*;

    #[test]
    fn unknown_node_is_expected_to_be_typical() {
        let mut loads = Loads::new(2);
        assert_eq!(loads.latency_us(1, 0), 0.0);
        loads.measured(0, 2_000, 0, false);
        assert_eq!(loads.latency_us(1, 0), 2_000.0);
    }

    #[test]
    fn average_approaches_the_typical_one_when_idle() {
        let mut loads = Loads::new(2);
        loads.measured(0, 0, 0, true);
        (0..2_000).for_each(|at_ms| loads.measured(1, 1_000, at_ms, false));
        let at = |now_ms| loads.latency_us(0, now_ms);
        assert!(at(0) > 4_900_000.0 && at(10_000) > 1_500_000.0, "{} {}", at(0), at(10_000));
        assert!((1_000.0..1_100.0).contains(&at(200_000)), "{}", at(200_000));
    }

    #[test]
    fn failure_counts_as_slow_but_not_as_typical() {
        let mut loads = Loads::new(2);
        loads.measured(0, 1_000, 0, false);
        loads.measured(1, 10, 0, true);
        assert_eq!((loads.latency_us(0, 0), loads.latency_us(1, 0)), (1_000.0, FAILURE_PENALTY_US));
    }

    #[test]
    fn measurements_stay_with_the_endpoint() {
        let (old, mut new) = (set(&[1, 1, 1]), set(&[1, 1, 1, 1]));
        new.nodes.remove(0);
        let mut loads = Loads::new(3);
        loads.started(2);
        loads.measured(2, 700, 5, false);
        let (carried, indices) = loads.carried_over(&old, &new);
        assert_eq!(indices, [Some(1), Some(2), None]);
        assert_eq!([0, 1, 2].map(|node| carried.active(node)), [0, 1, 0]);
        assert_eq!(carried.latency_us(1, 5), 700.0);
    }

    #[test]
    fn endpoint_of_two_nodes_is_counted_once() {
        let (mut old, mut new) = (set(&[1, 1]), set(&[1, 1]));
        for set in [&mut old, &mut new] {
            set.nodes[1].endpoint = set.nodes[0].endpoint.clone();
        }
        let mut loads = Loads::new(2);
        (0..2).for_each(|node| {
            loads.started(node);
        });
        let (carried, _) = loads.carried_over(&old, &new);
        assert_eq!((carried.active(0), carried.active(1)), (2, 0));
    }
}
