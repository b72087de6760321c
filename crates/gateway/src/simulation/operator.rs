//! The operator of the simulated gateway: writes the first configuration and changes it while requests are in
//! flight, changes name answers and listeners, and sets the clock.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use model::ObjectKind;
use model::resource::BalanceMethod;
use serde_json::{Value, json};

use super::gateway::Gateway;
use super::ledger::{Ledger, Target};
use super::names::{self, Names};
use super::plan::{Plan, Plant, node_address};
use net::env::memory::{Random, note, set_wall_forward, sleep_ns};
use net::env::monotonic_ns;

/// Longest time between two changes, in nanoseconds.
const PAUSE_NS: u64 = 150_000_000;
/// Longest time for which a name cannot be looked up, in nanoseconds.
const OUTAGE_NS: u64 = 1_500_000_000;
/// Latest time at which the address of a removed listener must be free, in nanoseconds.
const REBIND_NS: u64 = 500_000_000;

/// The configuration in force: one route with an upstream of its own for each number, and the listeners.
pub(crate) struct Operator {
    plan: Rc<Plan>,
    ledger: Rc<Ledger>,
    names: Names,
    /// Names written so far; a name is used once, so that no old answer of it is cached.
    named: u64,
    /// When lookups failed last.
    failed_ns: u64,
    listens: bool,
    routes: Vec<Written>,
}

#[derive(Clone)]
struct Written {
    target: Target,
    /// The name that the nodes are written as, if they are not written as addresses.
    name: Option<String>,
    upstream: Value,
    plugins: Value,
}

impl Operator {
    /// Draws the first configuration.
    pub(crate) fn new(plan: &Rc<Plan>, ledger: &Rc<Ledger>, names: &Names, random: &mut Random) -> Operator {
        let mut operator = Operator {
            plan: plan.clone(),
            ledger: ledger.clone(),
            names: names.clone(),
            named: 0,
            failed_ns: 0,
            listens: plan.second_listener,
            routes: Vec::new(),
        };
        operator.routes = (0..plan.routes).map(|_| operator.written(random)).collect();
        ledger.listens(plan.second_listener);
        ledger.may_refuse.set(plan.may_refuse());
        operator
    }

    /// Draws a route with nodes that are written as addresses or as one name.
    fn written(&mut self, random: &mut Random) -> Written {
        let mut written = written(&self.plan, random);
        if random.chance(45) {
            self.named += 1;
            let name = format!("pool-{}.test", self.named);
            self.names.set(&name, addresses(&written.target.nodes));
            written.upstream["nodes"] = json!({format!("{name}:80"): 1});
            written.name = Some(name);
        }
        written
    }

    /// Returns every object of the first configuration and records its destinations.
    pub(crate) fn objects(&self) -> Vec<(ObjectKind, String, Value)> {
        let mut objects =
            vec![(ObjectKind::GlobalRule, "1".to_owned(), json!({"id": "1", "plugins": {"stamp": {}}}))];
        for (number, written) in self.routes.iter().enumerate() {
            objects.push((ObjectKind::Upstream, number.to_string(), written.upstream.clone()));
            objects.push((ObjectKind::Route, number.to_string(), route(number, written)));
        }
        self.say();
        objects
    }

    fn say(&self) {
        let mut targets: Vec<Target> = self.routes.iter().map(|written| written.target.clone()).collect();
        if self.plan.planted == Some(Plant::WrongTarget) {
            targets[0].nodes.clear();
        }
        self.ledger.publish(targets);
    }

    /// Makes the plan's changes, one after another.
    pub(crate) async fn run(mut self, gateway: Rc<Gateway>, mut random: Random) {
        for _ in 0..self.plan.changes {
            sleep_ns(random.below(PAUSE_NS)).await;
            let number = random.below(self.plan.routes as u64) as usize;
            match random.below(10) {
                0 => self.change_nodes(&gateway, number, &mut random),
                1 => self.change_plugins(&gateway, number, &mut random),
                2 => self.take_out(&gateway, number, &mut random).await,
                3 | 9 => self.change_answer(self.named_from(number), &mut random).await,
                4 => self.fail_lookups(self.named_from(number), &mut random).await,
                5 => self.change_listeners(&gateway, &mut random).await,
                6 => set_wall_forward(Duration::from_millis(random.below(100_000))),
                _ => {
                    let object = json!({"uri": "/elsewhere", "upstream_id": "0"});
                    let id = format!("other-{}", random.below(3));
                    let object = random.chance(70).then_some(&object);
                    gateway.publish(ObjectKind::Route, &id, object);
                }
            }
        }
    }

