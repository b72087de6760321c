//! Which server a command goes to: the only one, the node of a cluster that has the key's slot, or the master
//! that the sentinels name. It keeps what it was told, and asks again when a server turns out to be the wrong
//! one.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use exchange::local::WorkerLocal;
use exchange::plugin::outbound::StreamDestinations;
use net::env;
use parking_lot::Mutex;

use super::error::RedisError;
use super::lane::{self, LANES_MAX};
use super::node::{RedisLogin, RedisNode, Timing};
use super::resp::{RedisValue, write_command};
use super::settings::{RedisSettings, RedisTopology, format_host_port};
use super::slots::{SLOTS, SlotRange, ranges};

/// The servers of one Redis that a client knows: a cluster has at most a thousand nodes.
const NODES_MAX: usize = 1_024;
/// Milliseconds between two times that the slots of a cluster are asked for.
const REFRESH_PAUSE_MS: u64 = 1_000;

/// See the module.
pub(super) struct Topology {
    kind: TopologyKind,
    nodes: DiscoveredNodes,
}

enum TopologyKind {
    Single(Arc<RedisNode>),
    Cluster(ClusterTopology),
    Sentinel(Sentinel),
}

struct ClusterTopology {
    seeds: Vec<Arc<RedisNode>>,
    /// Where the next command for an unknown slot goes.
    next_seed: AtomicUsize,
    /// The node of each slot, as far as it is known.
    slots: Mutex<Vec<Option<Arc<RedisNode>>>>,
    refresh_after_ms: AtomicU64,
}

struct Sentinel {
    sentinels: Vec<Arc<RedisNode>>,
    master: Box<str>,
    uses_replica: bool,
    /// The server that the sentinels named last.
    known: Mutex<Option<Arc<RedisNode>>>,
}

/// The servers that others have named, by place.
struct DiscoveredNodes {
    destinations: StreamDestinations,
    login: Arc<RedisLogin>,
    timing: Timing,
    known: Mutex<HashMap<String, Arc<RedisNode>>>,
}

impl Topology {
    /// The servers that are configured.
    ///
    /// # Errors
    /// A place that cannot be reached, as a sentence.
    pub(super) fn new(
        settings: &RedisSettings,
        destinations: StreamDestinations,
    ) -> Result<Topology, String> {
        let is_master = matches!(settings.topology, RedisTopology::Sentinel { uses_replica: false, .. });
        let nodes = DiscoveredNodes {
            destinations,
            login: Arc::new(RedisLogin {
                username: settings.username.clone(),
                password: settings.password.clone(),
                database: settings.database,
                requires_master: is_master,
            }),
            timing: Timing {
                connect_timeout_ms: settings.connect_timeout_ms,
                reply_timeout_ms: settings.reply_timeout_ms,
                idle_timeout_ms: settings.idle_timeout_ms,
                lanes: (settings.pool as usize).min(LANES_MAX),
            },
            known: Mutex::default(),
        };
        let kind = match &settings.topology {
            RedisTopology::Single(place) => TopologyKind::Single(nodes.get(place)?),
            RedisTopology::Cluster(places) => TopologyKind::Cluster(ClusterTopology {
                seeds: places.iter().map(|place| nodes.get(place)).collect::<Result<_, _>>()?,
                next_seed: AtomicUsize::new(0),
                slots: Mutex::new(vec![None; SLOTS]),
                refresh_after_ms: AtomicU64::new(0),
            }),
            RedisTopology::Sentinel { sentinels, master, uses_replica, username, password } => {
                let login = Arc::new(RedisLogin {
                    username: username.clone(),
                    password: password.clone(),
                    ..RedisLogin::default()
                });
                let timing = Timing { lanes: 1, ..nodes.timing };
                let sentinel = |place: &String| {
                    Ok::<_, String>(RedisNode::new(
                        place,
                        nodes.destinations.destination(place)?,
                        login.clone(),
                        timing,
                    ))
                };
                TopologyKind::Sentinel(Sentinel {
                    sentinels: sentinels.iter().map(sentinel).collect::<Result<_, _>>()?,
                    master: master.clone(),
                    uses_replica: *uses_replica,
                    known: Mutex::default(),
                })
            }
        };
        Ok(Topology { kind, nodes })
    }

