//! # cors
//!
//! Lets browsers use a route from pages of other origins, by the rules of cross-origin resource sharing
//! (CORS).
//!
//! ```json
//! {
//!     "allow_origins": "https://shop.example,https://app.example",
//!     "allow_methods": "GET,POST",
//!     "allow_headers": "Content-Type",
//!     "expose_headers": "X-Total",
//!     "max_age": 600,
//!     "allow_credential": true
//! }
//! ```
//!
//! The gateway answers every `OPTIONS` request with 200 and no body; it never reaches an upstream. A
//! preflight request (`OPTIONS` with `Origin` and `Access-Control-Request-Method`) is answered before
//! authentication, also before that of global rules, because browsers send no credentials with it; only
//! plugins of a priority above 4000 run before. The plugin of a consumer comes too late for that, because a
//! preflight request has no consumer: put it on the route.
//!
//! Every response, of an upstream or local, gets the `Access-Control-…` fields if the request's `Origin` is
//! allowed, and none of them otherwise; then the browser keeps the response from the page. That holds for
//! refusals of plugins that run before this one too. Fields of these names that the upstream sends are
//! removed for an origin that is not allowed, and `Access-Control-Allow-Credentials` wherever
//! `allow_credential` is not set. The request is served either way; this plugin protects no upstream.
//!
//! Which origins are allowed:
//!
//! - `allow_origins`: a list, separated by commas; `*` is every origin, `**` every origin by its name, which
//!   works with credentials too and so lets every page on the web act with the rights of its visitor.
//! - `allow_origins_by_regex`: patterns, found anywhere in the origin unless they say `^` and `$`. If they
//!   are given, `allow_origins` is ignored.
//! - `allow_origins_by_metadata`: names of lists in this plugin's metadata, such as
//!   `{"allow_origins": {"partners": "https://a.example,https://b.example"}}`. If they are given,
//!   `allow_origins` counts only if it is not `*`.
//!
//! For `allow_methods` and `allow_headers`, `*` means all to browsers if there are no credentials, and `**`
//! means all with credentials too: all methods are listed, and every field in
//! `Access-Control-Request-Headers` is allowed. Without `expose_headers` a node's own
//! `Access-Control-Expose-Headers` is kept. With `allow_credential` none of the lists may be `*`, which
//! browsers would refuse.
//!
//! `timing_allow_origins` and `timing_allow_origins_by_regex` name the origins for `Timing-Allow-Origin` in
//! the same way.
//!
//! Unless every origin gets the same response, `Vary: Origin` is added, so that no cache serves the response
//! for one origin to another.

use std::borrow::Cow;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, ResponseStep, explain_by_running,
};
use message::{Headers, Method};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::substitution::{Matcher, PatternOptions};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new("cors", 4000, PHASES, CorsConfig::schema, build)
    .checked(|config| compile(config, None).map(drop))
    .with_metadata(metadata_schema)
    .documented(include_str!("cors.rs"));

const PHASES: &[PluginPhase] = &[PluginPhase::Preflight, PluginPhase::Rewrite, PluginPhase::ResponseHead];

attributes! {
    struct CorsConfig {
        /// Allowed origins, separated by commas; * is any, ** any even with credentials.
        allow_origins: String = "*".into(), {"pattern": ORIGINS_PATTERN};
        /// Allowed methods, separated by commas; * is any, ** any even with credentials.
        allow_methods: String = "*".into();
        /// Request fields a page may set, separated by commas; * is any, ** any even with credentials.
        allow_headers: String = "*".into();
        /// Response fields a page may read, separated by commas; * is any without credentials.
        expose_headers: Option<String>;
        /// Seconds a browser may rely on an answer to OPTIONS; -1: it asks each time.
        max_age: i64 = 5;
        /// Whether pages may send cookies and credentials; then no list may be *.
        allow_credential: bool = false;
        /// Patterns of allowed origins, in place of allow_origins.
        allow_origins_by_regex: Option<Vec<String>>, {"items": pattern(), "minItems": 1, "uniqueItems": true};
        /// Names of lists of origins in this plugin's metadata.
        allow_origins_by_metadata: Option<Vec<String>>, {"items": pattern(), "minItems": 1, "uniqueItems": true};
        /// Origins that may read timings, separated by commas; * is any, ** any by its name.
        timing_allow_origins: Option<String>, {"pattern": ORIGINS_PATTERN};
        /// Patterns of origins that may read timings, in place of timing_allow_origins.
        timing_allow_origins_by_regex: Option<Vec<String>>, {
            "items": pattern(), "minItems": 1, "uniqueItems": true
        };
    }
    {"title": "Let pages of other origins use this"}
}

