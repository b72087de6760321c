//! The settings that change while the instance runs. HUP reads the settings again: a changed list of
//! listeners comes into force at once, the files of `trusted_certificates` are read again, and a log line
//! names all other changes as waiting for a restart. Faulty settings change nothing.

use std::sync::Arc;

use exchange::plugin::services::Services;
use model::PluginCatalog;
use net::listener::{ListenerSet, WantedListener};
use net::tls::roots::TrustRoots;

use super::bridge::Gateway;
use super::runner::{RunnerSettings, Supervisor};
use super::sockets::{find_setting_name, listening_line, wanted};
use crate::settings::{Settings, SettingsSource};
use crate::terminal::print_bounded;

/// The settings in force, and their source for HUP.
pub(super) struct LiveSettings {
    source: SettingsSource,
    started_with: Settings,
    listeners: Vec<WantedListener>,
    services: Arc<Services>,
    /// It refuses stream routes or takes them.
    catalog: Arc<PluginCatalog>,
}

/// The settings that come into force at once.
const LIVE: [&str; 20] = [
    "proxy",
    "proxy_tls",
    "proxy_tls_http3",
    "proxy_protocol",
    "proxy_protocol_tls",
    "proxy_protocol_optional",
    "stream_tcp",
    "stream_tls",
    "stream_udp",
    "stream_proxy_protocol",
    "stream_proxy_protocol_tls",
    "stream_send_proxy_protocol",
    "stream_tproxy",
    "stream_redirect",
    "trusted_certificates",
    "plugin_runner",
    "plugin_runner_socket",
    "plugin_runner_user",
    "plugin_runner_environment",
    "plugin_runner_timeout_ms",
];

impl LiveSettings {
    pub(super) fn new(
        source: SettingsSource,
        started_with: Settings,
        services: Arc<Services>,
        catalog: Arc<PluginCatalog>,
    ) -> LiveSettings {
        let listeners = wanted(&started_with);
        LiveSettings { source, started_with, listeners, services, catalog }
    }

    /// Reads the settings again and brings those into force that can change.
    pub(super) fn reload(&mut self, gateway: &Gateway, runner: &Supervisor) {
        let settings = match self.source.load() {
            Ok(loaded) => {
                loaded.remarks.warn();
                loaded.settings
            }
            Err(faults) => {
                for fault in faults.0 {
                    tracing::error!(%fault, "the settings are faulty; those in force stay");
                }
                return;
            }
        };
        let waiting: Vec<&str> =
            self.started_with.differing(&settings).into_iter().filter(|name| !LIVE.contains(name)).collect();
        if !waiting.is_empty() {
            let settings = waiting.join(", ");
            tracing::warn!(%settings, "these settings have changed and wait for a restart or an upgrade");
        }
        let listeners = wanted(&settings);
        if listeners != self.listeners {
            self.listen(listeners, &settings, gateway);
        }
        runner.reload(RunnerSettings::of(&settings));
        // The files are read even if their list is the same, because their contents may have changed.
        match TrustRoots::read(&settings.trusted_certificates) {
            Ok(roots) => self.services.tls().trust(roots),
            Err(fault) => tracing::error!(%fault, "the trusted certificates in force stay"),
        }
    }

    fn listen(&mut self, listeners: Vec<WantedListener>, settings: &Settings, gateway: &Gateway) {
        let Some(engine) = gateway.engine() else { return };
        let before = engine.listeners();
        match engine.listen(&listeners) {
            Ok(change) => {
                announce(&before, &engine.listeners());
                for address in change.changed {
                    tracing::info!(%address, "the PROXY protocol of a listener has changed for new connections");
                }
                self.listeners = listeners;
                self.catalog.refuse_stream_routes(!settings.takes_stream_routes());
                self.catalog.set_stream_ports(settings.stream_ports());
            }
            Err(fault) => tracing::error!(%fault, "the listeners of the proxy stay as they are"),
        }
    }
}

/// Logs and prints each listener that was added or removed, as the start does for the first ones.
fn announce(before: &ListenerSet, after: &ListenerSet) {
    let is_in = |set: &ListenerSet, id: u64| set.iter().any(|listener| listener.id() == id);
    for listener in after.iter().filter(|listener| !is_in(before, listener.id())) {
        let (name, address) = (find_setting_name(listener), listener.address());
        tracing::info!(%address, "the proxy listens on another address");
        print_bounded(listening_line(name, address));
    }
    for listener in before.iter().filter(|listener| !is_in(after, listener.id())) {
        let (name, address) = (find_setting_name(listener), listener.address());
        tracing::info!(%address, "the proxy has stopped to listen on an address");
        print_bounded(format_args!("closed {name} {address}"));
    }
}
