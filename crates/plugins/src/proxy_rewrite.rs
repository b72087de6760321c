//! # proxy-rewrite
//!
//! Changes the request that the node receives: path, query, method, Host and other fields. Matching, other
//! plugins and logs still see the client's request.
//!
//! ```json
//! {
//!   "regex_uri": ["^/shop/(.*)/items", "/v2/$1/articles"],
//!   "host": "articles.internal",
//!   "headers": {
//!     "set": { "X-Tenant": "$1", "X-Client": "$remote_addr" },
//!     "remove": ["X-Debug"]
//!   }
//! }
//! ```
//!
//! **Path.** `uri` is the new path, with variables (`/api/$arg_version$uri`); a query in it is joined with
//! the client's by `&`. Otherwise `regex_uri` holds pairs of a pattern and a template with the groups `$1`,
//! `$2` …; the first pattern that matches the path counts, and without a match the path stays. If both are
//! given, `uri` wins. A pattern with look-around or back-references is searched in a path of up to 4 KiB and
//! for a few milliseconds; beyond that the answer is 400.
//!
//! Text of clients in variables and groups stays where the template has it. Before the first `?` of the
//! template it is part of the path; behind it, it is part of one argument: `& = + ; # %` and all that no URI
//! may hold are percent-encoded there, so that `/s?user=$1&role=guest` has these two arguments whatever a
//! client sends, and the node decodes the text once. Variables that are parts of a URI (`$args`,
//! `$query_string`, `$request_uri`, `$real_request_uri`) stay as they are behind `?` or `&`, as in
//! `/s?a=1&$args`, and are encoded as a whole inside an argument, as in `?back=$request_uri`. A `#` of the
//! template is encoded, because a request has no fragment.
//!
//! The new path is brought into the same canonical form as the path of a request, so that it can neither
//! leave a directory nor break the request line; if that is impossible, the response is 400. With
//! `use_real_request_uri_unsafe` the target is taken as the client sent it, with its query, and is forwarded
//! without normalisation, also with `uri`: only for nodes that require it. Groups are then written as the
//! client sent them, except that inside an argument `&` is encoded.
//!
//! **Method.** `method` replaces the method, except that of a HEAD request, because its client could not take
//! the body of another method's response. HEAD and TRACE are refused as new methods: responses to HEAD have
//! no body to pass on, and TRACE makes an upstream repeat fields that a browser hides.
//!
//! **Fields.** `headers` holds `add`, `set` and `remove`, done in this order; an object of names and values
//! alone means `set`. Values hold variables, and the groups of the `regex_uri` that matched. A value that is
//! empty, or not valid in a field, removes the field. In `add` and `set` a value may be a list: the field is
//! then sent once for each of its values, without those that are empty or not valid in a field.
//!
//! Of the fields that the gateway itself writes, `X-Forwarded-Proto`, `-Host` and `-Port` are sent as they
//! are set here, and not at all after `remove`. `X-Real-IP` is sent as it is set here, and the peer's address
//! is appended to `X-Forwarded-For`; after `remove` the gateway's own are sent. `Host` can be set too, and is
//! never removed; `host` takes precedence. Of a list for `Host` or `X-Real-IP` the first value counts.
//! Framing cannot be changed.
//!
//! **Variables.** `$uri`, `$request_uri` and `$args` still describe the client's request; `$upstream_uri` is
//! the target that the node receives, if this plugin changed it.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use router::path::{PathScratch, canonicalize};
use router::vars::VariableSource;
use serde_json::{Map, Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::fields::{self, FieldOperation, FieldOperations};
use crate::shared::substitution::Groups;
use crate::shared::uri_template::{UriSubstitution, UriTemplate, UriUse};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("proxy-rewrite", 1008, &[PluginPhase::Rewrite], ProxyRewriteConfig::schema, build)
        .checked(check)
        .documented(include_str!("proxy_rewrite.rs"));

/// The methods APISIX lists.
const METHODS: [&str; 14] = [
    "GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "MKCOL", "COPY", "MOVE", "PROPFIND", "LOCK", "UNLOCK",
    "PATCH", "TRACE",
];

attributes! {
    struct ProxyRewriteConfig {
        /// The new path, with variables and possibly a query.
        uri: Option<String>, { "minLength": 1, "maxLength": 4096, "pattern": "^\\/.*" };
        /// The new method.
        method: Option<Box<str>>, { "enum": METHODS };
        /// Pairs of a pattern for the path and a template for the new one.
        regex_uri: Option<Vec<String>>, {
            "minItems": 2,
            "items": { "description": "A pattern or a template.", "type": "string" },
        };
        /// The new Host, with a port if need be.
        host: Option<Box<str>>, { "pattern": "^[0-9a-zA-Z-.]+(:\\d{1,5})?$" };
        /// The changes to the fields of the request.
        headers: Option<Value>, { "oneOf": header_forms() };
        /// Works on the target as the client sent it, which no check has seen.
        use_real_request_uri_unsafe: bool = false;
    }
    { "minProperties": 1 }
}

fn header_forms() -> Value {
    let fields = |description: &str, kinds: Value| {
        json!({
            "description": description,
            "type": "object",
            "minProperties": 1,
            "patternProperties": { "^[^:]+$": { "oneOf": kinds } },
        })
    };
    let one = json!([{ "type": "string" }, { "type": "number" }]);
    let lists = json!([
        { "type": "string" },
        { "type": "number" },
        {
            "description": "One field for each value.",
            "type": "array", "minItems": 1,
            "items": { "description": "A value.", "oneOf": one },
        },
    ]);
    json!([
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": false,
            "properties": {
                "add": fields("Fields that are appended.", lists.clone()),
                "set": fields("Fields that replace those of the same name.", lists),
                "remove": {
                    "description": "Names of fields that are taken away.",
                    "type": "array", "minItems": 1,
                    "items": { "type": "string", "pattern": "^[^:]+$" },
                },
            },
        },
        fields("Fields that replace those of the same name.", one),
    ])
}

