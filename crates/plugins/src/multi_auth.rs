//! # multi-auth
//!
//! Tries several methods of authentication in turn; the first one that accepts the request names the
//! consumer.
//!
//! ```json
//! {
//!     "auth_plugins": [
//!         {"basic-auth": {"hide_credentials": true}},
//!         {"key-auth": {"header": "X-API-Key"}},
//!         {"jwt-auth": {}}
//!     ]
//! }
//! ```
//!
//! Each entry names an authentication plugin and its configuration on a route, as the reference describes it
//! there. Consumers and credentials are written with these plugins, not with `multi-auth`. A plugin of
//! `auth_plugins` may have `_meta`: a disabled one, and one with a `filter` that does not hold, is left out.
//!
//! If no method accepts the request, it is answered with 401 and `{"message":"Authorization Failed"}`, with
//! the `WWW-Authenticate` fields of all methods. A method with an `anonymous_consumer` accepts every request,
//! so it belongs at the end. A method that does not accept a request leaves it as it was. `jwe-decrypt` with
//! `strict` off accepts requests without a token, as in APISIX.
//!
//! A request with two credentials in one place, such as two fields `apikey`, is refused by the first method
//! that looks there, and no further method is tried.

use std::sync::{Arc, LazyLock};

use exchange::Exchange;
use exchange::plugin::chain::PluginInstance;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use model::catalog::{PluginCatalog, SchemaType};
use model::check::UnknownFields;
use serde_json::{Map, Value};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    NAME,
    2600,
    &[PluginPhase::Rewrite, PluginPhase::RequestBody, PluginPhase::Access],
    MultiAuthConfig::schema,
    build,
)
.checked(check)
.authenticates_without_consumers()
.documented(include_str!("multi_auth.rs"));

attributes! {
    struct MultiAuthConfig {
        /// The methods in the order they are tried: an object with the name of a plugin and its
        /// configuration.
        auth_plugins: Vec<Map<String, Value>>, {"minItems": 2, "maxItems": METHODS_MAX};
    }
    {"title": "Let in requests that one of several methods accepts"}
}

struct MultiAuth {
    methods: Vec<Arc<PluginInstance>>,
}

/// The method that accepted the request; the phases behind the first one belong to it.
#[derive(Default)]
struct Accepted(Option<usize>);

/// The plugins that may be tried: all that authenticate, but for this one.
static METHODS: LazyLock<PluginCatalog> = LazyLock::new(|| {
    let is_method = |kind: &&&PluginKind| kind.auth && kind.name != NAME;
    let kinds = crate::ALL.iter().filter(is_method);
    PluginCatalog::new(kinds.map(|kind| kind.info()).collect()).expect("the list of plugins names each once")
});

fn check(config: &Value) -> Result<(), String> {
    let config: MultiAuthConfig = config::parse_config(config)?;
    for (name, config) in config.auth_plugins.iter().flatten() {
        let Some(method) = METHODS.get(name) else {
            let is_known = crate::ALL.iter().any(|kind| kind.name == name);
            return Err(format!(
                "{name} plugin {}",
                if is_known { "is not supported" } else { "did not found" }
            ));
        };
        let checked = method.check(SchemaType::Plugin, config, UnknownFields::Refuse);
        if let Some(fault) = checked.faults.first() {
            return Err(format!("plugin {name} check schema failed: {}", fault.plugin_message()));
        }
    }
    Ok(())
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    check(config)?;
    let config: MultiAuthConfig = config::parse_config(config)?;
    let mut methods = Vec::new();
    for (index, entry) in config.auth_plugins.iter().enumerate() {
        for (name, config) in entry {
            methods.extend(build.plugin(&format!("auth_plugins/{index}/{name}"), name, config)?);
        }
    }
    Ok(Arc::new(MultiAuth { methods }))
}

impl Plugin for MultiAuth {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Wait(Box::pin(self.try_all(exchange)))
    }

    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        match self.accepted(exchange) {
            Some(method) if method.phases.contains(&PluginPhase::RequestBody) => {
                method.plugin.wants_request_body(exchange)
            }
            _ => BodyNeed::None,
        }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.accepted(exchange) {
            Some(method) if method.phases.contains(&PluginPhase::Access) => {
                Flow::Wait(Box::pin(method.run(PluginPhase::Access, exchange)))
            }
            _ => Flow::Continue,
        }
    }
}

impl MultiAuth {
    async fn try_all(&self, exchange: &mut Exchange) -> PhaseDecision {
        let mut refusal = BufferedReply::message(401, "Authorization Failed");
        for (index, method) in self.methods.iter().enumerate() {
            // An instance that does not apply would let the request pass.
            if !method.decides(exchange) {
                continue;
            }
            match method.run(PluginPhase::Rewrite, exchange).await {
                PhaseDecision::Continue => {
                    exchange.state::<Accepted>().0 = Some(index);
                    return PhaseDecision::Continue;
                }
                // Another method would accept a request in which two readers could see different credentials.
                PhaseDecision::Reply(reply) if reply.is_final => return PhaseDecision::Reply(reply),
                PhaseDecision::Reply(reply) => {
                    tracing::debug!(
                        method = method.name,
                        status = reply.status,
                        "multi-auth tries the next method"
                    );
                    let is_challenge = |name: &str| name.eq_ignore_ascii_case("WWW-Authenticate");
                    refusal.headers.extend(reply.headers.into_iter().filter(|(name, _)| is_challenge(name)));
                }
                PhaseDecision::Stream(_) | PhaseDecision::Stored(_) => {}
            }
        }
        PhaseDecision::Reply(Box::new(refusal))
    }

    fn accepted(&self, exchange: &Exchange) -> Option<&PluginInstance> {
        let Accepted(index) = exchange.peek_state()?;
        self.methods.get((*index)?).map(|method| &**method)
    }
}

const NAME: &str = "multi-auth";
/// The most methods: each one costs a request that the others refused.
const METHODS_MAX: usize = 16;

#[cfg(test)]
mod tests;
