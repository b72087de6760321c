//! Runs a whole gateway in memory, with clients and nodes, from one seed and in virtual time. Connections are
//! cut, reset and stalled, events come late and in any order, the configuration changes, names change their
//! addresses or fail, listeners come and go, workers end, the gateway drains. In every run a response belongs
//! to the request that it is given to and is whole or visibly cut, work is done once, and at the end no
//! connection, timer or task is left. The same seed gives the same run; a run that fails prints its seed and
//! its trace.

mod client;
#[cfg(test)]
mod corpora;
pub mod exchange;
mod gateway;
mod h2_client;
mod ledger;
mod names;
mod node;
mod operator;
mod pattern;
mod plan;
mod plugins;
#[cfg(test)]
mod regressions;
#[cfg(test)]
mod seeds;
mod tunnel;
pub(crate) mod wire;

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use client::Client;
use gateway::Gateway;
use ledger::Ledger;
use names::Names;
use net::env;
use net::env::memory::{Ran, Random, note, set_link, simulate, sleep_ns};
use node::Node;
use operator::Operator;
use plan::{Plan, Plant, node_address, proxy_address, second_address};

/// Longest virtual time of a run, in milliseconds; a longer run means that a task waits for ever.
const RUN_MS_MAX: u64 = 300_000;
/// How long after the last client all tasks must be at rest, in nanoseconds: longer than any timeout of the
/// plan.
const REST_NS: u64 = 4_000_000_000;
/// Longest time that the operator grants a drain, in nanoseconds.
const GRACE_NS: u64 = 8_000_000_000;

/// Result of one run.
pub(crate) struct Outcome {
    /// Broken rules, in words; empty if the run is right.
    pub(crate) violations: Vec<String>,
    /// Requests that clients sent. `answers` counts whole responses of nodes.
    pub(crate) requests: usize,
    pub(crate) answers: u64,
    /// Those of them that clients of HTTP/2 got.
    pub(crate) answers_http2: u64,
    pub(crate) digest: u64,
    pub(crate) trace: Vec<String>,
}

/// Runs the simulation of `seed`. `planted` adds a fault that the checks must find; the tests of the checks
/// use it.
pub(crate) fn run(seed: u64, planted: Option<Plant>, traced: bool) -> Outcome {
    let ran = simulate(seed, traced, RUN_MS_MAX, scene(seed, planted));
    let Ran { result, digest, trace } = ran;
    let (violations, requests, answers, answers_http2) = match result {
        Some(Ok(outcome)) => outcome,
        Some(Err(panic)) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("something without words");
            (vec![format!("panicked: {text}")], 0, 0, 0)
        }
        None => (vec![format!("not over after {RUN_MS_MAX} ms")], 0, 0, 0),
    };
    Outcome { violations, requests, answers, answers_http2, digest, trace }
}

fn random_of(seed: u64) -> Random {
    Random::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D))
}

/// The plan of `seed`.
#[cfg(test)]
fn plan_of(seed: u64, planted: Option<Plant>) -> Plan {
    Plan::draw(&mut random_of(seed), planted)
}

async fn scene(seed: u64, planted: Option<Plant>) -> (Vec<String>, usize, u64, u64) {
    let mut random = random_of(seed);
    let plan = Rc::new(Plan::draw(&mut random, planted));
    note(|| format!("{plan:#?}"));
    let ledger = Rc::new(Ledger::new());
    drop(plugins::take_logged());
    set_link(proxy_address(), plan.client_link.clone());
    set_link(second_address(), plan.client_link.clone());
    for number in 0..plan.nodes_up {
        set_link(node_address(number), plan.node_link.clone());
        let node = Rc::new(Node { number, plan: plan.clone(), ledger: ledger.clone() });
        env::spawn(node::run(node, random.fork()));
    }
    let names = Names::default();
    let operator = Operator::new(&plan, &ledger, &names, &mut random);
    let gateway = Rc::new(Gateway::new(&plan, &ledger, &names, &operator.objects()));
    let working = Rc::new(Cell::new(0));
    for number in 0..plan.clients {
        let client = Rc::new(Client { number, plan: plan.clone(), ledger: ledger.clone() });
        counted(&working, client::run(client, random.fork()));
    }
    counted(&working, operator.run(gateway.clone(), random.fork()));
    counted(&working, upsets(plan.clone(), gateway.clone(), random.fork()));
    act(&plan, &gateway, &working).await;
    ledger.close();
    judge_logs(&gateway, &ledger);
    (ledger.take_violations(), ledger.requests(), ledger.answers.get(), ledger.answers_http2.get())
}

/// Spawns `task` and counts it in `working` until it ends.
fn counted(working: &Rc<Cell<usize>>, task: impl Future<Output = ()> + 'static) {
    let working = working.clone();
    working.set(working.get() + 1);
    env::spawn(async move {
        task.await;
        working.set(working.get() - 1);
    });
}

/// Last part of a run: waits for clients and operator, then checks the state at rest, after the drain and
/// after the stop.
async fn act(plan: &Plan, gateway: &Gateway, working: &Cell<usize>) {
    if let Some(after_ms) = plan.drain_after_ms {
        env::sleep_ms(after_ms).await;
        gateway.drain();
        wait_until(GRACE_NS, || gateway.connections() == 0).await;
        if gateway.connections() == 0 {
            sleep_ns(REST_NS).await;
            gateway.judge_drained();
        }
    }
    if plan.drain_after_ms.is_none() {
        wait_until(u64::MAX, || working.get() == 0).await;
        sleep_ns(REST_NS).await;
        gateway.judge_at_rest();
        gateway.drain();
        sleep_ns(REST_NS).await;
        gateway.judge_drained();
    }
    gateway.stop();
    sleep_ns(REST_NS).await;
    wait_until(u64::MAX, || working.get() == 0).await;
    gateway.judge_stopped();
}

async fn wait_until(limit_ns: u64, done: impl Fn() -> bool) {
    let deadline_ns = env::monotonic_ns().saturating_add(limit_ns);
    while !done() && env::monotonic_ns() < deadline_ns {
        env::sleep_ms(5).await;
    }
}

/// Ends the event loops of random workers as often as the plan says; each worker is started again.
async fn upsets(plan: Rc<Plan>, gateway: Rc<Gateway>, mut random: Random) {
    for _ in 0..plan.faults.worker_ends {
        env::sleep_ms(random.below(300)).await;
        gateway.upset(random.below(plan.workers as u64) as usize);
    }
}

/// Checks that every request is logged at most once and that no more requests are logged than counted.
fn judge_logs(gateway: &Gateway, ledger: &Ledger) {
    let logged = plugins::take_logged();
    for (id, times) in &logged {
        if *times != 1 {
            ledger.violation(format!("request {id} was logged {times} times"));
        }
    }
    let total: u64 = logged.values().sum();
    if total > gateway.requests() {
        ledger.violation(format!("{total} requests were logged and {} counted", gateway.requests()));
    }
}
