//! Wires the rooms, top to bottom: settings become options, kinds become a catalog, the compiler stands between the
//! control side and the engine. The only place where control and gateway meet.

mod bridge;
mod catalog;
mod live;
mod metrics;
mod options;
mod signals;
mod sockets;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use control::{Control, ControlConfig, SourceConfig, SystemClock};
use gateway::compile::Compiler;
use gateway::engine::EngineConfig;
use gateway::observe::access_log::LogWriter;
use gateway::plugin::outbound::OutboundPolicy;
use gateway::plugin::services::Services;
use gateway::upstream::dns::{LookupOptions, Resolver, SystemLookup, TtlBounds};
use model::Snapshot;
use serde_json::Value;

use crate::cli::explain::Question;
use crate::code_pages;
use crate::log;
use crate::settings::{Settings, SettingsSource};
use crate::terminal::{print, print_error};

pub(crate) use catalog::catalog;

use bridge::{Bridge, Gateway};
use live::LiveSettings;

/// Runs a node until it has stopped.
///
/// # Errors
/// Whatever keeps it from starting: faulty settings, an address in use, an unreadable store, a faulty strict file.
pub(crate) fn run(source_of_settings: SettingsSource) -> anyhow::Result<ExitCode> {
    let settings = source_of_settings.load()?;
    let log = log::start(&settings.error_log, &settings.log_level)?;
    let sockets = sockets::bind(&settings)?;
    let access_log = options::access_log(&settings)?;
    let log_writer: Option<LogWriter> = access_log.as_ref().map(|(_, writer)| writer.clone());
    let options = Arc::new(options::engine(&settings));
    let gateway = Arc::new(Gateway::default());
    let services = services(&settings)?;
    let compiler = compiler(&settings, services.clone());
    let admin_keys = admin_keys(&settings)?;
    let lines = sockets.lines();
    let control = Control::start(ControlConfig {
        source: source(&settings),
        catalog: Arc::new(catalog()),
        publisher: Box::new(Bridge::new(compiler, gateway.clone())),
        reports: bridge::reports(&gateway, &options, &log, log_writer.clone(), sockets.reports.clone()),
        clock: Arc::new(SystemClock),
        listeners: sockets.control,
        admin: options::admin(&settings, admin_keys),
    })?;
    let workers = settings.workers;
    let engine = gateway.start(|runtime| EngineConfig { options, workers, runtime, access_log, services })?;
    engine.open(sockets.proxy);
    lines.iter().for_each(print);
    print("ready");
    code_pages::release();
    let live = LiveSettings::new(source_of_settings, settings.clone());
    let stopped = signals::serve(&settings, live, &control, &gateway, &log, log_writer.as_ref());
    control.shutdown();
    stopped
}

/// What `POST /v1/weir/explain` answers, worked out from the configuration on disk.
///
/// # Errors
/// The configuration cannot be read, or the request would be refused before a route is looked for.
pub(crate) fn explain_offline(settings: &Settings, question: &Question) -> anyhow::Result<Value> {
    let changes = match &settings.resources {
        Some(path) => control::offline::from_file(path).map_err(anyhow::Error::msg)?,
        None => control::offline::from_store(&settings.data)?,
    };
    let applied = Snapshot::empty().apply(&catalog(), &changes, 1, model::Policy::Lenient);
    let mut compiler = compiler(settings, services(settings)?);
    let (runtime, _) = compiler.apply(&applied);
    let options = options::engine(settings);
    let Question { method, url, headers, remote_addr } = question;
    gateway::explain::explain(&runtime, &options, method, url, headers, *remote_addr)
        .map_err(anyhow::Error::msg)
}

/// What plugins are offered beyond their phases, and where names are looked up.
fn services(settings: &Settings) -> anyhow::Result<Arc<Services>> {
    let lookup = SystemLookup::new(&LookupOptions {
        servers: settings.dns_servers.clone(),
        search: settings.dns_search,
        timeout: Duration::from_millis(settings.dns_timeout_ms),
    });
    let ttl = TtlBounds {
        min: Duration::from_millis(settings.dns_ttl_min_ms),
        max: Duration::from_millis(settings.dns_ttl_max_ms),
    };
    let resolver = Resolver::start(Arc::new(lookup), ttl).context("cannot start the DNS thread")?;
    Ok(Arc::new(Services::new(resolver, OutboundPolicy { allow: settings.outbound_allow.clone() })))
}

fn compiler(settings: &Settings, services: Arc<Services>) -> Compiler {
    let timeouts = options::engine(settings).upstream_timeouts;
    let compiler = Compiler::new(plugins::ALL, settings.router_mode.into(), timeouts, services);
    compiler.with_environment(|name| std::env::var(name).ok())
}

fn source(settings: &Settings) -> SourceConfig {
    match &settings.resources {
        Some(path) => SourceConfig::File { path: path.clone(), strict: settings.strict },
        None => SourceConfig::Store { directory: settings.data.clone() },
    }
}

/// The Admin key: the environment's, else the one kept in the data folder, made at the first start and shown once, on a
/// terminal only.
fn admin_keys(settings: &Settings) -> anyhow::Result<Vec<String>> {
    if settings.admin.is_none() {
        return Ok(Vec::new());
    }
    if let Some(key) = &settings.admin_key {
        return Ok(vec![key.reveal().to_owned()]);
    }
    let found = control::key::load_or_create(&settings.data)?;
    if found.created && std::io::stderr().is_terminal() {
        print_error(format_args!(
            "Admin key (shown this once, kept in {}): {}",
            found.path.display(),
            found.key
        ));
    } else {
        print_error(format_args!("Admin key: in {}", found.path.display()));
    }
    Ok(vec![found.key])
}
