//! The configuration of the plugins `ext-plugin-…`, and its compiled form: one caller of the runner for each
//! instance.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aws_lc_rs::digest::{SHA256, digest};
use exchange::Exchange;
use exchange::plugin::events::EventCounter;
use exchange::plugin::{Build, Explained};
use serde_json::Value;

use super::error::CallError;
use super::place::Runner;
use super::token::RunnerToken;
use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::outages::Outages;

/// Plugins of one configuration. Each is run for each request, one after the other.
const PLUGINS_MAX: usize = 256;
/// Bytes of the names and configurations of all plugins of one configuration: well within a frame of 16 MiB,
/// and more than an object of the Admin API may have.
const CONF_BYTES_MAX: usize = 8 * 1024 * 1024;

attributes! {
    pub(crate) struct ExtPluginConfig {
        /// The plugins that the runner runs, in this order, each with its configuration.
        conf: Option<Vec<ExternalPlugin>>, { "minItems": 1 };
        /// Let requests pass without the plugins while the runner fails.
        allow_degradation: bool = false;
    }
}

attributes! {
    pub(crate) struct ExternalPlugin {
        /// The name of the plugin in the runner.
        name: String, { "minLength": 1, "maxLength": 128 };
        /// Its configuration, a text that only the plugin reads; usually JSON.
        value: String;
    }
}

/// The schema of the three plugins.
pub(crate) fn schema() -> Value {
    ExtPluginConfig::schema()
}

/// Checks what the schema cannot express.
///
/// # Errors
/// The limit that is exceeded.
pub(crate) fn check(written: &Value) -> Result<(), String> {
    let config: ExtPluginConfig = config::parse_config(written)?;
    let conf = config.conf.unwrap_or_default();
    if conf.len() > PLUGINS_MAX {
        return Err(format!("conf: there are more than {PLUGINS_MAX} plugins"));
    }
    let bytes: usize = conf.iter().map(|plugin| plugin.name.len() + plugin.value.len()).sum();
    if bytes > CONF_BYTES_MAX {
        return Err(format!("conf: the configurations have more than {CONF_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// The compiled plugin.
pub(crate) struct Caller {
    pub(super) runner: Arc<Runner>,
    /// Each plugin and its configuration.
    pub(super) conf: Vec<(Box<str>, Box<str>)>,
    /// The key of the configuration, which no other configuration has.
    pub(super) key: Box<str>,
    pub(super) token: RunnerToken,
    /// Requests pass while the runner fails.
    degrades: bool,
    name: &'static str,
    outages: Outages,
    calls: EventCounter,
    pub(super) prepared: EventCounter,
}

impl Caller {
    /// Compiles a checked configuration of the plugin `name`.
    ///
    /// # Errors
    /// The configuration does not fit.
    pub(crate) fn build(build: &Build<'_>, written: &Value, name: &'static str) -> Result<Caller, String> {
        check(written)?;
        let config: ExtPluginConfig = config::parse_config(written)?;
        let conf = config.conf.unwrap_or_default().into_iter();
        let hash = digest(&SHA256, config::identity(written).as_bytes());
        let hash = data_encoding::HEXLOWER.encode(&hash.as_ref()[..16]);
        Ok(Caller {
            runner: Runner::of(build.states),
            conf: conf.map(|plugin| (plugin.name.into(), plugin.value.into())).collect(),
            // Runners keep the token of a key, so that another configuration of the same object needs another
            // key.
            key: format!("{}#{name}#{hash}", build.owner).into(),
            token: RunnerToken::default(),
            degrades: config.allow_degradation,
            name,
            outages: Outages::new(build, name),
            calls: build.services.event_counter(name, "calls"),
            prepared: build.services.event_counter(name, "configurations sent"),
        })
    }

    /// Tells of the call in a phase, if the phase `has` one.
    pub(crate) fn explain(&self, has: bool) -> Explained {
        match has {
            true => {
                Explained::calls("it would call the plugin runner, which may answer or change the request")
            }
            false => Explained::passes(),
        }
    }

    /// Counts a call.
    pub(super) fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts and logs a failed call. True: the request passes all the same.
    pub(super) fn failed(&self, exchange: &Exchange, error: &CallError) -> bool {
        if let Some(requests) = self.outages.add(exchange.local().now_ms()) {
            let route = exchange.route().map_or("", |route| &*route.id);
            tracing::error!(route, requests, passes = self.degrades, "{}: {error}", self.name);
        }
        self.degrades
    }
}
