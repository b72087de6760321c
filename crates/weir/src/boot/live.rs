//! The settings that change while the instance runs. HUP reads the settings again: a changed `proxy` list comes into
//! force at once, and a log line names all other changes as waiting for a restart. Faulty settings change nothing.

use std::net::SocketAddr;

use net::listener::Change;

use super::bridge::Gateway;
use super::sockets::{listening_line, wanted};
use crate::settings::{Settings, SettingsSource};
use crate::terminal::print_bounded;

/// The settings in force, and their source for HUP.
pub(super) struct LiveSettings {
    source: SettingsSource,
    started_with: Settings,
    proxy: Vec<SocketAddr>,
}

impl LiveSettings {
    pub(super) fn new(source: SettingsSource, started_with: Settings) -> LiveSettings {
        let proxy = started_with.proxy.clone();
        LiveSettings { source, started_with, proxy }
    }

    /// Reads the settings again and brings those into force that can change.
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
            self.started_with.differing(&settings).into_iter().filter(|name| *name != "proxy").collect();
        if !waiting.is_empty() {
            let settings = waiting.join(", ");
            tracing::warn!(%settings, "these settings have changed and wait for a restart or an upgrade");
        }
        if settings.proxy != self.proxy {
            self.listen(settings, gateway);
        }
    }

    fn listen(&mut self, settings: Settings, gateway: &Gateway) {
        let Some(engine) = gateway.engine() else { return };
        match engine.listen(&wanted(&settings)) {
            Ok(change) => {
                announce(&change);
                self.proxy = settings.proxy;
            }
            Err(fault) => tracing::error!(%fault, "the listeners of the proxy stay as they are"),
        }
    }
}

/// Logs and prints each listener that was added or removed, as the start does for the first ones.
fn announce(change: &Change) {
    for address in &change.added {
        tracing::info!(%address, "the proxy listens on another address");
        print_bounded(listening_line("proxy", *address));
    }
    for address in &change.removed {
        tracing::info!(%address, "the proxy has stopped to listen on an address");
        print_bounded(format_args!("closed proxy {address}"));
    }
}
