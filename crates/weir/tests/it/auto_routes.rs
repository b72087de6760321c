//! Routes that are made of the services of registries, in the real binary: files of targets, and a stand-in
//! for Consul.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Weir, wait_until};

use crate::support::BINARY;

/// A folder of targets, followed by a gateway with this block `auto_routes`.
fn gateway(folder: &Path, auto_routes: &Value) -> Weir {
    let file = json!({"files": [folder], "interval_ms": 20, "auto_routes": auto_routes});
    Weir::builder(BINARY).settings(&json!({"discovery": {"file": file}}).to_string()).start()
}

fn write(folder: &Path, service: &str, origin: &Origin) {
    let targets = format!("- targets: ['{}']\n", origin.address());
    std::fs::write(folder.join(format!("{service}.yaml")), targets).unwrap();
}

fn shown(weir: &Weir) -> Value {
    Client::connect(weir.address("control")).get("/v1/weir/auto_routes").json()
}

#[test]
fn routes_come_and_go_with_the_services() {
    let (origin, folder) = (Origin::echoing(), tempfile::tempdir().unwrap());
    write(folder.path(), "shop", &origin);
    let weir = gateway(folder.path(), &json!({"prefix": "/api", "exclude": ["internal-*"]}));
    let answer = weir.get("/api/shop/items?page=2");
    assert!(answer.text().starts_with("GET /items?page=2 "), "in force at the start: {}", answer.text());
    write(folder.path(), "users", &origin);
    write(folder.path(), "internal-x", &origin);
    wait_until("the new service has a route", || weir.get("/api/users/1").text().starts_with("GET /1 "));
    assert_eq!(weir.get("/api/internal-x/1").status, 404);
    std::fs::remove_file(folder.path().join("shop.yaml")).unwrap();
    wait_until("the route goes with the service", || weir.get("/api/shop/items").status == 404);
    assert!(weir.get("/api/users/1").text().starts_with("GET /1 "));
    let routes = shown(&weir)["registries"]["file"]["routes"].clone();
    assert_eq!(routes, json!([{"id": "auto.file.users", "service": "users", "uri": "/api/users/*"}]));
    let (_, listed) = weir.admin("GET", "routes", Value::Null);
    assert_eq!(listed["total"], 0, "the Admin API has written routes only");
}

