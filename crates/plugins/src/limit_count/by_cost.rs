//! A limit of which a request takes more than one: what another plugin counts a request for. It has the
//! fields, counters and response fields of `limit-count`, under the name of that plugin.

use exchange::Exchange;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::{Build, Flow};
use serde_json::Value;

use super::{LimitCount, check, compile, group, metadata_schema, read, schema};

/// See the module.
pub(crate) struct CostLimit(LimitCount);

impl CostLimit {
    /// The schema of the fields.
    pub(crate) fn schema() -> Value {
        schema()
    }

    /// The schema of the metadata.
    pub(crate) fn metadata_schema() -> Value {
        metadata_schema()
    }

    /// Checks the fields, as `limit-count` does.
    ///
    /// # Errors
    /// The misfit, a sentence.
    pub(crate) fn check(config: &Value) -> Result<(), String> {
        check(config)
    }

    /// Checks the group among the running ones of `plugin`.
    ///
    /// # Errors
    /// The group is used with another configuration.
    pub(crate) fn check_group(plugin: &str, states: &StateRegistry, config: &Value) -> Result<(), String> {
        group::check_of(plugin, states, config)
    }

    /// Compiles the fields for `plugin`.
    ///
    /// # Errors
    /// The misfit, a sentence.
    pub(crate) fn compile(
        plugin: &'static str,
        build: &Build<'_>,
        config: &Value,
    ) -> Result<CostLimit, String> {
        compile(plugin, build, config).map(CostLimit)
    }

    /// The statuses of a refusal in `config`, and whether response fields tell the quota.
    ///
    /// # Errors
    /// The misfit, a sentence.
    pub(crate) fn refusal(config: &Value) -> Result<(u16, bool), String> {
        let (config, _) = read(config)?;
        Ok((config.rejected_code, config.show_limit_quota_header))
    }

    /// Counts a request that takes `cost`.
    pub(crate) fn charge<'a>(&'a self, exchange: &'a mut Exchange, cost: u64) -> Flow<'a> {
        self.0.all(exchange, cost)
    }

    /// Sets the fields of the response that tell the quota.
    pub(crate) fn show(&self, exchange: &mut Exchange) {
        self.0.show(exchange);
    }
}
