//! An upstream, wherever it is written. Its node set lives in a cell that outlives changes, so that
//! balancers, pools and averages of nodes that stay are not disturbed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::resource::{
    Balance, HashOn, HttpVersion, PassHost as WrittenPassHost, UpstreamConfig as Written, UpstreamScheme,
};
use model::snapshot::Snapshot;
use model::{ObjectKey, ObjectKind};
use router::vars::Template;
use stdx::published::Published;

use super::{CompileFault, HeldUpstream, SnapshotCompiler, protection, retry, route};
use crate::upstream::balance::{self, BalancerKind};
use crate::upstream::original::OriginalPolicy;
use crate::upstream::{HashKey, PassHost, Upstream};
use net::endpoint::{EndpointProtocol, KeepAlive};
use net::nodes::{NodeMetadata, NodePlan, NodeSet, PlannedNode};
use serde_json::Value;

impl SnapshotCompiler {
    /// Compiles the upstream that `owner` is or embeds, or takes it out.
    pub(super) fn compile_upstream(&mut self, snapshot: &Snapshot, owner: &ObjectKey) {
        let identity: Arc<str> = owner.path().into();
        let slot = self.current.upstream_slots.get(&*identity).copied();
        let written = snapshot.get(owner).and_then(|object| object.resource.upstream().cloned());
        match (written, slot) {
            (None, None) => {}
            (None, Some(slot)) => {
                self.current.upstream_slots.remove(&*identity);
                self.current.upstreams.take(slot);
                self.end_checks(&identity);
            }
            (Some(written), slot) => match self.build_upstream(snapshot, &identity, &written, slot) {
                Ok(build) => self.place_upstream(identity, slot, build),
                Err(reason) => {
                    self.note(CompileFault { key: owner.clone(), reason, kept: slot.is_some() });
                }
            },
        }
    }

    /// Compiles an upstream that a plugin holds in its configuration, for as long as `identity` is held.
    pub(super) fn compile_plugin_upstream(
        &mut self,
        snapshot: &Snapshot,
        identity: &Arc<str>,
        written: &Written,
    ) -> Result<(), String> {
        let slot = self.current.upstream_slots.get(&**identity).copied();
        // A copy of the name, so that the reference count of `identity` shows whether the plugin still
        // exists.
        let copy = Arc::from(&**identity);
        let build = self.build_upstream(snapshot, &copy, written, slot)?;
        self.place_upstream(copy, slot, build);
        let uses_certificate = written.tls.as_ref().is_some_and(|tls| tls.client_cert_id.is_some());
        let held = HeldUpstream {
            holder: Arc::downgrade(identity),
            written: uses_certificate.then(|| Box::new(written.clone())),
        };
        self.plugin_upstreams.insert(Box::from(&**identity), held);
        Ok(())
    }

    /// Compiles upstreams of plugins again that present a certificate among `changed`.
    pub(super) fn renew_plugin_upstreams(&mut self, snapshot: &Snapshot, changed: &BTreeSet<ObjectKey>) {
        let uses = |held: &HeldUpstream| {
            let tls = held.written.as_ref().and_then(|written| written.tls.as_ref());
            let id = tls.and_then(|tls| tls.client_cert_id.as_ref());
            id.is_some_and(|id| changed.contains(&ObjectKey::of(ObjectKind::Ssl, id)))
        };
        let affected = self.plugin_upstreams.values().filter(|held| uses(held));
        let affected: Vec<_> =
            affected.filter_map(|held| Some((held.holder.upgrade()?, held.written.clone()?))).collect();
        for (identity, written) in affected {
            if let Err(reason) = self.compile_plugin_upstream(snapshot, &identity, &written) {
                tracing::error!(%identity, %reason, "the upstream of a plugin keeps its earlier client certificate");
            }
        }
    }