fn pattern() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 4096})
}

fn metadata_schema() -> Value {
    json!({
        "type": "object",
        "title": "Lists of origins by name",
        "properties": {
            "allow_origins": {
                "type": "object",
                "description": "Lists of origins, written like allow_origins, for allow_origins_by_metadata to name.",
                "additionalProperties": {"type": "string", "pattern": ORIGINS_PATTERN}
            }
        }
    })
}

struct Cors {
    origins: Vec<Origins>,
    timing: Option<Origins>,
    /// Fields that every allowed origin gets.
    fields: Vec<(&'static str, String)>,
    /// Whether `Access-Control-Allow-Headers` repeats the request's `Access-Control-Request-Headers`.
    grants_requested_headers: bool,
    allows_credentials: bool,
}

/// A rule for origins.
enum Origins {
    /// Every origin, sent as `*`.
    Any,
    /// Every origin, sent by its name.
    AnyByName,
    /// The listed origins.
    Listed(Vec<String>),
    /// The origins in which one of the patterns is found.
    Matching(Vec<Matcher>),
}

/// The request's origin, stored before other plugins could change the request.
#[derive(Clone, Default)]
struct CorsRequestFields {
    origin: Option<Vec<u8>>,
    headers: Option<Vec<u8>>,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config, build.metadata)?))
}

fn compile(config: &Value, metadata: Option<&Value>) -> Result<Cors, String> {
    let config: CorsConfig = config::parse_config(config)?;
    let timing = config.timing_allow_origins.as_deref();
    let lists = [&config.allow_origins, &config.allow_methods, &config.allow_headers];
    let optional = [config.expose_headers.as_deref(), timing];
    if config.allow_credential && (lists.iter().any(|list| *list == "*") || optional.contains(&Some("*"))) {
        return Err("you can not set '*' for other option when 'allow_credential' is true".to_owned());
    }
    let fields = fields(&config);
    if let Some((name, _)) = fields.iter().find(|(_, value)| value.chars().any(char::is_control)) {
        return Err(format!("{name} would hold a control character"));
    }
    let timing = match (&config.timing_allow_origins_by_regex, timing) {
        (Some(patterns), _) => Some(Origins::matching(patterns)?),
        (None, Some(list)) => Some(Origins::listed(list)),
        (None, None) => None,
    };
    Ok(Cors {
        origins: allowed_origins(&config, metadata)?,
        timing,
        fields,
        grants_requested_headers: config.allow_headers == "**",
        allows_credentials: config.allow_credential,
    })
}

/// The rules for allowed origins; one of them must hold.
fn allowed_origins(config: &CorsConfig, metadata: Option<&Value>) -> Result<Vec<Origins>, String> {
    let names = config.allow_origins_by_metadata.as_deref();
    let mut rules = Vec::new();
    match &config.allow_origins_by_regex {
        Some(patterns) => rules.push(Origins::matching(patterns)?),
        None if names.is_some() && config.allow_origins == "*" => {}
        None => rules.push(Origins::listed(&config.allow_origins)),
    }
    // A name that the metadata does not have (yet) allows no origin.
    let lists = metadata.and_then(|metadata| metadata.get("allow_origins"));
    let named = names.unwrap_or_default().iter().filter_map(|name| lists?.get(name)?.as_str());
    // An origin that the metadata allows is always answered with its own name.
    rules.extend(named.map(|list| if list == "*" { Origins::AnyByName } else { Origins::listed(list) }));
    Ok(rules)
}

fn fields(config: &CorsConfig) -> Vec<(&'static str, String)> {
    let methods = if config.allow_methods == "**" { ALL_METHODS } else { &config.allow_methods };
    let max_age_s = config.max_age;
    let mut fields = vec![
        ("Access-Control-Allow-Methods", methods.to_owned()),
        ("Access-Control-Max-Age", max_age_s.to_string()),
    ];
    if let Some(exposed) = config.expose_headers.as_ref().filter(|exposed| !exposed.is_empty()) {
        fields.push(("Access-Control-Expose-Headers", exposed.clone()));
    }
    if config.allow_headers != "**" {
        fields.push(("Access-Control-Allow-Headers", config.allow_headers.clone()));
    }
    if config.allow_credential {
        fields.push(("Access-Control-Allow-Credentials", "true".to_owned()));
    }
    fields
}

impl Origins {
    fn listed(list: &str) -> Origins {
        match list {
            "*" => Origins::Any,
            "**" => Origins::AnyByName,
            list => Origins::Listed(list.split(',').map(str::to_owned).collect()),
        }
    }

