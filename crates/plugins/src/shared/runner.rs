//! The runner of external plugins: a process of its own that runs plugins in other languages, which the
//! plugins `ext-plugin-…` call over a Unix socket by the protocol of APISIX's runners. A request asks it for
//! changes or a reply; it may ask back for variables and bodies. It is no plugin; the program starts the
//! process.

mod call;
mod connection;
mod error;
mod extra_info;
mod flat;
mod frame;
mod messages;
mod place;
mod pool;
pub(crate) mod request;
pub(crate) mod response;
mod settings;
mod token;

pub(crate) use place::render_runner_status;
pub use place::{Runner, RunnerState, RunnerStatus};
pub(crate) use settings::{Caller, check, schema};
pub use token::EXPIRE_SECONDS as CONF_EXPIRE_SECONDS;
