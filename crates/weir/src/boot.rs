//! Connects the crates at the start: settings become options, plugin kinds become a catalog, and the compiler
//! connects the control side with the engine. The only module that sees both control and gateway.

mod assembly;
mod bridge;
mod catalog;
mod certificates;
mod core_dumps;
mod data;
mod extensions;
mod lasting;
mod live;
mod log_rotate;
mod memory_bound;
mod metrics;
mod node;
mod notify;
mod occupant;
mod options;
mod parts;
mod process_metrics;
mod runner;
mod signals;
mod sockets;
mod tap;
pub(crate) mod upgrade;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use control::plan::ConfigPlan;
use control::source::file::ConfigDocument;
use control::{
    AdminKey, EtcdConfig, EtcdTls, FilePolicy, Role, Sealer, SecretOptions, Secrets, SourceConfig,
};
use discovery::registration::{ProxyAddresses, Registration, RegistrationConfig};
use discovery::{DiscoveryConfig, ServiceDiscovery};
use exchange::plugin::outbound::OutboundPolicy;
use exchange::plugin::services::Services;
use gateway::compile::SnapshotCompiler;
use gateway::runtime::Runtime;
use model::instance::InstanceInfo;
use model::report::ExplainSession;
use model::{PluginCatalog, Snapshot, SnapshotChange};
use net::listener::ListenerSet;
use net::resolver::{LookupOptions, Resolver, SystemLookup, TtlBounds};
use net::route::has_route;
use net::tls::identity::ClientIdentities;
use net::tls::roots::TrustRoots;
use serde_json::{Map, Value};
use stdx::address_family::AddressChoice;

use crate::cli::explain::ExplainRequest;
use crate::settings::{ResourceSource, Settings, SettingsSource};
use crate::terminal::print_error_bounded;

pub(crate) use catalog::{catalog, catalog_for, catalog_with, running_catalog};
pub(crate) use data::{WRITERS_ADVICE, other_writers};
pub(crate) use extensions::Extensions;
pub(crate) use lasting::is_lasting;
pub(crate) use memory_bound::{MemoryBound, memory_bound};
pub(crate) use runner::child::become_runner_if_asked;

use node::ServingInstance;
use upgrade::{Executable, Predecessor};

/// Runs an instance until it has stopped.
///
/// # Errors
/// A failed start: faulty settings, an address in use, an unreadable store, a faulty file with `strict`.
pub(crate) fn run_instance(source: SettingsSource) -> anyhow::Result<ExitCode> {
    upgrade::stand_if_asked();
    let watch = signals::SignalWatch::start()?;
    let executable = Executable::of_this_process();
    let predecessor = Predecessor::meet()?;
    let node =
        ServingInstance::start(source, executable.ok(), predecessor.as_ref()).inspect_err(|error| {
            if let Some(predecessor) = &predecessor {
                predecessor.fail(error);
            }
        })?;
    if let Some(predecessor) = predecessor {
        predecessor.open_when_over(node.control.write_gate());
    }
    watch.serve(node)
}

/// The response of `POST /v1/weir/explain`, computed from the configuration on disk.
///
/// # Errors
/// The configuration cannot be read, or the request would be refused before a route is looked for.
pub(crate) fn explain_offline(settings: &Settings, question: &ExplainRequest) -> anyhow::Result<Value> {
    let runtime = runtime_on_disk(settings)?;
    let options = options::engine(settings, &Arc::default());
    gateway::explain::explain(&runtime, &options, &question.for_gateway()).map_err(anyhow::Error::msg)
}

/// The same for a session of layer 4.
///
/// # Errors
/// The configuration cannot be read, or the question is faulty.
pub(crate) fn explain_session_offline(
    settings: &Settings,
    session: &ExplainSession,
) -> anyhow::Result<Value> {
    let runtime = runtime_on_disk(settings)?;
    gateway::explain::explain_session(&runtime, session).map_err(anyhow::Error::msg)
}

