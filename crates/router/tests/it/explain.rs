//! The router's explanation of its choices.

use router::{Mode, Verdict};
use serde_json::json;

use crate::request::{Request, With, paths, router};

#[test]
fn every_verdict_in_the_order_tried() {
    let rules = [
        paths(&["/a"]).methods(&["POST"]),
        paths(&["/a*"]).priority(6).from(&["10.0.0.0/8"]),
        paths(&["/a*"]).priority(5).hosts(&["other"]),
        paths(&["/a*"]).priority(4).vars(json!([["arg_k", "v"]])),
        paths(&["/a*/b"]).priority(3),
        paths(&["/a*"]).priority(2),
        paths(&["/*"]),
        paths(&["/b"]),
    ];
    let explained = router(Mode::Uri, &rules).explain(&Request::get("x", "/a"));
    let expected = [
        (0, Verdict::LostMethod),
        (1, Verdict::LostRemoteAddr),
        (2, Verdict::LostHost),
        (3, Verdict::LostVars),
        (4, Verdict::LostParameter),
        (5, Verdict::Matched),
        (6, Verdict::OutrankedBy(5)),
    ];
    let got: Vec<_> = explained.iter().map(|considered| (considered.slot, considered.verdict)).collect();
    assert_eq!(got, expected);
    assert_eq!(explained[4].path_pattern, "/a*/b");
}

#[test]
fn other_hosts_come_last() {
    let rules = [paths(&["/a"]).hosts(&["x"]), paths(&["/a"]).hosts(&["*.y", "z:80"]), paths(&["/*"])];
    let explained = router(Mode::HostUri, &rules).explain(&Request::get("x", "/a"));
    let got: Vec<_> = explained
        .iter()
        .map(|considered| (considered.slot, considered.host_pattern.as_deref(), considered.verdict))
        .collect();
    let expected = [
        (0, Some("x"), Verdict::Matched),
        (2, None, Verdict::OutrankedBy(0)),
        (1, Some("*.y"), Verdict::LostHost),
        (1, Some("z:80"), Verdict::LostHost),
    ];
    assert_eq!(got, expected);
}

#[test]
fn the_list_ends_somewhere() {
    let rules: Vec<_> =
        (0..3000).map(|n| paths(&["/*"]).hosts(&[&format!("h{n}"), &format!("*.w{n}")])).collect();
    let len = router(Mode::HostUri, &rules).explain(&Request::get("x", "/a")).len();
    assert!((1000..1010).contains(&len), "{len}");
}
