//! Rules, written in few words, and what a router finds.

use std::sync::Arc;

use router::vars::Expression;
use router::{CidrSet, MethodSet, Params, Router, Rule, RuleInput};

pub(crate) use crate::oracles::router_request::Request;

/// The conditions of a rule for these paths.
pub(crate) fn paths(paths: &[&str]) -> RuleInput {
    RuleInput { paths: owned(paths), ..RuleInput::default() }
}

/// Shorthands to add conditions.
pub(crate) trait With: Sized {
    fn hosts(self, hosts: &[&str]) -> Self;
    fn methods(self, names: &[&str]) -> Self;
    fn from(self, networks: &[&str]) -> Self;
    fn vars(self, json: serde_json::Value) -> Self;
    fn priority(self, priority: i64) -> Self;
}

impl With for RuleInput {
    fn hosts(self, hosts: &[&str]) -> Self {
        Self { hosts: owned(hosts), ..self }
    }

    fn methods(self, names: &[&str]) -> Self {
        Self { methods: MethodSet::from_names(names).unwrap(), ..self }
    }

    fn from(self, networks: &[&str]) -> Self {
        Self { remote_addrs: Some(CidrSet::parse(networks).unwrap()), ..self }
    }

    fn vars(self, json: serde_json::Value) -> Self {
        Self { vars: Some(Arc::new(Expression::compile(&json).unwrap())), ..self }
    }

    fn priority(self, priority: i64) -> Self {
        Self { priority, ..self }
    }
}

/// A router over the rules, in slots from 0.
pub(crate) fn router(mode: router::Mode, rules: &[RuleInput]) -> Router {
    let mut router = Router::new(mode);
    for (slot, input) in (0..).zip(rules) {
        router.insert(slot, Arc::new(Rule::new(input.clone()).unwrap()));
    }
    router
}

/// The route that the router finds.
pub(crate) fn find(router: &Router, request: &Request) -> Option<u32> {
    router.find(request, &mut Params::new())
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}
