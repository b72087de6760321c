//! Oracle of the router: after any inserts and removals it finds the same rule as a scan over all rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use router::vars::Expression;
use router::{CidrSet, MethodSet, Mode, Router, Rule, RuleInput};
use serde_json::json;

use super::router_request::Request;
use super::router_twin::assert_agrees;

/// The router, and the rules that it holds.
#[derive(Clone)]
struct State {
    router: Router,
    rules: BTreeMap<u32, RuleInput>,
    live: BTreeMap<u32, Arc<Rule>>,
}

/// The input is lines of words: `mode host|uri|parameter` at first,
/// `+SLOT PATH,PATH [HOST,HOST|-] [CONDITIONS]` puts a rule in, `-SLOT` removes it, `=` keeps a copy of the
/// router, `?HOST PATH` looks a request up. Conditions are letters, see [`conditions`].
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines().take(LINES_MAX).peekable();
    let mode = match lines.next_if(|line| line.starts_with("mode ")) {
        Some("mode uri") => Mode::Uri,
        Some("mode parameter") => Mode::UriWithParameter,
        _ => Mode::HostUri,
    };
    let mut now = State { router: Router::new(mode), rules: BTreeMap::new(), live: BTreeMap::new() };
    let mut kept = None;
    let mut requests = Vec::new();
    for line in lines {
        let Some((kind, rest)) = line.split_at_checked(1) else { continue };
        match kind {
            "+" => now.put(rest),
            "-" => now.take_out(slot(rest)),
            "=" => kept = Some(now.clone()),
            "?" => {
                let asked = of_line(rest);
                now.ask(&asked);
                requests.extend(asked);
            }
            _ => {}
        }
    }
    for state in kept.iter_mut().chain([&mut now]) {
        state.ask(&requests);
        state.empty(&requests);
    }
}

impl State {
    /// Puts a rule into its slot; a refused rule leaves the slot unchanged.
    fn put(&mut self, text: &str) {
        let Some((slot, input)) = rule(text) else { return };
        let Ok(rule) = Rule::new(input.clone()) else { return };
        self.take_out(slot);
        let rule = Arc::new(rule);
        self.router.insert(slot, Arc::clone(&rule));
        self.live.insert(slot, rule);
        self.rules.insert(slot, input);
    }

    fn take_out(&mut self, slot: u32) {
        if let Some(rule) = self.live.remove(&slot) {
            self.router.remove(slot, &rule);
            // A second removal must have no effect.
            self.router.remove(slot, &rule);
            self.rules.remove(&slot);
        }
    }

    fn ask(&self, requests: &[Request]) {
        assert_eq!(self.router.len(), self.rules.len());
        for request in requests {
            assert_agrees(&self.router, &self.rules, request);
        }
    }

    /// Removes all rules, and asserts that the router is empty.
    fn empty(&mut self, requests: &[Request]) {
        for slot in self.live.keys().copied().collect::<Vec<_>>() {
            self.take_out(slot);
        }
        assert!(self.router.is_empty() && !self.router.uses_request_body());
        self.ask(requests);
    }
}

fn slot(text: &str) -> u32 {
    text.bytes().next().map_or(0, |byte| u32::from(byte) % SLOTS)
}

/// The rule of a line without its sign.
fn rule(text: &str) -> Option<(u32, RuleInput)> {
    let mut words = text.split(' ');
    let slot = slot(words.next()?);
    let list = |word: &str| word.split(',').map(str::to_owned).collect::<Vec<_>>();
    let paths = list(words.next()?);
    let hosts = words.next().filter(|word| *word != "-").map(list).unwrap_or_default();
    if paths.len() > LIST_MAX || hosts.len() > LIST_MAX {
        return None;
    }
    Some((
        slot,
        conditions(words.next().unwrap_or_default(), RuleInput { paths, hosts, ..RuleInput::default() }),
    ))
}

/// `G` and `P` limit the methods, `a` the address, `v` the arguments; `b` reads the body, a digit is the
/// priority (`5` is 0), and `o` makes the rule newer.
fn conditions(letters: &str, mut input: RuleInput) -> RuleInput {
    let expression = |json| Some(Arc::new(Expression::compile(&json).expect("a good expression")));
    for letter in letters.chars() {
        match letter {
            'G' => input.methods = MethodSet::from_names(&["GET"]).expect("a method"),
            'P' => input.methods = MethodSet::from_names(&["POST", "PUT"]).expect("methods"),
            'a' => input.remote_addrs = Some(CidrSet::parse(&["10.0.0.0/8"]).expect("a network")),
            'v' => input.vars = expression(json!([["arg_k", "==", "v"]])),
            'b' => input.vars = expression(json!([["post_arg_k", "~=", "v"]])),
            'o' => input.order += 1,
            '0'..='9' => input.priority = i64::from(letter.to_digit(10).unwrap_or_default()) - 5,
            _ => {}
        }
    }
    input
}

/// The requests of a line without its sign: a plain one, and one that meets every condition.
fn of_line(text: &str) -> Vec<Request> {
    let (host, path) = text.split_once(' ').unwrap_or(("", text));
    let plain = Request::get(host, path);
    let address = std::net::IpAddr::from([10, 0, 0, 9]);
    let mut other = plain.clone();
    (other.method, other.args, other.address) = ("PUT", vec![("k", "v")], address);
    vec![plain, other]
}

/// Limit of lines. Each lookup scans all rules, so the work is quadratic.
const LINES_MAX: usize = 40;
/// The number of slots, small so that rules replace each other.
const SLOTS: u32 = 16;
/// Limit of paths and of hosts of a rule.
const LIST_MAX: usize = 6;
