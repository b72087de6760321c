//! A stream route: its chain of layer 4. Its match and its upstream are not compiled, because no listener of layer 4
//! exists yet.

use std::sync::Arc;

use model::merge::{Provenance, route_plugins};
use model::resource::Resource;
use model::snapshot::Snapshot;
use model::{Key, Kind};

use super::Compiler;
use crate::runtime::StreamRoute;
use exchange::plugin::stream::chain::StreamChain;

impl Compiler {
    /// Compiles the stream route under `key` as it is now, or takes it out if it is gone. If one of its plugins cannot
    /// be built, it stays out, and is a fault.
    pub(super) fn compile_stream_route(&mut self, snapshot: &Snapshot, key: &Key) {
        self.current.stream_routes.remove(&key.id);
        match self.stream_chain(snapshot, key) {
            Ok(Some(plugins)) => {
                let route = Arc::new(StreamRoute { id: key.id.clone(), plugins });
                self.current.stream_routes.insert(key.id.clone(), route);
            }
            Ok(None) => {}
            Err(reason) => self.fault(key, reason),
        }
    }

    fn stream_chain(&mut self, snapshot: &Snapshot, key: &Key) -> Result<Option<StreamChain>, String> {
        let Some(object) = snapshot.get(key) else { return Ok(None) };
        let Resource::StreamRoute(written) = &object.resource else { return Ok(None) };
        let service_key = written.service_id.as_ref().map(|id| Key::of(Kind::Service, id));
        let service = match &service_key {
            Some(key) => {
                let missing = || format!("service {} does not exist", key.own_id());
                Some(snapshot.get(key).ok_or_else(missing)?.resource.plugins())
            }
            None => None,
        };
        let mut instances = Vec::new();
        for effective in route_plugins(&written.plugins, None, service) {
            let owner = if effective.provenance == Provenance::Service { &service_key } else { &None };
            let owner = owner.as_ref().unwrap_or(key);
            instances.extend(self.stream_instance(snapshot, owner, effective.name, effective.config)?);
        }
        Ok(Some(StreamChain::new(instances)))
    }
}
