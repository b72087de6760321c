//! Names that come, change and fail, with answers from a script.

use std::collections::VecDeque;

use super::*;
use crate::endpoint::{EndpointProtocol, KeepAlive};
use crate::nodes::{AddressRule, PlannedNode};

/// Gives its answers in order, then repeats the last.
struct Script(Mutex<VecDeque<Result<LookupAnswer, String>>>);

impl Lookup for Script {
    fn lookup(&self, _name: &str) -> LookupFuture {
        let mut answers = self.0.lock();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move { answer.unwrap_or_else(|| Err("the script is at its end".to_owned())) })
    }
}

fn answer(addresses: &[&str]) -> Result<LookupAnswer, String> {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Ok(LookupAnswer { addresses, ..LookupAnswer::default() })
}

fn plan(hosts: &[&str]) -> NodePlan {
    let node = |host: &&str| PlannedNode {
        host: (*host).into(),
        port: 80,
        authority: (*host).into(),
        weight: 1,
        priority: 0,
        metadata: None,
    };
    NodePlan {
        nodes: hosts.iter().map(node).collect(),
        tls: None,
        protocol: EndpointProtocol::Http1,
        keep_alive: KeepAlive::default(),
        derive: None,
        note: None,
        refuses: None,
    }
}

fn addresses(cell: &Published<NodeSet>) -> Vec<String> {
    cell.load().nodes.iter().map(|node| node.endpoint.address.ip().to_string()).collect()
}

fn resolver(answers: Vec<Result<LookupAnswer, String>>) -> Resolver {
    Resolver::start(Arc::new(Script(Mutex::new(answers.into()))), TtlBounds::default()).unwrap()
}

fn unknown() -> Name {
    Name::unknown(0, Payer::default())
}

fn cell() -> Arc<Published<NodeSet>> {
    Arc::new(Published::new(Arc::new(NodeSet::default())))
}

#[test]
fn addresses_need_no_lookup_and_names_are_settled() {
    let resolver = resolver(vec![answer(&["10.0.0.2", "10.0.0.1"])]);
    let cell = cell();
    resolver.follow(&cell, plan(&["127.0.0.1", "::1"]));
    assert_eq!(addresses(&cell), ["127.0.0.1", "::1"]);
    resolver.follow(&cell, plan(&["127.0.0.1", "node.test"]));
    resolver.settle();
    assert_eq!(addresses(&cell), ["127.0.0.1", "10.0.0.1", "10.0.0.2"]);
}

#[test]
fn nodes_stay_until_new_names_are_resolved() {
    struct Never;
    impl Lookup for Never {
        fn lookup(&self, _name: &str) -> LookupFuture {
            Box::pin(std::future::pending())
        }
    }
    let resolver = Resolver::start(Arc::new(Never), TtlBounds::default()).unwrap();
    let cell = cell();
    resolver.follow(&cell, plan(&["127.0.0.1"]));
    resolver.follow(&cell, plan(&["one.test", "other.test"]));
    assert_eq!(addresses(&cell), ["127.0.0.1"]);
    let take_in = |name, answer| take_in(&mut resolver.shared.lock(), &resolver.endpoints, name, answer);
    take_in("one.test", answer(&["10.0.0.1"]));
    assert_eq!(addresses(&cell), ["127.0.0.1"]);
    take_in("other.test", Err("server failure".to_owned()));
    assert_eq!(addresses(&cell), ["10.0.0.1"]);
}

#[test]
fn an_equal_set_is_not_published_again() {
    let resolver = resolver(vec![answer(&[])]);
    let cell = cell();
    resolver.follow(&cell, plan(&["127.0.0.1"]));
    let generation = cell.generation();
    resolver.follow(&cell, plan(&["127.0.0.1"]));
    assert_eq!(cell.generation(), generation);
}

