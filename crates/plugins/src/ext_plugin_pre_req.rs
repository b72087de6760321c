//! # ext-plugin-pre-req
//!
//! Runs plugins in other languages before the other plugins of the request: a plugin runner, a process of its
//! own, has them. The runners of APISIX for Go, Java and Python run unchanged; the
//! [guide](../../guide/external-plugins.md) shows how.
//!
//! ```json
//! {
//!   "conf": [
//!     { "name": "limit-req", "value": "{\"rate\": 10, \"burst\": 2}" },
//!     { "name": "say", "value": "{\"body\": \"hello\"}" }
//!   ],
//!   "allow_degradation": false
//! }
//! ```
//!
//! The runner gets the method, the path, the arguments, the fields and the client's address of the request,
//! and the plugins of `conf` see it in this order. A plugin may ask for
//! [variables](../../guide/routing.md#variables) and for the body, which is read only then. It answers the
//! request itself, with a status, fields and a body, or it changes the path, the arguments, the fields, the
//! body, and fields of the response that is to come. The new path is text: a question mark in it is encoded.
//! A field `Host` is the host that the upstream sees.
//!
//! The runner reads the configuration once and knows it by a token from then on; the gateway sends it again
//! after 54 minutes, after a change, and to another runner.
//!
//! **Failures.** If the runner does not run, does not answer within `plugin_runner_timeout_ms`, breaks the
//! connection, or sends bytes that are no valid answer, the client receives 503; with `allow_degradation` the
//! request goes on unchanged. The log has the reason at most once a second for each object, and
//! `weir_plugin_call_failures_total` counts the requests. So are answered methods that the protocol has no
//! number for, such as `PURGE`.
//!
//! **Limits.** A body that a plugin reads or replaces has 16 MiB at most, the changes of one answer 1,000
//! fields and arguments with 256 KiB. Fields of the connection and `Content-Length` stay the gateway's, and
//! these fields of the response those of the upstream, as in APISIX: `Content-Type`, `Content-Encoding`,
//! `Content-Language`, `Content-Location`, `Location`, `Server`, `WWW-Authenticate`. A worker makes 1,000
//! calls at the same time.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{Build, Explained, Flow, Plugin, PluginKind, PluginPhase, ResponseStep};
use model::control_endpoint::{ControlAnswer, ControlEndpoint};
use serde_json::Value;

use crate::shared::runner::{self, Caller};

/// The plugin. It also shows the runner of all three plugins in the control API.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "ext-plugin-pre-req",
    12_000,
    &[PluginPhase::Rewrite, PluginPhase::ResponseHead],
    runner::schema,
    build,
)
.checked(runner::check)
.with_control_endpoints(&[ControlEndpoint {
    path: "/v1/plugin_runner",
    answer: |_| ControlAnswer::Json(runner::render_runner_status()),
}])
.documented(include_str!("ext_plugin_pre_req.rs"));

/// The compiled plugin.
struct ExtPluginPreReq(Caller);

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(ExtPluginPreReq(Caller::build(build, config, KIND.name)?)))
}

impl Plugin for ExtPluginPreReq {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        runner::request::call_for_request(&self.0, exchange)
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        runner::request::respond(exchange)
    }

    fn explain(&self, _: &mut Exchange, phase: PluginPhase) -> Explained {
        self.0.explain(phase == PluginPhase::Rewrite)
    }
}