    /// Takes out upstreams of plugins that no longer exist.
    pub(super) fn sweep_plugin_upstreams(&mut self) {
        let (current, health) = (&mut self.current, self.health.as_deref());
        self.plugin_upstreams.retain(|identity, held| {
            let is_held = held.holder.strong_count() > 0;
            if !is_held && let Some(slot) = current.upstream_slots.remove(&**identity) {
                current.upstreams.take(slot);
                // Only the start of the thread can fail.
                let _ = health.map(|monitor| monitor.set(&Arc::from(&**identity), None));
            }
            is_held
        });
    }

    fn place_upstream(&mut self, identity: Arc<str>, slot: Option<u32>, mut upstream: Upstream) {
        match slot {
            Some(slot) => {
                upstream.slot = slot;
                self.current.upstreams.set(slot, Arc::new(upstream));
            }
            None => {
                // The slot is known only after the allocation, so the value is put in again with its number.
                let slot = self.current.upstreams.allocate(Arc::new(upstream));
                if let Some(placed) = self.current.upstreams.take(slot)
                    && let Some(mut upstream) = Arc::into_inner(placed)
                {
                    upstream.slot = slot;
                    self.current.upstreams.set(slot, Arc::new(upstream));
                }
                self.current.upstream_slots.insert(identity, slot);
            }
        }
    }

    fn build_upstream(
        &mut self,
        snapshot: &Snapshot,
        identity: &Arc<str>,
        written: &Written,
        slot: Option<u32>,
    ) -> Result<Upstream, String> {
        let (balancer, hash_key) = balancer(&written.balance)?;
        let tls = self.upstream_tls(snapshot, written)?;
        let original = written
            .original_dst
            .as_deref()
            .map(|original| Box::new(OriginalPolicy::new(original, tls.clone())));
        let plan = NodePlan {
            nodes: written.nodes.iter().map(planned).collect(),
            tls,
            protocol: protocol(written),
            keep_alive: keep_alive(written),
            derive: balancer.derive,
            note: None,
            refuses: None,
        };
        let probe = self.probe(snapshot, written)?;
        let slot_before = slot.filter(|_| !self.is_trial);
        let before = slot_before.and_then(|slot| self.current.upstreams.get(slot));
        let checked_before = before.and_then(|before| before.health.clone());
        let states = before.map(|before| before.nodes.load().states.clone()).unwrap_or_default();
        let retry =
            written.retry.as_deref().map(|policy| retry::policy(policy, before.map(|before| &**before)));
        let policies_before = before.map(|before| before.policies.clone());
        // Another method is another state machine and starts with empty state. The same method continues with
        // the new nodes.
        let before = before.filter(|before| before.balancer.name == balancer.name);
        let cell = before.map(|before| before.nodes.clone());
        let cell = cell
            .unwrap_or_else(|| Arc::new(Published::new(Arc::new(NodeSet { states, ..NodeSet::default() }))));
        let filled_before = before.and_then(|before| before.discovered.as_ref());
        let policies = self.policies(identity, written, policies_before.as_deref())?;
        let default_port = written.scheme.default_port();
        let discovered = self.fill(written.discovery.as_deref(), &cell, plan, default_port, filled_before);
        let checks = written.checks.as_deref().zip(probe);
        let health = self.follow_checks(identity, &cell, checks, checked_before.as_ref())?;
        // After the last step that may fail, because it changes the state that the form before is still used
        // with.
        let before = slot_before.and_then(|slot| self.current.upstreams.get(slot));
        let protection = protection::compile(identity, written, before.map(|before| &**before));
        Ok(Upstream {
            identity: identity.clone(),
            slot: slot.unwrap_or_default(),
            balancer,
            hash_key,
            nodes: cell,
            health,
            discovered,
            original,
            transparent_source: written.transparent_source,
            policies: Arc::new(policies),
            pass_host: match &written.pass_host {
                WrittenPassHost::Pass => PassHost::Pass,
                WrittenPassHost::Node => PassHost::Node,
                WrittenPassHost::Rewrite(host) => PassHost::Rewrite(host.clone()),
            },
            scheme: written.scheme.as_str(),
            protocol: protocol(written),
            needs_http2: matches!(written.scheme, UpstreamScheme::Grpc | UpstreamScheme::Grpcs),
            retries: written.retries,
            retry_timeout_ms: written.retry_timeout.map_or(0, saturating_ms),
            retry,
            deadline: written.deadline.as_deref().map(retry::deadline),
            timeouts: written.timeout.as_ref().map_or(self.default_timeouts, route::timeouts),
            protection,
        })
    }
}

