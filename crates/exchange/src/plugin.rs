//! The plugin trait: one method per phase, what a plugin may ask for, and how it answers. It names no
//! plugin; `plugins::ALL` lists them and boot hands the list in.
//!
//! ```text
//! match a route
//!   preflight    of preflight requests only: inside the rewrite phase, before authentication
//!   rewrite      global rules, then the route (authentication runs here), then what only the consumer brought
//!   access       global rules, then the route
//!   before_proxy just before an endpoint is selected
//!   before_attempt each time
//!   … the endpoint answers, or a plugin did, or the gateway failed …
//!   upstream_response, where an endpoint answered or could not
//!   response_head, response_body, response_trailers before the last piece of the body; behind response_head, coding_weight
//!   and encoder
//!   request_ended, before_log, log after the last byte
//! ```
//!
//! A plugin instance is built once, when the configuration changes, and is shared by all workers; what
//! belongs to one request lives in `Exchange::state`. Layer 4 has a trait of its own, in [`stream`].

pub mod batch;
mod build;
pub mod call_failures;
pub mod canary;
pub mod chain;
pub mod changed_body;
pub mod encode;
pub mod event_stream;
pub mod events;
mod explain_by_running;
mod explained;
pub mod extension;
pub mod extension_loader;
mod kind;
pub mod ordered;
pub mod outbound;
mod phase;
pub mod phase_name;
pub mod preflight;
pub mod process;
pub(crate) mod reply;
pub mod scrapes;
pub mod scripts;
mod service_thread;
pub mod services;
pub mod state;
pub mod stored;
pub mod stream;
pub mod transform_reply;
pub mod unfinished;
pub mod upstream_ref;

pub use build::{Assembly, Build, BuildPlugin, NESTED_MAX};
pub use encode::{BodyEncoder, EncoderFailed};
pub use explain_by_running::explain_by_running;
pub use explained::{EffectKind, Explained, UpstreamChoice, Would};
pub use kind::{CheckAmong, CompileCredential, PluginApi, PluginKind};
pub use phase::{
    BodyNeed, Flow, LOG_TASK_MS, LOG_TASKS_MAX, LogTask, NextAttempt, PHASE_WAIT_MS, PhaseDecision, Plugin,
    Portion, ResponseStep,
};
pub use phase_name::PluginPhase;
pub use reply::{BufferedReply, NO_ANSWER, ReplyStream, StreamedReply};
pub use stored::{BodyTap, StoredBody, StoredReply};
pub use upstream_ref::UpstreamRef;
