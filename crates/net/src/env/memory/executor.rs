//! One thread's tasks in virtual time: the next to run is drawn from the seed, and when none can run the
//! clock jumps to the next event. The set of runnable tasks has one order whichever task woke them first, so
//! that the same seed gives the same run in every process. It knows no sockets.

use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::random::Random;

/// The time of a step, in nanoseconds: work is never free, and never the same.
const STEP_NS: (u64, u64) = (500, 20_000);
/// One in so many steps polls a task that was not woken; a future must bear it.
const SPURIOUS_ONE_IN: u64 = 24;
/// Steps after which a run counts as one that never ends.
const STEPS_MAX: u64 = 3_000_000;

/// The tasks that end together: a worker's, or the world's outside the gateway.
pub type TaskGroup = u64;
/// The group of tasks that belong to no worker.
pub(super) const WORLD: TaskGroup = 0;

/// A panic that a simulation has planted: it ends the task it happens in and nothing else, as on a real
/// worker.
pub struct Planted;

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

struct SimulatedTask {
    group: TaskGroup,
    /// Whether the group ends with it.
    is_root: bool,
    /// Taken out while it runs.
    body: Option<TaskFuture>,
    waker: Waker,
}

struct TaskWaker {
    id: u64,
    runnable: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.runnable.lock().insert(self.id);
    }
}

/// The action when its time has come.
pub(super) type TimedEvent = Box<dyn FnOnce()>;
/// When, and which of those at the same time: the order in which they were asked for does not matter.
pub(super) type EventKey = (u64, u64);

/// See the module.
pub(super) struct Executor {
    now_ns: Cell<u64>,
    steps: Cell<u64>,
    random: RefCell<Random>,
    tasks: RefCell<BTreeMap<u64, SimulatedTask>>,
    runnable: Arc<Mutex<BTreeSet<u64>>>,
    events: RefCell<BTreeMap<EventKey, TimedEvent>>,
    next_id: Cell<u64>,
    group: Cell<TaskGroup>,
    digest: Cell<u64>,
}

