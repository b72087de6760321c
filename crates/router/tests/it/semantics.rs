//! One table for each rule of the routing contract.

use std::sync::Arc;

use router::{Mode, Params, Router, Rule, RuleInput};
use serde_json::json;

use crate::request::{Request, With, find, paths, router};

const ALL_MODES: [Mode; 3] = [Mode::HostUri, Mode::Uri, Mode::UriWithParameter];

/// Checks that in each mode the rules give these slots for these paths, with a host that does not matter.
fn check(modes: &[Mode], rules: &[RuleInput], expected: &[(&str, Option<u32>)]) {
    for &mode in modes {
        let router = router(mode, rules);
        for (path, slot) in expected {
            assert_eq!(find(&router, &Request::get("x", path)), *slot, "{mode:?} {path}");
        }
    }
}

/// As `check`, with a host for each path.
fn check_hosts(modes: &[Mode], rules: &[RuleInput], expected: &[(&str, &str, Option<u32>)]) {
    for &mode in modes {
        let router = router(mode, rules);
        for (host, path, slot) in expected {
            assert_eq!(find(&router, &Request::get(host, path)), *slot, "{mode:?} {host} {path}");
        }
    }
}

#[test]
fn exact_path_beats_prefix_of_any_priority() {
    let rules = [paths(&["/a/b"]), paths(&["/a/*"]).priority(100), paths(&["/a*"]).priority(1000)];
    check(
        &ALL_MODES,
        &rules,
        &[("/a/b", Some(0)), ("/a/c", Some(1)), ("/a/", Some(1)), ("/a", Some(2)), ("/b", None)],
    );
}

#[test]
fn a_longer_literal_beats_priority() {
    let rules = [paths(&["/*"]).priority(9), paths(&["/a/*"]), paths(&["/a/b/*"]).priority(-9)];
    check(&ALL_MODES, &rules, &[("/a/b/c", Some(2)), ("/a/bc", Some(1)), ("/b", Some(0)), ("/", Some(0))]);
}

#[test]
fn priority_then_length_orders_one_literal() {
    let rules = [paths(&["/a/*"]), paths(&["/a/*x"]), paths(&["/a/*"]).priority(1)];
    check(&ALL_MODES, &rules, &[("/a/1", Some(2))]);
    check(&ALL_MODES, &rules[..2], &[("/a/1", Some(1))]);
    let rules = [paths(&["/u/*"]), paths(&["/u/:id"]), paths(&["/u/:id/*"]).priority(-1)];
    check(&[Mode::UriWithParameter], &rules, &[("/u/1", Some(1)), ("/u/1/2", Some(0))]);
}

#[test]
fn the_older_route_wins_a_tie() {
    let older = |order| RuleInput { order, ..paths(&["/a", "/b/*"]) };
    check(&ALL_MODES, &[older(7), older(3), older(3)], &[("/a", Some(1)), ("/b/", Some(1))]);
}

#[test]
fn inner_wildcards_match_any_bytes() {
    let rules = [paths(&["/a/*x/b"]), paths(&["/files/*.png"])];
    let expected = [
        ("/a/1/b", Some(0)),
        ("/a/1/2/b", Some(0)),
        ("/a/1/c", None),
        ("/files/a/b.png", Some(1)),
        ("/files/x", None),
    ];
    check(&ALL_MODES, &rules, &expected);
}

#[test]
fn failed_candidate_is_followed_by_the_next() {
    let rules = [
        paths(&["/a/b"]).methods(&["POST"]),
        paths(&["/a/*"]).from(&["10.0.0.0/8"]).priority(2),
        paths(&["/a/*"]).vars(json!([["arg_k", "==", "v"]])).priority(1),
        paths(&["/*"]).methods(&["GET"]),
    ];
    for mode in ALL_MODES {
        let router = router(mode, &rules);
        let mut request = Request::get("x", "/a/b");
        assert_eq!(find(&router, &request), Some(3));
        request.args = vec![("k", "v")];
        assert_eq!(find(&router, &request), Some(2));
        request.address = "10.1.1.1".parse().unwrap();
        assert_eq!(find(&router, &request), Some(1));
        request.method = "POST";
        assert_eq!(find(&router, &request), Some(0));
        request.path = "/c".to_owned();
        assert_eq!(find(&router, &request), None);
        request.method = "BREW";
        assert_eq!(find(&router, &request), None);
    }
}

#[test]
fn host_mode_decides_by_host_first() {
    let rules = [
        paths(&["/*"]),
        paths(&["/*"]).hosts(&["*.com"]),
        paths(&["/a/*"]).hosts(&["*.x.com"]),
        paths(&["/only"]).hosts(&["y.x.com"]),
        paths(&["/a/b"]),
    ];
    let expected = [
        ("Y.X.COM", "/only", Some(3)),
        ("y.x.com", "/a/b", Some(2)),
        ("y.x.com:8080", "/a/b", Some(2)),
        ("y.x.com", "/z", Some(1)),
        ("z.y.x.com", "/a/", Some(2)),
        ("x.com", "/a/b", Some(1)),
        ("x.org", "/a/b", Some(4)),
        ("x.org", "/z", Some(0)),
        ("", "/z", Some(0)),
    ];
    check_hosts(&[Mode::HostUri], &rules, &expected);
}

