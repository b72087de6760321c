//! Runners that misbehave: the request that meets one ends in time with a cause, and others do not notice.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Origin, Weir, plugin_runner, wait_until};

use super::{builder, conf, process_of, route, runner, running};

/// Milliseconds that a call may take in these tests.
const TIMEOUT_MS: u64 = 2_000;

fn gateway() -> (Origin, Weir) {
    let timeout = TIMEOUT_MS.to_string();
    let weir =
        builder(&plugin_runner::stand_in()).arguments(&["--plugin-runner-timeout-ms", &timeout]).start();
    (Origin::answering("from upstream"), running(weir))
}

fn degrading(name: &str) -> Value {
    let mut conf = conf(name, "");
    conf["allow_degradation"] = json!(true);
    conf
}

/// The cause that the log has for each behaviour.
const CAUSES: [(&str, &str); 14] = [
    ("hang", "has not answered within 2000 ms"),
    ("close", "the plugin runner has closed the connection"),
    ("half a head", "the plugin runner has closed the connection"),
    ("half a frame", "the plugin runner has closed the connection"),
    ("huge length", "the plugin runner has closed the connection"),
    ("garbage", "has sent no valid message"),
    ("empty", "a position lies outside of the message"),
    ("wrong type", "answered with unexpected type 9"),
    ("wrong id", "in place of call"),
    ("line break", "a field has a name or a value that no field can have"),
    ("no path", "the new path does not begin with a slash"),
    ("bad request", "bad request"),
    ("endless questions", "it asks too many questions"),
    ("forget", "conf token not found"),
];

#[test]
fn misbehaving_runner_fails_its_request_in_time() {
    let (origin, weir) = gateway();
    weir.put("routes/good", route(&origin, "/good", json!({"ext-plugin-pre-req": conf("pass", "")})));
    for (index, (behaviour, cause)) in CAUSES.into_iter().enumerate() {
        let id = format!("bad{index}");
        let uri = format!("/{id}");
        weir.put(
            &format!("routes/{id}"),
            route(&origin, &uri, json!({"ext-plugin-pre-req": conf(behaviour, "")})),
        );
        let began = Instant::now();
        let response = weir.get(&uri);
        assert_eq!(response.status, 503, "{behaviour}: {}", response.text());
        assert!(began.elapsed() < Duration::from_millis(5 * TIMEOUT_MS), "{behaviour}");
        wait_until("the log has the cause", || {
            weir.stderr().iter().any(|line| line.contains(&id) && line.contains(cause))
        });
        assert_eq!(weir.get("/good").status, 200, "after {behaviour}");
        weir.put(
            &format!("routes/{id}"),
            route(&origin, &uri, json!({"ext-plugin-post-req": degrading(behaviour)})),
        );
        assert_eq!(weir.get(&uri).text(), "from upstream", "{behaviour}");
    }
    assert_eq!(runner(&weir)["restarts"], 0);
    let metrics = testkit::Client::connect(weir.address("metrics")).get("/metrics").text();
    let counted = "weir_plugin_call_failures_total{plugin=\"ext-plugin-pre-req\"}";
    assert!(metrics.lines().any(|line| line.starts_with(counted)), "{metrics}");
    assert!(metrics.contains("weir_plugin_events_total{plugin=\"ext-plugin-pre-req\",event=\"calls\"}"));
}

#[test]
fn misbehaving_runner_fails_its_response() {
    let (origin, weir) = gateway();
    for behaviour in ["hang", "close", "garbage", "wrong id"] {
        weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-post-resp": conf(behaviour, "")})));
        let response = weir.get("/");
        assert_eq!((response.status, response.text().as_str()), (503, ""), "{behaviour}");
        weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-post-resp": degrading(behaviour)})));
        assert_eq!(weir.get("/").text(), "from upstream", "{behaviour}");
    }
}

#[test]
fn surplus_and_forgotten_tokens_harm_no_later_request() {
    let (origin, weir) = gateway();
    let mut client = weir.client();
    weir.put("routes/1", route(&origin, "/surplus", json!({"ext-plugin-pre-req": conf("surplus", "")})));
    weir.put("routes/2", route(&origin, "/forget", json!({"ext-plugin-pre-req": conf("forget", "once")})));
    for _ in 0..5 {
        assert_eq!(client.get("/surplus").status, 200);
        assert_eq!(client.get("/forget").status, 200, "the configuration is sent again");
    }
}

#[test]
fn hanging_calls_slow_no_other_request() {
    let (origin, weir) = gateway();
    weir.put("routes/1", route(&origin, "/hang", json!({"ext-plugin-pre-req": conf("hang", "")})));
    weir.put("routes/2", route(&origin, "/good", json!({"ext-plugin-pre-req": conf("pass", "")})));
    let mut hanging: Vec<_> = (0..50).map(|_| weir.client()).collect();
    for client in &mut hanging {
        client.send(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let mut client = weir.client();
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(client.get("/good").status, 200);
    }
    assert!(began.elapsed() < Duration::from_millis(5 * TIMEOUT_MS));
    for client in &mut hanging {
        assert_eq!(client.read_response(false).unwrap().status, 503);
    }
}

#[test]
fn runner_that_dies_is_started_again() {
    let (origin, weir) = gateway();
    let before = process_of(&weir);
    weir.put("routes/1", route(&origin, "/die", json!({"ext-plugin-pre-req": conf("die", "")})));
    weir.put("routes/2", route(&origin, "/good", json!({"ext-plugin-pre-req": conf("pass", "")})));
    assert_eq!(weir.get("/good").status, 200);
    assert_eq!(weir.get("/die").status, 503);
    wait_until("there is another runner", || {
        // One answer gives both: between two, the old runner may end.
        let shown = runner(&weir);
        shown["state"] == "running" && shown["process"] != before
    });
    assert_eq!(weir.get("/good").status, 200, "the token of the old runner is not used");
    let shown = runner(&weir);
    assert_eq!(
        (&shown["restarts"], &shown["last_end"]),
        (&json!(1), &json!("it has ended with exit status: 7"))
    );
}
