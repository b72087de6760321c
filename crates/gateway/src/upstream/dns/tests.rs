//! Names that come, change and fail, with answers from a script.

use std::collections::VecDeque;

use super::*;

/// Gives its answers in order, then repeats the last.
struct Script(Mutex<VecDeque<Result<Answer, String>>>);

impl Lookup for Script {
    fn lookup(&self, _name: &str) -> Pending {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move { answer.unwrap_or_else(|| Err("the script is at its end".to_owned())) })
    }
}

fn answer(addresses: &[&str]) -> Result<Answer, String> {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Ok(Answer { addresses, ttl: Duration::ZERO })
}

fn plan(hosts: &[&str]) -> Plan {
    let node = |host: &&str| PlannedNode {
        host: (*host).into(),
        port: 80,
        authority: (*host).into(),
        weight: 1,
        priority: 0,
    };
    Plan { nodes: hosts.iter().map(node).collect(), keep_alive: KeepAlive::default(), with_ring: false }
}

fn addresses(cell: &Published<NodeSet>) -> Vec<String> {
    cell.load().nodes.iter().map(|node| node.endpoint.address.ip().to_string()).collect()
}

fn resolver(answers: Vec<Result<Answer, String>>) -> Resolver {
    Resolver::start(Arc::new(Script(Mutex::new(answers.into()))), TtlBounds::default()).unwrap()
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
fn nodes_in_force_stay_until_every_new_name_was_asked_for() {
    struct Never;
    impl Lookup for Never {
        fn lookup(&self, _name: &str) -> Pending {
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
    let mut table = Table::default();
    let (cell, endpoints) = (cell(), Endpoints::default());
    table.names.insert("node.test".into(), Name::unknown());
    table.followers.push(Follower { cell: Arc::downgrade(&cell), plan: plan(&["node.test"]) });
    let mut check = |given: Result<Answer, String>, want: &[&str], note: bool| {
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
    let mut table = Table::default();
    let held = cell();
    for name in ["used.test", "unused.test"] {
        table.names.insert(name.into(), Name { tried: true, ..Name::unknown() });
    }
    table.followers.push(Follower { cell: Arc::downgrade(&held), plan: plan(&["used.test"]) });
    table.followers.push(Follower { cell: Weak::new(), plan: plan(&["unused.test"]) });
    forget_unused(&mut table);
    assert_eq!(table.names.keys().map(|name| &**name).collect::<Vec<_>>(), ["used.test"]);
    assert_eq!(table.followers.len(), 1);
}

#[test]
fn an_answer_holds_for_its_time_within_bounds() {
    let check = |ttl_s: u64, least_s: u64, most_s: u64| {
        let ttl = TtlBounds { min: Duration::from_secs(60), max: Duration::from_secs(600) };
        let mut table = Table { ttl, ..Table::default() };
        table.names.insert("node.test".into(), Name::unknown());
        let before_ns = env::monotonic_ns();
        let given = Answer { ttl: Duration::from_secs(ttl_s), ..answer(&["10.0.0.1"]).unwrap() };
        take_in(&mut table, &Endpoints::default(), "node.test", Ok(given));
        let due_ns = table.names["node.test"].due_ns;
        assert!(due_ns >= before_ns + least_s * 1_000_000_000, "{ttl_s}");
        assert!(due_ns <= env::monotonic_ns() + most_s * 1_000_000_000, "{ttl_s}");
    };
    check(0, 60, 60);
    check(90, 90, 90);
    check(86_400, 600, 600);
}
