//! # authz-casbin
//!
//! Admits or refuses requests by a model and a policy of [Casbin](https://casbin.org): access lists, roles,
//! or rules on attributes.
//!
//! ```json
//! {
//!     "model": "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n[role_definition]\ng = _, _\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = (g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)",
//!     "policy": "p, *, /, GET\np, admin, *, *\ng, alice, admin",
//!     "username": "X-Consumer-Username",
//!     "_meta": {"priority": 2400}
//! }
//! ```
//!
//! The policy decides on three values: the subject is the request field that `username` names, or `anonymous`
//! if the request has none; the object is the path, canonical and decoded as it is matched; the action is the
//! method.
//!
//! With `X-Consumer-Username`, the subject is the authenticated consumer, or `anonymous` where there is none,
//! and never what the client has sent. The plugin runs before most authentication plugins of its phase
//! (`ldap-auth`, `hmac-auth`, `basic-auth`, `jwt-auth`, `key-auth`): give it a `_meta.priority` below theirs,
//! such as 2400; otherwise every subject is `anonymous`. A client can send any value in another field, so
//! that a gateway in front has to set such a field.
//!
//! Model and policy are texts in `model` and `policy`, or files on the gateway's machine in `model_path` and
//! `policy_path`, which are read when the object is compiled, each of at most 4 MiB. With `username` alone,
//! `model` and `policy` of the plugin's metadata count:
//!
//! ```json
//! {
//!     "model": "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = r.sub == p.sub && keyMatch(r.obj, p.obj) && r.act == p.act",
//!     "policy": "p, jack, /hello, GET"
//! }
//! ```
//!
//! A model has the request `r` with three values, policies `p`, an effect that Casbin knows, and a matcher. A
//! line of a policy has a name that the model defines and as many values as the definition; any other text is
//! refused when it is written, because a line that is left out could be one that denies.
//!
//! A matcher has at most 4 KiB, 1,000 words and signs, 200 brackets and 64 inside each other; a value of a
//! policy has at most 4 KiB. `eval` takes one value of the policy, `eval(p.NAME)`; if a matcher has it, each
//! line of the policy has the limits of a matcher. Functions that call others by name (`Fn`, `call`, `curry`)
//! are refused.
//!
//! A refused request is answered with 403 and `{"message": "Access Denied"}`, also one with several such
//! fields or with bytes that are no UTF-8. If there is no model, or the policy cannot be evaluated (a matcher
//! that fails with the values of a request), the request is answered with 503, and the error log says why, at
//! most once a second for each instance.
//!
//! Each request evaluates the matcher for one line of the policy after the other. A policy of more than 64
//! lines, or with a matcher that compiles patterns (`regexMatch`, `keyMatch2` and later, `eval`), is
//! evaluated on a side thread, so that it does not hold up other requests. Of one instance at most 128
//! requests wait for it; one more is answered with 503.
//!
//! A gateway that is built without the cargo feature `casbin` does not have this plugin.

mod bounds;
mod policy;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::{BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::config_file;
use crate::shared::fields;
use crate::shared::side_thread;
use policy::{CasbinPolicy, CasbinRequest};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("authz-casbin", 2560, &[PluginPhase::Rewrite], config_schema, build)
        .checked(check)
        .with_metadata(AuthzCasbinMetadata::schema)
        .checked_metadata(check_metadata)
        .documented(include_str!("authz_casbin.rs"));

attributes! {
    struct AuthzCasbinConfig {
        /// The file with the model.
        model_path: Option<Box<str>>;
        /// The file with the policy.
        policy_path: Option<Box<str>>;
        /// The model.
        model: Option<String>;
        /// The policy.
        policy: Option<String>;
        /// The request field that holds the subject.
        username: Box<str>;
    }
    {"title": "Pass or refuse by a policy of Casbin"}
}

attributes! {
    struct AuthzCasbinMetadata {
        /// The model of instances without one.
        model: String;
        /// The policy of instances without one.
        policy: String;
    }
    {"title": "Model and policy of instances without their own"}
}

fn config_schema() -> Value {
    let mut schema = AuthzCasbinConfig::schema();
    let any = ["model_path", "policy_path", "model", "policy"].map(|name| json!({"required": [name]}));
    schema["oneOf"] = json!([
        {"required": ["model_path", "policy_path"]},
        {"required": ["model", "policy"]},
        {"not": {"anyOf": any}},
    ]);
    schema
}

struct AuthzCasbin {
    field: Box<str>,
    /// The field is that of the authenticated consumer, which a client may have sent before it is
    /// authenticated.
    is_consumer: bool,
    /// None: neither the configuration nor the metadata has one.
    policy: Option<Arc<CasbinPolicy>>,
    /// Keeps it for other instances with the same texts.
    _shared: Option<Arc<CasbinPolicyResult>>,
    /// Requests that wait for the side thread.
    waiting: AtomicUsize,
    pace: Pace,
}

/// A place among the waiting requests of an instance, so that one slow policy does not take the queue of all.
struct CasbinQueuePermit<'a>(&'a AtomicUsize);

