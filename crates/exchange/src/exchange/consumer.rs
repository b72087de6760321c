//! A consumer, as authentication finds it and plugins and variables read it.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;

use crate::failure::Unavailable;
use crate::overload::bulkhead::Bulkhead;

/// A consumer, seen through one of its credentials.
pub struct Consumer {
    /// Its user name.
    pub username: Arc<str>,
    /// The group it belongs to.
    pub group_id: Option<Arc<str>>,
    /// The credential that was presented, if it is an object of its own.
    pub credential_id: Option<Arc<str>>,
    /// Its labels, in written order.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// The object as it was written, in JSON, with its secrets.
    pub written: Arc<str>,
    /// The configuration of the credential, as written.
    pub auth_conf: Value,
    /// The same as the authentication plugin compiled it; none for plugins that read it as it is written.
    pub compiled: Option<Arc<dyn Any + Send + Sync>>,
    /// Why it must not pass, if so: its group does not exist.
    pub missing: Option<Unavailable>,
    /// The limit of its requests in flight, if it has one.
    pub bulkhead: Option<Bulkhead>,
    /// The compiled plugins of the consumer and its group. Only the runtime, which made them, reads them.
    pub attached: Option<Arc<dyn Any + Send + Sync>>,
}
