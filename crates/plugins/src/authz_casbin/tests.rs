//! Tests of `authz-casbin`: configurations, and the decisions of policies.

use exchange::testing::{Scene, check_configuration, configuration_check, consumer, decide};
use model::catalog::SchemaType;

use super::*;

/// The model of APISIX's documentation, with its indentation.
const MODEL: &str = "[request_definition]
            r = sub, obj, act

            [policy_definition]
            p = sub, obj, act

            [role_definition]
            g = _, _

            [policy_effect]
            e = some(where (p.eft == allow))

            [matchers]
            m = (g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)";
const POLICY: &str = "p, *, /, GET
            # Administrators
            p, admin, *, *
            g, alice, admin";

/// A model with this effect and this matcher.
fn model(effect: &str, matcher: &str) -> String {
    format!(
        "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act, eft\n[policy_effect]\ne = {effect}\n[matchers]\nm = {matcher}"
    )
}

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(json!({"model": MODEL, "policy": POLICY, "username": "user"}), None);
    check(json!({"username": "user"}), None);
    check(json!({"model": MODEL, "policy": POLICY}), Some("username"));
    check(json!({"model": MODEL, "username": "user"}), Some(""));
    check(
        json!({"model": MODEL, "policy": POLICY, "model_path": "a", "policy_path": "b", "username": "u"}),
        Some(""),
    );
    check(json!({"model": MODEL, "policy": POLICY, "username": "a b"}), Some("username: invalid field"));
    let with = |model: &str, policy: &str| json!({"model": model, "policy": policy, "username": "user"});
    check(with("", ""), Some("model: "));
    check(with("[request_definition]\nr = sub, obj\n", ""), Some("r = sub, obj, act"));
    check(
        with(&model("some(where (p.eft == maybe))", "r.sub == p.sub"), ""),
        Some("[policy_effect] is none of"),
    );
    check(with(&model("priority(p.eft) || deny", "r.sub =="), ""), Some("model: it "));
    check(with(&model("priority(p.eft) || deny", "none(r.sub)"), ""), Some("cannot be evaluated"));
    check(with(MODEL, "p, a, b"), Some("policy: line 1: it has 2 values, and the model defines 3"));
    check(with(MODEL, "\n p2, a, b, c"), Some("policy: line 2: the model does not define its first word"));
    check(with(MODEL, "root:x:0:0"), Some("policy: line 1"));
    let on_metadata = |config, fault| check_configuration(&KIND, SchemaType::Metadata, &config, fault);
    on_metadata(json!({"model": MODEL, "policy": POLICY}), None);
    on_metadata(json!({"model": MODEL}), Some("policy"));
    on_metadata(json!({"model": "a", "policy": ""}), Some("model: "));
}

/// The status of the answer to a request; 200 if it passes.
fn status(plugin: &Arc<dyn Plugin>, scene: &mut Scene, method: &str, path: &str, fields: &str) -> u16 {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut exchange = scene.exchange(head.as_bytes());
    exchange.authenticate(Arc::new(consumer("jack")));
    let reply = decide(plugin.rewrite(&mut exchange));
    if let Some(reply) = reply.as_ref().filter(|reply| reply.status == 403) {
        assert_eq!(&*reply.body, b"{\"message\":\"Access Denied\"}\n");
    }
    reply.map_or(200, |reply| reply.status)
}

#[test]
fn policy_decides_by_field_path_and_method() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({"model": MODEL, "policy": POLICY, "username": "user"}));
    let mut check = |method: &str, path: &str, fields: &str, expected: u16| {
        assert_eq!(status(&plugin, &mut scene, method, path, fields), expected, "{method} {path} {fields}");
    };
    check("GET", "/", "", 200);
    check("GET", "/hello", "", 403);
    check("POST", "/", "", 403);
    check("GET", "/hello", "user: bob\r\n", 403);
    check("GET", "/hello", "User: admin\r\n", 200);
    check("DELETE", "/hello", "user: alice\r\n", 200);
    check("GET", "/hello", "user: admin\r\nuser: bob\r\n", 403);
    // Values are no part of the matcher.
    check("GET", "/hello", "user: \" || true || \"\r\n", 403);
}

