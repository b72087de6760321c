//! A second, simple router: it scans all rules and takes the most specific matching one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use router::{Mode, Params, RequestView, Router, RuleInput, Verdict};

/// A part of a path pattern.
#[derive(Clone, Copy, Debug)]
enum Part<'p> {
    Literal(&'p str),
    /// `*`.
    Any,
    /// `:name`.
    Segment,
}

/// Asserts that the router finds and explains the same rule as the scan, and that its parameters make up the
/// path again.
pub fn assert_agrees(router: &Router, rules: &BTreeMap<u32, RuleInput>, request: &impl RequestView) {
    let expected = scan(router.mode(), rules, request);
    let mut params = Params::new();
    let found = router.find_match(request, &mut params);
    assert_eq!(found.map(|found| found.slot), expected, "{:?} {rules:#?}", router.mode());
    let explained = router.explain(request);
    let matched = explained.iter().find(|considered| considered.verdict == Verdict::Matched);
    assert_eq!(matched.map(|considered| considered.slot), expected, "explained");
    match found {
        Some(found) if router.mode() == Mode::UriWithParameter => {
            let mut values = params.iter().map(|(_, value)| value);
            let mut path = Vec::new();
            for part in parts(found.path, true) {
                match part {
                    Part::Literal(text) => path.extend_from_slice(text.as_bytes()),
                    Part::Any | Part::Segment => path.extend_from_slice(values.next().expect("a value each")),
                }
            }
            assert!(values.next().is_none(), "more values than {} has parameters", found.path);
            assert_eq!(path, request.path(), "the parameters of {}", found.path);
        }
        _ => assert!(params.is_empty(), "parameters without a match that has any"),
    }
}

/// The slot that a scan over all rules finds.
fn scan(mode: Mode, rules: &BTreeMap<u32, RuleInput>, request: &impl RequestView) -> Option<u32> {
    let parameters = mode == Mode::UriWithParameter;
    let mut best = None;
    for (&slot, rule) in rules {
        let Some(host) = host_rank(rule, request) else { continue };
        let method = rule.methods.contains(request.method_bit());
        let address = rule.remote_addrs.as_ref().is_none_or(|set| set.contains(request.remote_addr()));
        let vars = rule.vars.as_ref().is_none_or(|vars| vars.evaluate(request));
        if !(method && address && vars) {
            continue;
        }
        let host = if mode == Mode::HostUri { host } else { (0, 0) };
        for path in rule.paths.iter().filter(|path| fits(path, parameters, request.path())) {
            let literal = literal_length(path, parameters);
            let age = Reverse((rule.order, slot));
            let rank = (host, literal.is_none(), literal, rule.priority, path.len(), age);
            best = best.max(Some((rank, slot)));
        }
    }
    best.map(|(_, slot)| slot)
}

/// Whether a path matches a pattern. For each part it keeps the set of offsets where the part may end.
fn fits(pattern: &str, parameters: bool, path: &[u8]) -> bool {
    let mut ends = BTreeSet::from([0]);
    for part in parts(pattern, parameters) {
        let next = |end: usize| -> Vec<usize> {
            let rest = &path[end..];
            match part {
                Part::Literal(text) if rest.starts_with(text.as_bytes()) => vec![end + text.len()],
                Part::Literal(_) => Vec::new(),
                Part::Any => (end..=path.len()).collect(),
                Part::Segment => match rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len()) {
                    0 => Vec::new(),
                    length => vec![end + length],
                },
            }
        };
        ends = ends.into_iter().flat_map(next).collect();
    }
    ends.contains(&path.len())
}

/// The length of the literal prefix; none if the whole pattern is literal.
fn literal_length(pattern: &str, parameters: bool) -> Option<usize> {
    match parts(pattern, parameters)[..] {
        [Part::Literal(_)] => None,
        [Part::Literal(text), ..] => Some(text.len()),
        _ => Some(0),
    }
}

/// The parts of a pattern. A name follows a `*` at the start of a segment, and a `:` if parameters are
/// enabled.
fn parts(pattern: &str, parameters: bool) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        // The text after a part begins a segment only if it begins with a slash.
        let begins_segment = |index: usize| index > 0 && rest.as_bytes()[index - 1] == b'/';
        let special = |(index, byte): (usize, u8)| {
            byte == b'*' || (byte == b':' && parameters && begins_segment(index))
        };
        let at = rest.bytes().enumerate().position(special).unwrap_or(rest.len());
        if at > 0 {
            parts.push(Part::Literal(&rest[..at]));
        }
        let Some(behind) = rest.get(at + 1..) else { break };
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let name_bytes = if rest.as_bytes()[at] == b':' {
            parts.push(Part::Segment);
            behind.find('/').unwrap_or(behind.len())
        } else {
            parts.push(Part::Any);
            if begins_segment(at) { behind.bytes().take_while(is_name).count() } else { 0 }
        };
        rest = &behind[name_bytes..];
    }
    parts
}

/// The specificity of the best matching host of a rule; none if no host matches.
fn host_rank(rule: &RuleInput, request: &impl RequestView) -> Option<(u8, usize)> {
    if rule.hosts.is_empty() {
        return Some((0, 0));
    }
    let raw = request.raw_host().to_ascii_lowercase();
    let rank = |pattern: &String| {
        let lower = pattern.to_ascii_lowercase();
        // The final dot of a fully qualified name is ignored; the host of a request has none.
        let pattern = lower.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(&lower);
        let port = pattern.rsplit(']').next().is_some_and(|behind| behind.contains(':'));
        let host = if port { &raw[..] } else { request.host() };
        match pattern.strip_prefix('*') {
            None => (host == pattern.as_bytes()).then_some((3 + u8::from(port), 0)),
            Some(suffix) => host.ends_with(suffix.as_bytes()).then_some((1 + u8::from(port), suffix.len())),
        }
    };
    rule.hosts.iter().filter_map(rank).max()
}
