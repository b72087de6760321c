//! The time of one choice with each balancing method, by the number of nodes:
//! `cargo bench -p gateway --bench choose`. Each row is a choice together with the begin and the end of its
//! attempt, as a request has them.
#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use gateway::upstream::balance::{ALL, BalanceInput, BalancerKind, Start, Uses};
use gateway::upstream::loads::Loads;
use gateway::upstream::select::group::NodeGroup;
use net::endpoint::Endpoint;
use net::node_state::NodeStates;
use net::nodes::{NodeSet, ResolvedNode};

/// Choices that are measured together.
const CHOICES: u64 = 1_000_000;
/// Attempts in flight meanwhile.
const IN_FLIGHT: usize = 64;

fn set(count: usize, weight: impl Fn(usize) -> u32, kind: &BalancerKind) -> NodeSet {
    let states = Arc::<NodeStates>::default();
    let node = |index: usize| {
        let address = ([10, 0, (index >> 8) as u8, index as u8], 80).into();
        let host: Arc<str> = "10.0.0.0".into();
        let state = states.of(address, &host);
        let endpoint = Arc::new(Endpoint::cleartext(index as u64, address));
        ResolvedNode { endpoint, host, weight: weight(index), priority: 0, metadata: None, state }
    };
    let nodes: Vec<ResolvedNode> = (0..count).map(node).collect();
    NodeSet { derived: kind.derive.map(|derive| derive(&nodes)), nodes, note: None, states: states.clone() }
}

/// One in so many nodes, as a subset has them; at least one.
const SUBSET_PART: usize = 10;

/// The group of every `step`th node of `set`.
fn group_of(set: &NodeSet, step: usize) -> NodeGroup {
    let nodes = set.nodes.iter().map(|node| f64::from(node.weight)).enumerate();
    NodeGroup::new(set, 0, nodes.step_by(step))
}

/// Nanoseconds of one choice among the nodes of `group`.
fn choice_ns(kind: &BalancerKind, set: &NodeSet, group: &NodeGroup) -> f64 {
    let mut loads = Loads::new(set.nodes.len());
    let start = Start { set, group, loads: &loads, stagger: 0, turns: &[] };
    let mut balancer = (kind.make)(&start);
    let mut in_flight = [0; IN_FLIGHT];
    let began = Instant::now();
    for number in 0..CHOICES {
        // Keys and random numbers spread by a multiplication (Fibonacci hashing).
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key_hash = (random >> 32) as u32;
        let choice = BalanceInput {
            set,
            group,
            loads: &loads,
            key_hash,
            random,
            now_ms: number >> 10,
            tried: &[],
            failed: None,
        };
        let member = black_box(balancer.choose(&choice)).expect("every node may be chosen");
        let ended = std::mem::replace(&mut in_flight[number as usize % IN_FLIGHT], member);
        let active = loads.started(group.node(member));
        if kind.uses == Uses::LoadChanges {
            balancer.load_changed(member, active);
        }
        if number < IN_FLIGHT as u64 {
            continue;
        }
        let active = loads.finished(group.node(ended));
        match kind.uses {
            Uses::Loads => {}
            Uses::LoadChanges => balancer.load_changed(ended, active),
            Uses::Latencies => loads.measured(group.node(ended), 1_000 + random % 1_000, number >> 10, false),
        }
    }
    began.elapsed().as_nanos() as f64 / CHOICES as f64
}

/// Microseconds to make the group and its balancer, as after a change of the set.
fn rebuild_us(kind: &BalancerKind, set: &NodeSet) -> f64 {
    let loads = Loads::new(set.nodes.len());
    let began = Instant::now();
    for _ in 0..100 {
        let group = NodeGroup::whole(set);
        let start = Start { set, group: &group, loads: &loads, stagger: 0, turns: &[] };
        black_box((kind.make)(&start).turns());
    }
    began.elapsed().as_micros() as f64 / 100.0
}

fn main() {
    println!(
        "{:<14} {:>6} {:>12} {:>14} {:>12} {:>12}",
        "method", "nodes", "ns a choice", "with weights", "in a subset", "rebuild us"
    );
    for kind in ALL {
        for count in [3, 100, 1_000] {
            let (equal, weighted) =
                (set(count, |_| 1, kind), set(count, |index| 1 + index as u32 * 7 % 10, kind));
            let rebuild = rebuild_us(kind, &weighted);
            let choice_ns = |set: &NodeSet, step: usize| choice_ns(kind, set, &group_of(set, step));
            let (equal, subset) = (choice_ns(&equal, 1), choice_ns(&equal, SUBSET_PART));
            let weighted = choice_ns(&weighted, 1);
            println!(
                "{:<14} {count:>6} {equal:>12.0} {weighted:>14.0} {subset:>12.0} {rebuild:>12.0}",
                kind.name
            );
        }
    }
}