/// The compiled plugin.
struct ProxyRewrite {
    path: Path,
    raw: bool,
    method: Option<Box<str>>,
    host: Option<Box<str>>,
    fields: FieldOperations,
}

/// The source of the new path.
enum Path {
    Kept,
    Rendered(UriTemplate),
    Substituted(Box<[UriSubstitution]>),
}

fn check(config: &Value) -> Result<(), String> {
    let mut config = config.clone();
    if let Some(regex_uri) = config.get_mut("regex_uri").and_then(Value::as_array_mut)
        && regex_uri.len().is_multiple_of(2)
    {
        let mut known = Vec::new();
        for pair in regex_uri.chunks(2) {
            let text = |at: usize| pair[at].as_str().unwrap_or_default();
            known.extend(
                config::checkable_pair(text(0), text(1)).map(|(a, b)| [Value::from(a), Value::from(b)]),
            );
        }
        *regex_uri = known.into_iter().flatten().collect();
    }
    compile(&config).map(drop)
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    compile(config).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value) -> Result<ProxyRewrite, String> {
    let config: ProxyRewriteConfig = config::parse_config(config)?;
    if let Some(method @ ("HEAD" | "TRACE")) = config.method.as_deref() {
        return Err(format!(
            "method {method} is not supported: its answers are none a client of another method can take"
        ));
    }
    if let Some(host) = config.host.as_deref().filter(|host| !message::syntax::is_authority(host.as_bytes()))
    {
        return Err(format!("host: `{host}` is not a host name, perhaps with a port"));
    }
    Ok(ProxyRewrite {
        path: path(
            config.uri.as_deref(),
            config.regex_uri.as_deref().unwrap_or_default(),
            config.use_real_request_uri_unsafe,
        )?,
        raw: config.use_real_request_uri_unsafe,
        method: config.method,
        host: config.host,
        fields: config
            .headers
            .as_ref()
            .and_then(Value::as_object)
            .map(field_operations)
            .transpose()?
            .unwrap_or_default(),
    })
}

fn path(uri: Option<&str>, regex_uri: &[String], raw: bool) -> Result<Path, String> {
    if !regex_uri.len().is_multiple_of(2) {
        return Err("The length of regex_uri should be an even number".to_owned());
    }
    let uri_use = if raw { UriUse::RawTarget } else { UriUse::Target };
    let pair = |pair: &[String]| {
        UriSubstitution::compile(&pair[0], &pair[1], uri_use)
            .map_err(|reason| format!("invalid regex_uri({}, {}): {reason}", pair[0], pair[1]))
    };
    let pairs: Box<[UriSubstitution]> = regex_uri.chunks(2).map(pair).collect::<Result<_, _>>()?;
    match uri {
        Some(uri) => {
            UriTemplate::compile(uri, uri_use).map(Path::Rendered).map_err(|error| format!("uri: {error}"))
        }
        None if pairs.is_empty() => Ok(Path::Kept),
        None => Ok(Path::Substituted(pairs)),
    }
}

