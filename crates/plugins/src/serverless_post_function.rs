//! # serverless-post-function
//!
//! Runs functions in Lua that stand in the configuration, behind all other plugins of the phase.
//!
//! ```json
//! {
//!   "phase": "header_filter",
//!   "functions": ["return function(conf, ctx) ngx.header['X-Route'] = ctx.route_id end"]
//! }
//! ```
//!
//! The attributes, the functions and the faults are those of
//! [serverless-pre-function](serverless-pre-function.md), which runs before the others.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginKind};
use serde_json::Value;

use crate::shared::attributes::Attribute;
use crate::shared::serverless::{self, ServerlessConfig};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "serverless-post-function",
    -2_000,
    lua::serverless::ALL_PHASES,
    ServerlessConfig::schema,
    build,
)
.checked(serverless::check)
.documented(include_str!("serverless_post_function.rs"));

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    serverless::build(KIND.name, build, config)
}
