//! The router against a twin that scans all rules, through inserts and removes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use router::{CidrSet, MethodSet, Mode, Router, Rule, RuleInput};
use serde_json::json;

use crate::request::{Request, With, find};

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

/// Which paths a pattern matches, by way of regular expressions.
fn path_fits(pattern: &str, parameters: bool, path: &str) -> bool {
    let mut source = String::from("(?s-u)^");
    for (index, segment) in pattern.split('/').enumerate() {
        if index > 0 {
            source.push('/');
        }
        if parameters && index > 0 && segment.starts_with(':') {
            source.push_str("[^/]+");
            continue;
        }
        match segment.split_once('*') {
            None => source.push_str(&regex::escape(segment)),
            Some((before, after)) => {
                let named = before.is_empty() && index > 0;
                let rest =
                    if named { after.trim_start_matches(|c: char| c.is_ascii_alphanumeric()) } else { after };
                source.push_str(&format!("{}.*{}", regex::escape(before), regex::escape(rest)));
            }
        }
    }
    regex::bytes::Regex::new(&format!("{source}$")).unwrap().is_match(path.as_bytes())
}

/// The length of the literal, or none when the whole pattern is one.
fn literal(pattern: &str, parameters: bool) -> Option<usize> {
    let star = pattern.find('*');
    let colon = if parameters { pattern.find("/:").map(|at| at + 1) } else { None };
    star.into_iter().chain(colon).min()
}

/// How specific the best fitting host of a rule is: more is better, none means it does not fit.
fn host_rank(rule: &RuleInput, request: &Request) -> Option<(u8, usize)> {
    if rule.hosts.is_empty() {
        return Some((0, 0));
    }
    let raw = request.raw_host.to_ascii_lowercase();
    let plain = raw.split(':').next().unwrap().to_owned();
    let rank = |pattern: &String| {
        let port = pattern.contains(':');
        let host = if port { &raw } else { &plain };
        match pattern.strip_prefix('*') {
            None => (host == pattern).then_some((3 + u8::from(port), 0)),
            Some(suffix) => host.ends_with(suffix).then_some((1 + u8::from(port), suffix.len())),
        }
    };
    rule.hosts.iter().filter_map(rank).max()
}

/// The slot a scan over all rules arrives at.
fn scan(mode: Mode, rules: &BTreeMap<u32, RuleInput>, request: &Request) -> Option<u32> {
    let parameters = mode == Mode::UriWithParameter;
    let mut best: Option<((_, _, _, _, _, _), u32)> = None;
    for (&slot, rule) in rules {
        let Some(host) = host_rank(rule, request) else { continue };
        let method = rule.methods.contains(router::methods::method_bit(request.method.as_bytes()));
        let address = rule.remote_addrs.as_ref().is_none_or(|set| set.contains(request.address));
        let vars = rule.vars.as_ref().is_none_or(|vars| vars.evaluate(request));
        if !(method && address && vars) {
            continue;
        }
        let host = if mode == Mode::HostUri { host } else { (0, 0) };
        for path in rule.paths.iter().filter(|path| path_fits(path, parameters, &request.path)) {
            let literal = literal(path, parameters);
            let rank = (
                host,
                literal.is_none(),
                literal.unwrap_or(0),
                rule.priority,
                path.len(),
                std::cmp::Reverse((rule.order, slot)),
            );
            if best.as_ref().is_none_or(|best| rank > best.0) {
                best = Some((rank, slot));
            }
        }
    }
    best.map(|best| best.1)
}

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

/// Puts a rule into the slot, or empties it.
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

fn agree(mode: Mode, router: &Router, rules: &BTreeMap<u32, RuleInput>) -> Result<(), TestCaseError> {
    prop_assert_eq!(router.len(), rules.len());
    for request in requests() {
        let expected = scan(mode, rules, &request);
        prop_assert_eq!(find(router, &request), expected, "{:?} {:?} {:#?}", mode, request, rules);
        let explained = router.explain(&request);
        let matched = explained.iter().find(|considered| considered.verdict == router::Verdict::Matched);
        prop_assert_eq!(matched.map(|considered| considered.slot), expected);
    }
    Ok(())
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
        agree(mode, &router, &rules)?;
        let (router, rules) = published.unwrap();
        agree(mode, &router, &rules)?;
    }
}
