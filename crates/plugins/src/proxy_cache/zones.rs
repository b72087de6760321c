//! All zones of this instance, and their metrics. They live as long as the process, so that no change of the
//! configuration empties one.

use std::sync::{Arc, OnceLock};

use exchange::plugin::state::StateRegistry;
use stdx::prometheus_text::{header, sample};

use super::background::Outcome;
use super::counters::CacheStatus;
use super::disk;
use super::settings::{CacheSettings, ZoneSettings};
use super::zone::Zone;

/// See the module.
pub struct Zones {
    zones: Vec<LazyZone>,
    pub(super) disk_ttl_s: u64,
    /// Requests are served, so that zones on disk are used.
    serves: bool,
}

/// A zone, made when a plugin uses it first: an instance without a cache has no table for one.
struct LazyZone {
    settings: ZoneSettings,
    zone: OnceLock<Arc<Zone>>,
}

/// Where the zones are in the state of plugins.
const KEY: &str = "proxy-cache zones";

impl Default for Zones {
    fn default() -> Zones {
        Zones::new(&CacheSettings::in_folder(std::path::Path::new(".")), false)
    }
}

impl Zones {
    fn new(settings: &CacheSettings, serves: bool) -> Zones {
        let place = |zone: &ZoneSettings| LazyZone { settings: zone.clone(), zone: OnceLock::new() };
        let zones = settings.zones.iter().map(place).collect();
        Zones { zones, disk_ttl_s: settings.disk_ttl_s, serves }
    }

    /// Makes the zones of `settings` those of the plugins that have their state in `states`, as long as the
    /// result is held. One on disk starts when a plugin uses it first.
    pub fn start(settings: &CacheSettings, states: &StateRegistry) -> Arc<Zones> {
        states.keep(KEY, || Zones::new(settings, true))
    }

    /// The zones; without a start, those of the default settings, of which those on disk keep nothing.
    pub(super) fn of(states: &StateRegistry) -> Arc<Zones> {
        states.keep(KEY, Zones::default)
    }

    /// The running zones; none outside of an instance.
    pub(super) fn running(states: &StateRegistry) -> Option<Arc<Zones>> {
        states.held(KEY)
    }

    /// Checks that there is a zone called `name`, on disk or not.
    ///
    /// # Errors
    /// There is none, in the contract's words.
    pub(super) fn check(&self, name: &str, on_disk: bool) -> Result<(), String> {
        self.place(name, on_disk).map(|_| ())
    }

    /// The zone called `name`, which must be on disk or not. One on disk starts, where requests are served.
    ///
    /// # Errors
    /// There is none, in the contract's words.
    pub(super) fn open(&self, name: &str, on_disk: bool) -> Result<Arc<Zone>, String> {
        let place = self.place(name, on_disk)?;
        let zone = place.zone.get_or_init(|| Arc::new(Zone::new(&place.settings)));
        if self.serves {
            disk::start(zone);
        }
        Ok(zone.clone())
    }

    fn place(&self, name: &str, on_disk: bool) -> Result<&LazyZone, String> {
        let place = self.zones.iter().find(|place| &*place.settings.name == name);
        let place = place.ok_or_else(|| format!("cache_zone {name} not found"))?;
        if place.settings.disk.is_some() == on_disk {
            return Ok(place);
        }
        let strategy = if on_disk { "disk" } else { "memory" };
        Err(format!("invalid or empty cache_zone for cache_strategy: {strategy}"))
    }

    fn used(&self) -> impl Iterator<Item = &Arc<Zone>> {
        self.zones.iter().filter_map(|place| place.zone.get())
    }

    /// Appends the metrics of all zones that are used.
    pub fn write_metrics(&self, text: &mut String) {
        let name = "weir_cache_requests_total";
        header(text, name, "counter", "Requests of routes with proxy-cache by zone and cache status.");
        for zone in self.used() {
            for status in CacheStatus::ALL {
                let labels: [(&str, &dyn std::fmt::Display); 2] =
                    [("zone", &zone.name), ("status", &status.word())];
                sample(text, name, &labels, zone.counters.total(status));
            }
        }
        let name = "weir_cache_background_requests_total";
        header(
            text,
            name,
            "counter",
            "Requests that update stale entries in the background by zone and outcome.",
        );
        for zone in self.used() {
            for outcome in Outcome::ALL {
                let labels: [(&str, &dyn std::fmt::Display); 2] =
                    [("zone", &zone.name), ("outcome", &outcome.word())];
                sample(text, name, &labels, zone.background.total(outcome));
            }
        }
        header(text, "weir_cache_entries", "gauge", "Keys in a cache zone.");
        self.sizes(text, "weir_cache_entries", |(entries, ..)| entries as u64);
        header(text, "weir_cache_bytes", "gauge", "Bytes that the entries of a cache zone take.");
        self.sizes(text, "weir_cache_bytes", |(_, bytes, _)| bytes);
        header(text, "weir_cache_capacity_bytes", "gauge", "Most bytes of a cache zone.");
        self.sizes(text, "weir_cache_capacity_bytes", |(.., most)| most);
        disk::write_metrics(self.used().filter_map(|zone| zone.disk.as_deref()), text);
    }

    fn sizes(&self, text: &mut String, name: &str, value: fn((usize, u64, u64)) -> u64) {
        for zone in self.used() {
            sample(text, name, &[("zone", &zone.name)], value(zone.size()));
        }
    }
}
