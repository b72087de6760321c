//! What of the settings changes while the node runs. HUP reads them again: another `proxy` list comes into force at once,
//! everything else is named as waiting for a restart. Faulty settings change nothing.

use std::net::SocketAddr;

use net::listener::ListenerSet;

use super::bridge::Gateway;
use super::sockets::{listening_line, name_of, wanted};
use crate::settings::{Settings, SettingsSource};
use crate::terminal::print_bounded;

/// The settings in force, and where to read them again.
pub(super) struct LiveSettings {
    source: SettingsSource,
    started_with: Settings,
    proxy: Vec<SocketAddr>,
    proxy_tls: Vec<SocketAddr>,
}

/// The settings that come into force at once.
const LIVE: [&str; 2] = ["proxy", "proxy_tls"];

impl LiveSettings {
    pub(super) fn new(source: SettingsSource, started_with: Settings) -> LiveSettings {
        let (proxy, proxy_tls) = (started_with.proxy.clone(), started_with.proxy_tls.clone());
        LiveSettings { source, started_with, proxy, proxy_tls }
    }

    /// Reads the settings again and brings into force what can be.
    pub(super) fn reload(&mut self, gateway: &Gateway) {
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
        if settings.proxy != self.proxy || settings.proxy_tls != self.proxy_tls {
            self.listen(settings, gateway);
        }
    }

    fn listen(&mut self, settings: Settings, gateway: &Gateway) {
        let Some(engine) = gateway.engine() else { return };
        let before = engine.listeners();
        match engine.listen(&wanted(&settings)) {
            Ok(_) => {
                announce(&before, &engine.listeners());
                (self.proxy, self.proxy_tls) = (settings.proxy, settings.proxy_tls);
            }
            Err(fault) => tracing::error!(%fault, "the listeners of the proxy stay as they are"),
        }
    }
}

/// Tells of each listener that came or went, as the start tells of the first ones.
fn announce(before: &ListenerSet, after: &ListenerSet) {
    let is_in = |set: &ListenerSet, id: u64| set.iter().any(|listener| listener.id() == id);
    for listener in after.iter().filter(|listener| !is_in(before, listener.id())) {
        let (name, address) = (name_of(listener), listener.address());
        tracing::info!(%address, "the proxy listens on another address");
        print_bounded(listening_line(name, address));
    }
    for listener in before.iter().filter(|listener| !is_in(after, listener.id())) {
        let (name, address) = (name_of(listener), listener.address());
        tracing::info!(%address, "the proxy has stopped to listen on an address");
        print_bounded(format_args!("closed {name} {address}"));
    }
}
