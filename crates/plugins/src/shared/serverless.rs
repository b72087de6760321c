//! The configuration of the two plugins that run functions in Lua.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin};
use serde_json::Value;

use super::attributes::{attributes, words};
use super::config;

words! {
    /// A phase in which functions run.
    pub(crate) enum ServerlessPhase {
        Rewrite = "rewrite",
        Access = "access",
        HeaderFilter = "header_filter",
        BodyFilter = "body_filter",
        Log = "log",
        BeforeProxy = "before_proxy",
    }
}

attributes! {
    pub(crate) struct ServerlessConfig {
        /// The phase in which the functions run.
        phase: ServerlessPhase = ServerlessPhase::Access;
        /// The functions, in the order in which they run.
        functions: Vec<String>, { "minItems": 1, "items": { "type": "string", "description": "Lua that returns a function." } };
    }
}

/// Compiles the functions.
pub(crate) fn check(config: &Value) -> Result<(), String> {
    let config: ServerlessConfig = config::parse_config(config)?;
    lua::serverless::check(&config.functions)
}

/// Builds the plugin `name`.
pub(crate) fn build(
    name: &'static str,
    build: &Build<'_>,
    written: &Value,
) -> Result<Arc<dyn Plugin>, String> {
    let config: ServerlessConfig = config::parse_config(written)?;
    lua::serverless::build(name, build, written, config.phase.word(), &config.functions)
}
