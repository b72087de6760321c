//! The plugin trait of layer 4: one method per phase of a session, and how it lets a session on or refuses
//! it. It names no plugin and opens no listener: the code that carries the bytes of a session runs its chain.
//!
//! ```text
//! a connection is accepted, a stream route matches
//!   preread      before a node is chosen; it may look at the first bytes, and wait
//!   … bytes pass both ways …
//!   log          after both ways are closed, or the session was refused
//! ```
//!
//! An instance is built once, when the configuration changes, and is shared by all workers.

pub mod canary;
pub mod chain;
pub mod end;
pub mod protocol;
pub mod session;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use super::build::Build;
pub use end::SessionEnd;
pub use session::{StreamSession, StreamTransport};

/// A compiled plugin of layer 4. Each method runs in the phase of its name, only if the kind lists that phase
/// in [`StreamKind::phases`].
pub trait StreamPlugin: Send + Sync + 'static {
    /// Decides whether the session may go on, before a node is chosen. It may look at
    /// [`StreamSession::first_bytes`], and is called anew with more of them if it answers
    /// [`StreamFlow::More`].
    fn preread<'a>(&'a self, _session: &'a mut StreamSession) -> StreamFlow<'a> {
        StreamFlow::Continue
    }

    /// Runs after the session ended, however it ended.
    fn log(&self, _session: &StreamSession) {}

    /// Whether it needs the services of its worker: then [`StreamSession::find_held`] finds the
    /// [`WorkerLocal`](crate::local::WorkerLocal) of that worker.
    fn uses_worker(&self) -> bool {
        false
    }

    /// The instance is in force from now on.
    fn start(&self) {}

    /// The instance is no longer in force for new sessions.
    fn stop(&self) {}
}

/// How a session goes on.
pub enum StreamFlow<'a> {
    /// To the next plugin.
    Continue,
    /// The connection is closed without an answer, for this reason; layer 4 has no words to give it in.
    Reject(Cow<'static, str>),
    /// The plugin has failed, for this reason: the connection is closed, because it is not known whether the
    /// session may pass.
    Failed(Cow<'static, str>),
    /// The plugin needs more first bytes than the session has, and is called again when the client has sent
    /// some. A client that sends no more, and a datagram, which is whole, are refused.
    More,
    /// The future decides.
    Wait(Pin<Box<dyn Future<Output = StreamFlow<'static>> + 'a>>),
}

/// The phases of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPhase {
    /// [`StreamPlugin::preread`]
    Preread,
    /// [`StreamPlugin::log`]
    Log,
}

impl StreamPhase {
    /// How many phases there are.
    pub const COUNT: usize = StreamPhase::Log as usize + 1;

    /// The name of the function of plugins in other languages, and in lists of plugins.
    pub fn name(self) -> &'static str {
        match self {
            StreamPhase::Preread => "preread",
            StreamPhase::Log => "log",
        }
    }
}

/// Most first bytes of a client that are looked at: two TLS records of the largest size. A ClientHello with
/// large post-quantum keys takes 2 KiB, a CONNECT of MQTT with a will some hundreds of bytes.
pub const PREREAD_MAX_BYTES: usize = 32 * 1_024;

/// The declaration of a kind for layer 4 (see [`PluginKind::stream`](super::PluginKind::stream)): its name,
/// priority, schema and check are those it has for HTTP, as in the contract.
pub struct StreamKind {
    /// The phases it takes part in.
    pub phases: &'static [StreamPhase],
    /// Compiles a checked configuration.
    pub build: BuildStreamPlugin,
}

/// Compiles a configuration that was checked; the error is a sentence.
pub type BuildStreamPlugin = fn(&Build<'_>, &Value) -> Result<Arc<dyn StreamPlugin>, String>;
