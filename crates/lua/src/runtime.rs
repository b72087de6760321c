//! Runs code of users that takes part in requests: plugins, serverless functions, scripts of routes. Each
//! worker has one interpreter for all of it; each call is a coroutine, so that a function that waits does not
//! hold up the worker.

pub(crate) mod added_variables;
pub(crate) mod call;
pub(crate) mod endpoints;
pub(crate) mod engine;
pub(crate) mod limits;
pub(crate) mod outside;
mod parameters;
pub(crate) mod program;
mod require;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod tables;

pub use engine::set_host;
pub use limits::LIMITS;
pub use require::read_modules;
