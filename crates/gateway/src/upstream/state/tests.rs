//! Tests of a worker's state of an upstream: its nodes, its policies, and what it keeps when they change.

use super::super::PassHost;
use super::super::balance::testing::{set, transition};
use super::super::balance::{BalancerKind, least_connections, round_robin};
use super::super::select::sticky::{self, Sticky, StickyMode};
use super::super::select::subset::{Fallback, Subsets, name_hash};
use super::*;
use exchange::options::AttemptTimeouts;
use net::node_state::Unusable;

fn upstream(balancer: &'static BalancerKind, weights: &[u32]) -> Upstream {
    Upstream {
        identity: "/upstreams/1".into(),
        slot: 0,
        balancer,
        hash_key: None,
        nodes: Arc::new(Published::new(Arc::new(set(weights)))),
        discovered: None,
        original: None,
        transparent_source: false,
        health: None,
        pass_host: PassHost::Pass,
        protocol: net::endpoint::EndpointProtocol::Http1,
        needs_http2: false,
        retries: None,
        retry_timeout_ms: 0,
        retry: None,
        deadline: None,
        scheme: "http",
        timeouts: AttemptTimeouts::default(),
        policies: Arc::default(),
        protection: None,
    }
}

fn choose(state: &mut UpstreamState, upstream: &Upstream, tried: &[u64]) -> Option<SelectedNode> {
    let request = SelectionRequest {
        key_hash: 0,
        random: 0,
        now_ms: 0,
        tried,
        failed: tried.last().copied(),
        subset: 0,
        sticky: None,
    };
    state.choose(upstream, 0, request)
}

