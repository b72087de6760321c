//! Where the cache is asked: hits never go past a limit or an authorization that stands behind them.

use serde_json::{Value, json};
use testkit::{Weir, wait_until};

use super::{ask, numbered};
use crate::support::BINARY;

/// The statuses of three requests with `global` for all routes and `own` on the one that is asked, after a
/// response is stored.
fn check(global: Value, own: Value, expected: [&str; 3]) {
    let origin = numbered(&[("Cache-Control", "max-age=600")]);
    let weir = Weir::start(BINARY);
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    let put = |plugins: &Value| {
        weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    };
    if global != json!({}) {
        weir.put("global_rules/1", json!({"plugins": global}));
    }
    // The response is stored before the limit is there.
    let mut unlimited = own.clone();
    unlimited.as_object_mut().unwrap().remove("limit-count");
    put(&unlimited);
    wait_until("the response is stored", || ask(&weir, "/", &[]).0 == "HIT");
    put(&own);
    let got = [(); 3].map(|()| {
        let response = weir.get("/");
        response.header("Apisix-Cache-Status").map_or(response.status.to_string(), str::to_owned)
    });
    assert_eq!(got, expected, "{own}");
}

#[test]
fn hits_count_for_limits_unless_in_memory_of_a_route() {
    let limit = json!({"count": 2, "time_window": 600, "key": "remote_addr"});
    let memory = json!({"cache_strategy": "memory", "cache_zone": "memory_cache"});
    let limited = json!({"limit-count": limit});
    check(json!({}), json!({"proxy-cache": {}, "limit-count": limit}), ["HIT", "HIT", "503"]);
    check(json!({"proxy-cache": memory}), limited, ["HIT", "HIT", "503"]);
    check(json!({}), json!({"proxy-cache": memory, "limit-count": limit}), ["HIT", "HIT", "HIT"]);
}
