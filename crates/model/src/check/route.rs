//! What the schemas of routes, services and stream routes cannot say.

use serde_json::Value;

use super::{expression, plugins, upstream};
use crate::catalog::Catalog;
use crate::fault::{Findings, Stage};
use crate::unsupported;

/// Fields of which only one may be written. The contract checks them before the schema.
pub(super) fn alternatives(route: &Value, findings: &mut Findings) {
    for (one, many) in [("host", "hosts"), ("remote_addr", "remote_addrs")] {
        if route.get(one).is_some() && route.get(many).is_some() {
            findings.add(
                Stage::Alternatives,
                format!("/{many}"),
                format!("only one of {one} or {many} is allowed"),
            );
        }
    }
}

/// Checks a route.
pub(super) fn check(catalog: &Catalog, route: &Value, findings: &mut Findings) {
    common(catalog, route, findings);
    uris(route, findings);
    addresses(route, findings);
    if let Some(vars) = route.get("vars").filter(|vars| vars.is_array()) {
        expression::check(vars, "/vars", findings);
    }
}

/// Checks a service.
pub(super) fn check_service(catalog: &Catalog, service: &Value, findings: &mut Findings) {
    common(catalog, service, findings);
}

/// Checks a stream route.
pub(super) fn check_stream(catalog: &Catalog, route: &Value, findings: &mut Findings) {
    common(catalog, route, findings);
    addresses(route, findings);
}

fn common(catalog: &Catalog, object: &Value, findings: &mut Findings) {
    if let Some(embedded) = object.get("upstream") {
        upstream::check(catalog, embedded, "/upstream", findings);
    }
    plugins::check(catalog, object, findings);
    unsupported::route(object, findings);
}

/// A path with a control character matches no request: such bytes are refused before routing.
fn uris(route: &Value, findings: &mut Findings) {
    let single = route.get("uri").map(|uri| ("/uri".to_owned(), uri));
    let listed = route.get("uris").and_then(Value::as_array).into_iter().flatten().enumerate();
    for (pointer, uri) in single.into_iter().chain(listed.map(|(index, uri)| (format!("/uris/{index}"), uri)))
    {
        let Some(uri) = uri.as_str() else {
            continue;
        };
        if uri.chars().any(|character| character.is_ascii_control()) {
            findings.add(Stage::Expressions, pointer, "a path has no control characters");
        } else if !uri.starts_with(['/', '*']) {
            findings.add(Stage::Expressions, pointer, format!("the path {uri:?} begins with '/' or '*'"));
        }
    }
}

/// The schema's pattern lets through some networks that are none (`:/8`).
fn addresses(route: &Value, findings: &mut Findings) {
    let named = ["remote_addr", "server_addr"].map(|name| (format!("/{name}"), route.get(name)));
    let named = named.into_iter().filter_map(|(pointer, address)| Some((pointer, address?)));
    let listed = route.get("remote_addrs").and_then(Value::as_array).into_iter().flatten().enumerate();
    let listed = listed.map(|(index, address)| (format!("/remote_addrs/{index}"), address));
    for (pointer, address) in named.chain(listed) {
        let Some(text) = address.as_str() else {
            continue;
        };
        if text.parse::<std::net::IpAddr>().is_err() && text.parse::<ipnet::IpNet>().is_err() {
            let reason = format!("{text:?} is neither an IP address nor a network (ADDRESS/BITS)");
            findings.add(Stage::Expressions, pointer, reason);
        }
    }
}
