//! A worker: one thread with its event loop, its listeners and its context. It accepts connections, runs
//! commands of other threads, and sweeps what it keeps; requests are served by `downstream` and `pipeline`
//! with its context.

mod accept;
mod datagrams;
mod endpoint;
mod listeners;
mod run;
mod state;

pub(crate) use run::run_worker;
#[cfg(feature = "simulation")]
pub(crate) use run::run_worker_tasks;
#[cfg(feature = "simulation")]
pub(crate) use state::Worker;
pub(crate) use state::WorkerParts;
