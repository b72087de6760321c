//! The checks of one object: its schema, what a schema cannot say, its plugins, what Weir cannot do.
//! Knows nothing of other objects; references are the snapshot's.

mod certificate;
mod consumer;
mod contract;
mod empty;
mod expression;
mod extension;
mod global;
mod health;
mod options;
mod original_dst;
mod plugin_names;
mod plugins;
mod protection;
mod retry;
mod route;
mod secret;
mod selection;
mod ssl;
mod stream_route;
pub mod unknown;
mod upstream;

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

pub use expression::contract_reason;
pub use options::{CheckOptions, UnknownFields};
pub(crate) use plugins::plugins_of;

use crate::catalog::PluginCatalog;
use crate::contract::expand;
use crate::fault::{CheckRemarks, CheckStage, Findings, Warning};
use crate::resource::Resource;
use crate::{Id, ObjectKey, ObjectKind, ObjectRefusal, schema, secret_reference};

/// An object that can be used.
#[derive(Debug)]
pub struct Checked {
    /// As it is used: without the unknown fields that were accepted.
    pub resource: Resource,
    /// Parts of it that have no effect.
    pub warnings: Box<[Warning]>,
}

/// Checks an object on its own and reads it.
///
/// # Errors
/// Every fault, and the contract's line for the first.
pub fn check_object(
    catalog: &PluginCatalog,
    key: &ObjectKey,
    value: &Value,
) -> Result<Checked, ObjectRefusal> {
    empty::checked(value, |value| object_as_given(catalog, key, value))
}

fn object_as_given(
    catalog: &PluginCatalog,
    key: &ObjectKey,
    value: &Value,
) -> Result<Checked, ObjectRefusal> {
    if key.kind == ObjectKind::PluginMetadata {
        return global::plugin_metadata(catalog, &key.id, value);
    }
    let mut findings = Findings::default();
    if key.kind == ObjectKind::Secret {
        secret::check_secret(catalog, key, value, &mut findings);
    }
    id(key, value, &mut findings);
    if key.kind == ObjectKind::StreamRoute {
        stream_route::superior(key, value, &mut findings);
    }
    fields(catalog, key.kind, value, &mut findings);
    let passed = findings.finish()?;
    let mut resource = read(key.kind, &without_ignored(value, &passed))?;
    files(catalog, &resource)?;
    match &mut resource {
        Resource::Extension(extension) => extension.loaded = extension::load(catalog, key, value)?,
        Resource::Contract(contract) => contract.routes = Arc::new(expand(catalog, key, contract)?),
        _ => {}
    }
    Ok(Checked { resource, warnings: passed.warnings })
}

/// The catalog with the plugins of the extensions in a set of objects, so that the other objects of the set
/// may have them. A faulty extension is left out, because its own check reports it.
#[must_use]
pub fn catalog_among(catalog: &PluginCatalog, extensions: Option<&Value>) -> PluginCatalog {
    let mut plugins = catalog.extensions().clone();
    for extension in extensions.and_then(Value::as_array).into_iter().flatten() {
        let id = extension.get("id").and_then(Value::as_str).unwrap_or_default();
        let Ok(key) = ObjectKey::new(ObjectKind::Extension, id) else { continue };
        if let Ok(Checked { resource: Resource::Extension(extension), .. }) =
            check_object(catalog, &key, extension)
        {
            plugins.set(id, extension.loaded.map(|loaded| loaded.plugin));
        }
    }
    catalog.with_extensions(&plugins)
}

/// Checks an object that has no key yet, as `POST /apisix/admin/schema/validate/KIND` does.
///
/// # Errors
/// Every fault, and the contract's line for the first.
pub fn value(catalog: &PluginCatalog, kind: ObjectKind, value: &Value) -> Result<(), ObjectRefusal> {
    empty::checked(value, |value| {
        let mut findings = Findings::default();
        fields(catalog, kind, value, &mut findings);
        let passed = findings.finish()?;
        let resource = read(kind, &without_ignored(value, &passed))?;
        if let Resource::Contract(contract) = &resource {
            let key = ObjectKey { kind, id: Arc::from("validated") };
            expand(catalog, &key, contract)?;
        }
        files(catalog, &resource)
    })
}

