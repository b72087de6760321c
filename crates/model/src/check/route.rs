//! Rules for routes and services that their schemas cannot express.

use router::cidr;
use router::hosts::HostPattern;
use router::rule::HOSTS_MAX;
use router::{Rule, RuleError, RuleField, RuleInput};
use serde_json::Value;

use super::{expression, plugins, upstream};
use crate::catalog::PluginCatalog;
use crate::fault::{CheckStage, Findings};
use crate::resource::{PRIORITIES, PRIORITY_LABEL};
use crate::settings::RouterMode;
use crate::unsupported;

/// Fields of which only one may be written. The contract checks them before the schema.
pub(super) fn check_alternatives(route: &Value, findings: &mut Findings) {
    for (one, many) in [("host", "hosts"), ("remote_addr", "remote_addrs")] {
        if route.get(one).is_some() && route.get(many).is_some() {
            findings.add(
                CheckStage::Alternatives,
                format!("/{many}"),
                format!("only one of {one} or {many} is allowed"),
            );
        }
    }
}

/// Checks a route.
pub(super) fn check_route(catalog: &PluginCatalog, route: &Value, findings: &mut Findings) {
    common(catalog, route, findings);
    rule(route, findings);
    check_addresses(route, findings);
    paths_without_effect(catalog, route, findings);
    layer_of_scheme(route, findings);
    if let Some(vars) = route.get("vars").filter(|vars| vars.is_array()) {
        expression::check_expression(vars, "/vars", findings);
    }
}

/// Checks a service.
pub(super) fn check_service(catalog: &PluginCatalog, service: &Value, findings: &mut Findings) {
    common(catalog, service, findings);
    check_hosts(service, findings);
}

fn common(catalog: &PluginCatalog, object: &Value, findings: &mut Findings) {
    embedded_upstream(catalog, object, findings);
    plugins::check_plugins(catalog, object, findings);
    unsupported::refuse_route_fields(object, findings);
    scripts(catalog, object, findings);
    priority(object, findings);
}

/// Checks the code in a route or service.
fn scripts(catalog: &PluginCatalog, object: &Value, findings: &mut Findings) {
    let Some(checks) = catalog.scripts() else { return };
    for (name, check) in [("filter_func", checks.condition), ("script", checks.script)] {
        if let Some(source) = object.get(name).and_then(Value::as_str)
            && let Err(reason) = check(source)
        {
            findings.add(CheckStage::Plugins, format!("/{name}"), reason);
        }
    }
}

/// A label is free text but for the one that this gateway reads: a misspelt word would count as no word.
fn priority(object: &Value, findings: &mut Findings) {
    let written = object.get("labels").and_then(|labels| labels.get(PRIORITY_LABEL)).and_then(Value::as_str);
    if let Some(word) = written.filter(|word| !PRIORITIES.contains(word)) {
        let reason = format!("{word:?} is no priority; write one of {}", PRIORITIES.join(", "));
        findings.add(CheckStage::Expressions, format!("/labels/{PRIORITY_LABEL}"), reason);
    }
}

/// The nodes of a route answer requests, so that its own upstream has a scheme of HTTP.
fn layer_of_scheme(route: &Value, findings: &mut Findings) {
    let scheme = route.pointer("/upstream/scheme").and_then(Value::as_str);
    if let Some(scheme @ ("tcp" | "tls" | "udp")) = scheme {
        let reason = format!(
            "scheme {scheme} of an upstream is for stream routes; the upstream of a route has http, https, grpc or grpcs"
        );
        findings.add(CheckStage::Upstream, "/upstream/scheme", reason);
    }
}

pub(super) fn embedded_upstream(catalog: &PluginCatalog, object: &Value, findings: &mut Findings) {
    if let Some(embedded) = object.get("upstream") {
        upstream::check_upstream_fields(catalog, embedded, "/upstream", findings);
    }
}