fn field_operations(headers: &Map<String, Value>) -> Result<FieldOperations, String> {
    let object = |name: &str| headers.get(name).and_then(Value::as_object);
    let remove = headers.get("remove").and_then(Value::as_array);
    if object("add").is_none() && object("set").is_none() && remove.is_none() {
        return Ok(FieldOperations {
            set: fields::compile_field_values(headers)?,
            ..FieldOperations::default()
        });
    }
    let add = object("add").map(fields::additions).transpose()?.unwrap_or_default();
    let set = object("set").map(fields::values_or_lists).transpose()?.unwrap_or_default();
    let names =
        remove.into_iter().flatten().map(|name| fields::parse_field_name(name.as_str().unwrap_or_default()));
    Ok(FieldOperations { add, set, remove: names.collect::<Result<_, _>>()? })
}

/// The field that names the client to the node.
const REAL_IP: &str = "X-Real-IP";

/// A new target: its path in encoded form, and the query if it has one of its own.
struct RewriteTarget {
    path: Vec<u8>,
    query: Option<Vec<u8>>,
}

impl RewriteTarget {
    /// The path of an encoded target, and the query behind its first question mark.
    fn split(mut uri: Vec<u8>) -> RewriteTarget {
        let query = uri.iter().position(|byte| *byte == b'?').map(|mark| {
            let query = uri.split_off(mark + 1);
            uri.truncate(mark);
            query
        });
        RewriteTarget { path: uri, query }
    }

    /// Joins `more` with the query by `&`.
    fn append_query(&mut self, more: Option<&[u8]>) {
        let Some(more) = more.filter(|more| !more.is_empty()) else { return };
        let query = self.query.get_or_insert_default();
        if !query.is_empty() {
            query.push(b'&');
        }
        query.extend_from_slice(more);
    }
}

impl ProxyRewrite {
    /// Sets the new target; returns the match that fields may refer to, with the text it was found in.
    fn rewrite_target(&self, exchange: &mut Exchange) -> Result<Option<(Groups, Vec<u8>)>, UnsafeTarget> {
        let (target, matched) = match &self.path {
            Path::Kept if self.raw => (RewriteTarget::split(raw_text(exchange)), None),
            Path::Kept => return Ok(None),
            Path::Rendered(template) => {
                let mut uri = Vec::new();
                template.render(exchange, &mut uri);
                let mut target = RewriteTarget::split(uri);
                if self.raw {
                    target.append_query(exchange.request.query());
                }
                (target, None)
            }
            Path::Substituted(pairs) => {
                let text = if self.raw { raw_text(exchange) } else { exchange.path().to_vec() };
                let found = pairs.iter().find_map(|pair| pair.once(exchange, &text).transpose()).transpose();
                let found = found.unwrap_or_else(|reason| {
                    exchange.search_gave_up(reason);
                    None
                });
                match found {
                    None if self.raw => (RewriteTarget::split(text), None),
                    None => return Ok(None),
                    Some((uri, groups)) => (RewriteTarget::split(uri), Some((groups, text))),
                }
            }
        };
        self.send_to(exchange, target)?;
        Ok(matched)
    }

    fn send_to(&self, exchange: &mut Exchange, mut target: RewriteTarget) -> Result<(), UnsafeTarget> {
        // A pattern may remove the path's leading slash, which a request line needs.
        if target.path.first() != Some(&b'/') {
            target.path.insert(0, b'/');
        }
        if self.raw {
            exchange.set_forward_path(&target.path).map_err(|_| UnsafeTarget)?;
            return exchange
                .set_forward_query(target.query.as_deref().unwrap_or_default())
                .map_err(|_| UnsafeTarget);
        }
        let mut scratch = PathScratch::default();
        let options = exchange.local().options.path;
        let canonical = canonicalize(&target.path, &options, &mut scratch).map_err(|_| UnsafeTarget)?;
        exchange.set_forward_path(canonical.forward()).map_err(|_| UnsafeTarget)?;
        if target.query.is_some() {
            target.append_query(exchange.forward_query());
            exchange.set_forward_query(&target.query.unwrap_or_default()).map_err(|_| UnsafeTarget)?;
        }
        Ok(())
    }

