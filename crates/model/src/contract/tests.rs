//! The routes of contracts: paths, methods, order, plugins of security schemes, and what is refused.

use serde_json::{Value, json};

use super::*;
use crate::check::check_object;
use crate::check::testing::catalog;
use crate::resource::Resource;

const PETS: &str = "openapi: 3.0.3\nservers: [{url: https://pets.test/v2}]\npaths:\n  /pets/{id}:\n    get: {operationId: \
                    getPet, summary: One pet}\n    delete: {operationId: deletePet}\n  /pets/mine:\n    get: {operationId: \
                    mine}\n    head: {operationId: headMine}\n";

fn key() -> ObjectKey {
    ObjectKey::new(ObjectKind::Contract, "pets").unwrap()
}

fn routes(contract: &Value) -> Result<Arc<ContractRoutes>, ObjectRefusal> {
    let checked = check_object(&catalog(), &key(), contract)?;
    match checked.resource {
        Resource::Contract(contract) => Ok(contract.routes.clone()),
        _ => panic!("a contract"),
    }
}

fn contract(content: &str, more: Value) -> Value {
    let mut contract = json!({ "content": content, "upstream": { "nodes": { "127.0.0.1:1": 1 } } });
    contract.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    contract
}

fn lines(routes: &ContractRoutes) -> Vec<String> {
    let line = |route: &ContractRoute| {
        let methods: Vec<&str> = route.route.rare().methods.iter().map(|method| method.as_str()).collect();
        let uris: Vec<&str> = route.route.uris.iter().map(|uri| &**uri).collect();
        let plugins: Vec<&str> = route.route.rare().plugins.iter().map(|plugin| &*plugin.name).collect();
        format!("{} {} {} {}", route.key.id, methods.join(","), uris.join(","), plugins.join(","))
    };
    routes.routes.iter().map(line).collect()
}

#[test]
fn operations_are_routes_in_order() {
    let routes = routes(&contract(PETS, json!({}))).unwrap();
    let expected = [
        "contract/pets/mine GET /v2/pets/mine contract",
        "contract/pets/headMine HEAD /v2/pets/mine contract",
        "contract/pets/other-methods/pets/mine  /v2/pets/mine contract",
        "contract/pets/getPet GET,HEAD /v2/pets/{id} contract",
        "contract/pets/deletePet DELETE /v2/pets/{id} contract",
        "contract/pets/other-methods/pets/{id}  /v2/pets/{id} contract",
        "contract/pets/unknown  /v2,/v2/* contract",
    ];
    assert_eq!(lines(&routes), expected);
    let allow =
        routes.by_id()["contract/pets/other-methods/pets/{id}"].rare().plugins.get("contract").unwrap();
    assert_eq!(allow.config["allow"], json!(["DELETE", "GET", "HEAD", "OPTIONS"]));
    assert_eq!(routes.by_id()["contract/pets/getPet"].rare().name.as_deref(), Some("One pet"));
}

#[test]
fn base_path_of_nodes_is_kept() {
    let check = |more: Value, expected: Option<Value>| {
        let routes = routes(&contract(PETS, more.clone())).unwrap();
        let found = routes.shared.get("proxy-rewrite").map(|plugin| plugin.config["regex_uri"].clone());
        assert_eq!(found, expected, "{more}");
    };
    check(json!({}), None);
    check(json!({ "base_path": "/v2" }), None);
    check(json!({ "base_path": "/api/p.ts" }), Some(json!(["^/api/p\\.ts(/.*)?$", "/v2$1"])));
    check(json!({ "base_path": "/a", "upstream_base_path": "" }), Some(json!(["^/a(/.*)?$", "$1"])));
    check(json!({ "upstream_base_path": "/v3" }), Some(json!(["^/v2(/.*)?$", "/v3$1"])));
}

