//! The connections of one worker. Commands for a server wait in the queue of a lane; the lane's task sends
//! all that wait at once over its connection and hands the replies out in order, so that many requests share
//! a few connections.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use exchange::local::WorkerLocal;
use exchange::plugin::outbound::OutboundCause;
use net::env;
use stdx::hash::FastMap;
use tokio::sync::{Notify, oneshot};

use super::error::RedisError;
use super::node::{RedisConnection, RedisNode};
use super::resp::RedisValue;

/// Connections of a worker to one server: commands share them, so that more would only cost memory.
pub(super) const LANES_MAX: usize = 4;
/// Commands that wait in one lane. Beyond that the server is slower than the requests come, and waiting makes
/// it worse.
const QUEUE_MAX: usize = 4 * 1024;
/// Commands sent at once, so that the first of them does not wait for the last.
const BATCH_MAX: usize = 256;
/// A command that waits in a lane may wait for the timeout of the commands before it, and for its own.
const QUEUE_WAIT_REPLIES: u64 = 2;
/// Bytes sent at once, unless one command is longer.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// The lanes of a worker to all servers.
#[derive(Default)]
struct Lanes {
    of_nodes: RefCell<FastMap<u64, LanesOfNode>>,
}

struct LanesOfNode {
    node: Weak<RedisNode>,
    lanes: Vec<Rc<Lane>>,
}

#[derive(Default)]
struct Lane {
    jobs: RefCell<VecDeque<LaneJob>>,
    wake: Notify,
    /// Whether commands of it are on their way.
    is_busy: Cell<bool>,
    /// Whether its task runs.
    is_driven: Cell<bool>,
}

/// Commands that are sent together, of which the last reply counts.
struct LaneJob {
    bytes: Vec<u8>,
    replies: usize,
    done: oneshot::Sender<Result<RedisValue, RedisError>>,
}

/// Sends `bytes`, which hold as many commands as `replies`, and gives the last reply.
pub(super) async fn send_redis_commands(
    worker: &WorkerLocal,
    node: &Arc<RedisNode>,
    bytes: Vec<u8>,
    replies: usize,
) -> Result<RedisValue, RedisError> {
    let lane = worker.resource(Lanes::default).lane(node);
    let (done, reply) = oneshot::channel();
    lane.push(node, LaneJob { bytes, replies, done })?;
    let timing = node.timing;
    let limit_ms = timing.connect_timeout_ms + QUEUE_WAIT_REPLIES * timing.reply_timeout_ms;
    tokio::select! {
        biased;
        // A task that ended without an answer was stopped with its worker.
        outcome = reply => outcome.unwrap_or(Err(RedisError::Busy)),
        () = env::sleep_ms(limit_ms) => {
            let detail = format!("no reply within {limit_ms} ms");
            Err(RedisError::Lost(node.error(OutboundCause::Timeout, detail)))
        }
    }
}

impl Lanes {
    /// The lane that waits the least; a further one where all are busy.
    fn lane(&self, node: &Arc<RedisNode>) -> Rc<Lane> {
        let mut of_nodes = self.of_nodes.borrow_mut();
        if !of_nodes.contains_key(&node.id) {
            // The table is swept when a server enters: it never holds more dead ones than were in use at
            // once.
            of_nodes.retain(|_, lanes| lanes.node.strong_count() > 0);
        }
        let of_node = of_nodes
            .entry(node.id)
            .or_insert_with(|| LanesOfNode { node: Arc::downgrade(node), lanes: Vec::new() });
        if let Some(idle) = of_node.lanes.iter().find(|lane| lane.is_idle()) {
            return idle.clone();
        }
        if of_node.lanes.len() < node.timing.lanes {
            of_node.lanes.push(Rc::default());
        }
        let load = |lane: &&Rc<Lane>| (lane.jobs.borrow().len(), lane.is_busy.get());
        of_node.lanes.iter().min_by_key(load).expect("a server has at least one lane").clone()
    }
}

impl Lane {
    fn is_idle(&self) -> bool {
        !self.is_busy.get() && self.jobs.borrow().is_empty()
    }

