//! Routes that are made of services of registries, laid over the configuration of the source. The Admin API
//! and the source do not know them: they are part only of what is passed to the workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use discovery::AutoRoutes;
use model::snapshot::{Overlay, SnapshotObject};
use model::{Applied, ConfigFault, Difference, ObjectKey, PluginCatalog, Snapshot, WrittenObject};

use super::Reconciler;

/// The routes that are laid over the configuration.
#[derive(Default)]
pub(super) struct Automatic {
    /// Where the routes come from; none: there are none.
    source: Option<Arc<AutoRoutes>>,
    /// The version of the lists that the overlay was made of.
    version: u64,
    overlay: Overlay,
    /// The forms that were passed to the workers last.
    passed: BTreeMap<ObjectKey, PublishedRoute>,
    /// The snapshot that was passed to the workers last, if it differs from that of the source.
    merged: Option<Snapshot>,
}

/// The form of a route that the workers have: in force, or closed because it is faulty.
struct PublishedRoute {
    object: Option<Arc<SnapshotObject>>,
    closed: Option<Arc<SnapshotObject>>,
}

impl PublishedRoute {
    fn of(snapshot: &Snapshot, key: &ObjectKey) -> PublishedRoute {
        let closed = snapshot.closed(key).map(|(object, _)| Arc::clone(object));
        PublishedRoute { object: snapshot.get(key).cloned(), closed }
    }

    fn is_same(&self, other: &PublishedRoute) -> bool {
        let is_one =
            |one: &Option<Arc<SnapshotObject>>, other: &Option<Arc<SnapshotObject>>| match (one, other) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
        is_one(&self.object, &other.object) && is_one(&self.closed, &other.closed)
    }
}

impl Automatic {
    pub(super) fn new(source: Option<Arc<AutoRoutes>>) -> Automatic {
        Automatic { source, ..Automatic::default() }
    }

    /// Whether the fault is one of an automatic route.
    pub(super) fn is_of(&self, fault: &ConfigFault) -> bool {
        fault.key.as_ref().is_some_and(|key| self.passed.contains_key(key))
    }

    /// At most `limit` faults of written objects and as many of automatic routes, so that those of many
    /// automatic routes do not push out the others.
    pub(super) fn cut(&self, faults: Vec<ConfigFault>, limit: usize) -> Vec<ConfigFault> {
        let (automatic, mut written): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|fault| self.is_of(fault));
        written.truncate(limit);
        written.extend(automatic.into_iter().take(limit));
        written
    }

    /// The changes for the workers: those of the source, and those that follow for the routes laid over it. A
    /// written route with the id of an automatic one replaces it.
    pub(super) fn lay_over(&mut self, catalog: &PluginCatalog, applied: Applied) -> Applied {
        if self.overlay.is_empty() && self.passed.is_empty() {
            self.merged = None;
            return applied;
        }
        let base = applied.snapshot;
        let merged = base.overlaid(catalog, &self.overlay).snapshot;
        let is_free = |key: &&ObjectKey| !base.contains(key) && base.faulty_at(key).is_none();
        let now = |key: &ObjectKey| (key.clone(), PublishedRoute::of(&merged, key));
        let passed: BTreeMap<ObjectKey, PublishedRoute> =
            self.overlay.keys().filter(is_free).map(now).collect();
        let mut diff: BTreeMap<ObjectKey, Difference> =
            applied.diff.into_iter().map(|difference| (difference.key.clone(), difference)).collect();
        let of_before = self
            .passed
            .iter()
            .filter(|(key, before)| !passed.get(*key).is_some_and(|after| after.is_same(before)));
        for (key, before) in of_before {
            let after = merged.get(key).cloned();
            diff.insert(key.clone(), Difference { key: key.clone(), before: before.object.clone(), after });
        }
        for (key, after) in passed.iter().filter(|(key, _)| !self.passed.contains_key(*key)) {
            // A written route of this id was deleted in the same change.
            let before = diff.get(key).and_then(|difference| difference.before.clone());
            diff.insert(key.clone(), Difference { key: key.clone(), before, after: after.object.clone() });
        }
        self.passed = passed;
        self.merged = Some(merged.clone());
        Applied { snapshot: merged, diff: diff.into_values().collect(), faults: applied.faults }
    }
}

impl Reconciler {
    /// Waits for the first lists of services, and brings their routes into force.
    pub(super) fn first_automatic_routes(&mut self, limit: Duration) {
        if let Some(source) = &self.automatic.source {
            source.settle(limit);
        }
        self.take_automatic_routes();
    }

    /// Brings the routes of changed lists into force. It is called each second, so that services that change
    /// within a second are one change.
    pub(super) fn take_automatic_routes(&mut self) {
        let Some(source) = self.automatic.source.clone() else { return };
        let version = source.version();
        if version == self.automatic.version {
            return;
        }
        self.automatic.version = version;
        let revision = self.snapshot.revision();
        let written = |(key, text): (ObjectKey, Arc<str>)| WrittenObject {
            key,
            text,
            created_index: revision,
            modified_index: revision,
        };
        let routes = source.make().into_iter().map(written).collect();
        let catalog = self.parts.catalog.with_extensions(self.snapshot.extensions());
        self.automatic.overlay = self.automatic.overlay.renewed(&catalog, routes);
        self.publish(Applied { snapshot: self.snapshot.clone(), diff: Vec::new(), faults: Vec::new() });
    }

