//! Requests of all workers that wait for a place at an upstream: by priority, then in order of arrival. A
//! place that becomes free wakes the first one. The lock is taken only while a request waits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::Priority;

/// See the module. The configuration bounds its length.
#[derive(Debug, Default)]
pub struct WaitQueue {
    /// How many wait. Sequentially consistent with the counts of [`Gate`](super::gate::Gate): a request
    /// counts itself here before it tries for a place, and a place is given back before this is read, so that
    /// one of both sees the other.
    waiting: AtomicU32,
    waiters: Mutex<Waiters>,
    waits: AtomicU64,
    waited_us: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiters {
    /// The number of the next one.
    next: u64,
    by_turn: BTreeMap<QueuePosition, WaitQueueEntry>,
}

#[derive(Debug, Default)]
struct WaitQueueEntry {
    /// Taken when the request is woken.
    waker: Option<Waker>,
    /// Whether later ones may try, because the places that this one wants are not those of others.
    lets_pass: bool,
}

/// Why a request gets no place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// No other request would get one.
    ForAll,
    /// The nodes that this request wants have none, but others may.
    ForSome,
}

/// The higher priority first, then the lower number.
type QueuePosition = (Reverse<Priority>, u64);

impl WaitQueue {
    /// Whether no request waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length() == 0
    }

    /// How many requests wait.
    #[inline]
    pub fn length(&self) -> u32 {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Whether a request that does not wait may try before those that do, because each of them wants nodes
    /// that have no place.
    pub fn lets_pass(&self) -> bool {
        self.is_empty() || self.waiters.lock().by_turn.values().all(|entry| entry.lets_pass)
    }

    /// Joins the queue of at most `most` requests; if it is full, in place of the last one of a lower
    /// priority.
    pub fn join(self: &Arc<Self>, priority: Priority, most: u32) -> Option<Waiter> {
        let mut waiters = self.waiters.lock();
        let mut removed = None;
        if waiters.by_turn.len() >= most as usize {
            let (turn, _) = waiters.by_turn.last_key_value()?;
            if turn.0 <= Reverse(priority) {
                return None;
            }
            removed = waiters.by_turn.pop_last().and_then(|(_, entry)| entry.waker);
        }
        let turn = (Reverse(priority), waiters.next);
        waiters.next += 1;
        waiters.by_turn.insert(turn, WaitQueueEntry::default());
        self.count(&waiters);
        drop(waiters);
        if let Some(waker) = removed {
            waker.wake();
        }
        Some(Waiter { queue: self.clone(), turn, has_left: false })
    }

    /// Wakes the first request, because a place may be free.
    #[inline]
    pub fn wake_first(&self) {
        if !self.is_empty() {
            self.wake_first_waiting();
        }
    }

    #[cold]
    fn wake_first_waiting(&self) {
        let waker =
            self.waiters.lock().by_turn.first_entry().and_then(|mut first| first.get_mut().waker.take());
        // Outside of the lock, because the event loop may take locks of its own.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Counts a wait that has ended with a place.
    pub fn count_wait(&self, waited_us: u64) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_us.fetch_add(waited_us, Ordering::Relaxed);
    }

    /// How many waits have ended with a place, and how long they took in all, in microseconds.
    pub fn waits(&self) -> (u64, u64) {
        (self.waits.load(Ordering::Relaxed), self.waited_us.load(Ordering::Relaxed))
    }

    fn count(&self, waiters: &Waiters) {
        self.waiting.store(waiters.by_turn.len() as u32, Ordering::SeqCst);
    }
}

/// A request that waits; it leaves the queue when it is dropped.
#[derive(Debug)]
pub struct Waiter {
    queue: Arc<WaitQueue>,
    turn: QueuePosition,
    has_left: bool,
}

/// A request of a higher priority has taken the waiter's place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displaced;