    /// Finds a route with nodes that are written as a name, beginning at `number`; `number` itself if there
    /// is none.
    fn named_from(&self, number: usize) -> usize {
        let routes = self.routes.len();
        let mut others = (number..number + routes).map(|other| other % routes);
        others.find(|other| self.routes[*other].name.is_some()).unwrap_or(number)
    }

    fn change_nodes(&mut self, gateway: &Gateway, number: usize, random: &mut Random) {
        let fresh = self.written(random);
        let now = &mut self.routes[number];
        note(|| format!("route {number} now leads to {:?} as {:?}", fresh.target.nodes, fresh.name));
        (now.name, now.upstream) = (fresh.name, fresh.upstream);
        // The new nodes are allowed before they are published, because a worker may use them at once; the old
        // ones stay allowed until then, because a new name has to be looked up first.
        self.say_either(number, &fresh.target.nodes);
        gateway.publish(ObjectKind::Upstream, &number.to_string(), Some(&self.routes[number].upstream));
        self.lead_to(number, fresh.target.nodes);
    }

    /// Allows the route to lead to `nodes` as well as to its present nodes until the next record.
    fn say_either(&mut self, number: usize, nodes: &BTreeSet<usize>) {
        let before = self.routes[number].target.nodes.clone();
        self.routes[number].target.nodes.extend(nodes);
        self.say();
        self.routes[number].target.nodes = before;
    }

    fn lead_to(&mut self, number: usize, nodes: BTreeSet<usize>) {
        self.routes[number].target.nodes = nodes;
        self.say();
    }

    /// Changes the answer of the name that a route is written with, and waits until the old answer must have
    /// expired.
    async fn change_answer(&mut self, number: usize, random: &mut Random) {
        let Some(name) = self.routes[number].name.clone() else { return };
        let nodes = nodes(&self.plan, random);
        note(|| format!("{name} now leads to {nodes:?}"));
        self.say_either(number, &nodes);
        if self.plan.planted != Some(Plant::StaleName) {
            self.names.set(&name, addresses(&nodes));
        }
        // The next lookup after a failure comes late.
        let failed = monotonic_ns() - self.failed_ns < names::STALE_AFTER_FAILURE_NS;
        sleep_ns(if failed { names::STALE_AFTER_FAILURE_NS } else { names::STALE_NS }).await;
        self.lead_to(number, nodes);
    }

    /// Makes the name that a route is written with fail for a time, and sometimes return with another answer.
    /// The last good answer stays in force until then.
    async fn fail_lookups(&mut self, number: usize, random: &mut Random) {
        let Some(name) = self.routes[number].name.clone() else { return };
        let failure = *random.pick(&[names::Failure::Error, names::Failure::NoAddress]);
        note(|| format!("{name} fails: {failure:?}"));
        self.names.fail(&name, Some(failure));
        // A lookup in flight may still return the old answer.
        sleep_ns(random.below(OUTAGE_NS)).await;
        if random.chance(50) {
            let nodes = nodes(&self.plan, random);
            note(|| format!("{name} now leads to {nodes:?}"));
            self.say_either(number, &nodes);
            self.names.set(&name, addresses(&nodes));
            self.names.fail(&name, None);
            self.failed_ns = monotonic_ns();
            sleep_ns(names::STALE_AFTER_FAILURE_NS).await;
            self.lead_to(number, nodes);
        }
        note(|| format!("{name} is answered again"));
        self.names.fail(&name, None);
        self.failed_ns = monotonic_ns();
    }

    /// Removes the second listener, or adds it again once its address is free.
    async fn change_listeners(&mut self, gateway: &Gateway, random: &mut Random) {
        if !self.plan.second_listener || self.ledger.drain_ns.get() != u64::MAX {
            return;
        }
        let second = !self.listens;
        if !second && self.plan.planted != Some(Plant::SilentListener) {
            self.ledger.listens(false);
        }
        let begun_ns = monotonic_ns();
        while !gateway.listen(second) {
            if monotonic_ns() - begun_ns > REBIND_NS {
                return self.ledger.violation("the address of a listener that was taken away is never free");
            }
            sleep_ns(random.below(REBIND_NS / 10)).await;
            if self.ledger.drain_ns.get() != u64::MAX {
                return;
            }
        }
        self.listens = second;
        if second {
            self.ledger.listens(true);
        }
    }

    fn change_plugins(&mut self, gateway: &Gateway, number: usize, random: &mut Random) {
        let fresh = written(&self.plan, random);
        let now = &mut self.routes[number];
        note(|| format!("route {number} now has {}", fresh.plugins));
        (now.target.answers, now.plugins) = (fresh.target.answers, fresh.plugins);
        self.say();
        gateway.publish(ObjectKind::Route, &number.to_string(), Some(&route(number, &self.routes[number])));
    }

