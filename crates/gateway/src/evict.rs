//! Closes silent client connections when connection slots or descriptors run out: the one that has been
//! silent longest in the whole process, those that never sent a byte first. A connection with a request in
//! flight is never closed.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::command::{Handle, WorkerCommand};
use crate::idle::IdleConnections;
use crate::observe::idle_counts::IdleState;
use crate::observe::status::WorkerStatus;
use exchange::WorkerLocal;
use exchange::overload::capacity::Shortage;
use net::env;

/// The most connections that are told to close at once, as many as nginx closes: enough for the next clients
/// and their upstream connections. Closing one takes some 40 µs, and all others wait meanwhile.
const AT_ONCE: usize = 32;
/// How long a connection that has sent nothing, or that has its last response, must have been silent before
/// it may be closed. The request of an honest client arrives within a few milliseconds of its handshake;
/// without this limit, clients that compete for the last slots would evict each other before any of them is
/// served.
const UNUSED_LEAST_MS: u32 = 100;
/// The same for connections that have carried a request, or have begun one. It is longer, so that a flood of
/// new connections, each younger than that, cannot evict clients that send a request every second.
pub(crate) const USED_LEAST_MS: u32 = 1_000;
/// How long this worker waits for another one to close connections.
const ELSEWHERE_MS: u64 = 1;
/// A worker that has not turned its event loop for this long is passed over, because it may close connections
/// too late. That is ten turns of the loop; the asking worker continues with the next one.
const STANDS_AFTER_MS: u64 = 200;

impl IdleState {
    fn least_ms(self) -> u32 {
        match self {
            IdleState::Unspoken | IdleState::Closing => UNUSED_LEAST_MS,
            IdleState::Idle | IdleState::Head => USED_LEAST_MS,
        }
    }
}

/// Connections that were told to close.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evicted {
    /// Connections of this worker: they end when their tasks run.
    here: usize,
    /// Connections of other workers, which were asked to close them.
    elsewhere: usize,
}

impl Evicted {
    /// The sum of both.
    pub(crate) fn count(self) -> usize {
        self.here + self.elsewhere
    }
}

/// Closes silent client connections of one worker, in agreement with the other workers.
pub(crate) struct Evictor {
    local: Rc<WorkerLocal>,
    status: Arc<WorkerStatus>,
    pub(crate) idle: RefCell<IdleConnections>,
    /// All workers, this one included; set when it begins to run.
    peers: OnceCell<Rc<[Handle]>>,
    /// How many connections were about to end when this worker last waited for them.
    waited_for: Cell<usize>,
}

impl Evictor {
    pub(crate) fn new(local: Rc<WorkerLocal>, status: Arc<WorkerStatus>) -> Rc<Evictor> {
        Rc::new(Evictor {
            local,
            idle: RefCell::new(IdleConnections::new(status.clone())),
            status,
            peers: OnceCell::new(),
            waited_for: Cell::new(0),
        })
    }

    /// Sets the list of all workers, this one included. A worker runs once, so a second call changes nothing.
    pub(crate) fn set_peers(&self, peers: Rc<[Handle]>) {
        let _ = self.peers.set(peers);
    }

    /// Records that a connection which was told to close has ended.
    pub(crate) fn one_has_left(&self) {
        self.status.settled(1);
    }

    /// Closes up to `wanted` connections, of this worker or another, always the one that has been silent
    /// longest.
    #[cold]
    pub(crate) fn evict(&self, shortage: Shortage, wanted: usize) -> Evicted {
        let now_ms = self.local.clock_ns() / 1_000_000;
        let peers = self.peers();
        let mut evicted = Evicted::default();
        while evicted.count() < wanted.min(AT_ONCE) {
            let Some((silence, index)) = longest_silent(peers, self.local.index, now_ms) else { break };
            if index != self.local.index {
                ask(&peers[index], shortage);
                evicted.elsewhere += 1;
            } else if self.tell(silence, shortage, now_ms) {
                self.status.leaving.fetch_add(1, Ordering::Relaxed);
                evicted.here += 1;
            } else {
                break;
            }
        }
        if evicted.here > 0 {
            self.local.shared.capacity.warn(shortage, evicted.here, now_ms);
        }
        evicted
    }