/// Refuses an `ssl` object with certificates that all ended before `now_s`, in seconds since the Unix epoch.
/// It is no part of [`check_object`], because an object that was good when it was written does not become
/// faulty by the time of day.
///
/// # Errors
/// The fault.
pub fn unexpired(kind: ObjectKind, value: &Value, now_s: i64) -> Result<(), ObjectRefusal> {
    let mut findings = Findings::default();
    if kind == ObjectKind::Ssl {
        ssl::check_expiry(value, now_s, &mut findings);
    }
    findings.into_result()
}

/// The value without the unknown fields that were accepted: no reader behind the checks meets them.
fn without_ignored<'v>(value: &'v Value, passed: &CheckRemarks) -> Cow<'v, Value> {
    if passed.ignored.is_empty() {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    for pointer in &passed.ignored {
        unknown::remove(&mut value, pointer);
    }
    Cow::Owned(value)
}

/// The checks that do not depend on the key.
fn fields(catalog: &PluginCatalog, kind: ObjectKind, value: &Value, findings: &mut Findings) {
    if kind == ObjectKind::Route {
        route::check_alternatives(value, findings);
    }
    by_schema(kind, value, findings);
    if !value.is_object() {
        return;
    }
    match kind {
        ObjectKind::Route => route::check_route(catalog, value, findings),
        ObjectKind::Service => route::check_service(catalog, value, findings),
        ObjectKind::Upstream => upstream::check_upstream_fields(catalog, value, "", findings),
        ObjectKind::Consumer | ObjectKind::Credential => {
            consumer::check_consumer_object(catalog, kind, value, findings)
        }
        ObjectKind::ConsumerGroup | ObjectKind::PluginConfig | ObjectKind::GlobalRule => {
            plugins::check_plugins(catalog, value, findings);
        }
        ObjectKind::StreamRoute => stream_route::check_stream_route(catalog, value, findings),
        ObjectKind::Ssl => ssl::check_ssl(value, findings),
        ObjectKind::Proto => proto(catalog, value, findings),
        ObjectKind::Extension => extension::check_extension(catalog, value, findings),
        ObjectKind::Contract => contract::check_contract(catalog, value, findings),
        ObjectKind::PluginMetadata | ObjectKind::Secret => {}
    }
}

/// Refuses names of files that this gateway does not read for objects.
fn files(catalog: &PluginCatalog, resource: &Resource) -> Result<(), ObjectRefusal> {
    let mut findings = Findings::default();
    for (pointer, path) in secret_reference::files_of(resource) {
        if let Err(reason) = catalog.check_file(path) {
            findings.add(CheckStage::Unsupported, pointer, reason);
        }
    }
    findings.into_result()
}

/// Lets the plugins that read protos check the content of one.
fn proto(catalog: &PluginCatalog, value: &Value, findings: &mut Findings) {
    let Some(content) = value.get("content").and_then(Value::as_str) else { return };
    if let Some(Err(reason)) = catalog.check_proto(content) {
        findings.add(CheckStage::Plugins, "/content".to_owned(), format!("content: {reason}"));
    }
}

fn by_schema(kind: ObjectKind, value: &Value, findings: &mut Findings) {
    for fault in schema::validator(kind).faults(value) {
        let contract = format!("invalid configuration: {}", fault.hinted_message());
        findings.add_schema_fault(CheckStage::Schema, "", &fault, contract);
    }
}

/// The id inside the object is the one it is stored under.
fn id(key: &ObjectKey, value: &Value, findings: &mut Findings) {
    let (field, expected, reason) = match key.kind {
        ObjectKind::Consumer => ("username", &*key.id, "wrong username".to_owned()),
        ObjectKind::Secret => return,
        kind => ("id", key.own_id(), format!("wrong {} id", kind.in_words())),
    };
    let differs = value.get(field).is_some_and(|found| match key.kind {
        ObjectKind::Consumer => found.as_str().is_some_and(|name| name != expected),
        _ => Id::deserialize(found).is_ok_and(|id| &*id != expected),
    });
    if differs {
        let stage =
            if key.kind == ObjectKind::Consumer { CheckStage::Upstream } else { CheckStage::Alternatives };
        findings.add(stage, format!("/{field}"), reason);
    }
}

/// Reads what the schema has let through. serde's refusal is the last line of defence: the schema lets
/// through what it cannot express, such as an address that is none.
fn read(kind: ObjectKind, value: &Value) -> Result<Resource, ObjectRefusal> {
    Resource::read(kind, value)
        .map_err(|error| ObjectRefusal::single(None, "", format!("invalid configuration: {error}")))
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;

/// The catalog of tests.
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::tests::catalog;
}
