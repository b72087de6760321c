//! # ext-plugin-post-resp
//!
//! Runs plugins in other languages for the response of the upstream: a plugin runner, a process of its own,
//! has them. The [guide](../../guide/external-plugins.md) shows how to run one.
//!
//! ```json
//! {
//!   "conf": [{ "name": "response-rewrite", "value": "{\"headers\": {\"X-Server\": \"hidden\"}, \"body\": \"closed\"}" }]
//! }
//! ```
//!
//! The runner gets the status and the fields of the response; a plugin may ask for
//! [variables](../../guide/routing.md#variables), for the body of the request if it was read before, and for
//! the body of the response. It may set the status, set and remove fields, and replace the body. Only if a
//! plugin asks for the body, the response is read whole before it is sent; one with more than 16 MiB then
//! fails with 502. Otherwise it is passed on as it comes, so that downloads and streams of events keep their
//! pace. A plugin that asks for the body of an event stream (`text/event-stream`) gets none, because it may
//! have no end. With a new body, `Content-Encoding`, `ETag` and `Last-Modified` of the old one are removed.
//!
//! It runs for responses of upstreams and of the cache, not for those of plugins or of the gateway. The
//! gateway sends the request as for any other route, with balancing, retries and TLS; in APISIX the plugin
//! does so itself, without these.
//!
//! **Failures.** Where a call fails, the client receives 503 in place of the response, and with
//! `allow_degradation` the response as it is; see [`ext-plugin-pre-req`](ext-plugin-pre-req.md).
//!
//! **Difference from APISIX.** Fields that the runner does not name stay. APISIX drops all of them as soon as
//! the runner names one, and `Content-Type`, `Location` and some others in any case.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{BodyNeed, Build, Explained, Plugin, PluginKind, PluginPhase, Portion, ResponseStep};
use serde_json::Value;

use crate::shared::runner::{self, Caller};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "ext-plugin-post-resp",
    -4_000,
    &[PluginPhase::ResponseHead, PluginPhase::ResponseBody],
    runner::schema,
    build,
)
.checked(runner::check)
.documented(include_str!("ext_plugin_post_resp.rs"));

/// The compiled plugin.
struct ExtPluginPostResp(Caller);

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(ExtPluginPostResp(Caller::build(build, config, KIND.name)?)))
}

impl Plugin for ExtPluginPostResp {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        runner::response::call_for_response_head(&self.0, exchange)
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        runner::response::need(exchange)
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        runner::response::call_for_response_body(&self.0, exchange, body, portion)
    }

    fn explain(&self, _: &mut Exchange, _: PluginPhase) -> Explained {
        Explained::passes()
    }
}