/// The configuration on disk, compiled.
fn runtime_on_disk(settings: &Settings) -> anyhow::Result<Arc<Runtime>> {
    let catalog = Arc::new(catalog_for(settings));
    let changes = on_disk(settings, &catalog)?;
    let applied = Snapshot::empty().apply(&catalog, &changes, 1, model::FaultPolicy::Lenient);
    let services = services(settings)?;
    let extensions = Extensions::start(settings, &services)?;
    let mut compiler =
        compiler(settings, services, secrets(settings)).with_fixed_extensions(extensions.fixed());
    Ok(compiler.apply(&applied).0)
}

/// The identity of this process. Where the data folder keeps no id, the name of the machine stands in for it.
/// An instance that keeps nothing on disk, and so has no such folder, gets none for its id.
fn instance(settings: &Settings) -> InstanceInfo {
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let kept = || {
        if !settings.data.is_dir() {
            return hostname.clone();
        }
        control::instance_id::load_or_create_instance_id(&settings.data).unwrap_or_else(|error| {
            tracing::warn!(%error, "the data folder cannot keep an id of this instance: it is the name of the machine");
            hostname.clone()
        })
    };
    let id = settings.instance_id.clone().unwrap_or_else(kept);
    let now = stdx::clock::unix_time();
    InstanceInfo {
        id,
        hostname,
        version: env!("CARGO_PKG_VERSION"),
        boot_time_s: now.as_secs(),
        ..InstanceInfo::default()
    }
}

/// The changes that a set would make to the configuration on disk.
///
/// # Errors
/// The configuration cannot be read. The inner error: the objects of the set that could not be used.
pub(crate) fn plan_offline(
    settings: &Settings,
    document: &ConfigDocument,
    keep_others: bool,
) -> anyhow::Result<Result<ConfigPlan, Vec<model::ConfigFault>>> {
    let catalog = Arc::new(catalog_for(settings));
    Ok(control::offline::plan_document(&catalog, &on_disk(settings, &catalog)?, document, keep_others))
}

/// The response of `weir/versions` of the Admin API, from the store on disk.
///
/// # Errors
/// The store cannot be read or keeps no such version, or the configuration has another source.
pub(crate) fn history_offline(
    settings: &Settings,
    version: Option<u64>,
    limit: u64,
) -> anyhow::Result<Value> {
    if settings.resources.is_some() || settings.source() == ResourceSource::Etcd {
        anyhow::bail!("only the embedded store keeps versions, and this node has another source");
    }
    let catalog = Arc::new(catalog_for(settings));
    let sealer = sealer(settings, &catalog)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let history = control::offline::history(&catalog, &sealer, &settings.data, version, limit)?;
    history.with_context(|| format!("revision {} is not kept", version.unwrap_or_default()))
}

/// The Admin key that a command on this machine may use; none where the Admin API needs none.
///
/// # Errors
/// No key with the role `admin` is given or in the data folder.
pub(crate) fn admin_key_for_commands(settings: &Settings) -> anyhow::Result<Option<String>> {
    if !settings.admin_key_required {
        return Ok(None);
    }
    let given = given_keys(settings).into_iter().find(|key| key.role == Role::Admin);
    Ok(match given {
        Some(key) => Some(key.key),
        // Without a key, the refusal of the instance names the key that it needs.
        None => control::key::find_key(&settings.data)?.map(|found| found.key),
    })
}

/// The objects on disk.
fn on_disk(settings: &Settings, catalog: &Arc<PluginCatalog>) -> anyhow::Result<Vec<SnapshotChange>> {
    let sealer = sealer(settings, catalog)?;
    Ok(match (&settings.resources, settings.source()) {
        (Some(path), _) => control::offline::from_file(path).map_err(anyhow::Error::msg)?,
        (None, ResourceSource::Etcd) => {
            control::offline::from_etcd_copy(&settings.data, &settings.etcd_prefix, &sealer)?
        }
        (None, _) => control::offline::from_store(&settings.data, &sealer)?,
    })
}