impl Waiter {
    /// Tries for a place with `enter` if it is this request's turn, or if all before it let it pass;
    /// otherwise this task is woken when it may be.
    ///
    /// # Errors
    /// A request of a higher priority has taken its place in the queue.
    pub fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        enter: impl FnOnce() -> Result<T, Blocked>,
    ) -> Poll<Result<T, Displaced>> {
        let mut waiters = self.queue.waiters.lock();
        let Some(entry) = waiters.by_turn.get_mut(&self.turn) else {
            return Poll::Ready(Err(Displaced));
        };
        // Before the try, so that a place that becomes free after it wakes this task.
        let was_woken = entry.waker.replace(cx.waker().clone()).is_none();
        let may_try = waiters.by_turn.range(..self.turn).all(|(_, earlier)| earlier.lets_pass);
        drop(waiters);
        if !may_try {
            return Poll::Pending;
        }
        match enter() {
            Ok(entered) => {
                self.leave();
                Poll::Ready(Ok(entered))
            }
            Err(blocked) => {
                self.pass_on(blocked, was_woken);
                Poll::Pending
            }
        }
    }

    /// Wakes the next request if this one lets it pass. If this one was not woken for a free place, only one
    /// that was blocked for all is woken, because this one may have held the place at the upstream during its
    /// try.
    #[cold]
    fn pass_on(&self, blocked: Blocked, was_woken: bool) {
        let mut waiters = self.queue.waiters.lock();
        let lets_pass = blocked == Blocked::ForSome;
        if let Some(entry) = waiters.by_turn.get_mut(&self.turn) {
            entry.lets_pass = lets_pass;
        }
        if !lets_pass {
            return;
        }
        let after = (Bound::Excluded(self.turn), Bound::Unbounded);
        let mut later = waiters.by_turn.range_mut(after).map(|(_, entry)| entry);
        let waker = later.find(|entry| was_woken || !entry.lets_pass).and_then(|entry| entry.waker.take());
        drop(waiters);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Leaves the queue. The next one is woken, because there may be a place for it too, or this one was
    /// woken for a place that it does not take.
    fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        let mut waiters = self.queue.waiters.lock();
        waiters.by_turn.remove(&self.turn);
        self.queue.count(&waiters);
        drop(waiters);
        self.queue.wake_first();
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use testkit::CountedTask;

    use super::super::gate::Gate;
    use super::*;
    use Priority::{Critical, Default as Usual, Sheddable};

    /// A gate of one place and its queue.
    #[derive(Default)]
    struct Scene {
        gate: Gate,
        queue: Arc<WaitQueue>,
    }

    impl Scene {
        fn poll(&self, waiter: &mut Waiter, task: &Arc<CountedTask>) -> Poll<Result<(), Displaced>> {
            let waker = Waker::from(task.clone());
            waiter.poll(&Context::from_waker(&waker), || {
                self.gate.try_enter(1).then_some(()).ok_or(Blocked::ForAll)
            })
        }

        fn poll_for_full_node(
            &self,
            waiter: &mut Waiter,
            task: &Arc<CountedTask>,
        ) -> Poll<Result<(), Displaced>> {
            let waker = Waker::from(task.clone());
            waiter.poll(&Context::from_waker(&waker), || Err(Blocked::ForSome))
        }

        fn free(&self) {
            self.gate.leave();
            self.queue.wake_first();
        }
    }

    #[test]
    fn priority_goes_first_then_arrival() {
        let scene = Scene::default();
        assert!(scene.gate.try_enter(1));
        let arrivals = [Usual, Sheddable, Critical, Usual, Critical];
        let mut waiting: Vec<(usize, Waiter, Arc<CountedTask>)> = Vec::new();
        for (number, priority) in arrivals.into_iter().enumerate() {
            waiting.push((number, scene.queue.join(priority, 10).unwrap(), Arc::default()));
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            for (_, waiter, task) in &mut waiting {
                assert!(scene.poll(waiter, task).is_pending(), "the place is taken");
            }
            scene.free();
            let woken = waiting.iter().position(|(_, _, task)| task.take_woken() > 0).unwrap();
            let (number, mut waiter, task) = waiting.remove(woken);
            assert_eq!(scene.poll(&mut waiter, &task), Poll::Ready(Ok(())));
            for (_, _, task) in &waiting {
                task.take_woken();
            }
            order.push(number);
        }
        assert_eq!(order, [2, 4, 0, 3, 1]);
        assert!(scene.queue.is_empty());
    }

    #[test]
    fn waiter_that_gives_up_passes_its_turn_on() {
        let scene = Scene::default();
        let tasks: [Arc<CountedTask>; 2] = Default::default();
        assert!(scene.gate.try_enter(1));
        let [mut first, mut second] = [0, 1].map(|_| scene.queue.join(Usual, 10).unwrap());
        assert!(
            scene.poll(&mut first, &tasks[0]).is_pending() && scene.poll(&mut second, &tasks[1]).is_pending()
        );
        scene.free();
        assert_eq!([&tasks[0], &tasks[1]].map(|task| task.woken()), [1, 0]);
        drop(first);
        assert_eq!(tasks[1].woken(), 1);
        assert_eq!(scene.poll(&mut second, &tasks[1]), Poll::Ready(Ok(())));
    }

    #[test]
    fn waiter_for_a_full_node_lets_others_pass() {
        let scene = Scene::default();
        let tasks: [Arc<CountedTask>; 2] = Default::default();
        let woken = || [&tasks[0], &tasks[1]].map(|task| task.woken());
        assert!(scene.gate.try_enter(1));
        let [mut first, mut second] = [0, 1].map(|_| scene.queue.join(Usual, 10).unwrap());
        assert!(!scene.queue.lets_pass(), "the first one has not tried");
        assert!(scene.poll_for_full_node(&mut first, &tasks[0]).is_pending());
        assert!(scene.poll(&mut second, &tasks[1]).is_pending());
        assert!(!scene.queue.lets_pass(), "the second one would take any place");
        // A free place is offered to the first one, which does not want it, and then to the second one.
        scene.free();
        assert_eq!(woken(), [1, 0]);
        assert!(scene.poll_for_full_node(&mut first, &tasks[0]).is_pending());
        assert_eq!(woken(), [1, 1]);
        assert_eq!(scene.poll(&mut second, &tasks[1]), Poll::Ready(Ok(())));
        assert!(scene.queue.lets_pass() && !scene.queue.is_empty());
    }

    #[test]
    fn full_queue_displaces_lower_priorities_only() {
        let scene = Scene::default();
        let task = Arc::<CountedTask>::default();
        assert!(scene.gate.try_enter(1));
        let _usual = scene.queue.join(Usual, 2).unwrap();
        let mut sheddable = scene.queue.join(Sheddable, 2).unwrap();
        assert!(scene.poll(&mut sheddable, &task).is_pending());
        assert!(scene.queue.join(Sheddable, 2).is_none(), "it came first");
        let critical = scene.queue.join(Critical, 2);
        assert!(critical.is_some());
        assert_eq!(task.woken(), 1);
        assert_eq!(scene.poll(&mut sheddable, &task), Poll::Ready(Err(Displaced)));
        drop(sheddable);
        assert_eq!(scene.queue.length(), 2);
        assert!(scene.queue.join(Usual, 2).is_none());
    }

    #[test]
    fn no_wake_is_lost_between_threads() {
        let scene = Scene::default();
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mut waiter = scene.queue.join(Usual, 10).unwrap();
                        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
                        let cx = Context::from_waker(&waker);
                        let enter = || scene.gate.try_enter(1).then_some(()).ok_or(Blocked::ForAll);
                        while waiter.poll(&cx, enter).is_pending() {
                            std::thread::park();
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                        scene.free();
                    }
                });
            }
        });
        assert_eq!((done.load(Ordering::SeqCst), scene.gate.active()), (2_000, 0));
    }

    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
}