#[test]
fn subject_is_the_consumer_and_no_client_field() {
    let mut scene = Scene::new();
    for username in ["X-Consumer-Username", "x-consumer-username"] {
        let policy = "p, jack, /jacks, GET\np, admin, *, *\np, anonymous, /open, GET";
        let plugin = scene.build(&KIND, &json!({"model": MODEL, "policy": policy, "username": username}));
        let forged = "X-Consumer-Username: admin\r\n";
        assert_eq!(status(&plugin, &mut scene, "GET", "/jacks", forged), 200, "{username}");
        assert_eq!(status(&plugin, &mut scene, "GET", "/admins", forged), 403, "{username}");
        let mut passes = |path: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{forged}\r\n");
            decide(plugin.rewrite(&mut scene.exchange(head.as_bytes()))).is_none()
        };
        assert!(passes("/open") && !passes("/admins"), "{username}");
    }
}

#[test]
fn deny_rules_count_by_the_effect() {
    let mut scene = Scene::new();
    let matcher = "r.sub == p.sub && keyMatch(r.obj, p.obj) && r.act == p.act";
    let policy = "p, jack, /a*, GET, allow\np, jack, /a/b, GET, deny";
    let mut check = |effect: &str, path: &str, expected: u16| {
        let config = json!({"model": model(effect, matcher), "policy": policy, "username": "user"});
        let plugin = scene.build(&KIND, &config);
        assert_eq!(status(&plugin, &mut scene, "GET", path, "user: jack\r\n"), expected, "{effect} {path}");
    };
    let both = "some(where (p.eft == allow)) && !some(where (p.eft == deny))";
    check(both, "/a/c", 200);
    check(both, "/a/b", 403);
    check(both, "/x", 403);
    check("!some(where (p.eft == deny))", "/x", 200);
    check("priority(p.eft) || deny", "/a/b", 200);
}

/// Expressions at the limits are evaluated on a stack that is a quarter of the smallest of the gateway.
#[test]
fn expression_at_the_limits_fits_the_stack() {
    let expressions = [
        format!("{}r.sub == p.sub{}", "(".repeat(64), ")".repeat(64)),
        format!("{}[1]{}[0] == 1", "[".repeat(60), "]".repeat(60)).replace("[[", "[ ["),
        format!("{}true", "!".repeat(16)),
        format!("{}true", "! ".repeat(16)),
        format!("{}true", "true && ".repeat(300)),
        format!("{}true", "false || ".repeat(300)),
        format!("{}1 > 0", "1 + ".repeat(400)),
        format!("{}1 > 0", "1 - ".repeat(400)),
        format!("r.sub{} == \"\"", ".a".repeat(400)),
        format!("{}true{}", "if true { ".repeat(60), " } else { false }".repeat(60)),
        format!("if r.sub == \"b\" {{ true }}{} else {{ true }}", " else if false { true }".repeat(90)),
        format!("{}true", "true == ".repeat(300)),
        format!("{}1 > 0", "1 ?? ".repeat(300)),
        format!("{}1 > 0", "1 ** ".repeat(300)),
    ];
    let effect = "some(where (p.eft == allow))";
    let work = move || {
        for expression in expressions {
            // Each is read and evaluated or refused; a stack that overflows would end the process.
            drop(CasbinPolicy::compile(&model(effect, &expression), "p, a, /, GET, allow"));
            let evaluated =
                format!("p, a, /, GET, allow\np, \"{}\", /, GET, allow", expression.replace('"', "'"));
            if let Ok(policy) =
                CasbinPolicy::compile(&model(effect, "eval(p.sub) && r.act == p.act"), &evaluated)
            {
                let question = |subject: &str| CasbinRequest {
                    subject: subject.to_owned(),
                    object: "/".to_owned(),
                    action: "GET".to_owned(),
                };
                drop(policy.allows(&question("b")));
            }
        }
    };
    std::thread::Builder::new().stack_size(512 * 1024).spawn(work).unwrap().join().unwrap();
}

#[test]
fn usual_rules_with_eval_are_accepted() {
    let model =
        model("some(where (p.eft == allow))", "eval(p.sub) && keyMatch(r.obj, p.obj) && r.act == p.act");
    let policy = "p, r.sub == \"jack\" && r.obj != \"/b\", /*, GET, allow";
    let policy = CasbinPolicy::compile(&model, policy).unwrap();
    let ask = |subject: &str, object: &str| {
        policy.allows(&CasbinRequest {
            subject: subject.to_owned(),
            object: object.to_owned(),
            action: "GET".to_owned(),
        })
    };
    assert_eq!((ask("jack", "/a"), ask("jack", "/b"), ask("bob", "/a")), (Ok(true), Ok(false), Ok(false)));
}