impl<'a> CasbinQueuePermit<'a> {
    fn take(waiting: &'a AtomicUsize) -> Option<CasbinQueuePermit<'a>> {
        // Taken before the comparison, so that it is given back by the drop if there are too many.
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        let place = CasbinQueuePermit(waiting);
        (before < WAITING_MAX).then_some(place)
    }
}

impl Drop for CasbinQueuePermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

type CasbinPolicyResult = Result<Arc<CasbinPolicy>, String>;

fn check(config: &Value) -> Result<(), String> {
    let config: AuthzCasbinConfig = config::parse_config(config)?;
    fields::parse_field_name(&config.username).map_err(|reason| format!("username: {reason}"))?;
    match (&config.model, &config.policy) {
        (Some(model), Some(policy)) => check_texts(model, policy),
        _ => Ok(()),
    }
}

fn check_metadata(metadata: &Value) -> Result<(), String> {
    let metadata: AuthzCasbinMetadata = config::parse_config(metadata)?;
    check_texts(&metadata.model, &metadata.policy)
}

fn check_texts(model: &str, policy: &str) -> Result<(), String> {
    match config::is_reference(model) || config::is_reference(policy) {
        true => Ok(()),
        false => CasbinPolicy::compile(model, policy).map(drop),
    }
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: AuthzCasbinConfig = config::parse_config(config)?;
    let texts = match (config.model_path, config.policy_path, config.model, config.policy) {
        (Some(model), Some(policy), ..) => Some((
            config_file::read_config_file("model_path", &model)?,
            config_file::read_config_file("policy_path", &policy)?,
        )),
        (_, _, Some(model), Some(policy)) => Some((model, policy)),
        _ => match build.metadata {
            Some(metadata) => {
                let metadata: AuthzCasbinMetadata = config::parse_config(metadata)?;
                Some((metadata.model, metadata.policy))
            }
            None => None,
        },
    };
    let shared = texts.map(|(model, policy)| shared(build, &model, &policy));
    let policy = match &shared {
        Some(shared) => Some(shared.as_ref().clone()?),
        None => None,
    };
    let pace = Pace::every_ms(LOG_INTERVAL_MS);
    let is_consumer = config.username.eq_ignore_ascii_case(CONSUMER_FIELD);
    Ok(Arc::new(AuthzCasbin {
        field: config.username,
        is_consumer,
        policy,
        _shared: shared,
        waiting: AtomicUsize::new(0),
        pace,
    }))
}

/// Instances with the same texts, those of the metadata first of all, share what is compiled.
fn shared(build: &Build<'_>, model: &str, policy: &str) -> Arc<CasbinPolicyResult> {
    let key = format!("authz-casbin\0{model}\0{policy}");
    build.states.held(&key).unwrap_or_else(|| {
        // Compiled before the registry is locked.
        let compiled = CasbinPolicy::compile(model, policy).map(Arc::new);
        build.states.keep(&key, || compiled)
    })
}

impl Plugin for AuthzCasbin {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let Some(policy) = &self.policy else {
            return Flow::reply(self.without_decision(exchange, "there is no model and no policy"));
        };
        let Some(question) = self.question(exchange) else { return Flow::reply(denial()) };
        if policy.is_quick() {
            return match self.answer(exchange, policy.allows(&question)) {
                None => Flow::Continue,
                Some(reply) => Flow::reply(reply),
            };
        }
        let Some(place) = CasbinQueuePermit::take(&self.waiting) else {
            return Flow::reply(self.without_decision(exchange, "too many requests wait for the policy"));
        };
        let policy = policy.clone();
        Flow::Wait(Box::pin(async move {
            let _place = place;
            let decided = side_thread::run_on_side_thread(move || policy.allows(&question)).await;
            match self.answer(exchange, decided.unwrap_or_else(|fault| Err(fault.to_owned()))) {
                None => PhaseDecision::Continue,
                Some(reply) => PhaseDecision::Reply(Box::new(reply)),
            }
        }))
    }
}

impl AuthzCasbin {
    /// The values that are decided on; none if they cannot be told.
    fn question(&self, exchange: &Exchange) -> Option<CasbinRequest> {
        Some(CasbinRequest {
            subject: self.subject(exchange)?.to_owned(),
            object: std::str::from_utf8(exchange.path()).ok()?.to_owned(),
            action: std::str::from_utf8(exchange.request.method_text()).ok()?.to_owned(),
        })
    }

    /// The subject; none if the field is there twice or holds no text.
    fn subject<'e>(&self, exchange: &'e Exchange) -> Option<&'e str> {
        if self.is_consumer {
            return Some(exchange.consumer().map_or(ANONYMOUS, |consumer| &*consumer.username));
        }
        let mut subjects = exchange.request.headers.get_all(&self.field);
        match (subjects.next(), subjects.next()) {
            (None, _) => Some(ANONYMOUS),
            (Some(subject), None) => std::str::from_utf8(subject).ok(),
            (Some(_), Some(_)) => None,
        }
    }

    /// The refusal of a request, if it does not pass.
    fn answer(&self, exchange: &Exchange, decided: Result<bool, String>) -> Option<BufferedReply> {
        match decided {
            Ok(true) => None,
            Ok(false) => Some(denial()),
            Err(fault) => Some(self.without_decision(exchange, &fault)),
        }
    }

    fn without_decision(&self, exchange: &Exchange, fault: &str) -> BufferedReply {
        if let Some(requests) = self.pace.add(1, exchange.local().now_ms()) {
            tracing::warn!(fault, requests, "authz-casbin made no decision");
        }
        BufferedReply::status(503)
    }
}

fn denial() -> BufferedReply {
    BufferedReply::message(403, "Access Denied")
}

/// The most requests of an instance that wait for the side thread.
const WAITING_MAX: usize = 128;
/// The field in which authentication plugins name the consumer to the upstream.
const CONSUMER_FIELD: &str = "X-Consumer-Username";
/// The subject of a request without one.
const ANONYMOUS: &str = "anonymous";
/// Milliseconds between two lines about requests that are not decided.
const LOG_INTERVAL_MS: u64 = 1_000;

#[cfg(test)]
mod tests;