/// The services that plugins get besides their phases, and the resolver of names.
pub(crate) fn services(settings: &Settings) -> anyhow::Result<Arc<Services>> {
    let lookup = SystemLookup::new(&LookupOptions {
        servers: settings.dns_servers.clone(),
        search: settings.dns_search,
        timeout: Duration::from_millis(settings.dns_timeout_ms),
        choice: address_choice(settings),
    });
    let ttl = TtlBounds {
        min: Duration::from_millis(settings.dns_ttl_min_ms),
        max: Duration::from_millis(settings.dns_ttl_max_ms),
    };
    let resolver = Resolver::start(Arc::new(lookup), ttl).context("cannot start the DNS thread")?;
    let roots = TrustRoots::read(&settings.trusted_certificates)
        .map_err(|reason| anyhow::anyhow!("trusted_certificates: {reason}"))?;
    let identities = ClientIdentities::new(roots, settings.tls_verify_all);
    Ok(Arc::new(Services::new(resolver, outbound_policy(settings)).with_tls(identities)))
}

/// Which of the addresses of a name are used.
fn address_choice(settings: &Settings) -> AddressChoice {
    AddressChoice { order: settings.dns_order.clone(), has_route }
}

/// The encryption of secrets in the store.
fn sealer(settings: &Settings, catalog: &Arc<PluginCatalog>) -> anyhow::Result<Sealer> {
    Ok(Sealer::new(Arc::clone(catalog), settings.encryption_keyring.reveal())?)
}

/// The values of references to secrets. Managers are asked only after a configuration source is followed.
fn secrets(settings: &Settings) -> Arc<Secrets> {
    let options = SecretOptions {
        refresh: Duration::from_millis(settings.secret_refresh_ms),
        stale: Duration::from_millis(settings.secret_stale_ms),
        timeout: Duration::from_millis(settings.secret_timeout_ms),
        policy: outbound_policy(settings),
        ca: settings.secret_ca.clone(),
        files: file_policy(settings),
    };
    Arc::new(Secrets::new(options, |name| std::env::var(name).ok()))
}

/// The files that objects may name.
fn file_policy(settings: &Settings) -> FilePolicy {
    match settings.resources {
        Some(_) if settings.certificate_folders.is_empty() => FilePolicy::All,
        _ => FilePolicy::Below(settings.certificate_folders.clone()),
    }
}

/// The registries that the settings name, running; none if there are none.
fn discovery(settings: &Settings) -> anyhow::Result<Option<Arc<ServiceDiscovery>>> {
    if settings.discovery.0.is_empty() {
        return Ok(None);
    }
    let discovery = ServiceDiscovery::start(DiscoveryConfig {
        blocks: without_own_routes(settings),
        policy: outbound_policy(settings),
        addresses: address_choice(settings),
        directory: Some(settings.data.join("discovery")),
        settle: DISCOVERY_SETTLE,
    });
    Ok(Some(Arc::new(discovery.context("cannot start the service registries")?)))
}

/// The blocks of registries; the services that this instance registers as get no automatic routes, because
/// such a route would lead to the gateway itself.
fn without_own_routes(settings: &Settings) -> Map<String, Value> {
    let mut blocks = settings.discovery.0.clone();
    for (name, registration) in &settings.registration.0 {
        let routes = blocks.get_mut(name).and_then(|block| block.get_mut("auto_routes"));
        let Some(routes) = routes.and_then(Value::as_object_mut) else { continue };
        let exclude = routes.entry("exclude").or_insert_with(|| Value::Array(Vec::new()));
        if let (Some(exclude), Some(service)) = (exclude.as_array_mut(), registration.get("service")) {
            exclude.push(service.clone());
        }
    }
    blocks
}

/// The registrations that the settings name, with the ports of the bound listeners; none if there are none.
fn registration(settings: &Settings, listeners: &ListenerSet) -> anyhow::Result<Option<Arc<Registration>>> {
    if settings.registration.0.is_empty() {
        return Ok(None);
    }
    let bound = |written: Option<SocketAddr>| {
        let listener = listeners.iter().find(|listener| Some(listener.wanted().address) == written)?;
        Some(listener.address())
    };
    let written = settings.written_addresses();
    let registration = Registration::new(RegistrationConfig {
        blocks: settings.registration.0.clone(),
        discovery: settings.discovery.0.clone(),
        addresses: ProxyAddresses { plain: bound(written.plain), tls: bound(written.tls) },
        policy: outbound_policy(settings),
    });
    Ok(Some(Arc::new(registration.map_err(anyhow::Error::msg)?)))
}