    fn rewrite_fields(&self, exchange: &mut Exchange, matched: Option<&(Groups, Vec<u8>)>) {
        let operations = self.fields.render(exchange, matched.map(|(groups, text)| (groups, &text[..])));
        for operation in operations {
            let Some(operation) = self.rewrite_own_field(exchange, operation) else { continue };
            let headers = &mut exchange.request.headers;
            match operation {
                // A value that cannot be appended leaves the field unchanged.
                FieldOperation::Add(name, value) => drop(headers.append(name, &value)),
                FieldOperation::Set(name, value) => {
                    // If a value cannot be set, the client's own is removed, because it must not stand in its
                    // place.
                    if value.is_empty() || headers.set(name, &value).is_err() {
                        exchange.remove_request_field(name);
                    }
                }
                FieldOperation::SetSeveral(name, values) => {
                    headers.remove(name);
                    // A value that is not valid in a field is left out.
                    let set = values.iter().filter(|value| headers.append(name, value).is_ok()).count();
                    if set == 0 {
                        // As with one value: the gateway's own must not stand in its place.
                        exchange.remove_request_field(name);
                    }
                }
                FieldOperation::Remove(name) => exchange.remove_request_field(name),
            }
        }
    }

    /// Carries out an operation on a field that the gateway itself writes; returns any other operation.
    fn rewrite_own_field<'a>(
        &self,
        exchange: &mut Exchange,
        operation: FieldOperation<'a>,
    ) -> Option<FieldOperation<'a>> {
        let (FieldOperation::Add(name, _)
        | FieldOperation::Set(name, _)
        | FieldOperation::SetSeveral(name, _)
        | FieldOperation::Remove(name)) = &operation;
        let is_host = name.eq_ignore_ascii_case("Host");
        let is_real_ip = name.eq_ignore_ascii_case(REAL_IP);
        if !is_host && !is_real_ip {
            return Some(operation);
        }
        // `Host` and `X-Real-IP` are sent once.
        let operation = match operation {
            FieldOperation::SetSeveral(name, values) => {
                FieldOperation::Set(name, values.into_iter().next().unwrap_or_default())
            }
            other => other,
        };
        if is_host {
            if let (FieldOperation::Set(_, host), None) = (&operation, &self.host)
                && let Ok(host) = str::from_utf8(host)
                && !host.is_empty()
            {
                // A value that cannot be a Host leaves the old one, because every request needs a Host.
                let _ = exchange.set_forward_host(host);
            }
            return None;
        }
        // The client's own field is never sent, so adding equals setting.
        let value = match &operation {
            FieldOperation::Add(_, value) | FieldOperation::Set(_, value) => &value[..],
            FieldOperation::SetSeveral(..) | FieldOperation::Remove(_) => b"",
        };
        if !value.is_empty() && exchange.request.headers.set(REAL_IP, value).is_ok() {
            exchange.keep_real_ip_field();
        }
        None
    }
}

/// The new target cannot be sent because of variables and groups with text of the client.
struct UnsafeTarget;

/// The target that the client asked for, as it was sent, without scheme and authority.
fn raw_text(exchange: &Exchange) -> Vec<u8> {
    let mut text = exchange.request.path().to_vec();
    if let Some(query) = exchange.request.query() {
        text.push(b'?');
        text.extend_from_slice(query);
    }
    text
}

impl Plugin for ProxyRewrite {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let Ok(matched) = self.rewrite_target(exchange) else {
            return Flow::reply(BufferedReply::json(
                400,
                &json!({ "error_msg": "the rewritten path holds what no path may hold" }),
            ));
        };
        if let Some(host) = &self.host {
            // It was checked when the configuration was; a host that could not be one leaves the client's.
            let _ = exchange.set_forward_host(host);
        }
        self.rewrite_fields(exchange, matched.as_ref());
        if let Some(method) = &self.method
            && exchange.request.method_text() != b"HEAD"
        {
            exchange.request.set_method(method).expect("the schema lets only known methods through");
        }
        Flow::Continue
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests;
