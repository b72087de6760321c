//! The facts of the running process that plugins and the control API show: its identity, and how many
//! connections it has.

use std::sync::OnceLock;

use serde_json::{Value, json};

/// The identity of a running process.
#[derive(Debug, Default)]
pub struct InstanceInfo {
    /// Tells the instance from others; the same after a restart.
    pub id: String,
    /// The name of the machine.
    pub hostname: String,
    /// The version of Weir.
    pub version: &'static str,
    /// The time at which the process started, in seconds since the Unix epoch.
    pub boot_time_s: u64,
    /// The version of the etcd cluster that the configuration comes from, once it is known.
    pub etcd_version: OnceLock<String>,
}

impl InstanceInfo {
    /// As APISIX's plugin `server-info` shows and reports it.
    #[must_use]
    pub fn shown(&self) -> Value {
        json!({
            "boot_time": self.boot_time_s,
            "etcd_version": self.etcd_version.get().map_or("unknown", |version| version),
            "hostname": self.hostname,
            "id": self.id,
            "version": self.version,
        })
    }
}

/// The counts of client connections, as nginx counts them (`ngx_http_stub_status_module`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open connections.
    pub active: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Those of them that were served.
    pub handled: u64,
    /// Requests since the start.
    pub requests: u64,
    /// Open connections on which a request head is being read.
    pub reading: u64,
    /// Open connections that do anything else.
    pub writing: u64,
    /// Open connections that wait for a request.
    pub waiting: u64,
}

/// The counts of the running gateway.
pub trait Connections: Send + Sync {
    /// The counts now; those of several workers are not read at one moment.
    fn connections(&self) -> ConnectionCounts;
}
