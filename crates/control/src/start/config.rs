//! The values that the control side starts with, and the reasons why it does not start.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use discovery::ServiceDiscovery;
use discovery::registration::Registration;
use ipnet::IpNet;
use model::PluginCatalog;
use model::acme::Challenges;
use model::tickets::SharedTicketKeys;
use thiserror::Error;

use crate::acme::AcmeConfig;
use crate::admin::auth::AdminKey;
use crate::clock::Clock;
use crate::ocsp::Ocsp;
use crate::reconcile::file::DeclarativeFile;
use crate::reconcile::source::ConfigSource;
use crate::reconcile::store::EmbeddedStore;
use crate::reconcile::{LoadError, Publisher};
use crate::report::Reports;
use crate::sealing::Sealer;
use crate::secret::Secrets;
use crate::serve::tls::TlsFiles;
use crate::source::etcd::{EtcdConfig, EtcdSource};
use crate::source::file::FileSource;
use crate::source::store::{ConfigStore, DirectoryLock, StoreError};

/// The parts that the control side needs to start.
pub struct ControlConfig {
    /// The source of the configuration.
    pub source: SourceConfig,
    /// All plugins of this gateway.
    pub catalog: Arc<PluginCatalog>,
    /// Passes each configuration to the workers.
    pub publisher: Box<dyn Publisher>,
    /// The state of the running gateway.
    pub reports: Reports,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The lock of the store's directory, if it is held already.
    pub lock: Option<DirectoryLock>,
    /// The rules of the Admin API.
    pub admin: AdminConfig,
    /// The key that secrets in the store are encrypted with.
    pub sealer: Sealer,
    /// The values of references to secrets; the compiler behind the publisher has them too.
    pub secrets: Arc<Secrets>,
    /// Whether the instance is ready although faults keep routes or global rules out of force since its
    /// start.
    pub ready_with_faults: bool,
    /// Certificates to order by ACME; none orders none.
    pub acme: Option<AcmeConfig>,
    /// The place where the data plane finds answers to challenges.
    pub challenges: Arc<Challenges>,
    /// The OCSP responses that are stapled; the compiler behind the publisher has them too.
    pub ocsp: Arc<Ocsp>,
    /// The data plane's keys of session tickets, which a cluster shares; none where there are no tickets.
    pub ticket_keys: Option<Arc<dyn SharedTicketKeys>>,
    /// The registries that name nodes of upstreams, if any are configured; the compiler behind the publisher
    /// has them too.
    pub discovery: Option<Arc<ServiceDiscovery>>,
    /// The registrations of this instance in registries, if there are any.
    pub registration: Option<Arc<Registration>>,
    /// The folder with files of extensions that is followed; none follows none.
    pub extensions_folder: Option<PathBuf>,
    /// Seconds that a report of this instance in etcd lives; none: it does not report.
    pub server_info_ttl_s: Option<u64>,
}

/// The source of the configuration.
#[derive(Debug, Clone)]
pub enum SourceConfig {
    /// The embedded store in this data directory.
    Store {
        /// The data directory; made if it is missing.
        directory: PathBuf,
    },
    /// A declarative file.
    File {
        path: PathBuf,
        /// Whether a file with any fault changes nothing, and prevents the start.
        strict: bool,
        /// The directory for good forms of faulty objects; made when there is one.
        directory: PathBuf,
    },
    /// etcd; a copy of its data is kept in this data directory.
    Etcd {
        /// Endpoints, prefix and credentials.
        config: Box<EtcdConfig>,
        /// The data directory; made if it is missing.
        directory: PathBuf,
    },
}

impl SourceConfig {
    /// The data directory.
    pub(super) fn directory(&self) -> &Path {
        match self {
            SourceConfig::Store { directory }
            | SourceConfig::File { directory, .. }
            | SourceConfig::Etcd { directory, .. } => directory,
        }
    }

    /// The kind of the source, as the Admin API names it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            SourceConfig::Store { .. } => "store",
            SourceConfig::File { .. } => "file",
            SourceConfig::Etcd { .. } => "etcd",
        }
    }

    /// The source; this is the one place that names them all.
    pub(super) fn open(self, lock: Option<DirectoryLock>) -> Result<Box<dyn ConfigSource>, LoadError> {
        Ok(match self {
            SourceConfig::Store { directory } => {
                let mut store = match lock {
                    Some(lock) => ConfigStore::open_locked(lock)?,
                    None => ConfigStore::open(&directory)?,
                };
                store.keep_older_format()?;
                Box::new(EmbeddedStore::new(store))
            }
            SourceConfig::File { path, strict, .. } => {
                Box::new(DeclarativeFile::new(FileSource::new(path), strict))
            }
            SourceConfig::Etcd { config, directory } => {
                let lock = match lock {
                    Some(lock) => lock,
                    None => DirectoryLock::take(&directory).map_err(StoreError::from)?,
                };
                Box::new(EtcdSource::new(*config, &lock)?)
            }
        })
    }
}

/// Bound sockets; none means that the listener is off.
#[derive(Debug, Default)]
pub struct ControlListeners {
    /// The Admin API.
    pub admin: Option<TcpListener>,
    /// The control API.
    pub control: Option<TcpListener>,
    /// `/status`.
    pub status: Option<TcpListener>,
    /// The metrics.
    pub metrics: Option<TcpListener>,
}

/// The rules of the Admin API.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Keys with their roles.
    pub keys: Vec<AdminKey>,
    /// Off: every client on the allow list may do everything (`admin_key_required: false`).
    pub key_required: bool,
    /// Networks that may connect; empty means the contract's default.
    pub allow: Vec<IpNet>,
    /// `enable_admin_cors`.
    pub cors: bool,
    /// The APISIX version shown in `Server`; none: `Server` has no version.
    pub emulated_version: Option<String>,
    /// The memory that the process may use, in bytes, which limits the bodies of whole sets; 0 is no limit.
    pub memory_limit_bytes: u64,
    /// HTTPS with these files; none: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether the dashboard is served at `/ui/`.
    pub ui: bool,
    /// Names by which browsers may call the Admin API without a key in the header; see `Gate::with_hosts`.
    pub hosts: Vec<String>,
}

impl Default for AdminConfig {
    fn default() -> AdminConfig {
        AdminConfig {
            keys: Vec::new(),
            key_required: true,
            allow: Vec::new(),
            cors: true,
            emulated_version: Some(EMULATED_VERSION.to_owned()),
            memory_limit_bytes: 0,
            tls: None,
            ui: true,
            hosts: Vec::new(),
        }
    }
}

/// The reasons why the control side does not start.
#[derive(Debug, Error)]
pub enum ControlStartError {
    /// There is no first configuration.
    #[error(transparent)]
    Source(#[from] LoadError),
    /// The certificate of the Admin API cannot be used.
    #[error("the Admin API cannot be served over HTTPS: {0}")]
    Tls(String),
    /// Certificates cannot be ordered.
    #[error("certificates cannot be ordered by ACME: {0}")]
    Acme(String),
    /// The runtime or a listener cannot be set up.
    #[error("cannot start the control side: {0}")]
    Io(#[from] std::io::Error),
}

impl ControlStartError {
    /// Whether another start on the same data folder fails in the same way: the store is of a newer version.
    pub fn is_lasting(&self) -> bool {
        matches!(self, ControlStartError::Source(LoadError::Store(StoreError::Newer { .. })))
    }
}

/// The version of APISIX that the interface emulates (decision 0029).
pub const EMULATED_VERSION: &str = "3.18.0";