    /// The server for a command on a key in `slot`.
    pub(super) async fn node(&self, worker: &WorkerLocal, slot: u16) -> Result<Arc<RedisNode>, RedisError> {
        match &self.kind {
            TopologyKind::Single(node) => Ok(node.clone()),
            TopologyKind::Cluster(cluster) => Ok(cluster.node(slot)),
            TopologyKind::Sentinel(sentinel) => sentinel.node(worker, &self.nodes).await,
        }
    }

    /// Whether another server may be asked if one fails.
    pub(super) fn has_others(&self) -> bool {
        !matches!(self.kind, TopologyKind::Single(_))
    }

    /// Whether keys are spread over servers by slot.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.kind, TopologyKind::Cluster(_))
    }

    /// Notes that `node` is no longer the server for `slot`, so that another one is looked for.
    pub(super) fn forget(self: &Arc<Self>, worker: &Rc<WorkerLocal>, slot: u16, node: &Arc<RedisNode>) {
        match &self.kind {
            TopologyKind::Single(_) => {}
            TopologyKind::Cluster(cluster) => {
                for entry in cluster.slots.lock().iter_mut() {
                    if entry.as_ref().is_some_and(|known| Arc::ptr_eq(known, node)) {
                        *entry = None;
                    }
                }
                let _ = slot;
                self.refresh(worker);
            }
            TopologyKind::Sentinel(sentinel) => {
                let mut known = sentinel.known.lock();
                if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, node)) {
                    *known = None;
                }
            }
        }
    }

    /// The node that a redirection names; from now on, if `moved` is the slot, which moved there.
    pub(super) fn redirected(
        self: &Arc<Self>,
        worker: &Rc<WorkerLocal>,
        place: &str,
        moved: Option<u16>,
    ) -> Result<Arc<RedisNode>, RedisError> {
        let node = self
            .nodes
            .get(place)
            .map_err(|_| RedisError::NoServer("a node of the cluster names a place that is none"))?;
        if let (TopologyKind::Cluster(cluster), Some(slot)) = (&self.kind, moved) {
            cluster.slots.lock()[usize::from(slot)] = Some(node.clone());
            self.refresh(worker);
        }
        Ok(node)
    }

    /// Asks for the slots of the cluster in the background, at most once in a while over all workers.
    fn refresh(self: &Arc<Self>, worker: &Rc<WorkerLocal>) {
        let TopologyKind::Cluster(cluster) = &self.kind else { return };
        let now_ms = env::monotonic_ns() / 1_000_000;
        let due_ms = cluster.refresh_after_ms.load(Ordering::Relaxed);
        let next_ms = now_ms + REFRESH_PAUSE_MS;
        let is_due = now_ms >= due_ms
            && cluster
                .refresh_after_ms
                .compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_due {
            let (topology, worker) = (self.clone(), worker.clone());
            env::spawn(async move { topology.read_slots(&worker).await });
        }
    }

    async fn read_slots(&self, worker: &WorkerLocal) {
        let TopologyKind::Cluster(cluster) = &self.kind else { return };
        let mut command = Vec::new();
        write_command(&[b"CLUSTER", b"SLOTS"], &mut command);
        for turn in 0..cluster.seeds.len() {
            let seed = cluster.seed(turn);
            let Ok(reply) = lane::send_redis_commands(worker, &seed, command.clone(), 1).await else {
                continue;
            };
            let ranges = ranges(&reply, &seed.place);
            if !ranges.is_empty() {
                cluster.take_in(&ranges, &self.nodes);
                return;
            }
        }
    }
}

impl ClusterTopology {
    fn node(&self, slot: u16) -> Arc<RedisNode> {
        let known = self.slots.lock()[usize::from(slot)].clone();
        known.unwrap_or_else(|| self.seed(self.next_seed.fetch_add(1, Ordering::Relaxed)))
    }

    fn seed(&self, turn: usize) -> Arc<RedisNode> {
        self.seeds[turn % self.seeds.len()].clone()
    }

    fn take_in(&self, ranges: &[SlotRange], nodes: &DiscoveredNodes) {
        let mut slots = vec![None; SLOTS];
        for range in ranges {
            // A place that is none leaves its slots unknown; the seeds redirect their commands.
            let node = nodes.get(&range.place).ok();
            for slot in range.first..=range.last {
                slots[usize::from(slot)].clone_from(&node);
            }
        }
        *self.slots.lock() = slots;
    }
}