/// The router takes the paths and hosts.
fn rule(route: &Value, findings: &mut Findings) {
    let (uris, uri_places) = texts(route, "uri", "uris");
    let (hosts, host_places) = texts(route, "host", "hosts");
    if uris.is_empty() {
        return;
    }
    let input = RuleInput { paths: uris, hosts, ..RuleInput::default() };
    if let Err(RuleError { field, reason }) = Rule::new(input) {
        let (what, pointer) = match field {
            RuleField::Paths(index) => ("the path", uri_places.get(index)),
            RuleField::Hosts(index) => ("the host", host_places.get(index)),
        };
        // A list that is too long is no matter of one entry.
        let reason =
            if reason.starts_with("a route has") { reason.to_owned() } else { format!("{what} {reason}") };
        findings.add(CheckStage::Expressions, pointer.cloned().unwrap_or_default(), reason);
    }
}

/// Paths that can be written and match no request, or not as they were probably meant.
fn paths_without_effect(catalog: &PluginCatalog, route: &Value, findings: &mut Findings) {
    let (uris, places) = texts(route, "uri", "uris");
    for (uri, place) in uris.iter().zip(places) {
        if !uri.starts_with(['/', '*']) {
            let reason = format!("no request matches this path, because a path begins with `/`: `/{uri}`");
            findings.warn(place, reason);
        } else if catalog.options().router != RouterMode::RadixtreeUriWithParameter
            && let Some(parameter) = uri.split('/').find(|step| step.len() > 1 && step.starts_with(':'))
        {
            let reason = format!(
                "`{parameter}` matches only these letters; parameters in paths need the setting \
                 `router_mode: radixtree_uri_with_parameter`"
            );
            findings.warn(place, reason);
        }
    }
}

/// Hosts of a service or a contract are of the form that the router takes.
pub(super) fn check_hosts(service: &Value, findings: &mut Findings) {
    let (hosts, places) = texts(service, "host", "hosts");
    if hosts.len() > HOSTS_MAX {
        findings.add(CheckStage::Expressions, "/hosts", "there are at most 10,000 hosts");
        return;
    }
    for (host, pointer) in hosts.iter().zip(places) {
        if let Err(reason) = HostPattern::parse(host) {
            findings.add(CheckStage::Expressions, pointer, format!("the host {reason}"));
        }
    }
}

/// The texts of a singular and a plural field, each with its JSON pointer.
fn texts(object: &Value, one: &str, many: &str) -> (Vec<String>, Vec<String>) {
    let single = object.get(one).map(|text| (text, format!("/{one}")));
    let listed = object.get(many).and_then(Value::as_array).into_iter().flatten().enumerate();
    let listed = listed.map(|(index, text)| (text, format!("/{many}/{index}")));
    let text = |(text, pointer): (&Value, String)| Some((text.as_str()?.to_owned(), pointer));
    single.into_iter().chain(listed).filter_map(text).unzip()
}

/// The schema's pattern lets through some networks that are none (`:/8`).
pub(super) fn check_addresses(route: &Value, findings: &mut Findings) {
    let (client, client_places) = texts(route, "remote_addr", "remote_addrs");
    let (server, server_places) = texts(route, "server_addr", "server_addrs");
    if client.len() > ADDRESSES_MAX {
        findings.add(CheckStage::Expressions, "/remote_addrs", "a route has at most 10,000 client addresses");
        return;
    }
    let places = client_places.into_iter().chain(server_places);
    for (text, pointer) in client.into_iter().chain(server).zip(places) {
        if cidr::network(&text).is_none() {
            let reason = format!("{text:?} is neither an IP address nor a network (ADDRESS/BITS)");
            findings.add(CheckStage::Expressions, pointer, reason);
        }
    }
}

/// Client addresses and networks of one route, as many as it may have hosts: longer lists belong to
/// `ip-restriction`, and each entry is parsed while other writes wait.
const ADDRESSES_MAX: usize = 10_000;
