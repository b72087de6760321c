//! Both registries of Consul against a stand-in that answers blocking queries as Consul does: at once for an
//! index that is not the present one, otherwise after the next change.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use model::discovery::ServiceKey;
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use testkit::{Origin, Reply, Request, wait_until};

use crate::followed::Followed;

/// A query without a change ends after this time; longer than any test.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The data of the agent and their index.
struct Data {
    index: u64,
    answer: Value,
}

/// A stand-in for an agent.
struct Agent {
    data: Arc<(Mutex<Data>, Condvar)>,
    origin: Origin,
}

impl Agent {
    fn start(answer: Value) -> Agent {
        let data = Arc::new((Mutex::new(Data { index: 7, answer }), Condvar::new()));
        let shared = Arc::clone(&data);
        let origin = Origin::start(move |request| answer_to(request, &shared));
        Agent { data, origin }
    }

    fn change(&self, answer: Value) {
        let (data, changed) = &*self.data;
        let mut data = data.lock();
        *data = Data { index: data.index + 1, answer };
        changed.notify_all();
    }

    /// A block with pauses longer than any test, so that only blocking queries see a change.
    fn block(&self) -> Value {
        json!({"servers": [format!("http://{}", self.origin.address())], "fetch_interval": 3600, "token": "t1"})
    }
}

fn answer_to(request: &Request, shared: &(Mutex<Data>, Condvar)) -> Reply {
    let (data, changed) = shared;
    let mut data = data.lock();
    let index = request.target.split(['?', '&']).find_map(|part| part.strip_prefix("index="));
    if index == Some(&data.index.to_string()) {
        changed.wait_for(&mut data, WAIT_MAX);
    }
    if request.header("x-consul-token") != Some("t1") {
        return Reply::status(403, "Permission denied");
    }
    let index = data.index.to_string();
    Reply::with(200, &[("X-Consul-Index", &index)], data.answer.to_string().as_bytes())
}

fn instances(ports: &[u16]) -> Value {
    let one = |port: &u16| json!({"Service": {"Address": "10.0.0.1", "Port": port}});
    ports.iter().map(one).collect()
}

#[test]
fn change_is_pushed_by_blocking_query() {
    let agent = Agent::start(instances(&[80]));
    let web = Followed::start("consul", &agent.block(), "web");
    web.wait_for(&["10.0.0.1:80 1"]);
    agent.change(instances(&[80, 81]));
    web.wait_for(&["10.0.0.1:80 1", "10.0.0.1:81 1"]);
    agent.change(instances(&[81]));
    web.wait_for(&["10.0.0.1:81 1"]);
    let targets: Vec<String> = agent.origin.requests().iter().map(|seen| seen.target.clone()).collect();
    assert_eq!(targets[0], "/v1/health/service/web?passing=1");
    assert_eq!(targets[1], "/v1/health/service/web?passing=1&wait=60s&index=7");
}

#[test]
fn service_followed_again_does_not_wait_for_a_change() {
    let agent = Agent::start(instances(&[80]));
    let keeper = Followed::start("consul", &agent.block(), "other");
    let key = ServiceKey::new("consul", "web");
    for _ in 0..3 {
        let web = keeper.follow(&key);
        web.wait_for(&["10.0.0.1:80 1"]);
        // The first state is that of an earlier following.
        wait_until("an answer", || web.all_shown().len() > 1);
    }
}

#[test]
fn change_of_keys_is_pushed_by_blocking_query() {
    let keys = |values: &[(&str, &str)]| -> Value {
        let entry =
            |(key, value): &(&str, &str)| json!({"Key": key, "Value": BASE64.encode(value.as_bytes())});
        values.iter().map(entry).collect()
    };
    let agent = Agent::start(keys(&[("upstreams/web/10.0.0.1:80", r#"{"weight": 3}"#)]));
    let web = Followed::start("consul_kv", &agent.block(), "web");
    web.wait_for(&["10.0.0.1:80 3"]);
    agent.change(keys(&[("upstreams/web/10.0.0.2:80", "{}"), ("upstreams/api/10.0.0.3:80", "{}")]));
    web.wait_for(&["10.0.0.2:80 1"]);
    agent.change(keys(&[("upstreams/api/10.0.0.3:80", "{}")]));
    web.wait_for_note("does not know the service web");
    let targets: Vec<String> = agent.origin.requests().iter().map(|seen| seen.target.clone()).collect();
    assert_eq!(targets[1], "/v1/kv/upstreams/?recurse=true&wait=60s&index=7");
}

#[test]
fn refused_token_keeps_instances() {
    let agent = Agent::start(instances(&[80]));
    let mut block = agent.block();
    block["token"] = json!("t2");
    let web = Followed::start("consul", &block, "web");
    web.wait_for_failure("403");
    assert!(web.shown().is_empty());
    assert!(!web.discovery.states().to_string().contains("t2"));
}