    async fn take_out(&mut self, gateway: &Gateway, number: usize, random: &mut Random) {
        let before = self.routes[number].clone();
        note(|| format!("route {number} is taken out"));
        self.routes[number].target = Target::default();
        self.say();
        gateway.publish(ObjectKind::Route, &number.to_string(), None);
        sleep_ns(random.below(PAUSE_NS / 4)).await;
        note(|| format!("route {number} is put back"));
        self.routes[number] = before;
        self.say();
        gateway.publish(ObjectKind::Route, &number.to_string(), Some(&route(number, &self.routes[number])));
    }
}

fn route(number: usize, written: &Written) -> Value {
    json!({
        "uri": format!("/r{number}/*"),
        "upstream_id": number.to_string(),
        "enable_websocket": true,
        "plugins": written.plugins,
    })
}

/// Draws nodes of which at least one is up, so that no request has to fail.
fn nodes(plan: &Plan, random: &mut Random) -> BTreeSet<usize> {
    let mut nodes: BTreeSet<usize> = (0..plan.nodes).filter(|_| random.chance(60)).collect();
    nodes.insert(random.below(plan.nodes_up as u64) as usize);
    nodes
}

fn addresses(nodes: &BTreeSet<usize>) -> Vec<IpAddr> {
    nodes.iter().map(|node| node_address(*node).ip()).collect()
}

/// Adds limits that requests meet often, a queue in which they wait longer than any run, and circuits that
/// open soon.
fn protect(upstream: &mut Value) {
    upstream["limits"] = json!({
        "max_requests": 3,
        "max_requests_per_node": 2,
        "queue": {"length": 1_000, "timeout": 600},
    });
    upstream["outlier_ejection"] =
        json!({"consecutive_failures": 2, "base_ejection_time": 0.05, "max_ejection_time": 0.2});
    upstream["circuit_breaker"] =
        json!({"consecutive_failures": 4, "base_break_time": 0.05, "max_break_time": 0.2});
}

/// Whether the upstreams of a run have a retry policy. Computed instead of drawn, so that every seed keeps
/// its run. Not with protection, because a retry that finds every node at its limit is refused, for which the
/// ledger has no excuse.
fn has_retry_policy(plan: &Plan) -> bool {
    (plan.clients + plan.routes + plan.nodes).is_multiple_of(2) && !plan.is_protected
}

/// A policy that retries as much as it may without doing unsafe work twice: the ledger counts deliveries.
fn retry_policy() -> Value {
    json!({
        "attempts": 16,
        "conditions": ["connect_failure", "refused_stream", "reset", "timeout", "invalid_response"],
        "statuses": [404, 500],
        "max_body": 20_000,
        "attempt_timeout": 5,
        "hedge": {"after": 0.02},
        "backoff": {"base": 0.002, "max": 0.02},
        "budget": {"percent": 100, "min_per_second": 1000, "window": 1},
    })
}

fn written(plan: &Plan, random: &mut Random) -> Written {
    let nodes = nodes(plan, random);
    let weighted: serde_json::Map<String, Value> =
        nodes.iter().map(|node| (node_address(*node).to_string(), json!(random.between(1, 3)))).collect();
    let method = *random.pick(&[
        BalanceMethod::RoundRobin,
        BalanceMethod::LeastConnections,
        BalanceMethod::Ewma,
        BalanceMethod::ConsistentHash,
        BalanceMethod::Random,
        BalanceMethod::Maglev,
        BalanceMethod::BoundedHash,
    ]);
    let mut upstream = json!({
        "nodes": weighted,
        "type": method.name(),
        "keepalive_pool": {
            "size": random.pick(&[1, 2, 320]),
            "idle_timeout": random.pick(&[0.1, 1.0, 60.0]),
            "requests": random.pick(&[1, 3, 1000]),
        },
        "timeout": {"connect": 0.5, "send": 1, "read": 1},
    });
    if method.uses_key() {
        upstream["key"] = json!("uri");
    }
    if plan.is_protected {
        protect(&mut upstream);
    }
    if has_retry_policy(plan) {
        upstream["retry"] = retry_policy();
    }
    if plan.planted == Some(Plant::UnsafeRetry) {
        upstream["retry"] = json!({"statuses": [404, 500], "methods": ["POST"], "unsafe_methods": true});
    }
    let mut plugins = json!({});
    if random.chance(30) {
        plugins["edit"] = json!({"buffers": random.chance(50)});
    }
    let mut answers = false;
    if random.chance(30) {
        answers = random.chance(20);
        plugins["wait"] =
            json!({"wait_ms": random.below(30), "answers": answers, "collects": random.chance(30)});
    }
    Written { target: Target { nodes, answers }, name: None, upstream, plugins }
}