/// How long a configuration waits for the first answers of registries, so that a start does not answer 503
/// for as long as they take.
const DISCOVERY_SETTLE: Duration = Duration::from_secs(3);

fn outbound_policy(settings: &Settings) -> OutboundPolicy {
    OutboundPolicy { allow: settings.outbound_allow.clone() }
}

fn compiler(settings: &Settings, services: Arc<Services>, secrets: Arc<Secrets>) -> SnapshotCompiler {
    let timeouts = options::engine(settings, &Arc::default()).upstream_timeouts;
    let usable = catalog::usable_kinds(settings);
    let compiler = SnapshotCompiler::new(&usable, settings.router_mode.into(), timeouts, services);
    compiler
        .with_secrets(secrets)
        .with_scripts(plugins::scripts())
        .with_protocols(plugins::PROTOCOLS)
        .with_zone(settings.zone.as_deref())
}

fn source(settings: &Settings) -> SourceConfig {
    match (&settings.resources, settings.source()) {
        (Some(path), _) => {
            let directory = settings.data.clone();
            SourceConfig::File { path: path.clone(), strict: settings.strict, directory }
        }
        (None, ResourceSource::Etcd) => {
            SourceConfig::Etcd { config: Box::new(etcd(settings)), directory: settings.data.clone() }
        }
        (None, _) => SourceConfig::Store { directory: settings.data.clone() },
    }
}

fn etcd(settings: &Settings) -> EtcdConfig {
    let user = settings.etcd_username.clone().zip(settings.etcd_password.as_ref());
    EtcdConfig {
        endpoints: settings.etcd_endpoints.clone(),
        prefix: settings.etcd_prefix.clone(),
        user: user.map(|(name, password)| (name, password.reveal().to_owned())),
        tls: EtcdTls {
            ca: settings.etcd_ca.clone(),
            identity: settings.etcd_cert.clone().zip(settings.etcd_key.clone()),
            server_name: settings.etcd_server_name.clone(),
            verify: settings.etcd_verify,
        },
        // The source of the configuration is trusted, as its users may configure the gateway.
        policy: None,
        timeout: Duration::from_millis(settings.etcd_timeout_ms),
        start_timeout: Duration::from_secs(settings.etcd_start_timeout_seconds),
        max_operations: settings.etcd_max_operations,
    }
}

/// The Admin keys of the settings. If none has the role `admin`, also the key in the data folder, which is
/// made at the first start and shown once, on a terminal only.
fn admin_keys(settings: &Settings) -> anyhow::Result<Vec<AdminKey>> {
    if settings.admin.is_none() {
        return Ok(Vec::new());
    }
    if !settings.admin_key_required {
        tracing::warn!(
            "the Admin API asks for no key: everybody whom `admin_allow` lets in may change everything"
        );
        return Ok(Vec::new());
    }
    let mut keys = given_keys(settings);
    if keys.iter().any(|key| key.role == Role::Admin) {
        return Ok(keys);
    }
    let found = control::key::load_or_create_key(&settings.data)?;
    if found.created && std::io::stderr().is_terminal() {
        print_error_bounded(format_args!(
            "Admin key (shown this once, kept in {}): {}",
            found.path.display(),
            found.key
        ));
    } else {
        print_error_bounded(format_args!("Admin key: in {}", found.path.display()));
    }
    keys.push(AdminKey { key: found.key, role: Role::Admin });
    Ok(keys)
}

/// `admin_key` replaces every other key with the role `admin`, so that a new value locks out the old keys.
fn given_keys(settings: &Settings) -> Vec<AdminKey> {
    let single = settings.admin_key.iter().map(|key| (key, Role::Admin));
    let others = settings.admin_keys.iter().map(|key| (&key.key, key.role));
    let others = others.filter(|(_, role)| settings.admin_key.is_none() || *role != Role::Admin);
    single.chain(others).map(|(key, role)| AdminKey { key: key.reveal().to_owned(), role }).collect()
}
