//! # ext-plugin-post-req
//!
//! Runs plugins in other languages after the other plugins of the request, just before it is sent to the
//! upstream: a plugin runner, a process of its own, has them. In all else it is as
//! [`ext-plugin-pre-req`](ext-plugin-pre-req.md).
//!
//! ```json
//! {
//!   "conf": [{ "name": "fault-injection", "value": "{\"body\": \"no\", \"http_status\": 403}" }],
//!   "allow_degradation": true
//! }
//! ```
//!
//! It runs in the access phase, so that the plugins see the request as authentication and rewriting have left
//! it. One object may have both plugins; each has a configuration of its own in the runner.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{Build, Explained, Flow, Plugin, PluginKind, PluginPhase, ResponseStep};
use serde_json::Value;

use crate::shared::runner::{self, Caller};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "ext-plugin-post-req",
    -3_000,
    &[PluginPhase::Access, PluginPhase::ResponseHead],
    runner::schema,
    build,
)
.checked(runner::check)
.documented(include_str!("ext_plugin_post_req.rs"));

/// The compiled plugin.
struct ExtPluginPostReq(Caller);

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(ExtPluginPostReq(Caller::build(build, config, KIND.name)?)))
}

impl Plugin for ExtPluginPostReq {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        runner::request::call_for_request(&self.0, exchange)
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        runner::request::respond(exchange)
    }

    fn explain(&self, _: &mut Exchange, phase: PluginPhase) -> Explained {
        self.0.explain(phase == PluginPhase::Access)
    }
}