#[test]
fn metadata_counts_without_own_policy() {
    let mut scene = Scene::new();
    let config = json!({"username": "user"});
    let without = scene.build(&KIND, &config);
    assert_eq!(status(&without, &mut scene, "GET", "/", ""), 503);
    let metadata = json!({"model": MODEL, "policy": POLICY});
    let plugin = scene.build_with(&KIND, &config, Some(&metadata));
    assert_eq!(status(&plugin, &mut scene, "GET", "/", ""), 200);
    assert_eq!(status(&plugin, &mut scene, "GET", "/hello", ""), 403);
    let key = format!("authz-casbin\0{MODEL}\0{POLICY}");
    assert!(scene.states().held::<CasbinPolicyResult>(&key).is_some(), "other instances share it");
    let own = scene.build_with(
        &KIND,
        &json!({"model": MODEL, "policy": "p, *, /own, GET", "username": "u"}),
        Some(&metadata),
    );
    assert_eq!(status(&own, &mut scene, "GET", "/own", ""), 200);
}

#[test]
fn files_are_read_within_bounds() {
    let folder = std::env::temp_dir().join(format!("weir-casbin-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (model, policy) = (write("model.conf", MODEL), write("policy.csv", POLICY));
    let mut scene = Scene::new();
    let config = json!({"model_path": model, "policy_path": policy, "username": "user"});
    let plugin = scene.build(&KIND, &config);
    assert_eq!(status(&plugin, &mut scene, "GET", "/hello", "user: alice\r\n"), 200);
    assert!(config_file::read_config_file("policy_path", "/dev/zero").unwrap_err().contains("it is no file"));
    assert!(
        config_file::read_config_file("policy_path", "/none")
            .unwrap_err()
            .starts_with("policy_path: /none: ")
    );
    let long = write("long.csv", &"#".repeat((4 << 20) + 1));
    assert!(config_file::read_config_file("policy_path", &long).unwrap_err().contains("longer than 4 MiB"));
    let secret = CasbinPolicy::compile(MODEL, "root:$6$secret:19000").err().unwrap();
    assert!(!secret.contains("secret"), "{secret}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn slow_policy_is_evaluated_on_the_side_thread() {
    let scene = |policy: &str| {
        let matcher = "r.sub == p.sub && regexMatch(r.obj, p.obj) && r.act == p.act";
        let model = model("some(where (p.eft == allow))", matcher);
        let config = json!({"model": model, "policy": policy, "username": "user"});
        gateway::testing::Scene::with_plugins(&[&KIND], &json!({"authz-casbin": config}))
    };
    let good = scene("p, jack, ^/a[0-9]+$, GET, allow");
    let ask = |path: &str| good.run(&format!("GET {path} HTTP/1.1\r\nHost: a\r\nuser: jack\r\n\r\n")).status;
    // Nothing listens at the route's upstream.
    assert_eq!((ask("/a17"), ask("/ab")), (502, 403));
    let malformed = scene("p, jack, ^/a[, GET, allow");
    let asked = malformed.run("GET /a HTTP/1.1\r\nHost: a\r\nuser: jack\r\n\r\n");
    assert_eq!(asked.status, 503);
    let many: Vec<String> = (0..65).map(|index| format!("p, jack, /{index}, GET")).collect();
    assert!(!CasbinPolicy::compile(MODEL, &many.join("\n")).unwrap().is_quick());
    assert!(CasbinPolicy::compile(MODEL, &many[1..].join("\n")).unwrap().is_quick());
}

#[test]
fn waiting_requests_are_bounded() {
    let waiting = AtomicUsize::new(0);
    let mut places: Vec<CasbinQueuePermit<'_>> =
        (0..WAITING_MAX).map_while(|_| CasbinQueuePermit::take(&waiting)).collect();
    assert!(places.len() == WAITING_MAX && CasbinQueuePermit::take(&waiting).is_none());
    places.pop();
    assert!(CasbinQueuePermit::take(&waiting).is_some());
}