#[test]
fn path_modes_only_filter_by_host() {
    let rules = [paths(&["/*"]).hosts(&["y.x.com"]), paths(&["/a/*"]), paths(&["/a/b"]).hosts(&["*.x.com"])];
    let expected = [
        ("y.x.com", "/a/b", Some(2)),
        ("y.x.com", "/a/c", Some(1)),
        ("y.x.com", "/z", Some(0)),
        ("org", "/a/b", Some(1)),
        ("org", "/z", None),
    ];
    check_hosts(&[Mode::Uri, Mode::UriWithParameter], &rules, &expected);
}

#[test]
fn host_pattern_with_port_compares_raw_host() {
    let rules = [paths(&["/*"]).hosts(&["a.com"]), paths(&["/x"]).hosts(&["a.com:81", "*.a.com:81"])];
    let expected = [
        ("a.com", "/x", Some(0)),
        ("A.com:81", "/x", Some(1)),
        ("a.com:82", "/x", Some(0)),
        ("b.a.com:81", "/x", Some(1)),
        ("b.a.com", "/x", None),
    ];
    check_hosts(&[Mode::HostUri], &rules, &expected);
    let expected = [("a.com", "/x", Some(0)), ("A.com:81", "/x", Some(1)), ("b.a.com:82", "/x", None)];
    check_hosts(&[Mode::Uri], &rules, &expected);
}

#[test]
fn overlong_hosts_are_harmless() {
    let rules = [paths(&["/*"]).hosts(&["*.com", "a.com:81"]), paths(&["/*"])];
    let long = format!("{}.com", "x".repeat(1000));
    check_hosts(&ALL_MODES, &rules, &[(&long, "/", Some(0)), (&"y".repeat(70_000), "/", Some(1))]);
}

#[test]
fn parameters_need_their_mode() {
    let rules = [paths(&["/u/:id/p/*rest"])];
    check(&[Mode::HostUri, Mode::Uri], &rules, &[("/u/1/p/2", None), ("/u/:id/p/2", Some(0))]);
    let router = router(Mode::UriWithParameter, &rules);
    let mut params = Params::new();
    let found = router.find_match(&Request::get("x", "/u/1/p/2/3"), &mut params).unwrap();
    assert_eq!((found.slot, found.path, found.host), (0, "/u/:id/p/*rest", None));
    let all: Vec<_> = params.iter().collect();
    assert_eq!(all, [(&b"id"[..], &b"1"[..]), (b"rest", b"2/3")]);
    assert_eq!(router.find(&Request::get("x", "/u/1"), &mut params), None);
    assert!(params.is_empty());
}

#[test]
fn match_names_its_path_and_host() {
    let router = router(Mode::HostUri, &[paths(&["/a", "/b*"]).hosts(&["*.X.com"])]);
    let found = router.find_match(&Request::get("y.x.com", "/bc"), &mut Params::new()).unwrap();
    assert_eq!((found.slot, found.path, found.host), (0, "/b*", Some("*.x.com")));
}

#[test]
fn clone_is_unaffected_and_removal_is_complete() {
    for mode in ALL_MODES {
        let rules: Vec<Arc<Rule>> = (0..300)
            .map(|n| {
                let texts = [format!("/exact/{n}"), format!("/prefix/{n}/*"), "/same".to_owned()];
                let input = RuleInput { paths: texts.to_vec(), order: n, ..RuleInput::default() };
                let input = if n % 3 == 0 { input.hosts(&["x", "*.y"]) } else { input };
                Arc::new(Rule::new(input).unwrap())
            })
            .collect();
        let mut live = Router::new(mode);
        for (slot, rule) in (0..).zip(&rules) {
            live.insert(slot, Arc::clone(rule));
        }
        let full = live.clone();
        for (slot, rule) in (0..).zip(&rules) {
            live.remove(slot, rule);
            live.remove(slot, rule);
            let path = format!("/prefix/{slot}/z");
            assert_eq!(find(&live, &Request::get("x", &path)), None);
            assert_eq!(find(&full, &Request::get("x", &path)), Some(slot));
            assert_eq!(find(&full, &Request::get("x", &format!("/exact/{slot}"))), Some(slot));
        }
        assert!(live.is_empty());
        assert_eq!(full.len(), 300);
        assert_eq!(find(&live, &Request::get("x", "/same")), None);
        assert_eq!(find(&full, &Request::get("x", "/same")), Some(0));
    }
}

#[test]
fn four_thousand_nested_prefixes_fit_the_stack() {
    let texts: Vec<String> = (1..4095).map(|length| format!("/{}*", "a".repeat(length))).collect();
    let mut live = Router::new(Mode::HostUri);
    for (slot, text) in (0..).zip(&texts) {
        live.insert(slot, Arc::new(Rule::new(paths(&[text])).unwrap()));
    }
    assert_eq!(find(&live, &Request::get("x", &format!("/{}", "a".repeat(5000)))), Some(4093));
    assert_eq!(find(&live, &Request::get("x", "/aab")), Some(1));
}

#[test]
fn bodies_are_counted() {
    let mut router = Router::new(Mode::Uri);
    let rule = Arc::new(Rule::new(paths(&["/a"]).vars(json!([["post_arg_a", "1"]]))).unwrap());
    assert!(!router.uses_request_body());
    router.insert(1, Arc::clone(&rule));
    assert!(router.uses_request_body());
    router.remove(1, &rule);
    assert!(!router.uses_request_body());
}