impl Executor {
    pub(super) fn new(random: Random) -> Executor {
        Executor {
            // Not 0, which elsewhere means that something has not happened.
            now_ns: Cell::new(1_000_000_000),
            steps: Cell::new(0),
            random: RefCell::new(random),
            tasks: RefCell::default(),
            runnable: Arc::default(),
            events: RefCell::default(),
            next_id: Cell::new(1),
            group: Cell::new(WORLD),
            digest: Cell::new(0),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub(super) fn random(&self) -> std::cell::RefMut<'_, Random> {
        self.random.borrow_mut()
    }

    /// The group of the task that runs.
    pub(super) fn group(&self) -> TaskGroup {
        self.group.get()
    }

    /// A number nothing else in this world has.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }

    /// The steps so far and their times, as one number: equal for equal runs.
    pub(super) fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// Tasks of `group` that have not ended.
    pub(super) fn tasks_of(&self, group: TaskGroup) -> usize {
        self.tasks.borrow().values().filter(|task| task.group == group).count()
    }

    /// Adds a task to the group of the task that runs.
    pub(super) fn spawn(&self, body: impl Future<Output = ()> + 'static) {
        self.add(self.group.get(), false, Box::pin(body));
    }

    /// Adds a task with a group of its own; tasks that it spawns end with it.
    pub(super) fn spawn_root(&self, body: impl Future<Output = ()> + 'static) -> TaskGroup {
        let group = self.next_id();
        self.add(group, true, Box::pin(body));
        group
    }

    fn add(&self, group: TaskGroup, is_root: bool, body: TaskFuture) {
        let id = self.next_id();
        let waker = Waker::from(Arc::new(TaskWaker { id, runnable: self.runnable.clone() }));
        waker.wake_by_ref();
        self.tasks.borrow_mut().insert(id, SimulatedTask { group, is_root, body: Some(body), waker });
    }

    /// Has `event` happen at `key`; one that was to happen at the very same key is replaced.
    pub(super) fn at(&self, key: EventKey, event: TimedEvent) {
        let replaced = self.events.borrow_mut().insert(key, event);
        drop(replaced);
    }

    /// Takes an event back.
    pub(super) fn forget(&self, key: EventKey) {
        let forgotten = self.events.borrow_mut().remove(&key);
        drop(forgotten);
    }

    /// Runs other tasks until `done` holds or the clock has passed `deadline_ns`.
    pub(super) fn run_until(&self, deadline_ns: u64, mut done: impl FnMut() -> bool) -> bool {
        let group = self.group.get();
        loop {
            if done() {
                break;
            }
            if self.now_ns.get() >= deadline_ns || !self.step(deadline_ns) {
                self.group.set(group);
                return done();
            }
        }
        self.group.set(group);
        true
    }

    /// Runs one task, or moves the clock; false if nothing will ever happen again before `deadline_ns`.
    fn step(&self, deadline_ns: u64) -> bool {
        self.steps.set(self.steps.get() + 1);
        assert!(self.steps.get() < STEPS_MAX, "the run never ends: something spins");
        self.fire_due();
        let Some(id) = self.choose() else {
            let next = self.events.borrow().keys().next().map(|(time_ns, _)| *time_ns);
            let time_ns = next.unwrap_or(u64::MAX).min(deadline_ns);
            if time_ns == u64::MAX {
                return false;
            }
            self.now_ns.set(time_ns.max(self.now_ns.get()));
            return true;
        };
        let took_ns = self.random.borrow_mut().between(STEP_NS.0, STEP_NS.1);
        self.now_ns.set(self.now_ns.get() + took_ns);
        let mixed = (self.digest.get() ^ id).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        self.digest.set(mixed ^ self.now_ns.get());
        self.poll(id);
        true
    }

    fn fire_due(&self) {
        loop {
            let now_ns = self.now_ns.get();
            let due = {
                let mut events = self.events.borrow_mut();
                match events.first_entry() {
                    Some(first) if first.key().0 <= now_ns => first.remove(),
                    _ => return,
                }
            };
            due();
        }
    }

    fn choose(&self) -> Option<u64> {
        let mut runnable = self.runnable.lock();
        let mut random = self.random.borrow_mut();
        if runnable.is_empty() {
            return None;
        }
        if random.below(SPURIOUS_ONE_IN) == 0 {
            let tasks = self.tasks.borrow();
            let index = random.below(tasks.len() as u64) as usize;
            let id = tasks.keys().nth(index).copied();
            return id.inspect(|id| _ = runnable.remove(id));
        }
        let index = random.below(runnable.len() as u64) as usize;
        let id = runnable.iter().nth(index).copied();
        id.inspect(|id| _ = runnable.remove(id))
    }

    fn poll(&self, id: u64) {
        let taken = self.tasks.borrow_mut().get_mut(&id).and_then(|task| {
            task.body.take().map(|body| (body, task.waker.clone(), task.group, task.is_root))
        });
        // A task that has ended, or one that blocks further up this very stack.
        let Some((mut body, waker, group, is_root)) = taken else { return };
        let outer = self.group.replace(group);
        let mut cx = Context::from_waker(&waker);
        let result = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(&mut cx)));
        let ended = match result {
            Ok(Poll::Pending) => false,
            Ok(Poll::Ready(())) => true,
            Err(panic) if is_planted(&*panic) => true,
            Err(panic) => resume_unwind(panic),
        };
        if ended {
            drop(body);
            self.tasks.borrow_mut().remove(&id);
            if is_root {
                self.end_group(group);
            }
        } else if let Some(task) = self.tasks.borrow_mut().get_mut(&id) {
            task.body = Some(body);
        }
        self.group.set(outer);
    }

    /// Drops every task of `group`, as the end of a worker's event loop does.
    pub(super) fn end_group(&self, group: TaskGroup) {
        let outer = self.group.replace(group);
        loop {
            // One at a time and outside the table: what is dropped may wake others.
            let id = self.tasks.borrow().iter().find(|(_, task)| task.group == group).map(|(id, _)| *id);
            let Some(id) = id else { break };
            let task = self.tasks.borrow_mut().remove(&id);
            drop(task);
        }
        self.group.set(outer);
    }

    /// Drops everything.
    pub(super) fn clear(&self) {
        loop {
            let task = self.tasks.borrow_mut().pop_first();
            let Some(task) = task else { break };
            drop(task);
        }
        let events = std::mem::take(&mut *self.events.borrow_mut());
        drop(events);
    }
}

fn is_planted(panic: &(dyn Any + Send)) -> bool {
    panic.is::<Planted>()
}
