//! Protocols that are spoken inside sessions of layer 4: the kind that a stream route names in `protocol`,
//! its compiled form, and its view of the bytes of one session. Bytes are passed on as they are; a protocol
//! reads along, and may hold the client's back.

use std::borrow::Cow;
use std::sync::Arc;

use model::catalog::ProtocolInfo;
use serde_json::Value;

use super::StreamSession;
use crate::plugin::build::Build;

/// A protocol that stream routes may name.
pub struct ProtocolKind {
    /// Its name.
    pub name: &'static str,
    /// Checks its `conf`, before a stream route is stored.
    pub check: fn(Option<&Value>) -> Result<(), String>,
    /// Compiles what a stream route says of it.
    pub build: BuildProtocol,
}

impl ProtocolKind {
    /// The kind as the catalog shows it to the control side.
    pub fn info(&self) -> ProtocolInfo {
        ProtocolInfo { name: self.name, check: self.check }
    }
}

/// Compiles a protocol; the error is a sentence.
pub type BuildProtocol = fn(&Build<'_>, &ProtocolSettings<'_>) -> Result<Arc<dyn StreamProtocol>, String>;

/// The settings of a protocol on a stream route.
pub struct ProtocolSettings<'a> {
    /// Its own configuration.
    pub conf: Option<&'a Value>,
    /// Whether its metrics are kept.
    pub has_metrics: bool,
}

/// A compiled protocol of a stream route, shared by all workers.
pub trait StreamProtocol: Send + Sync + 'static {
    /// Begins to read the bytes of a session. `is_logged` says that calls are logged, so that their texts are
    /// wanted.
    fn open(&self, session: &StreamSession, is_logged: bool) -> Box<dyn ProtocolSession>;
}

/// A protocol's view of one session.
pub trait ProtocolSession {
    /// Reads bytes of the client before they are passed on; how many milliseconds they are held back.
    ///
    /// # Errors
    /// They break the rules of the protocol: the session ends, and they are not passed on.
    fn client_sent(&mut self, bytes: &[u8]) -> Result<u64, Cow<'static, str>>;

    /// Reads bytes of the node before they are passed on. `ended` gets each call that ends with them.
    ///
    /// # Errors
    /// As for [`ProtocolSession::client_sent`].
    fn node_sent(
        &mut self,
        bytes: &[u8],
        ended: &mut dyn FnMut(ProtocolCall),
    ) -> Result<(), Cow<'static, str>>;

    /// The session is over. `ended` gets the calls that have had no end.
    fn close(&mut self, ended: &mut dyn FnMut(ProtocolCall));
}

/// A call that has ended: the variables that loggers and their filters see in addition to those of the
/// session.
pub struct ProtocolCall {
    /// Names and values.
    pub variables: Vec<(&'static str, Box<str>)>,
}