#[test]
fn the_last_good_answer_outlives_failures() {
    let mut table = NameTable::default();
    let (cell, endpoints) = (cell(), EndpointTable::default());
    table.names.insert("node.test".into(), unknown());
    table.followers.push(NodeSetFollower {
        cell: Arc::downgrade(&cell),
        plan: plan(&["node.test"]),
        number: 1,
    });
    let mut check = |given: Result<LookupAnswer, String>, want: &[&str], note: bool| {
        take_in(&mut table, &endpoints, "node.test", given);
        assert_eq!(addresses(&cell), want);
        assert_eq!(cell.load().note.is_some(), note);
    };
    check(Err("server failure".to_owned()), &[], true);
    check(answer(&["10.0.0.1"]), &["10.0.0.1"], false);
    check(Err("server failure".to_owned()), &["10.0.0.1"], false);
    check(answer(&[]), &["10.0.0.1"], false);
    check(answer(&["10.0.0.9"]), &["10.0.0.9"], false);
}

#[test]
fn names_nobody_follows_are_forgotten() {
    let mut table = NameTable::default();
    let held = cell();
    for name in ["used.test", "unused.test"] {
        table.names.insert(name.into(), Name { tried: true, ..unknown() });
    }
    table.followers.push(NodeSetFollower {
        cell: Arc::downgrade(&held),
        plan: plan(&["used.test"]),
        number: 1,
    });
    table.followers.push(NodeSetFollower { cell: Weak::new(), plan: plan(&["unused.test"]), number: 2 });
    forget_unused(&mut table);
    assert_eq!(table.names.keys().map(|name| &**name).collect::<Vec<_>>(), ["used.test"]);
    assert_eq!(table.followers.len(), 1);
}

#[test]
fn an_answer_holds_for_its_time_within_bounds() {
    let check = |ttl_s: u64, least_s: u64, most_s: u64| {
        let ttl = TtlBounds { min: Duration::from_secs(60), max: Duration::from_secs(600) };
        let mut table = NameTable { ttl, ..NameTable::default() };
        table.names.insert("node.test".into(), unknown());
        let before_ns = env::monotonic_ns();
        let given = LookupAnswer { ttl: Duration::from_secs(ttl_s), ..answer(&["10.0.0.1"]).unwrap() };
        take_in(&mut table, &EndpointTable::default(), "node.test", Ok(given));
        let due_ns = table.names["node.test"].due_ns;
        assert!(due_ns >= before_ns + least_s * 1_000_000_000, "{ttl_s}");
        assert!(due_ns <= env::monotonic_ns() + most_s * 1_000_000_000, "{ttl_s}");
    };
    check(0, 60, 60);
    check(90, 90, 90);
    check(86_400, 600, 600);
}

#[test]
fn names_of_one_upstream_leave_room_for_others() {
    let mut table = NameTable::default();
    for number in 0..20_000 {
        let name = Name::unknown(0, Payer { number: 1, names: 20_000 });
        table.names.insert(format!("a{number:05}.test").into(), name);
    }
    let (first, _) = take_due(&mut table, CONCURRENT_MAX);
    assert_eq!(first.len(), CONCURRENT_OF_ONE_MAX, "one upstream gets its share, whatever is free");
    for (payer, count) in [(2, 3), (3, 1)] {
        for number in 0..count {
            let name = Name::unknown(0, Payer { number: payer, names: count });
            table.names.insert(format!("z-{payer}-{number}.test").into(), name);
        }
    }
    let (next, _) = take_due(&mut table, 2);
    assert!(
        next.iter().any(|name| name.starts_with("z-2-")) && next.iter().any(|name| name.starts_with("z-3-"))
    );
}

#[test]
fn name_that_was_never_asked_for_comes_before_a_retry() {
    let mut table = NameTable::default();
    let payer = Payer { number: 1, names: 100 };
    for number in 0..100 {
        table.names.insert(format!("n{number:02}.test").into(), Name::unknown(0, payer));
    }
    let mut seen = std::collections::BTreeSet::new();
    // Each fails at once and is due again at once; all are asked for nevertheless.
    for _ in 0..100_usize.div_ceil(CONCURRENT_OF_ONE_MAX) {
        let (due, _) = take_due(&mut table, CONCURRENT_MAX);
        for name in due {
            let state = table.names.get_mut(&name).unwrap();
            (state.asking, state.tried, state.due_ns) = (false, true, env::monotonic_ns());
            seen.insert(name);
        }
    }
    assert_eq!(seen.len(), 100);
}