#[test]
fn written_route_of_the_path_goes_first() {
    let (made, written) = (Origin::answering("made"), Origin::answering("written"));
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "shop", &made);
    let weir = gateway(folder.path(), &json!({}));
    assert_eq!(weir.get("/shop/x").text(), "made");
    let upstream = json!({"nodes": {written.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/shop/*", "priority": -5, "upstream": upstream}));
    assert_eq!(weir.get("/shop/x").text(), "written");
    weir.delete("routes/1");
    assert_eq!(weir.get("/shop/x").text(), "made");
    weir.put("routes/auto.file.shop", json!({"uri": "/mine", "upstream": upstream}));
    assert_eq!((weir.get("/mine").text(), weir.get("/shop/x").status), ("written".to_owned(), 404));
    weir.delete("routes/auto.file.shop");
    assert_eq!((weir.get("/mine").status, weir.get("/shop/x").text()), (404, "made".to_owned()));
}

#[test]
fn shared_parts_hold_and_follow_their_objects() {
    let (origin, folder) = (Origin::answering("served"), tempfile::tempdir().unwrap());
    write(folder.path(), "shop", &origin);
    let weir = gateway(folder.path(), &json!({"route": {"plugin_config_id": "shared"}}));
    let answer = weir.get("/shop/x");
    assert_eq!(answer.status, 503, "closed without its plugins: {}", answer.text());
    let faults = shown(&weir)["faults"].to_string();
    assert!(faults.contains("auto.file.shop") && faults.contains("shared"), "{faults}");
    weir.put("plugin_configs/shared", json!({"plugins": {"key-auth": {}}}));
    assert_eq!(weir.get("/shop/x").status, 401);
    assert_eq!(shown(&weir)["faults"], json!([]), "a change of the source repairs the route");
    weir.put("plugin_configs/shared", json!({"plugins": {}}));
    assert_eq!(weir.get("/shop/x").text(), "served");
}

#[test]
fn faulty_block_is_refused_with_its_line() {
    let text = "discovery:\n  file:\n    files: [/tmp]\n    auto_routes: {path: /all}\n";
    let outcome = crate::command::weir_with(&[("weir.yaml", text)], &["check", "weir.yaml"], &[]);
    let said = outcome.stdout + &outcome.stderr;
    assert!(said.contains("weir.yaml:4: discovery.file.auto_routes: `path` names no service"), "{said}");
}

#[test]
fn service_of_the_gateway_gets_no_route() {
    let node = Origin::answering("served");
    let agent = consul(&Arc::new(Mutex::new(Some(vec!["gateway", "orders"]))), &node);
    let consul = json!({"servers": [format!("http://{}", agent.address())], "auto_routes": {}});
    let registration = json!({"consul": {"service": "gateway"}});
    let settings = json!({"discovery": {"consul": consul}, "registration": registration}).to_string();
    let weir = Weir::builder(BINARY).settings(&settings).start();
    assert_eq!((weir.get("/orders/a").text(), weir.get("/gateway/a").status), ("served".to_owned(), 404));
}

/// A stand-in for a Consul agent with these services, all at one address; none: it refuses.
fn consul(services: &Arc<Mutex<Option<Vec<&'static str>>>>, node: &Origin) -> Origin {
    let (services, address) = (Arc::clone(services), node.address());
    Origin::start(move |request| {
        let Some(services) = services.lock().unwrap().clone() else {
            return Reply::status(403, "token lacks service:read");
        };
        let instance = json!([{"Service": {"Address": address.ip().to_string(), "Port": address.port()}}]);
        match request.path() {
            "/v1/catalog/services" => {
                let all: Value = services
                    .iter()
                    .map(|name| ((*name).to_owned(), json!([])))
                    .collect::<serde_json::Map<_, _>>()
                    .into();
                Reply::ok(&all.to_string())
            }
            _ => Reply::ok(&instance.to_string()),
        }
    })
}

#[test]
fn lists_of_consul_outlive_it_and_a_restart() {
    let node = Origin::echoing();
    let services = Arc::new(Mutex::new(Some(vec!["consul", "orders-v2", "Users"])));
    let agent = consul(&services, &node);
    let block = json!({
        "servers": [format!("http://{}", agent.address())],
        "fetch_interval": 1,
        "auto_routes": {"pattern": "(?<name>.+)-(?<version>v[0-9]+)", "replacement": "${version}/${name}"}
    });
    let weir = Weir::builder(BINARY).settings(&json!({"discovery": {"consul": block}}).to_string()).start();
    let is_served = |response: Response| response.status == 200 && response.text().starts_with("GET /a ");
    assert!(is_served(weir.get("/v2/orders/a")) && is_served(weir.get("/users/a")));
    assert_eq!(weir.get("/consul/a").status, 404);
    wait_until("the list is on disk", || {
        let path = "/v1/discovery/consul/show_dump_file";
        Client::connect(weir.address("control")).get(path).text().contains("orders-v2")
    });
    *services.lock().unwrap() = None;
    wait_until("the refusal is shown", || {
        shown(&weir)["registries"]["consul"]["failure"].to_string().contains("403")
    });
    assert!(is_served(weir.get("/v2/orders/a")));
    let weir = weir.restart();
    assert!(is_served(weir.get("/v2/orders/a")), "the copy on disk serves");
    *services.lock().unwrap() = Some(vec!["Users"]);
    wait_until("the shorter list is taken up", || weir.get("/v2/orders/a").status == 404);
    assert!(is_served(weir.get("/users/a")));
}
