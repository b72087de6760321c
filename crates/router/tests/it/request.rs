//! A request and rules, written in few words.

use std::net::IpAddr;
use std::sync::Arc;

use router::vars::{Expression, Value, Variable, VariableSource};
use router::{CidrSet, MethodSet, Params, RequestView, Router, Rule, RuleInput};

/// A request of a method, host and path from an address, with query arguments.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) raw_host: String,
    pub(crate) path: String,
    pub(crate) address: IpAddr,
    pub(crate) args: Vec<(&'static str, &'static str)>,
    host: String,
}

impl Request {
    /// `GET` from 127.0.0.1 without arguments.
    pub(crate) fn get(raw_host: &str, path: &str) -> Self {
        let lower = raw_host.to_ascii_lowercase();
        let host = match lower.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
            _ => lower,
        };
        let address = IpAddr::from([127, 0, 0, 1]);
        Self {
            method: "GET",
            raw_host: raw_host.to_owned(),
            path: path.to_owned(),
            address,
            args: Vec::new(),
            host,
        }
    }
}

impl VariableSource for Request {
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
        match variable {
            Variable::Arg(name) => {
                self.args.iter().find(|arg| arg.0 == &**name).map(|arg| Value::from(arg.1))
            }
            _ => None,
        }
    }
}

impl RequestView for Request {
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn raw_host(&self) -> &[u8] {
        self.raw_host.as_bytes()
    }

    fn method_bit(&self) -> Option<u8> {
        router::methods::method_bit(self.method.as_bytes())
    }

    fn remote_addr(&self) -> IpAddr {
        self.address
    }
}

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

/// What the router finds.
pub(crate) fn find(router: &Router, request: &Request) -> Option<u32> {
    router.find(request, &mut Params::new())
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}
