//! Plugins that decide by lists in their configuration.

use serde_json::json;

use super::Stage;

const JACK: (&str, &str) = ("apikey", "jack-key");
const JILL: (&str, &str) = ("apikey", "jill-key");

#[test]
fn consumer_restriction_limits_consumers() {
    let stage = Stage::new();
    stage.weir.put("consumer_groups/staff", json!({"plugins": {}}));
    stage.consumer("jack", json!({"group_id": "staff"}));
    stage.consumer("jill", json!({}));
    let restrict = |config: serde_json::Value| {
        stage.route(json!({"key-auth": {}, "consumer-restriction": config}), json!({}));
    };
    restrict(json!({"whitelist": ["jack"]}));
    assert_eq!(stage.answer("GET", "/", &[JACK]).0, 200);
    assert_eq!(stage.answer("GET", "/", &[JILL]), (403, "The consumer_name is forbidden.".to_owned()));
    assert_eq!(stage.answer("GET", "/", &[]), (401, "Missing API key in request".to_owned()));
    restrict(json!({"allowed_by_methods": [{"user": "jill", "methods": ["GET"]}], "rejected_msg": "no"}));
    assert_eq!(stage.answer("GET", "/", &[JILL]).0, 200);
    assert_eq!(stage.answer("POST", "/", &[JILL]), (403, "no".to_owned()));
    assert_eq!(stage.answer("POST", "/", &[JACK]).0, 200);
    restrict(json!({"type": "consumer_group_id", "blacklist": ["staff"]}));
    assert_eq!(stage.answer("GET", "/", &[JACK]), (403, "The consumer_group_id is forbidden.".to_owned()));
    let reason = "The request is rejected, please check the consumer_group_id for this request";
    assert_eq!(stage.answer("GET", "/", &[JILL]), (401, reason.to_owned()));
}

#[test]
fn restriction_on_consumer_limits_its_routes() {
    let stage = Stage::new();
    stage.weir.put("services/1", json!({}));
    stage.route(json!({"key-auth": {}}), json!({"service_id": "1"}));
    let restrict = |config: serde_json::Value| {
        let plugins = json!({"key-auth": {"key": "jack-key"}, "consumer-restriction": config});
        stage.weir.put("consumers", json!({"username": "jack", "plugins": plugins}));
        stage.answer("GET", "/", &[JACK])
    };
    assert_eq!(restrict(json!({"type": "route_id", "whitelist": ["1"]})).0, 200);
    let refused = restrict(json!({"type": "route_id", "blacklist": ["1"]}));
    assert_eq!(refused, (403, "The route_id is forbidden.".to_owned()));
    assert_eq!(restrict(json!({"type": "service_id", "whitelist": ["1"]})).0, 200);
    let refused = restrict(json!({"type": "service_id", "whitelist": ["2"], "rejected_code": 404}));
    assert_eq!(refused, (404, "The service_id is forbidden.".to_owned()));
}

#[test]
fn labels_decide_and_reach_the_upstream() {
    let stage = Stage::new();
    stage.consumer("jack", json!({"labels": {"team": "infra,cloud", "plan": "gold"}}));
    stage.consumer("jill", json!({"labels": {"team": "sales"}}));
    stage.route(
        json!({
            "key-auth": {}, "acl": {"allow_labels": {"team": ["cloud"]}},
            "attach-consumer-label": {"headers": {"X-Plan": "$plan", "X-Region": "$region"}},
        }),
        json!({}),
    );
    let seen = stage.get("/", &[JACK, ("X-Plan", "forged"), ("X-Region", "forged")]).text();
    assert!(seen.contains("X-Plan: gold\r\n") && !seen.contains("forged"), "{seen}");
    assert_eq!(stage.answer("GET", "/", &[JILL]), (403, "The consumer is forbidden.".to_owned()));
    stage.route(json!({"acl": {"allow_labels": {"team": ["cloud"]}}}), json!({}));
    assert_eq!(stage.answer("GET", "/", &[]), (401, "Missing authentication.".to_owned()));
}

#[test]
fn patterns_of_agents_and_paths_decide() {
    let stage = Stage::new();
    stage.route(json!({"ua-restriction": {"denylist": ["(?i)curl"], "bypass_missing": true}}), json!({}));
    assert_eq!(stage.answer("GET", "/", &[("User-Agent", "Curl/8")]), (403, "Not allowed".to_owned()));
    assert_eq!(stage.answer("GET", "/", &[("User-Agent", "other")]).0, 200);
    assert_eq!(stage.answer("GET", "/", &[]).0, 200);
    stage.route(
        json!({"uri-blocker": {"block_rules": ["^/internal/", "union.*select"], "rejected_msg": "no"}}),
        json!({}),
    );
    let refused = stage.get("/a/../%69nternal/x", &[]);
    assert_eq!((refused.status, refused.json()), (403, json!({"error_msg": "no"})));
    assert_eq!(stage.get("/?q=union+select", &[]).status, 403);
    assert_eq!(stage.get("/open", &[]).status, 200);
    let (status, answer) = stage.weir.admin(
        "PUT",
        "routes/2",
        json!({"uri": "/b", "plugins": {"uri-blocker": {"block_rules": ["a", ".+("]}}}),
    );
    assert!(status == 400 && answer.to_string().contains("block_rules[1]"), "{answer}");
}

/// Casbin's model of access lists and roles.
#[cfg(feature = "casbin")]
const MODEL: &str = "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n\
    [role_definition]\ng = _, _\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\n\
    m = (g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)\n";

#[cfg(feature = "casbin")]
#[test]
fn casbin_policy_decides() {
    let stage = Stage::new();
    let check = |user: &str, path: &str, expected: u16| {
        let answer = stage.answer("GET", path, &[("user", user)]);
        let message = if expected == 403 { "Access Denied" } else { "" };
        assert_eq!(answer, (expected, message.to_owned()), "{user} {path}");
    };
    stage.route(json!({"authz-casbin": {"username": "user"}}), json!({}));
    check("admin", "/", 503);
    let policy = "p, *, /, GET\np, admin, *, *\ng, alice, admin";
    let metadata = |policy: &str| {
        stage.weir.put("plugin_metadata/authz-casbin", json!({"model": MODEL, "policy": policy}));
    };
    metadata(policy);
    check("bob", "/", 200);
    check("bob", "/hello", 403);
    check("alice", "/hello", 200);
    metadata(&format!("{policy}\np, bob, /hello, GET"));
    check("bob", "/hello", 200);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (model, policy) = (path("model.conf", MODEL), path("policy.csv", "p, jack, /files, GET"));
    let files = json!({"model_path": model, "policy_path": policy, "username": "user"});
    stage.route(json!({"authz-casbin": files}), json!({}));
    check("jack", "/files", 200);
    check("bob", "/hello", 403);
    let slow = MODEL.replace("keyMatch(r.obj, p.obj)", "regexMatch(r.obj, p.obj)");
    let config = json!({"model": slow, "policy": "p, jack, ^/[0-9]+$, GET", "username": "user"});
    stage.route(json!({"authz-casbin": config}), json!({}));
    check("jack", "/17", 200);
    check("jack", "/a", 403);
    let config = json!({"model": MODEL, "policy": "p, jack, /17", "username": "user"});
    let plugins = json!({"authz-casbin": config});
    let (status, answer) = stage.weir.admin("PUT", "routes/2", json!({"uri": "/b", "plugins": plugins}));
    assert!(status == 400 && answer.to_string().contains("policy: line 1"), "{answer}");
}