    /// Shows the faults of automatic routes as they are after a publication: a change of the source repairs
    /// or breaks such routes as well, by the objects that they refer to.
    pub(super) fn show_automatic_faults(&self) {
        if let Some(source) = &self.automatic.source {
            source.set_faults(self.faults_of_automatic_routes());
        }
    }

    /// The faults of routes that were laid over the configuration, as sentences.
    fn faults_of_automatic_routes(&self) -> Vec<String> {
        let Some(merged) = &self.automatic.merged else { return Vec::new() };
        let of_checks = self.automatic.passed.keys().flat_map(|key| merged.faults_at(key));
        let of_compiler = self.compile_faults.iter().filter(|fault| self.automatic.is_of(fault)).cloned();
        of_checks.chain(of_compiler).map(|fault| fault.to_string()).collect()
    }

    /// The configuration that the workers have, with the routes that are laid over it.
    pub(super) fn served(&self) -> &Snapshot {
        self.automatic.merged.as_ref().unwrap_or(&self.snapshot)
    }
}

#[cfg(test)]
mod tests {
    use model::{FaultPolicy, ObjectKind, SnapshotChange};
    use serde_json::json;

    use super::*;

    fn written(id: &str, uri: &str) -> WrittenObject {
        let text = json!({"id": id, "uri": uri, "upstream": {"nodes": {"127.0.0.1:1": 1}}}).to_string();
        let key = ObjectKey::new(ObjectKind::Route, id).unwrap();
        WrittenObject { key, text: text.into(), created_index: 1, modified_index: 1 }
    }

    fn keys(applied: &Applied) -> Vec<String> {
        applied.diff.iter().map(|difference| difference.key.own_id().to_owned()).collect()
    }

    /// Applies changes of the source, and lays the overlay over them.
    fn change(automatic: &mut Automatic, base: &mut Snapshot, changes: &[SnapshotChange]) -> Applied {
        let catalog = crate::testing::catalog();
        let applied = base.apply(&catalog, changes, base.revision() + 1, FaultPolicy::Lenient);
        *base = applied.snapshot.clone();
        automatic.lay_over(&catalog, applied)
    }

    fn renew(automatic: &mut Automatic, routes: Vec<WrittenObject>) {
        automatic.overlay = automatic.overlay.renewed(&crate::testing::catalog(), routes);
    }

    #[test]
    fn only_differing_routes_are_passed_on() {
        let (mut automatic, mut base) = (Automatic::default(), Snapshot::empty());
        let put = |id: &str, uri: &str| SnapshotChange {
            key: written(id, uri).key,
            written: Some(written(id, uri)),
        };
        renew(&mut automatic, vec![written("auto.a", "/a/*"), written("auto.b", "/b/*")]);
        let first = change(&mut automatic, &mut base, &[put("1", "/one")]);
        assert_eq!(keys(&first), ["1", "auto.a", "auto.b"]);
        assert_eq!((first.snapshot.len(ObjectKind::Route), base.len(ObjectKind::Route)), (3, 1));
        assert_eq!(keys(&change(&mut automatic, &mut base, &[put("2", "/two")])), ["2"]);
        renew(&mut automatic, vec![written("auto.a", "/a/*"), written("auto.c", "/c/*")]);
        let next = change(&mut automatic, &mut base, &[]);
        assert_eq!(keys(&next), ["auto.b", "auto.c"]);
        assert!(next.diff[0].before.is_some() && next.diff[0].after.is_none());
    }

    #[test]
    fn written_route_replaces_one_with_its_id() {
        let (mut automatic, mut base) = (Automatic::default(), Snapshot::empty());
        renew(&mut automatic, vec![written("auto.a", "/a/*")]);
        let _ = change(&mut automatic, &mut base, &[]);
        let own = written("auto.a", "/own");
        let put = SnapshotChange { key: own.key.clone(), written: Some(own.clone()) };
        let uri = |object: &Option<Arc<SnapshotObject>>| {
            object.as_ref().map(|object| object.written.text.contains("/own"))
        };
        let replaced = change(&mut automatic, &mut base, &[put]);
        let [difference] = &replaced.diff[..] else { panic!("one difference: {:?}", keys(&replaced)) };
        assert_eq!((uri(&difference.before), uri(&difference.after)), (Some(false), Some(true)));
        let back = change(&mut automatic, &mut base, &[SnapshotChange { key: own.key, written: None }]);
        let [difference] = &back.diff[..] else { panic!("one difference: {:?}", keys(&back)) };
        assert_eq!((uri(&difference.before), uri(&difference.after)), (Some(true), Some(false)));
        renew(&mut automatic, Vec::new());
        assert_eq!(keys(&change(&mut automatic, &mut base, &[])), ["auto.a"]);
        assert!(automatic.passed.is_empty() && change(&mut automatic, &mut base, &[]).diff.is_empty());
    }

    #[test]
    fn automatic_faults_push_out_no_others() {
        let (mut automatic, mut base) = (Automatic::default(), Snapshot::empty());
        renew(&mut automatic, vec![written("auto.a", "/a/*"), written("auto.b", "/b/*")]);
        let _ = change(&mut automatic, &mut base, &[]);
        let fault =
            |id: &str| ConfigFault { key: Some(written(id, "/").key), ..ConfigFault::general("a test") };
        let faults = ["auto.a", "auto.b", "x", "y", "z"].map(fault).to_vec();
        let kept = automatic.cut(faults, 2);
        let ids: Vec<&str> = kept.iter().map(|fault| fault.key.as_ref().unwrap().own_id()).collect();
        assert_eq!(ids, ["x", "y", "auto.a", "auto.b"]);
    }
}
