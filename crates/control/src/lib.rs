//! The control side: the source of the configuration, the thread that brings changes into force, and the HTTP
//! listeners that show and change it. Everything here may block, on threads of its own. It does not know how
//! requests are served: boot passes a [`Publisher`] and [`Reports`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod acme;
pub mod admin;
mod certificates;
pub mod clock;
pub mod control_api;
mod explain;
mod extension_edit;
mod extension_folder;
mod hidden;
pub mod instance_id;
pub mod key;
mod log_level;
pub mod metrics_server;
mod object_path;
pub mod ocsp;
pub mod offline;
pub mod plan;
mod plugin_pages;
pub mod reconcile;
mod references;
pub mod report;
mod route_target;
pub mod sealing;
pub mod secret;
pub mod serve;
mod server_info;
mod shared_state;
pub mod source;
pub mod status;
mod summary;
mod upstreams;
pub mod verdict;
pub mod view;

mod start;
mod stored_key;
mod tap;
#[cfg(test)]
mod testing;
mod ticket_keys;

pub use admin::auth::AdminKey;
pub use clock::{Clock, SystemClock};
pub use reconcile::{HandOver, Publisher, Released, WriteGate};
pub use report::Reports;
pub use sealing::{KeyringError, Sealer};
pub use secret::{FilePolicy, SecretOptions, Secrets};
pub use serve::role::Role;
pub use serve::tls::TlsFiles;
pub use source::etcd::{EtcdConfig, EtcdTls};
pub use source::etcd::{EtcdState, EtcdStatus};
pub use source::file::{FileFault, check_resource_file};
pub use start::{
    AdminConfig, Control, ControlConfig, ControlListeners, ControlStartError, EMULATED_VERSION, SourceConfig,
};
pub use tap::TapHub;
pub use view::{SharedView, View};
