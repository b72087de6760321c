//! The parts of an instance that its control side and its engine share. Each is made from the settings; the
//! compiler of configurations holds those that objects refer to.

use std::sync::Arc;

use anyhow::Context;
use control::Secrets;
use control::ocsp::Ocsp;
use discovery::ServiceDiscovery;
use exchange::options::Options;
use exchange::plugin::services::Services;
use gateway::compile::SnapshotCompiler;
use gateway::upstream::health::monitor::HealthMonitor;
use model::acme::Challenges;
use net::listener::{Application, Listener, ListenerSet};
use net::tls::server::ServerTls;

use super::bridge;
use super::extensions::Extensions;
use super::{compiler, discovery, options, outbound_policy, secrets, services};
use crate::settings::Settings;

/// The options of the engine, the certificates and the open certificate orders: listeners answer with them.
pub(super) struct Front {
    pub(super) options: Arc<Options>,
    pub(super) tls: Arc<ServerTls>,
    /// The open challenges of certificate orders.
    pub(super) challenges: Arc<Challenges>,
}

impl Front {
    /// # Errors
    /// The settings of TLS cannot be used.
    pub(super) fn new(settings: &Settings, listeners: &ListenerSet) -> anyhow::Result<Front> {
        let challenges = Arc::new(Challenges::default());
        let mut options = options::engine(settings, &challenges);
        let https = listeners.iter().find(|listener| serves_https(listener));
        if let Some(listener) = https.filter(|_| options::redirect_port(settings).is_none()) {
            // The bound port: a setting may say 0, which lets the system choose one.
            options.https_port = listener.address().port();
        }
        let tls =
            ServerTls::new(&options::tls(settings)).map_err(anyhow::Error::msg).context("cannot use TLS")?;
        let tls = match &options.challenges {
            Some(challenges) => tls.with_orders(bridge::orders(challenges)),
            None => tls,
        };
        Ok(Front { options: Arc::new(options), tls: Arc::new(tls), challenges })
    }
}

/// The parts that compiled objects refer to and that reports show.
pub(super) struct Referents {
    pub(super) services: Arc<Services>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) extensions: Extensions,
    pub(super) ocsp: Arc<Ocsp>,
    pub(super) health: Arc<HealthMonitor>,
    pub(super) discovery: Option<Arc<ServiceDiscovery>>,
}

impl Referents {
    /// Starts them, and makes the compiler that hands them to objects.
    ///
    /// # Errors
    /// A thread cannot be started, or the settings name an extension or a registry that cannot be used.
    pub(super) fn start(
        settings: &Settings,
        tls: &Arc<ServerTls>,
    ) -> anyhow::Result<(Referents, SnapshotCompiler)> {
        let services = services(settings)?;
        let secrets = secrets(settings);
        let extensions = Extensions::start(settings, &services)?;
        let ocsp = Arc::new(Ocsp::new(outbound_policy(settings)));
        let health = Arc::new(HealthMonitor::new(outbound_policy(settings)));
        let discovery = discovery(settings)?;
        let mut compiler = compiler(settings, services.clone(), secrets.clone())
            .with_fixed_extensions(extensions.fixed())
            .with_tls(tls.clone(), settings.ssl_expired_certificates)
            .with_staples(ocsp.clone());
        if settings.upstream_health_checks {
            compiler = compiler.with_health(health.clone());
        }
        if let Some(directory) = &discovery {
            compiler = compiler.with_directory(directory.clone());
        }
        Ok((Referents { services, secrets, extensions, ocsp, health, discovery }, compiler))
    }
}

/// Whether the listener serves HTTP over TLS.
fn serves_https(listener: &Listener) -> bool {
    let protocols = listener.wanted().protocols;
    protocols.tls && protocols.application == Application::Http1
}