    fn push(self: &Rc<Lane>, node: &Arc<RedisNode>, job: LaneJob) -> Result<(), RedisError> {
        let mut jobs = self.jobs.borrow_mut();
        if jobs.len() >= QUEUE_MAX {
            return Err(RedisError::Busy);
        }
        jobs.push_back(job);
        drop(jobs);
        if self.is_driven.replace(true) {
            self.wake.notify_one();
        } else {
            env::spawn(drive(node.clone(), self.clone()));
        }
        Ok(())
    }

    /// The commands to send next; nothing if none came for `idle_ms`.
    async fn next_batch(&self, idle_ms: u64) -> Option<VecDeque<LaneJob>> {
        loop {
            let batch = self.take_batch();
            if !batch.is_empty() {
                return Some(batch);
            }
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = env::sleep_ms(idle_ms) => return None,
            }
        }
    }

    fn take_batch(&self) -> VecDeque<LaneJob> {
        let mut jobs = self.jobs.borrow_mut();
        let mut batch = VecDeque::new();
        let mut bytes = 0;
        while batch.len() < BATCH_MAX
            && let Some(job) = jobs.front()
        {
            if !batch.is_empty() && bytes + job.bytes.len() > BATCH_BYTES_MAX {
                break;
            }
            bytes += job.bytes.len();
            // A request that has ended waits for no reply; its command is not sent.
            batch.extend(jobs.pop_front().filter(|job| !job.done.is_closed()));
        }
        batch
    }
}

/// Marks a lane as driven, also where its task is dropped.
struct Driving(Rc<Lane>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.is_driven.set(false);
        self.0.is_busy.set(false);
    }
}

/// The task of a lane: it ends when no command came for a while, and its connection with it.
async fn drive(node: Arc<RedisNode>, lane: Rc<Lane>) {
    let driving = Driving(lane);
    let mut connection = None;
    while let Some(batch) = driving.0.next_batch(node.timing.idle_timeout_ms).await {
        driving.0.is_busy.set(true);
        serve(&node, &mut connection, batch).await;
        driving.0.is_busy.set(false);
    }
}

/// Sends a batch and hands its replies out; after a failure the connection is closed.
async fn serve(node: &RedisNode, connection: &mut Option<RedisConnection>, mut batch: VecDeque<LaneJob>) {
    let whole = batch.len();
    let was_kept = connection.is_some();
    let mut outcome = attempt(node, connection, &mut batch).await;
    // A kept connection that the server has closed meanwhile fails before the first reply. The commands are
    // sent again once: at worst, a server that restarts at this moment counts a request twice.
    if was_kept && batch.len() == whole && matches!(&outcome, Err(error) if !error.is_timeout()) {
        *connection = None;
        // A request that has ended meanwhile must not be counted after its end was told.
        batch.retain(|job| !job.done.is_closed());
        outcome = attempt(node, connection, &mut batch).await;
    }
    if let Err(error) = outcome {
        *connection = None;
        for job in batch {
            // The request may have ended meanwhile.
            let _ = job.done.send(Err(error.clone()));
        }
    }
}

/// Takes out of `batch` what was answered.
async fn attempt(
    node: &RedisNode,
    connection: &mut Option<RedisConnection>,
    batch: &mut VecDeque<LaneJob>,
) -> Result<(), RedisError> {
    if connection.as_mut().is_some_and(RedisConnection::has_surplus) {
        *connection = None;
    }
    let connection = match connection {
        Some(connection) => connection,
        none => none.insert(node.open().await?),
    };
    let bytes: Vec<u8> = match batch.len() {
        1 => batch[0].bytes.clone(),
        _ => batch.iter().flat_map(|job| &job.bytes).copied().collect(),
    };
    connection.send(node, &bytes).await?;
    while let Some(job) = batch.front() {
        let mut last = RedisValue::Nil;
        for _ in 0..job.replies {
            last = connection.reply(node).await?;
        }
        if let Some(job) = batch.pop_front() {
            let _ = job.done.send(Ok(last));
        }
    }
    Ok(())
}
