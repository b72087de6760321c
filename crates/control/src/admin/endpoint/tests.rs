//! Paths and their endpoints, with what a body may take and whether a request may change something.

use super::*;

const MAX_SET_BYTES: usize = 7;

fn object(path: &str) -> AdminEndpoint {
    AdminEndpoint::Json(JsonEndpoint::Object(object_path(path)))
}

fn object_path(path: &str) -> ObjectPath {
    ObjectPath::parse(&segments(path)).unwrap()
}

fn action(path: &str, action: ExtensionAction) -> AdminEndpoint {
    AdminEndpoint::Json(JsonEndpoint::ExtensionAction { object: object_path(path), action })
}

fn plugins(name: Option<&str>) -> AdminEndpoint {
    AdminEndpoint::Json(JsonEndpoint::Plugins { name: name.map(str::to_owned) })
}

fn schema(path: &str) -> AdminEndpoint {
    AdminEndpoint::Json(JsonEndpoint::Schema { path: segments(path) })
}

fn weir(path: &str) -> AdminEndpoint {
    AdminEndpoint::Json(JsonEndpoint::Weir { path: segments(path) })
}

fn unsupported(name: &str) -> AdminEndpoint {
    AdminEndpoint::Json(JsonEndpoint::Unsupported(name.to_owned()))
}

#[test]
fn path_names_an_endpoint() {
    use AdminEndpoint::{Configs, ConfigsValidation, Json, Outside, Probe, WholeSet};
    use ExtensionAction::{Activate, Canary, Rollback, Versions};
    use JsonEndpoint::{BelowConfigs, OpenApi, Prefix};
    let check = |method: &str, path: &str, expected: AdminEndpoint| {
        let found = AdminEndpoint::parse(&method.parse().unwrap(), path);
        assert_eq!(found, expected, "{method} {path}");
    };
    check("GET", "/", Outside);
    check("GET", "/apisix", Outside);
    check("GET", "/apisix/other/routes", Outside);
    check("GET", "/apisix/Admin/routes", Outside);
    check("GET", "/v1/apisix/admin", Outside);
    check("HEAD", "/apisix/admin", Probe);
    check("HEAD", "/apisix/admin//", Probe);
    check("HEAD", "//apisix/admin", Json(Prefix));
    check("HEAD", "/%61pisix/admin", Json(Prefix));
    check("GET", "/apisix/admin/", Json(Prefix));

    check("PUT", "/apisix/admin/configs", Configs);
    check("PUT", "/apisix//admin/%63onfigs/", Configs);
    check("POST", "/apisix/admin/configs/validate", ConfigsValidation);
    check("PUT", "/apisix/admin/configs/validate", Json(BelowConfigs));
    check("POST", "/apisix/admin/configs/validate/1", Json(BelowConfigs));
    check("GET", "/apisix/admin/configs/1", Json(BelowConfigs));
    check("POST", "/apisix/admin/weir/plan", WholeSet(SetCommand::Plan));
    check("GET", "/apisix/admin/weir/apply", WholeSet(SetCommand::Apply));
    check("POST", "/apisix/admin/weir/rollback", WholeSet(SetCommand::Rollback));
    check("POST", "/apisix/admin/weir/plan/1", weir("plan/1"));

    check("GET", "/apisix/admin/plugins", plugins(None));
    check("PUT", "/apisix/admin/plugins/reload", plugins(Some("reload")));
    check("GET", "/apisix/admin/plugins/cors/more", plugins(Some("cors")));
    check("GET", "/apisix/admin/schema", schema(""));
    check("POST", "/apisix/admin/schema/validate/routes", schema("validate/routes"));
    check("GET", "/apisix/admin/weir", weir(""));
    check("GET", "/apisix/admin/weir/status", weir("status"));
    check("GET", "/apisix/admin/openapi.json", Json(OpenApi));
    check("PUT", "/apisix/admin/openapi.json", unsupported("openapi.json"));
    check("GET", "/apisix/admin/openapi.json/1", unsupported("openapi.json"));

    check("GET", "/apisix/admin/routes", object("routes"));
    check("PATCH", "/apisix/admin/routes/1/upstream/nodes", object("routes/1/upstream/nodes"));
    check("PUT", "/apisix/admin/consumers/jack/credentials/c1", object("consumers/jack/credentials/c1"));
    check(
        "GET",
        "/apisix/admin/services/1/graphql_cost_decorations",
        unsupported("graphql_cost_decorations"),
    );
    check("GET", "/apisix/admin/credentials", unsupported("credentials"));
    check("GET", "/apisix/admin/nothing/1", unsupported("nothing"));

    check("PUT", "/apisix/admin/extensions/mine", object("extensions/mine"));
    check("GET", "/apisix/admin/extensions/mine/desc", object("extensions/mine/desc"));
    check("GET", "/apisix/admin/extensions/mine/versions/1", object("extensions/mine/versions/1"));
    check("POST", "/apisix/admin/extensions/mine/versions", action("extensions/mine/versions", Versions));
    check("PATCH", "/apisix/admin/extensions/mine/versions", action("extensions/mine/versions", Versions));
    check("PUT", "/apisix/admin/extensions/mine/activate", action("extensions/mine/activate", Activate));
    check("PUT", "/apisix/admin/extensions/mine/rollback", action("extensions/mine/rollback", Rollback));
    check("DELETE", "/apisix/admin/extensions/mine/canary", action("extensions/mine/canary", Canary));
}