#[test]
fn schemes_are_plugins_or_faults() {
    let document = |schemes: &str, security: &str| {
        format!(
            "openapi: 3.0.3\ncomponents: {{securitySchemes: {schemes}}}\npaths: {{/a: {{get: {{operationId: a, security: {security}}}}}}}"
        )
    };
    let all = "{k: {type: apiKey, in: header, name: X-Key}, b: {type: http, scheme: Basic}, j: {type: http, scheme: bearer}, \
               c: {type: apiKey, in: cookie, name: s}, o: {type: openIdConnect, openIdConnectUrl: 'https://a.test'}}";
    let check = |security: &str, more: Value, expected: Result<Value, &str>| {
        let found = routes(&contract(&document(all, security), more));
        match (found, expected) {
            (Ok(routes), Ok(expected)) => {
                let plugins = &routes.by_id()["contract/pets/a"].rare().plugins;
                let found: Vec<Value> = plugins
                    .iter()
                    .filter(|plugin| &*plugin.name != CONTRACT_PLUGIN)
                    .map(|plugin| json!({ &*plugin.name: plugin.config }))
                    .collect();
                assert_eq!(Value::Array(found), expected, "{security}");
            }
            (Err(refusal), Err(part)) => {
                assert!(refusal.to_string().contains(part), "{security}: {refusal}");
            }
            (found, _) => panic!("{security}: {:?}", found.map(|routes| lines(&routes))),
        }
    };
    check("[]", json!({}), Ok(json!([])));
    check("[{k: []}]", json!({}), Ok(json!([{ "key-auth": { "header": "X-Key" } }])));
    check(
        "[{k: [], b: []}]",
        json!({}),
        Ok(json!([{ "key-auth": { "header": "X-Key" } }, { "basic-auth": {} }])),
    );
    check(
        "[{k: []}, {j: []}]",
        json!({}),
        Ok(
            json!([{ "multi-auth": { "auth_plugins": [{ "key-auth": { "header": "X-Key" } }, { "jwt-auth": {} }] } }]),
        ),
    );
    check("[{k: [], b: []}, {j: []}]", json!({}), Err("of several requirements"));
    check("[{k: []}, {}]", json!({}), Err("of several requirements"));
    check("[{c: []}]", json!({}), Err("no plugin is known for security scheme \"c\" (apiKey cookie)"));
    check("[{o: []}]", json!({}), Err("no plugin is known for security scheme \"o\" (openIdConnect)"));
    check("[{no: []}]", json!({}), Err("the document has no security scheme \"no\""));
    check("[{j: [admin]}]", json!({}), Err("plugin jwt-auth cannot ask for the scopes"));
    check("[{c: []}]", json!({ "security": { "c": {} } }), Ok(json!([])));
    check(
        "[{c: []}]",
        json!({ "security": { "c": { "count": { "count": 1 } } } }),
        Ok(json!([{ "count": { "count": 1 } }])),
    );
    check("[{c: []}]", json!({ "operations": { "a": { "auth": {} } } }), Ok(json!([])));
    // Other paths must not lead to the same nodes without the plugin.
    let count = json!({ "count": { "count": 1 } });
    let pass = |plugins: Value| json!({ "unknown": "pass", "plugins": plugins, "security": { "c": count } });
    check("[]", pass(json!({})), Ok(json!([])));
    check("[{c: []}]", pass(json!({})), Err("other paths would pass without it"));
    check("[{c: []}]", pass(count.clone()), Ok(json!([count])));
}

#[test]
fn faults_have_place_and_line() {
    let check = |contract: Value, expected: &str| {
        let refusal = routes(&contract).map(|routes| lines(&routes)).unwrap_err();
        let faults: Vec<String> = refusal.faults().iter().map(ToString::to_string).collect();
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{contract}: {faults:?}");
    };
    check(
        contract("a: 1", json!({})),
        "/content: the document is faulty: line 1: this is no OpenAPI document",
    );
    check(contract(PETS, json!({ "operations": { "getpet": {} } })), "did you mean \"getPet\"?");
    check(contract(PETS, json!({ "plugins": { "nope": {} } })), "/plugins/nope: ");
    check(
        contract(PETS, json!({ "operations": { "getPet": { "plugins": { "count": {} } } } })),
        "/operations/getPet/plugins/count",
    );
    check(contract(PETS, json!({ "plugins": { "contract": {} } })), "have this plugin already");
    check(json!({ "content": PETS }), "a contract needs upstream_id");
    let hosts: Vec<String> = (0..=PAIRS_MAX / 4).map(|number| format!("h{number}.test")).collect();
    check(contract(PETS, json!({ "hosts": hosts })), "there are at most 10,000 hosts");
    let many: String = (0..11).map(|number| format!("  /{number}: {{get: {{}}}}\n")).collect();
    let many = format!("openapi: 3.0.3\npaths:\n{many}");
    check(contract(&many, json!({ "hosts": hosts[..10_000] })), "are more than 100000 pairs");
    let written = format!("{PETS}x-weir-plugins: {{nope: {{}}}}\n");
    check(
        contract(&written, json!({})),
        "/content: the document is faulty: line 8 /paths/~1pets~1mine/get: /nope: ",
    );
    let timeout = format!("{PETS}x-weir-timeout: -1\n");
    check(contract(&timeout, json!({})), "x-weir-timeout is a number of seconds above 0");
}

#[test]
fn document_fields_reach_routes() {
    let written =
        format!("{PETS}x-weir-plugins: {{count: {{count: 2}}}}\nx-weir-timeout: 2\nx-weir-upstream: u1\n");
    let rules = json!({ "operations": { "mine": { "timeout": { "connect": 1, "send": 1, "read": 1 }, "upstream_id": "u2" } } });
    let routes = routes(&contract(&written, rules)).unwrap();
    let by_id = routes.by_id();
    let check = |id: &str, seconds: u64, upstream: &str| {
        let route = by_id[id];
        assert_eq!(route.rare().timeout.unwrap().read.as_secs(), seconds, "{id}");
        assert_eq!(route.upstream_id.as_deref(), Some(upstream), "{id}");
        assert!(route.rare().plugins.get("count").is_some(), "{id}");
    };
    check("contract/pets/mine", 1, "u2");
    check("contract/pets/getPet", 2, "u1");
}

#[test]
fn closed_form_keeps_base_path() {
    let contract = |value: Value| serde_json::from_value::<Contract>(value).unwrap();
    let form = closed_routes(&key(), &contract(json!({ "content": "", "base_path": "/api" }))).unwrap();
    assert_eq!(lines(&form), ["contract/pets/closed  /api,/api/* "]);
    assert!(closed_routes(&key(), &contract(json!({ "content": "" }))).is_none());
}