impl Sentinel {
    async fn node(
        &self,
        worker: &WorkerLocal,
        nodes: &DiscoveredNodes,
    ) -> Result<Arc<RedisNode>, RedisError> {
        if let Some(known) = self.known.lock().clone() {
            return Ok(known);
        }
        let mut last = RedisError::NoServer("no sentinel knows the master");
        for sentinel in &self.sentinels {
            match self.ask(worker, sentinel).await {
                Ok(Some(place)) => {
                    let node = nodes
                        .get(&place)
                        .map_err(|_| RedisError::NoServer("a sentinel names a place that is none"))?;
                    *self.known.lock() = Some(node.clone());
                    return Ok(node);
                }
                Ok(None) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The place of the server that this sentinel names.
    async fn ask(
        &self,
        worker: &WorkerLocal,
        sentinel: &Arc<RedisNode>,
    ) -> Result<Option<String>, RedisError> {
        let question: &[u8] = if self.uses_replica { b"REPLICAS" } else { b"GET-MASTER-ADDR-BY-NAME" };
        let mut command = Vec::new();
        write_command(&[b"SENTINEL", question, self.master.as_bytes()], &mut command);
        let reply = lane::send_redis_commands(worker, sentinel, command, 1).await?;
        if let RedisValue::Error(reason) = &reply {
            return Err(RedisError::refused(&sentinel.place, reason));
        }
        let named = if self.uses_replica {
            replica(&reply)
        } else {
            host_and_port(reply.as_array().unwrap_or_default())
        };
        Ok(named.map(|(host, port)| format_host_port(&host, port)))
    }
}

fn host_and_port(values: &[RedisValue]) -> Option<(String, u16)> {
    let [host, port] = values else { return None };
    Some((host.as_text()?.to_owned(), u16::try_from(port.as_integer()?).ok()?))
}

/// A replica that is up, a random one, of the reply to SENTINEL REPLICAS.
fn replica(reply: &RedisValue) -> Option<(String, u16)> {
    let field = |fields: &[RedisValue], name: &str| {
        let pair = fields.chunks_exact(2).find(|pair| pair[0].as_text() == Some(name))?;
        pair[1].as_text().map(str::to_owned)
    };
    let up = |entry: &RedisValue| {
        let fields = entry.as_array()?;
        let flags = field(fields, "flags")?;
        let is_up = !["s_down", "o_down", "disconnected"].iter().any(|flag| flags.contains(flag));
        is_up.then_some((field(fields, "ip")?, field(fields, "port")?.parse().ok()?))
    };
    let replicas: Vec<_> = reply.as_array()?.iter().filter_map(up).collect();
    (!replicas.is_empty()).then(|| replicas[fastrand::usize(..replicas.len())].clone())
}

impl DiscoveredNodes {
    fn get(&self, place: &str) -> Result<Arc<RedisNode>, String> {
        let mut known = self.known.lock();
        if let Some(node) = known.get(place) {
            return Ok(node.clone());
        }
        // Servers that no slot and no configuration refers to are those that only this table holds.
        if known.len() >= NODES_MAX {
            known.retain(|_, node| Arc::strong_count(node) > 1);
        }
        if known.len() >= NODES_MAX {
            return Err(format!("{place}: more than {NODES_MAX} servers"));
        }
        let node =
            RedisNode::new(place, self.destinations.destination(place)?, self.login.clone(), self.timing);
        known.insert(place.to_owned(), node.clone());
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_are_down_are_left_out() {
        let bytes = |text: &str| RedisValue::Bytes(text.as_bytes().to_vec());
        let entry = |ip: &str, flags: &str| {
            RedisValue::Array(["name", "x", "ip", ip, "port", "7", "flags", flags].map(bytes).to_vec())
        };
        let reply = RedisValue::Array(vec![
            entry("10.0.0.1", "s_down,slave"),
            entry("10.0.0.2", "slave"),
            RedisValue::Nil,
        ]);
        assert_eq!(replica(&reply), Some(("10.0.0.2".to_owned(), 7)));
        assert_eq!(replica(&RedisValue::Array(vec![entry("10.0.0.1", "slave,disconnected")])), None);
    }
}
