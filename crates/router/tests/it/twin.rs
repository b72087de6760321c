//! The router against a twin that scans all rules, through inserts and removes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use router::{CidrSet, MethodSet, Mode, Router, Rule, RuleInput};
use serde_json::json;

use crate::oracles::router_twin::assert_agrees;
use crate::request::{Request, With};

const PATHS: [&str; 16] = [
    "/", "/*", "*", "/a", "/a*", "/a/", "/a/*", "/a/b", "/a/b*", "/a/:x", "/a/:x/", "/:y", "/a/*z/b",
    "/a/:x/*z", "/ab", "/a/*.b",
];
const HOSTS: [&str; 8] = ["a.b", "*.b", "*b", "c.a.b", "*.a.b", "a.b:1", "*.b:1", "*"];
const REQUEST_PATHS: [&str; 14] = [
    "/", "/a", "/ab", "/abc", "/a/", "/a/b", "/a/bc", "/a/b/", "/a/x.b", "/a/b/b", "/b", "/a/q/r/b", "/a/:x",
    "//",
];
const REQUEST_HOSTS: [&str; 8] = ["a.b", "A.b:1", "c.a.b", "x.c.a.b:1", "b", "xb:1", "c", ""];

fn rule() -> impl Strategy<Value = RuleInput> {
    let paths = prop::collection::vec(prop::sample::select(&PATHS[..]), 1..4);
    let hosts = prop::collection::vec(prop::sample::select(&HOSTS[..]), 0..3);
    let methods = prop::sample::select(vec![vec![], vec![], vec!["GET"], vec!["POST", "PUT"]]);
    (paths, hosts, methods, 0..4u8, -1i64..2, 0..3u64).prop_map(
        |(paths, hosts, methods, kind, priority, order)| {
            let mut input = crate::request::paths(&paths).hosts(&hosts).priority(priority);
            input.methods = MethodSet::from_names(&methods).unwrap();
            input.order = order;
            match kind {
                0 => input.vars(json!([["arg_k", "==", "v"]])),
                1 => RuleInput { remote_addrs: Some(CidrSet::parse(&["10.0.0.0/8"]).unwrap()), ..input },
                _ => input,
            }
        },
    )
}

/// Steps that put a rule into a slot, or empty it.
fn steps() -> impl Strategy<Value = Vec<(u32, Option<RuleInput>)>> {
    prop::collection::vec((0..24u32, prop::option::weighted(0.75, rule())), 1..60)
}

fn requests() -> Vec<Request> {
    let mut requests = Vec::new();
    for path in REQUEST_PATHS {
        for host in REQUEST_HOSTS {
            let plain = Request::get(host, path);
            let mut other = plain.clone();
            other.method = "PUT";
            other.args = vec![("k", "v")];
            other.address = "10.0.0.9".parse().unwrap();
            requests.extend([plain, other]);
        }
    }
    requests
}

fn agree(mode: Mode, router: &Router, rules: &BTreeMap<u32, RuleInput>) {
    assert_eq!((router.mode(), router.len()), (mode, rules.len()));
    for request in requests() {
        assert_agrees(router, rules, &request);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn agrees_with_a_scan(steps in steps(),
        mode in prop::sample::select(vec![Mode::HostUri, Mode::Uri, Mode::UriWithParameter])) {
        let mut router = Router::new(mode);
        let mut rules: BTreeMap<u32, RuleInput> = BTreeMap::new();
        let mut live: BTreeMap<u32, Arc<Rule>> = BTreeMap::new();
        let mut published = None;
        for (index, (slot, input)) in steps.iter().enumerate() {
            if let Some(old) = live.remove(slot) {
                router.remove(*slot, &old);
                rules.remove(slot);
            }
            if let Some(input) = input {
                let rule = Arc::new(Rule::new(input.clone()).unwrap());
                router.insert(*slot, Arc::clone(&rule));
                live.insert(*slot, rule);
                rules.insert(*slot, input.clone());
            }
            if index == steps.len() / 2 {
                published = Some((router.clone(), rules.clone()));
            }
        }
        agree(mode, &router, &rules);
        let (router, rules) = published.unwrap();
        agree(mode, &router, &rules);
    }
}