    /// Closes the connections that other workers have asked for.
    pub(crate) fn evict_asked(&self) {
        let now_ms = self.local.clock_ns() / 1_000_000;
        for shortage in Shortage::ALL {
            let asked = self.status.asked[*shortage as usize].swap(0, Ordering::Relaxed) as usize;
            let evicted = (0..asked).take_while(|_| self.tell_longest_silent(*shortage, now_ms)).count();
            // The asking worker has counted them as leaving.
            self.status.settled(asked - evicted);
            if evicted > 0 {
                self.local.shared.capacity.warn(*shortage, evicted, now_ms);
            }
        }
    }

    fn tell_longest_silent(&self, shortage: Shortage, now_ms: u64) -> bool {
        IdleState::ALL.iter().any(|silence| self.tell(*silence, shortage, now_ms))
    }

    /// Tells this worker's connection in state `silence` that has been silent longest to close, and wakes it.
    fn tell(&self, silence: IdleState, shortage: Shortage, now_ms: u64) -> bool {
        let evicted = self.idle.borrow_mut().give_way(silence, silence.least_ms(), now_ms);
        let Some(index) = evicted else { return false };
        self.status.failures.evicted(shortage, silence);
        // A missing waker means that its deadline has passed, which woke it.
        let waker = self.local.timers.borrow().waker_at(index);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Closes one connection of this worker, although one of another worker has been silent longer.
    fn evict_here(&self, shortage: Shortage) -> Evicted {
        let now_ms = self.local.clock_ns() / 1_000_000;
        if !self.tell_longest_silent(shortage, now_ms) {
            return Evicted::default();
        }
        self.status.leaving.fetch_add(1, Ordering::Relaxed);
        self.local.shared.capacity.warn(shortage, 1, now_ms);
        Evicted { here: 1, elsewhere: 0 }
    }

    /// Connections of all workers that were told to close and have not ended. Those of a stalled worker do
    /// not count.
    pub(crate) fn leaving(&self) -> usize {
        leaving(self.peers(), self.local.index, self.local.clock_ns() / 1_000_000)
    }

    fn peers(&self) -> &[Handle] {
        self.peers.get().map_or(&[], |peers| peers)
    }

    /// Calls [`Evictor::evict`] because a system call found no descriptor, and waits for the connections to
    /// end. False if none was closed.
    #[cold]
    pub(crate) async fn free_descriptors(&self) -> bool {
        self.local.shared.capacity.read_limit();
        let leaving = self.leaving();
        let mut evicted = self.evict(Shortage::OpenFiles, AT_ONCE.saturating_sub(leaving));
        let has_fallen = leaving < self.waited_for.replace(leaving + evicted.count());
        if evicted.count() == 0 && leaving > 0 && !has_fallen {
            // None of them has ended since the last check: their worker may be stalled.
            evicted = self.evict_here(Shortage::OpenFiles);
        }
        self.wait_for_evicted(evicted).await
    }

    /// Waits until connections that were told to close may have ended; false if there are none.
    async fn wait_for_evicted(&self, evicted: Evicted) -> bool {
        if evicted.here > 0 {
            env::yield_to_events().await;
        } else if evicted.elsewhere > 0 || self.leaving() > 0 {
            env::sleep_ms(ELSEWHERE_MS).await;
        } else {
            return false;
        }
        true
    }

    /// Closes silent connections if `descriptor`, which was just opened, is one of the last free ones.
    #[inline]
    pub(crate) fn keep_reserve(&self, descriptor: u64) {
        let missing = self.local.shared.capacity.missing(descriptor);
        if missing > 0 {
            self.evict(Shortage::OpenFiles, missing.saturating_sub(self.leaving()));
        }
    }
}

/// Whether a worker has not turned its event loop for [`STANDS_AFTER_MS`]. The asking worker itself is never
/// stalled.
fn stands(status: &WorkerStatus, now_ms: u64) -> bool {
    now_ms.saturating_sub(status.beat_ms.load(Ordering::Relaxed)) >= STANDS_AFTER_MS
}

/// See [`Evictor::leaving`]; `own` is the index of the asking worker.
fn leaving(peers: &[Handle], own: usize, now_ms: u64) -> usize {
    let turning =
        peers.iter().enumerate().filter(|(index, peer)| *index == own || !stands(&peer.status, now_ms));
    turning.map(|(_, peer)| peer.status.leaving.load(Ordering::Relaxed)).sum()
}

/// The worker with the connection to close next, and the state of that connection: the first state in
/// eviction order, and in it the longest silence. `own` is the index of the asking worker.
fn longest_silent(peers: &[Handle], own: usize, now_ms: u64) -> Option<(IdleState, usize)> {
    IdleState::ALL.iter().find_map(|silence| {
        let age_ms = |peer: &Handle| {
            let asked: u32 = peer.status.asked.iter().map(|asked| asked.load(Ordering::Relaxed)).sum();
            // A worker that was asked for as many as it has is about to close them all.
            let has_more = peer.status.idle.count(*silence) > asked;
            peer.status.idle.oldest_age_ms(*silence, now_ms).filter(|_| has_more)
        };
        let ages = peers.iter().enumerate().filter_map(|(index, peer)| Some((age_ms(peer)?, index)));
        let ages = ages.filter(|(_, index)| *index == own || !stands(&peers[*index].status, now_ms));
        let (age_ms, index) = ages.max_by_key(|(age_ms, _)| *age_ms)?;
        (age_ms >= silence.least_ms()).then_some((*silence, index))
    })
}

/// Asks another worker to close one more of its connections.
fn ask(peer: &Handle, shortage: Shortage) {
    // Counted first, because the other worker may close it at once.
    peer.status.leaving.fetch_add(1, Ordering::Relaxed);
    if peer.status.asked[shortage as usize].fetch_add(1, Ordering::Relaxed) == 0 {
        // One command at a time is enough; a worker that has ended has no connections.
        let _ = peer.commands.send(WorkerCommand::Evict);
    }
}

/// Whether a call failed because the process, or the machine, has no descriptor left.
pub(crate) fn lacks_descriptors(error: &io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

#[cfg(test)]
mod tests {
    use super::super::idle::IdleConnections;
    use super::*;
    use crate::command::channel;

    /// Two workers at 10 s of their clock; the connection of the second one has been silent longer.
    fn workers() -> (Vec<Handle>, Vec<IdleConnections>) {
        let workers: Vec<Handle> = (0..2).map(|_| channel().0).collect();
        let silent = workers.iter().zip([2_000, 1_000]).map(|(worker, since_ms)| {
            worker.status.beat_ms.store(10_000, Ordering::Relaxed);
            let mut silent = IdleConnections::new(worker.status.clone());
            silent.enter(0, IdleState::Idle, since_ms);
            silent
        });
        let silent = silent.collect();
        (workers, silent)
    }

    #[test]
    fn stalled_worker_is_passed_over() {
        let (workers, _silent) = workers();
        let chosen = |own, now_ms| longest_silent(&workers, own, now_ms).map(|(_, index)| index);
        assert_eq!(chosen(0, 10_199), Some(1));
        assert_eq!(chosen(0, 10_200), Some(0), "the longest silent is out of reach");
        assert_eq!(chosen(1, 10_200), Some(1), "the worker that asks is at work");
    }

    #[test]
    fn stalled_worker_has_no_leaving_connections() {
        let (workers, _silent) = workers();
        workers[0].status.leaving.store(2, Ordering::Relaxed);
        ask(&workers[1], Shortage::OpenFiles);
        assert_eq!(leaving(&workers, 0, 10_199), 3);
        assert_eq!(leaving(&workers, 0, 10_200), 2);
        workers[1].status.ignore_asked();
        assert_eq!(leaving(&workers, 0, 10_000), 2, "what was asked for is taken back");
    }
}