#[test]
fn endpoint_limits_the_body_and_its_turn() {
    let check = |method: &str, path: &str, expected: (usize, bool)| {
        let method = method.parse().unwrap();
        let endpoint = AdminEndpoint::parse(&method, &format!("/apisix/admin/{path}"));
        let found = (endpoint.body_limit(&method, MAX_SET_BYTES), endpoint.waits_for_turn(&method));
        assert_eq!(found, expected, "{method} {path}");
    };
    check("PUT", "routes/1", (MAX_BODY_BYTES, false));
    check("POST", "schema/validate/routes", (MAX_BODY_BYTES, false));
    check("POST", "weir/explain", (MAX_BODY_BYTES, false));
    check("PUT", "configs", (MAX_SET_BYTES, true));
    check("GET", "configs", (MAX_BODY_BYTES, false));
    check("HEAD", "configs", (MAX_BODY_BYTES, false));
    check("DELETE", "configs", (MAX_BODY_BYTES, false));
    check("PATCH", "configs", (MAX_SET_BYTES, true));
    check("OPTIONS", "configs", (MAX_BODY_BYTES, false));
    check("OPTIONS", "weir/apply", (MAX_BODY_BYTES, false));
    check("POST", "configs/validate", (MAX_SET_BYTES, true));
    check("PUT", "configs/validate", (MAX_SET_BYTES, true));
    check("POST", "weir/plan", (MAX_SET_BYTES, true));
    check("POST", "weir/apply", (MAX_SET_BYTES, true));
    check("POST", "weir/rollback", (MAX_SET_BYTES, true));
    check("POST", "extensions/mine/versions", (EXTENSION_CONTENT_BYTES_MAX, true));
    check("PATCH", "extensions/mine/versions", (EXTENSION_CONTENT_BYTES_MAX, true));
    check("PUT", "extensions/mine/activate", (MAX_BODY_BYTES, false));
    check("PUT", "extensions/mine", (MAX_BODY_BYTES, false));
}

#[test]
fn questions_change_nothing() {
    let check = |method: &str, path: &str, expected: Access| {
        let method = method.parse().unwrap();
        let endpoint = AdminEndpoint::parse(&method, &format!("/apisix/admin/{path}"));
        assert_eq!(endpoint.access(&method), expected, "{method} {path}");
    };
    check("GET", "routes", Access::Read);
    check("HEAD", "configs", Access::Read);
    check("POST", "weir/explain", Access::Read);
    check("POST", "weir/explain/1", Access::Write);
    check("PUT", "weir/explain", Access::Write);
    check("POST", "weir/plan", Access::Read);
    check("POST", "weir/apply", Access::Write);
    check("POST", "weir/rollback", Access::Write);
    check("POST", "weir/adopt", Access::Write);
    check("POST", "schema/validate/routes", Access::Read);
    check("POST", "schema/route", Access::Write);
    check("POST", "configs/validate", Access::Read);
    check("PUT", "configs/validate", Access::Write);
    check("PUT", "configs", Access::Write);
    check("PUT", "plugins/reload", Access::Write);
    check("DELETE", "routes/1", Access::Write);
}