#[test]
fn new_names_settle_while_old_ones_never_answer() {
    struct OneAnswers;
    impl Lookup for OneAnswers {
        fn lookup(&self, name: &str) -> LookupFuture {
            if name == "good.test" {
                return Box::pin(async { answer(&["10.0.0.1"]) });
            }
            Box::pin(std::future::pending())
        }
    }
    let resolver = Resolver::start(Arc::new(OneAnswers), TtlBounds::default()).unwrap();
    let (broken, good) = (cell(), cell());
    let hosts: Vec<String> = (0..2_000).map(|number| format!("a{number}.test")).collect();
    resolver.follow(&broken, plan(&hosts.iter().map(String::as_str).collect::<Vec<_>>()));
    resolver.settle();
    resolver.follow(&good, plan(&["good.test"]));
    resolver.settle();
    testkit::wait_until("the good name has its address", || addresses(&good) == ["10.0.0.1"]);
    let untried = |table: &NameTable| table.names.values().filter(|name| !name.tried).count();
    assert_eq!(untried(&resolver.shared.lock()), 2_000);
}

#[test]
fn addresses_of_a_name_share_its_weight() {
    let resolver = resolver(vec![answer(&["10.0.0.1", "10.0.0.2"])]);
    let cell = cell();
    let mut weighted = plan(&["node.test", "127.0.0.1"]);
    weighted.nodes[0].weight = 20;
    weighted.nodes[1].weight = 60;
    resolver.follow(&cell, weighted);
    resolver.settle();
    let weights: Vec<u32> = cell.load().nodes.iter().map(|node| node.weight).collect();
    assert_eq!(weights, [10, 10, 60]);
}

#[test]
fn half_an_answer_does_not_change_the_family() {
    let mut table = NameTable::default();
    let (cell, endpoints) = (cell(), EndpointTable::default());
    table.names.insert("node.test".into(), unknown());
    table.followers.push(NodeSetFollower {
        cell: Arc::downgrade(&cell),
        plan: plan(&["node.test"]),
        number: 1,
    });
    let half = || {
        Ok(LookupAnswer { failure: Some("A: server failure".to_owned()), ..answer(&["fd00::1"]).unwrap() })
    };
    let mut check = |given: Result<LookupAnswer, String>, want: &[&str]| {
        take_in(&mut table, &endpoints, "node.test", given);
        assert_eq!(addresses(&cell), want);
    };
    check(half(), &["fd00::1"]);
    check(answer(&["10.0.0.1"]), &["10.0.0.1"]);
    check(half(), &["10.0.0.1"]);
    check(answer(&["fd00::1"]), &["fd00::1"]);
}

#[test]
fn refused_address_is_no_node_after_any_lookup() {
    let mut table = NameTable::default();
    let (cell, endpoints) = (cell(), EndpointTable::default());
    table.names.insert("node.test".into(), unknown());
    let refuses =
        |address: IpAddr| address.to_canonical().to_string().starts_with("169.254.").then_some("link-local");
    let guarded = NodePlan { refuses: Some(AddressRule(Arc::new(refuses))), ..plan(&["node.test"]) };
    table.followers.push(NodeSetFollower { cell: Arc::downgrade(&cell), plan: guarded.clone(), number: 1 });
    let mut check = |given: &[&str], want: &[&str]| {
        take_in(&mut table, &endpoints, "node.test", answer(given));
        assert_eq!(addresses(&cell), want);
        let note = cell.load().note.clone().unwrap_or_default();
        assert_eq!(note.contains("which is link-local"), given != want, "{note}");
    };
    check(&["169.254.169.254"], &[]);
    check(&["10.0.0.1"], &["10.0.0.1"]);
    check(&["10.0.0.1", "169.254.1.1"], &["10.0.0.1"]);
    check(&["::ffff:169.254.169.254"], &[]);
    let literal = NodePlan { nodes: plan(&["169.254.169.254"]).nodes, ..guarded };
    let resolver = resolver(vec![answer(&[])]);
    resolver.follow(&cell, literal);
    assert!(addresses(&cell).is_empty());
}
