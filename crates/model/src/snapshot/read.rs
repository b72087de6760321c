//! Reading what was written into objects, each on its own and therefore several at once. Knows no other
//! object.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use serde::Deserialize;
use serde_json::Value;

use super::{SnapshotChange, SnapshotObject, closed};
use crate::catalog::PluginCatalog;
use crate::check::Checked;
use crate::{ConfigFault, Id, ObjectKey, ObjectKind, ObjectRefusal, WrittenObject, check};

/// The value that a key is to get.
#[derive(Clone)]
pub(super) enum ObjectCandidate {
    /// Nothing.
    Deleted,
    /// An object that is good on its own.
    Good(Arc<SnapshotObject>),
    /// The written text cannot be used; with the form that keeps its place, if it can be read.
    Bad(WrittenObject, ObjectRefusal, Option<Arc<SnapshotObject>>),
}

/// Checks every change on its own, in order; many of them on several threads.
pub(super) fn all(catalog: &PluginCatalog, changes: &[SnapshotChange]) -> Vec<(ObjectKey, ObjectCandidate)> {
    let threads = threads_for(changes.len());
    if threads < 2 {
        return some(catalog, changes);
    }
    thread::scope(|scope| {
        let parts = changes.chunks(changes.len().div_ceil(threads));
        let readers: Vec<_> = parts.map(|part| scope.spawn(move || some(catalog, part))).collect();
        let mut read = Vec::with_capacity(changes.len());
        for reader in readers {
            match reader.join() {
                Ok(part) => read.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        read
    })
}

fn some(catalog: &PluginCatalog, changes: &[SnapshotChange]) -> Vec<(ObjectKey, ObjectCandidate)> {
    changes.iter().map(|change| (change.key.clone(), one(catalog, change))).collect()
}

fn one(catalog: &PluginCatalog, change: &SnapshotChange) -> ObjectCandidate {
    let Some(written) = &change.written else { return ObjectCandidate::Deleted };
    let value = match parse(written) {
        Ok(value) => value,
        Err(refusal) => {
            let known = written.json_behind_reason().and_then(|json| serde_json::from_str(json).ok());
            let closed = closed::form(catalog, written, &known.unwrap_or_default());
            return ObjectCandidate::Bad(written.clone(), refusal, closed);
        }
    };
    match read(catalog, &written.key, &value) {
        Ok((Checked { resource, warnings }, skipped)) => {
            let written = written.clone();
            ObjectCandidate::Good(Arc::new(SnapshotObject::new(written, resource, skipped, warnings)))
        }
        Err(refusal) => {
            let closed = closed::form(catalog, written, &value);
            ObjectCandidate::Bad(written.clone(), refusal, closed)
        }
    }
}

fn parse(written: &WrittenObject) -> Result<Value, ObjectRefusal> {
    if let Some(reason) = written.why_unreadable() {
        return Err(ObjectRefusal::single(None, "", reason));
    }
    let mut value = serde_json::from_str(&written.text)
        .map_err(|error| ObjectRefusal::single(None, "", format!("the text is not JSON: {error}")))?;
    settle_id(&written.key, &mut value);
    Ok(value)
}

/// APISIX overwrites an id that differs from the key in etcd by the key. The Admin API refuses such a write
/// before it is stored, and a file's keys are made of the ids.
fn settle_id(key: &ObjectKey, value: &mut Value) {
    let has_own_id =
        !matches!(key.kind, ObjectKind::Consumer | ObjectKind::Secret | ObjectKind::PluginMetadata);
    if let Some(id) = value.get_mut("id").filter(|_| has_own_id)
        && Id::deserialize(&*id).is_ok_and(|found| &*found != key.own_id())
    {
        *id = Value::String(key.own_id().to_owned());
    }
}

/// Checks an object on its own. Where the setting allows it, an object is taken without its faulty plugins,
/// which are given back.
fn read(
    catalog: &PluginCatalog,
    key: &ObjectKey,
    value: &Value,
) -> Result<(Checked, Box<[ConfigFault]>), ObjectRefusal> {
    let refusal = match check::check_object(catalog, key, value) {
        Ok(checked) => return Ok((checked, Box::default())),
        Err(refusal) => refusal,
    };
    let Some(rest) = without_ignored(catalog, value, &refusal) else { return Err(refusal) };
    match check::check_object(catalog, key, &rest) {
        Ok(checked) => Ok((checked, refusal.into_faults(key, false).into())),
        Err(_) => Err(refusal),
    }
}

/// The object without its faulty plugins, if all its faults are in plugins that may be skipped.
fn without_ignored(catalog: &PluginCatalog, value: &Value, refusal: &ObjectRefusal) -> Option<Value> {
    let plugin_of = |fault: &ConfigFault| {
        let name = fault.pointer.strip_prefix("/plugins/")?.split('/').next()?;
        let name = name.replace("~1", "/").replace("~0", "~");
        catalog.ignores(&name).then_some(name)
    };
    let names: Vec<String> = refusal.faults().iter().map(plugin_of).collect::<Option<_>>()?;
    let mut rest = value.clone();
    let plugins = rest.get_mut("plugins")?.as_object_mut()?;
    for name in &names {
        plugins.shift_remove(name);
    }
    Some(rest)
}

fn threads_for(changes: usize) -> usize {
    if changes < WORTH_A_THREAD {
        return 1;
    }
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    cores.min(changes / WORTH_A_THREAD + 1).min(MOST_THREADS)
}

/// So many changes take some ten milliseconds, beside which starting a thread is nothing.
const WORTH_A_THREAD: usize = 1000;
/// A first load on a large machine is over soon enough with these; more would only fill memory with their
/// stacks.
const MOST_THREADS: usize = 8;
