//! The threads of the workers. There are more places than workers: the thread of a worker that has stood for
//! too long cannot be ended from outside, so it is given up, its connections are ended, and a thread in a
//! spare place takes its seat: its share of every listener. It does not find standing workers; `watch` does.

use std::io;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use super::life::{Seed, keep_worker_alive};
use crate::command::{self, Handle, WorkerCommand};

/// Most threads that are given up and still run. Each holds the memory of its connections and may use a whole
/// core, so that more of them would leave little of the machine.
pub(super) const GIVEN_UP_MAX: usize = 4;
/// The exit status of a process that would have to give up one more, for the supervisor to start it again:
/// EX_SOFTWARE of sysexits.h.
const EXIT_STATUS: i32 = 70;
/// Time for the writer of the log before the process exits.
const LAST_LINES: Duration = Duration::from_millis(200);

type Commands = UnboundedReceiver<WorkerCommand>;

/// See the module.
pub(super) struct Crew {
    /// One for each place.
    handles: Vec<Handle>,
    /// The parts of every worker; place, seat and handle are filled in.
    seed: Seed,
    places: Mutex<Vec<WorkerThreadSlot>>,
}

/// A place for the thread of a worker.
enum WorkerThreadSlot {
    /// Free.
    Spare(Commands),
    /// A worker runs here.
    Running { seat: usize, thread: JoinHandle<Commands> },
    /// A thread was given up here, and has not ended.
    GivenUp(JoinHandle<Commands>),
    /// Its thread has been waited for, or could not be started.
    Ended,
}

/// The outcome of the replacement of a worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Replacement {
    /// The worker in this place takes the seat.
    By(usize),
    /// The worker does not run, or the engine ends.
    NotNeeded,
    /// [`GIVEN_UP_MAX`] threads were given up and have not ended.
    NoPlace,
}

/// Handles of `workers` and of the spare places behind them, with the ends of the workers.
pub(super) fn channels(workers: usize) -> (Vec<Handle>, Vec<Commands>) {
    let (handles, ends): (Vec<Handle>, Vec<_>) =
        (0..workers + GIVEN_UP_MAX).map(|_| command::channel()).unzip();
    handles[workers..].iter().for_each(|handle| handle.status.is_spare.store(true, Ordering::Release));
    (handles, ends)
}

impl Crew {
    /// Starts `workers`. `seed` has the handles of all places as its peers.
    ///
    /// # Errors
    /// When a thread cannot be made.
    pub(super) fn start(seed: Seed, workers: usize, ends: Vec<Commands>) -> io::Result<Crew> {
        let crew = Crew { handles: seed.peers.clone(), seed, places: Mutex::default() };
        {
            let mut places = crew.places.lock();
            for (index, commands) in ends.into_iter().enumerate() {
                places.push(if index < workers {
                    WorkerThreadSlot::Running { seat: index, thread: crew.spawn(index, index, commands)? }
                } else {
                    WorkerThreadSlot::Spare(commands)
                });
            }
        }
        Ok(crew)
    }

    fn spawn(&self, index: usize, seat: usize, mut commands: Commands) -> io::Result<JoinHandle<Commands>> {
        let seed = Seed { index, seat, handle: self.handles[index].clone(), ..self.seed.clone() };
        std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            keep_worker_alive(&seed, &mut commands);
            commands
        })
    }

    /// The handles of all places.
    pub(super) fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// Gives up the worker in the place `index`, which has stood for `stood_ms`, and starts another one in
    /// its seat. The process exits if too many were given up.
    pub(super) fn replace_or_exit(&self, index: usize, stood_ms: u64, request: &str) {
        match self.replace(index) {
            Replacement::NotNeeded => {}
            Replacement::By(other) => {
                let ended = self.end_connections(index);
                tracing::error!(
                    worker = index,
                    "worker {index} has stood for {stood_ms} ms and is given up: worker {other} takes its \
                     place, and {ended}; {request}"
                );
            }
            Replacement::NoPlace => {
                tracing::error!(
                    worker = index,
                    "worker {index} has stood for {stood_ms} ms, and {GIVEN_UP_MAX} workers that were given \
                     up have not ended: the process exits with status {EXIT_STATUS}, so that it is started \
                     again; {request}"
                );
                std::thread::sleep(LAST_LINES);
                std::process::exit(EXIT_STATUS);
            }
        }
    }

    fn replace(&self, index: usize) -> Replacement {
        let mut places = self.places.lock();
        self.reclaim(&mut places);
        let Some(WorkerThreadSlot::Running { seat, .. }) = places.get(index) else {
            return Replacement::NotNeeded;
        };
        let seat = *seat;
        let Some(spare) = places.iter().position(|place| matches!(place, WorkerThreadSlot::Spare(_))) else {
            return Replacement::NoPlace;
        };
        let WorkerThreadSlot::Spare(commands) =
            std::mem::replace(&mut places[spare], WorkerThreadSlot::Ended)
        else {
            return Replacement::NoPlace;
        };
        let (old, new) = (&self.handles[index].status, &self.handles[spare].status);
        new.is_spare.store(false, Ordering::Release);
        let thread = match self.spawn(spare, seat, commands) {
            Ok(thread) => thread,
            Err(error) => {
                tracing::error!(%error, "no thread can be made in the place of a worker that stands");
                new.is_spare.store(true, Ordering::Release);
                return Replacement::NoPlace;
            }
        };
        places[spare] = WorkerThreadSlot::Running { seat, thread };
        old.is_given_up.store(true, Ordering::Release);
        old.is_stalled.store(false, Ordering::Relaxed);
        old.replaced.fetch_add(1, Ordering::Relaxed);
        // Should its loop turn again, it ends with all that is left of it.
        let _ = self.handles[index].commands.send(WorkerCommand::Stop);
        if let WorkerThreadSlot::Running { thread, .. } =
            std::mem::replace(&mut places[index], WorkerThreadSlot::Ended)
        {
            places[index] = WorkerThreadSlot::GivenUp(thread);
        }
        Replacement::By(spare)
    }

    /// Makes a place spare where a thread was given up and has ended by now.
    fn reclaim(&self, places: &mut [WorkerThreadSlot]) {
        for (place, handle) in places.iter_mut().zip(&self.handles) {
            if !matches!(place, WorkerThreadSlot::GivenUp(thread) if thread.is_finished()) {
                continue;
            }
            let WorkerThreadSlot::GivenUp(thread) = std::mem::replace(place, WorkerThreadSlot::Ended) else {
                continue;
            };
            if let Ok(mut commands) = thread.join() {
                // Sent before the others knew that it was given up.
                while commands.try_recv().is_ok() {}
                handle.status.is_spare.store(true, Ordering::Release);
                handle.status.is_given_up.store(false, Ordering::Release);
                *place = WorkerThreadSlot::Spare(commands);
            }
        }
    }

    /// Ends the connections of a worker that was given up; the outcome is a part of a sentence.
    fn end_connections(&self, index: usize) -> String {
        match self.handles[index].status.event_loop.end_connections() {
            Ok(count) => format!("its {count} connections are ended"),
            Err(error) => format!("its connections cannot be ended ({error})"),
        }
    }

    /// Waits for the threads of all workers but those that were given up, which may never end.
    pub(super) fn join(&self) {
        let threads: Vec<_> = {
            let mut places = self.places.lock();
            places.iter_mut().map(|place| std::mem::replace(place, WorkerThreadSlot::Ended)).collect()
        };
        for place in threads {
            if let WorkerThreadSlot::Running { thread, .. } = place {
                // A worker's panic was reported when it happened.
                let _ = thread.join();
            }
        }
    }
}
