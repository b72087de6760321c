//! The checks of one object: its schema, what a schema cannot say, its plugins, what Weir cannot do.
//! Knows nothing of other objects; references are the snapshot's.

mod consumer;
mod expression;
mod global;
mod plugins;
mod route;
mod secret;
mod ssl;
mod upstream;

use serde::Deserialize;
use serde_json::Value;

use crate::catalog::Catalog;
use crate::fault::{Findings, Stage};
use crate::resource::Resource;
use crate::{Id, Key, Kind, Refusal, schema};

/// Checks an object on its own and reads it.
///
/// # Errors
/// Every fault, and the contract's line for the first.
pub fn object(catalog: &Catalog, key: &Key, value: &Value) -> Result<Resource, Refusal> {
    if key.kind == Kind::PluginMetadata {
        return global::plugin_metadata(catalog, &key.id, value);
    }
    let mut findings = Findings::default();
    if key.kind == Kind::Secret {
        secret::check(key, value, &mut findings);
    }
    id(key, value, &mut findings);
    fields(catalog, key.kind, value, &mut findings);
    findings.into_result()?;
    read(key.kind, value)
}

/// Checks an object that has no key yet, as `POST /apisix/admin/schema/validate/KIND` does.
///
/// # Errors
/// Every fault, and the contract's line for the first.
pub fn value(catalog: &Catalog, kind: Kind, value: &Value) -> Result<(), Refusal> {
    let mut findings = Findings::default();
    fields(catalog, kind, value, &mut findings);
    findings.into_result()?;
    read(kind, value).map(drop)
}

/// What does not depend on the key.
fn fields(catalog: &Catalog, kind: Kind, value: &Value, findings: &mut Findings) {
    if kind == Kind::Route {
        route::alternatives(value, findings);
    }
    by_schema(kind, value, findings);
    if !value.is_object() {
        return;
    }
    match kind {
        Kind::Route => route::check(catalog, value, findings),
        Kind::Service => route::check_service(catalog, value, findings),
        Kind::Upstream => upstream::check(catalog, value, "", findings),
        Kind::Consumer | Kind::Credential => consumer::check(catalog, kind, value, findings),
        Kind::ConsumerGroup | Kind::PluginConfig | Kind::GlobalRule => {
            plugins::check(catalog, value, findings);
        }
        Kind::StreamRoute => route::check_stream(catalog, value, findings),
        Kind::Ssl => ssl::check(value, findings),
        Kind::Proto | Kind::PluginMetadata | Kind::Secret => {}
    }
}

fn by_schema(kind: Kind, value: &Value, findings: &mut Findings) {
    for fault in schema::validator(kind).faults(value) {
        let contract = format!("invalid configuration: {}", fault.hinted_message());
        let reason = fault.full_reason();
        findings.add_worded(Stage::Schema, fault.pointer, reason, contract);
    }
}

/// The id inside the object is the one it is stored under.
fn id(key: &Key, value: &Value, findings: &mut Findings) {
    let (field, expected, reason) = match key.kind {
        Kind::Consumer => ("username", &*key.id, "wrong username".to_owned()),
        Kind::Secret => return,
        kind => ("id", key.own_id(), format!("wrong {} id", kind.in_words())),
    };
    let differs = value.get(field).is_some_and(|found| match key.kind {
        Kind::Consumer => found.as_str().is_some_and(|name| name != expected),
        _ => Id::deserialize(found).is_ok_and(|id| &*id != expected),
    });
    if differs {
        let stage = if key.kind == Kind::Consumer { Stage::Upstream } else { Stage::Alternatives };
        findings.add(stage, format!("/{field}"), reason);
    }
}

/// Reads what the schema has let through. serde's refusal is the last line of defence: the schema lets through what
/// it cannot express, such as an address that is none.
fn read(kind: Kind, value: &Value) -> Result<Resource, Refusal> {
    Resource::read(kind, value)
        .map_err(|error| Refusal::single(None, "", format!("invalid configuration: {error}")))
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;