fn planned(node: &model::resource::NodeConfig) -> PlannedNode {
    PlannedNode {
        host: node.host.trim_matches(['[', ']']).into(),
        port: node.port,
        authority: node.authority().into(),
        weight: node.weight,
        priority: i64::from(node.priority),
        metadata: node.metadata.as_deref().and_then(metadata),
    }
}

/// The marks of a node that are a text, a number or a boolean; others cannot be compared.
fn metadata(written: &Value) -> Option<Arc<NodeMetadata>> {
    let mark = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return None,
        };
        Some((name.as_str().into(), value.into()))
    };
    let marks: NodeMetadata = written.as_object()?.iter().filter_map(mark).collect();
    (!marks.is_empty()).then(|| Arc::new(marks))
}

/// The protocol of connections to the nodes.
fn protocol(written: &Written) -> EndpointProtocol {
    match (written.scheme, written.http_version) {
        (UpstreamScheme::Tcp | UpstreamScheme::Tls | UpstreamScheme::Udp, _) => EndpointProtocol::Raw,
        (UpstreamScheme::Grpc | UpstreamScheme::Grpcs, _) => EndpointProtocol::Http2,
        (UpstreamScheme::Https, HttpVersion::Http2) => EndpointProtocol::Http2OrHttp1,
        (_, HttpVersion::Http2) => EndpointProtocol::Http2,
        (_, HttpVersion::Http1) => EndpointProtocol::Http1,
    }
}

fn keep_alive(written: &Written) -> KeepAlive {
    let limits = written.limits.as_deref();
    let max_connections = limits.and_then(|limits| limits.max_connections_per_node).unwrap_or(0);
    let pool = written.keepalive_pool.as_ref();
    let keep_alive = pool.map_or_else(KeepAlive::default, |pool| KeepAlive {
        size: pool.size,
        idle_timeout_ms: saturating_ms(pool.idle_timeout),
        requests: pool.requests,
        max_connections,
    });
    KeepAlive { max_connections, ..keep_alive }
}

pub(super) fn saturating_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The balancer that `balance` names, and the hash key that it uses.
fn balancer(balance: &Balance) -> Result<(&'static BalancerKind, Option<HashKey>), String> {
    let name = balance.method.name();
    let kind = balance::named(name).ok_or_else(|| format!("there is no balancer {name}"))?;
    let key = balance.key.as_ref().map(|key| hash_key(key.on, &key.name)).transpose()?;
    Ok((kind, key))
}

fn hash_key(on: HashOn, key: &str) -> Result<HashKey, String> {
    let text = match on {
        HashOn::Consumer => return Ok(HashKey::Consumer),
        HashOn::VarsCombinations => key.to_owned(),
        HashOn::Vars => format!("${{{key}}}"),
        HashOn::Header if key.starts_with("http_") => format!("${{{}}}", key.to_ascii_lowercase()),
        HashOn::Header => format!("${{http_{}}}", key.to_ascii_lowercase().replace('-', "_")),
        HashOn::Cookie if key.starts_with("cookie_") => format!("${{{key}}}"),
        HashOn::Cookie => format!("${{cookie_{key}}}"),
    };
    let template = Template::compile(&text).map_err(|error| format!("key: {error}"))?;
    Ok(HashKey::Template(template))
}
