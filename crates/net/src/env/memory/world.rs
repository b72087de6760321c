//! The world of one thread: its executor, its network, its trace. One at a time; tests that need none get an
//! empty one with a clock that stands still.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::executor::{EventKey, Executor, TaskGroup};
use super::network::Network;
use super::random::Random;

/// See the module.
pub(super) struct World {
    executor: Executor,
    pub(super) network: Network,
    /// Open ends of connections by the group that holds them.
    ends: RefCell<BTreeMap<TaskGroup, usize>>,
    trace: RefCell<Option<Vec<String>>>,
    wall_offset_ns: Cell<u64>,
}

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// Seconds from the epoch to the beginning of every world.
const BEGINNING_S: u64 = 1_700_000_000;

/// The world of this thread.
pub(super) fn world() -> Rc<World> {
    WORLD.with_borrow_mut(|world| world.get_or_insert_with(|| Rc::new(World::new(0, false))).clone())
}

/// The world of this thread, if there is one: what is dropped with its thread finds none.
pub(super) fn world_left() -> Option<Rc<World>> {
    WORLD.try_with(|world| world.borrow().clone()).ok().flatten()
}

/// How a run went.
pub struct Ran<T> {
    /// The result of the body; an error is its panic, and nothing means that it was not done in time.
    pub result: Option<Result<T, Box<dyn Any + Send>>>,
    /// The steps and their times, as one number.
    pub digest: u64,
    /// The trace, if it was to be kept.
    pub trace: Vec<String>,
}

/// Runs `body` in a world of its own that follows from `seed`, for at most `limit_ms` of its time.
pub fn simulate<T: 'static>(
    seed: u64,
    traced: bool,
    limit_ms: u64,
    body: impl Future<Output = T> + 'static,
) -> Ran<T> {
    let world = Rc::new(World::new(seed, traced));
    let inside = Inside { world: world.clone(), outer: WORLD.replace(Some(world.clone())) };
    let done = Rc::new(RefCell::new(None));
    let place = done.clone();
    world.executor.spawn(async move {
        let value = body.await;
        *place.borrow_mut() = Some(value);
    });
    let deadline_ns = world.now_ns() + limit_ms * 1_000_000;
    let run = || world.executor.run_until(deadline_ns, || done.borrow().is_some());
    let result = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(_) => done.borrow_mut().take().map(Ok),
        Err(panic) => Some(Err(panic)),
    };
    let trace = world.trace.take().unwrap_or_default();
    let digest = world.executor.digest();
    drop(inside);
    Ran { result, digest, trace }
}

/// As long as it lives its world is this thread's; what is left in it then ends inside it.
struct Inside {
    world: Rc<World>,
    outer: Option<Rc<World>>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.world.network.clear();
        self.world.executor.clear();
        WORLD.set(self.outer.take());
    }
}

impl World {
    fn new(seed: u64, traced: bool) -> World {
        let mut random = Random::new(seed);
        World {
            network: Network::new(random.fork()),
            executor: Executor::new(random),
            ends: RefCell::default(),
            trace: RefCell::new(traced.then(Vec::new)),
            wall_offset_ns: Cell::new(0),
        }
    }

    pub(super) fn executor(&self) -> &Executor {
        &self.executor
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.executor.now_ns()
    }

    pub(super) fn wall_ns(&self) -> u64 {
        BEGINNING_S * 1_000_000_000 + self.now_ns() + self.wall_offset_ns.get()
    }

    pub(super) fn group(&self) -> TaskGroup {
        self.executor.group()
    }

    pub(super) fn at(&self, key: EventKey, event: impl FnOnce() + 'static) {
        self.executor.at(key, Box::new(event));
    }

    pub(super) fn opened(&self, owner: TaskGroup) {
        *self.ends.borrow_mut().entry(owner).or_default() += 1;
    }

    pub(super) fn closed(&self, owner: TaskGroup) {
        if let Some(count) = self.ends.borrow_mut().get_mut(&owner) {
            *count -= 1;
        }
    }

    pub(super) fn ends_of(&self, owner: TaskGroup) -> usize {
        self.ends.borrow().get(&owner).copied().unwrap_or_default()
    }

    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut *self.trace.borrow_mut() {
            let now_us = self.now_ns() / 1_000;
            trace.push(format!("{:>6}.{:03} ms  {}", now_us / 1_000, now_us % 1_000, line()));
        }
    }

    /// The wall clock is set forward, as a time service does.
    pub(super) fn set_wall_forward(&self, nanoseconds: u64) {
        self.wall_offset_ns.set(self.wall_offset_ns.get() + nanoseconds);
    }
}