    fn matching(patterns: &[String]) -> Result<Origins, String> {
        let compile = |pattern: &String| {
            Matcher::compile(pattern, PatternOptions::default())
                .map_err(|reason| format!("the pattern `{pattern}` is not valid: {reason}"))
        };
        Ok(Origins::Matching(patterns.iter().map(compile).collect::<Result<_, _>>()?))
    }

    /// The value of `Access-Control-Allow-Origin` for an allowed origin; `None` for any other.
    fn answer<'a>(&self, origin: Option<&'a [u8]>) -> Option<Cow<'a, [u8]>> {
        match (self, origin) {
            (Origins::Any, _) | (Origins::AnyByName, None) => Some(Cow::Borrowed(b"*")),
            (Origins::AnyByName, Some(origin)) => Some(Cow::Borrowed(origin)),
            (Origins::Listed(list), Some(origin)) => {
                list.iter().any(|listed| listed.as_bytes() == origin).then_some(Cow::Borrowed(origin))
            }
            (Origins::Matching(patterns), Some(origin)) => {
                // A search that was given up allows no origin.
                let found = patterns.iter().any(|pattern| matches!(pattern.find(origin, 0), Ok(Some(_))));
                found.then_some(Cow::Borrowed(origin))
            }
            (Origins::Listed(_) | Origins::Matching(_), None) => None,
        }
    }
}

impl Cors {
    fn asked(&self, exchange: &Exchange) -> CorsRequestFields {
        let field = |name: &str| exchange.request.headers.get(name).map(<[u8]>::to_vec);
        let headers =
            self.grants_requested_headers.then(|| field("access-control-request-headers")).flatten();
        CorsRequestFields { origin: field("origin"), headers }
    }
}

/// Removes the fields by which the upstream itself lets other origins in.
fn remove_grants(headers: &mut Headers) {
    for name in GRANTS {
        headers.remove(name);
    }
}

/// The fields of responses that CORS knows.
const GRANTS: [&str; 7] = [
    "Access-Control-Allow-Origin",
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Private-Network",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
];

impl Plugin for Cors {
    fn preflight<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.rewrite(exchange)
    }

    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        *exchange.state::<CorsRequestFields>() = self.asked(exchange);
        match exchange.request.method {
            Method::Options => Flow::reply(BufferedReply::status(200)),
            _ => Flow::Continue,
        }
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        // Another plugin or the gateway may have answered before the rewrite phase of this one.
        let asked = exchange.peek_state::<CorsRequestFields>().cloned();
        let CorsRequestFields { origin, headers: requested } = asked.unwrap_or_else(|| self.asked(exchange));
        let origin = origin.as_deref();
        exchange.decision.has_cors = true;
        let headers = &mut exchange.response.headers;
        // These fail only if the head is full, and a full head is no reason to fail the response.
        let allowed = self.origins.iter().find_map(|rule| rule.answer(origin));
        if allowed.as_deref() != Some(b"*") && !headers.get_all("vary").any(varies_by_origin) {
            let _ = headers.append("Vary", b"Origin");
        }
        match allowed {
            Some(allowed) => {
                if !self.allows_credentials {
                    headers.remove("Access-Control-Allow-Credentials");
                }
                let _ = headers.set("Access-Control-Allow-Origin", &allowed);
                for (name, value) in &self.fields {
                    let _ = headers.set(name, value.as_bytes());
                }
                if self.grants_requested_headers {
                    match requested {
                        Some(requested) => drop(headers.set("Access-Control-Allow-Headers", &requested)),
                        None => drop(headers.remove("Access-Control-Allow-Headers")),
                    }
                }
            }
            None => remove_grants(headers),
        }
        if let Some(rule) = &self.timing {
            match rule.answer(origin) {
                Some(allowed) => drop(headers.set("Timing-Allow-Origin", &allowed)),
                None => drop(headers.remove("Timing-Allow-Origin")),
            }
        }
        ResponseStep::Done
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

/// Whether a `Vary` field already covers the origin.
fn varies_by_origin(value: &[u8]) -> bool {
    let mut elements = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    elements.any(|element| element == b"*" || element.eq_ignore_ascii_case(b"origin"))
}

/// `*`, `**`, `null`, or origins separated by commas.
const ORIGINS_PATTERN: &str = r"^(\*|\*\*|null|\w+://[^,]+(,\w+://[^,]+)*)$";
const ALL_METHODS: &str = "GET,POST,PUT,DELETE,PATCH,HEAD,OPTIONS,CONNECT,TRACE";

#[cfg(test)]
mod tests;
