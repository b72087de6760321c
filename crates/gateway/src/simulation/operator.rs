//! Whoever runs the gateway: writes its first configuration, changes it while requests are under way, sets the clock,
//! loses a worker, drains and stops.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use model::Kind;
use serde_json::{Value, json};

use super::gateway::Gateway;
use super::ledger::{Ledger, Target};
use super::plan::{Plan, Plant, node_address};
use crate::env::memory::{Random, note, set_wall_forward, sleep_ns};

/// The longest time between two changes, in nanoseconds.
const PAUSE_NS: u64 = 150_000_000;

/// What is written now: a route for each target, with an upstream of its own.
pub(crate) struct Operator {
    plan: Rc<Plan>,
    ledger: Rc<Ledger>,
    routes: Vec<Written>,
}

#[derive(Clone)]
struct Written {
    target: Target,
    upstream: Value,
    plugins: Value,
}

impl Operator {
    /// The first configuration.
    pub(crate) fn new(plan: &Rc<Plan>, ledger: &Rc<Ledger>, random: &mut Random) -> Operator {
        let routes = (0..plan.routes).map(|_| written(plan, random)).collect();
        Operator { plan: plan.clone(), ledger: ledger.clone(), routes }
    }

    /// Every object of the first configuration.
    pub(crate) fn objects(&self) -> Vec<(Kind, String, Value)> {
        let mut objects =
            vec![(Kind::GlobalRule, "1".to_owned(), json!({"id": "1", "plugins": {"stamp": {}}}))];
        for (number, written) in self.routes.iter().enumerate() {
            objects.push((Kind::Upstream, number.to_string(), written.upstream.clone()));
            objects.push((Kind::Route, number.to_string(), route(number, written)));
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
            match random.below(6) {
                0 => self.change_nodes(&gateway, number, &mut random),
                1 => self.change_plugins(&gateway, number, &mut random),
                2 => self.take_out(&gateway, number, &mut random).await,
                3 => set_wall_forward(Duration::from_millis(random.below(100_000))),
                _ => {
                    let object = json!({"uri": "/elsewhere", "upstream_id": "0"});
                    let id = format!("other-{}", random.below(3));
                    let object = random.chance(70).then_some(&object);
                    gateway.publish(Kind::Route, &id, object);
                }
            }
        }
    }

    fn change_nodes(&mut self, gateway: &Gateway, number: usize, random: &mut Random) {
        let fresh = written(&self.plan, random);
        let now = &mut self.routes[number];
        note(|| format!("route {number} now leads to {:?}", fresh.target.nodes));
        (now.target.nodes, now.upstream) = (fresh.target.nodes, fresh.upstream);
        // What is said first is allowed first.
        self.say();
        gateway.publish(Kind::Upstream, &number.to_string(), Some(&self.routes[number].upstream));
    }

    fn change_plugins(&mut self, gateway: &Gateway, number: usize, random: &mut Random) {
        let fresh = written(&self.plan, random);
        let now = &mut self.routes[number];
        note(|| format!("route {number} now has {}", fresh.plugins));
        (now.target.answers, now.plugins) = (fresh.target.answers, fresh.plugins);
        self.say();
        gateway.publish(Kind::Route, &number.to_string(), Some(&route(number, &self.routes[number])));
    }

    async fn take_out(&mut self, gateway: &Gateway, number: usize, random: &mut Random) {
        let before = self.routes[number].clone();
        note(|| format!("route {number} is taken out"));
        self.routes[number].target = Target::default();
        self.say();
        gateway.publish(Kind::Route, &number.to_string(), None);
        sleep_ns(random.below(PAUSE_NS / 4)).await;
        note(|| format!("route {number} is put back"));
        self.routes[number] = before;
        self.say();
        gateway.publish(Kind::Route, &number.to_string(), Some(&route(number, &self.routes[number])));
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

fn written(plan: &Plan, random: &mut Random) -> Written {
    let mut nodes: BTreeSet<usize> = (0..plan.nodes).filter(|_| random.chance(60)).collect();
    // One at least is up, so that no request has to fail.
    nodes.insert(random.below(plan.nodes_up as u64) as usize);
    let weighted: serde_json::Map<String, Value> =
        nodes.iter().map(|node| (node_address(*node).to_string(), json!(random.between(1, 3)))).collect();
    let mut upstream = json!({
        "nodes": weighted,
        "type": random.pick(&["roundrobin", "least_conn", "ewma", "chash"]),
        "keepalive_pool": {
            "size": random.pick(&[1, 2, 320]),
            "idle_timeout": random.pick(&[0.1, 1.0, 60.0]),
            "requests": random.pick(&[1, 3, 1000]),
        },
        "timeout": {"connect": 0.5, "send": 1, "read": 1},
    });
    if upstream["type"] == "chash" {
        upstream["key"] = json!("uri");
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
    Written { target: Target { nodes, answers }, upstream, plugins }
}