#[test]
fn new_endpoint_keeps_in_flight_counts() {
    let upstream = upstream(&least_connections::KIND, &[1]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    let busy: Vec<SelectedNode> = (0..3).map(|_| choose(&mut state, &upstream, &[]).unwrap()).collect();
    upstream.nodes.publish(Arc::new(set(&[1, 1])));
    state.refresh(&upstream, 0, 0);
    let chosen: Vec<usize> = (0..3).map(|_| choose(&mut state, &upstream, &[]).unwrap().index).collect();
    assert_eq!(
        chosen,
        [1, 1, 1],
        "the node with three requests under way gets no fourth before its neighbour has as many"
    );
    // Attempts that began under the old set end under the new one.
    busy.into_iter().for_each(|selected| state.finished(selected, 1, 0, false));
    assert_eq!(choose(&mut state, &upstream, &[]).unwrap().index, 0);
}

#[test]
fn tried_endpoint_is_known_in_every_node_set() {
    let upstream = upstream(&round_robin::KIND, &[1, 1]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    let mut nodes = set(&[1, 1]);
    nodes.nodes.remove(0);
    upstream.nodes.publish(Arc::new(nodes));
    state.refresh(&upstream, 0, 0);
    assert_eq!(choose(&mut state, &upstream, &[0]).map(|selected| selected.endpoint_id), Some(1));
    assert!(choose(&mut state, &upstream, &[1]).is_none());
}

#[test]
fn unusable_node_is_left_out_until_it_is_usable() {
    let upstream = upstream(&round_robin::KIND, &[1, 1]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    let node = upstream.nodes.load().nodes[0].state.clone();
    let mut chosen = || {
        state.refresh(&upstream, 0, 0);
        (0..4).map(|_| choose(&mut state, &upstream, &[]).unwrap().index).collect::<Vec<_>>()
    };
    assert_eq!(chosen(), [0, 1, 0, 1]);
    node.mark(Unusable::Unhealthy, true, transition());
    assert_eq!(chosen(), [1, 1, 1, 1]);
    node.mark(Unusable::Unhealthy, false, transition());
    assert!(chosen().contains(&0));
}

#[test]
fn lower_priority_is_used_when_no_higher_is_left() {
    let upstream = upstream(&round_robin::KIND, &[1, 1, 1]);
    let mut nodes = set(&[1, 1, 1]);
    nodes.nodes[0].priority = -1;
    upstream.nodes.publish(Arc::new(nodes));
    let mut state = UpstreamState::new(&upstream, 0, 0);
    let mut tried = Vec::new();
    while let Some(selected) = choose(&mut state, &upstream, &tried) {
        tried.push(selected.endpoint_id);
    }
    assert_eq!(tried, [1, 2, 0]);
}

/// The nodes of `count` choices with different random numbers; attempts end at once.
fn chosen(state: &mut UpstreamState, upstream: &Upstream, count: u64) -> Vec<usize> {
    state.refresh(upstream, 0, 0);
    let mut choose = |number: u64| {
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let request = SelectionRequest {
            key_hash: 0,
            random,
            now_ms: 0,
            tried: &[],
            failed: None,
            subset: 0,
            sticky: None,
        };
        let selected = state.choose(upstream, 0, request).unwrap();
        state.finished(selected, 1, 0, false);
        selected.index
    };
    (0..count).map(&mut choose).collect()
}

fn mark(upstream: &Upstream, down: &[usize]) {
    for (index, node) in upstream.nodes.load().nodes.iter().enumerate() {
        node.state.mark(Unusable::Unhealthy, down.contains(&index), transition());
    }
}

fn share(chosen: &[usize], node: usize) -> usize {
    chosen.iter().filter(|chosen| **chosen == node).count()
}

#[test]
fn panic_spreads_requests_over_all_nodes() {
    let mut upstream = upstream(&round_robin::KIND, &[1; 4]);
    upstream.policies = Arc::new(Policies { panic_percent: 50, ..Policies::default() });
    let mut state = UpstreamState::new(&upstream, 0, 0);
    mark(&upstream, &[0, 1]);
    assert_eq!(share(&chosen(&mut state, &upstream, 40), 2), 20);
    assert!(!upstream.policies.is_in_panic());
    mark(&upstream, &[0, 1, 2]);
    let shares = chosen(&mut state, &upstream, 40);
    assert!((0..4).all(|node| share(&shares, node) == 10), "{shares:?}");
    assert!(upstream.policies.is_in_panic());
    mark(&upstream, &[0]);
    assert_eq!(share(&chosen(&mut state, &upstream, 30), 0), 0);
    assert!(!upstream.policies.is_in_panic());
}

#[test]
fn weak_priority_overflows_in_proportion() {
    let mut upstream = upstream(&least_connections::KIND, &[1; 6]);
    let mut nodes = set(&[1; 6]);
    nodes.nodes[4..].iter_mut().for_each(|node| node.priority = -1);
    upstream.nodes.publish(Arc::new(nodes));
    upstream.policies = Arc::new(Policies { overflow_percent: 100, ..Policies::default() });
    let mut state = UpstreamState::new(&upstream, 0, 0);
    assert!(chosen(&mut state, &upstream, 100).iter().all(|node| *node < 4));
    mark(&upstream, &[0, 1, 2]);
    let shares = chosen(&mut state, &upstream, 10_000);
    assert!((2_300..2_700).contains(&share(&shares, 3)), "{}", share(&shares, 3));
    assert!((3_600..3_900).contains(&share(&shares, 4)), "{}", share(&shares, 4));
    assert!((0..3).all(|node| share(&shares, node) == 0));
}

#[test]
fn changed_policy_is_in_force_at_next_choice() {
    let mut upstream = upstream(&round_robin::KIND, &[1; 4]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    mark(&upstream, &[0, 1, 2]);
    assert_eq!(share(&chosen(&mut state, &upstream, 8), 3), 8);
    upstream.policies = Arc::new(Policies { panic_percent: 50, ..Policies::default() });
    assert_eq!(share(&chosen(&mut state, &upstream, 8), 3), 2);
}

/// An upstream with stickiness by the cookie `node`.
fn sticky_upstream(weights: &[u32]) -> Upstream {
    let mut upstream = upstream(&round_robin::KIND, weights);
    let sticky = Sticky {
        cookie: "node".into(),
        read: router::vars::Template::compile("$cookie_node").unwrap(),
        identity: upstream.identity.clone(),
        mode: StickyMode::Set("; Path=/".into()),
    };
    upstream.policies = Arc::new(Policies { sticky: Some(Arc::new(sticky)), ..Policies::default() });
    upstream
}

#[test]
fn session_moves_only_if_its_node_is_out_or_failed() {
    let upstream = sticky_upstream(&[1, 1]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    state.refresh(&upstream, 0, 0);
    let node = |index: usize| upstream.nodes.load().nodes[index].endpoint.clone();
    let session = |index: usize| {
        let tag = sticky::tag("/upstreams/1", node(index).address);
        WantedNode { sticky: std::num::NonZeroU64::new(tag), ..WantedNode::default() }
    };
    assert!(state.keeps_session(&upstream, &session(0), &[]), "the node was only full");
    assert!(!state.keeps_session(&upstream, &session(0), &[node(0).id]), "it has failed");
    mark(&upstream, &[0]);
    state.refresh(&upstream, 0, 0);
    assert!(!state.keeps_session(&upstream, &session(0), &[]), "it is unusable");
    assert!(!state.keeps_session(&upstream, &WantedNode::default(), &[]), "there is no session");
}

#[test]
fn session_stays_unless_its_node_is_unusable() {
    let upstream = sticky_upstream(&[1, 1, 0]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    let tag = |state: &UpstreamState, index: usize| {
        state.tag_of(SelectedNode { index, generation: state.nodes.generation(), endpoint_id: index as u64 })
    };
    let mut choose = |sticky: Option<u64>, tried: &[u64]| {
        state.refresh(&upstream, 0, 0);
        let sticky = sticky.and_then(std::num::NonZeroU64::new);
        let request = SelectionRequest {
            key_hash: 0,
            random: 0,
            now_ms: 0,
            tried,
            failed: tried.last().copied(),
            subset: 0,
            sticky,
        };
        state.choose(&upstream, 0, request).unwrap().index
    };
    let of = |index: usize| sticky::tag("/upstreams/1", upstream.nodes.load().nodes[index].endpoint.address);
    assert_eq!([(); 4].map(|()| choose(Some(of(1)), &[])), [1; 4]);
    assert_eq!(choose(Some(of(2)), &[]), 2, "a node without weight keeps its sessions");
    assert_eq!(choose(Some(of(1)), &[1]), 0);
    assert_ne!(choose(Some(7), &[]), 2, "a tag of no node");
    mark(&upstream, &[1]);
    assert_eq!([(); 4].map(|()| choose(Some(of(1)), &[])), [0; 4]);
    // Where none is usable all are, so that sessions stay.
    mark(&upstream, &[0, 1]);
    assert_eq!(choose(Some(of(1)), &[]), 1);
    assert_eq!(tag(&state, 1), Some(of(1)));
}

/// An upstream with stickiness and subsets by version; its nodes have these versions.
fn versioned_upstream(weights: &[u32], versions: &[&str]) -> Upstream {
    let upstream = sticky_upstream(weights);
    let mut nodes = set(weights);
    for (node, version) in nodes.nodes.iter_mut().zip(versions) {
        node.metadata = Some(Arc::new([("version".into(), Box::from(*version))].into()));
    }
    upstream.nodes.publish(Arc::new(nodes));
    let values = [router::vars::Template::compile("$http_x_version").unwrap()];
    let subsets = Subsets { keys: ["version".into()].into(), values: values.into(), fallback: Fallback::Any };
    let sticky = upstream.policies.sticky.clone();
    let policies = Policies { subsets: Some(Box::new(subsets)), sticky, ..Policies::default() };
    Upstream { policies: Arc::new(policies), ..upstream }
}

/// The nodes of `count` requests that want `version`, with the session of a node.
fn versioned(
    state: &mut UpstreamState,
    upstream: &Upstream,
    version: &[u8],
    session: Option<usize>,
    count: usize,
) -> Vec<usize> {
    state.refresh(upstream, 0, 0);
    let address = |node: usize| upstream.nodes.load().nodes[node].endpoint.address;
    let tag = session.map(|node| sticky::tag("/upstreams/1", address(node)));
    let sticky = tag.and_then(std::num::NonZeroU64::new);
    let subset = name_hash(version);
    let request =
        SelectionRequest { key_hash: 0, random: 0, now_ms: 0, tried: &[], failed: None, subset, sticky };
    (0..count).map(|_| state.choose(upstream, 0, request).unwrap().index).collect()
}

#[test]
fn subset_follows_states_and_keeps_its_turns() {
    let upstream = versioned_upstream(&[1; 4], &["1", "1", "1", "2"]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    let mut chosen = |count| versioned(&mut state, &upstream, b"1\0", None, count);
    assert_eq!(chosen(2), [0, 1]);
    mark(&upstream, &[3]);
    assert_eq!(chosen(1), [2], "a change elsewhere keeps the turns");
    mark(&upstream, &[0, 3]);
    let left = chosen(4);
    assert!((share(&left, 1), share(&left, 2)) == (2, 2), "{left:?}");
    mark(&upstream, &[]);
    assert_eq!(share(&chosen(6), 0), 2);
}

#[test]
fn drained_subset_keeps_sessions_and_falls_back() {
    let upstream = versioned_upstream(&[0, 1], &["1", "2"]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    assert_eq!(versioned(&mut state, &upstream, b"1\0", Some(0), 2), [0, 0]);
    assert_eq!(versioned(&mut state, &upstream, b"1\0", None, 2), [1, 1]);
    assert_eq!(versioned(&mut state, &upstream, b"2\0", Some(0), 2), [1, 1], "a session of another subset");
}

#[test]
fn session_stays_while_its_whole_subset_is_down() {
    let upstream = versioned_upstream(&[1; 4], &["1", "1", "2", "2"]);
    let mut state = UpstreamState::new(&upstream, 0, 0);
    mark(&upstream, &[0, 1]);
    assert_eq!(versioned(&mut state, &upstream, b"1\0", Some(1), 4), [1; 4]);
    mark(&upstream, &[1]);
    assert_eq!(versioned(&mut state, &upstream, b"1\0", Some(1), 4), [0; 4]);
}
