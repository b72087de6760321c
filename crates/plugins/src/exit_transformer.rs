//! # exit-transformer
//!
//! Changes the replies that the gateway and its plugins make, such as refusals of authentication and limits, with functions in
//! Lua.
//!
//! ```json
//! {
//!   "functions": [
//!     "return (function(code, body, header) if code == 401 then return 403, {error = body.message}, header end return code, body, header end)(...)"
//!   ]
//! }
//! ```
//!
//! **Functions.** Each entry is Lua that gets the status, the body and the fields of the reply as `...` and returns all three,
//! changed or not; most return the result of a function, as the example does. The first entry gets the reply of the gateway, each
//! further one the result of the one before. `body` is a table where the reply is JSON, otherwise a string, or `nil` without a
//! body. `header` is empty at first: its entries are set on the response, and the other fields of the reply stay. A status other
//! than 200 to 599 is an error; without a status the old one stays, and `nil` as body means none. A table as body is sent as JSON.
//!
//! **When.** The functions see replies that are made after this plugin has run, in its place before nearly all others: in a global
//! rule for all requests, the 404 for requests without a route among them. Responses of upstreams are not changed, and neither
//! are the errors for an upstream that cannot be reached or does not answer (502 and 504; `error-page` and `response-rewrite`
//! change those), refusals of malformed requests, and replies that come in pieces.
//!
//! **Lua.** The functions of Lua 5.1, `ngx.var` and `require` of `cjson`, `cjson.safe` and `apisix.core` (`json`, `log`,
//! `request`, `string`, `table`) are there; files, processes, byte code and other modules are not. Names that a function
//! assigns are kept by this function and this worker. An entry that does not compile is refused, with its line. A
//! function that fails is logged, and the reply goes to the next one as it was. All functions of one reply together may execute 5
//! million instructions or take half a second.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::events::EventCounter;
use exchange::plugin::transform_reply::{TransformReply, transform_replies};
use exchange::plugin::{Build, Flow, Phase, Plugin, PluginKind, Reply};
use message::syntax::is_token;
use mlua::{MultiValue, Table, Value as Lua};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::lua::{Call, Interpreter, Script, describe};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("exit-transformer", 22_950, &[Phase::Rewrite], Config::schema, build)
        .checked(|config| functions(config).map(drop))
        .documented(include_str!("exit_transformer.rs"));

/// Milliseconds between two lines about failures of one instance.
const LOG_INTERVAL_MS: u64 = 1_000;
/// Fields that a function sets on one reply.
const FIELDS_MAX: usize = 100;

attributes! {
    struct Config {
        /// The functions, in the order in which they run.
        functions: Vec<String>, { "items": { "type": "string", "description": "Lua that returns a status, a body and fields." } };
    }
}

/// The compiled plugin.
struct ExitTransformer(Arc<Functions>);

struct Functions {
    scripts: Box<[Arc<Script>]>,
    failures: EventCounter,
    pace: Pace,
}

fn functions(config: &Value) -> Result<Box<[Arc<Script>]>, String> {
    let config: Config = config::parse(config)?;
    let compile = |(index, source): (usize, String)| {
        Script::compile("function", source.into_bytes())
            .map_err(|reason| format!("functions[{index}]: {reason}"))
    };
    config.functions.into_iter().enumerate().map(compile).collect()
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(ExitTransformer(Arc::new(Functions {
        scripts: functions(config)?,
        failures: build.services.event_counter("exit-transformer", "failed"),
        pace: Pace::every_ms(LOG_INTERVAL_MS),
    }))))
}

impl Plugin for ExitTransformer {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        transform_replies(exchange, self.0.clone());
        Flow::Continue
    }
}

impl TransformReply for Functions {
    fn transform(&self, exchange: &Exchange, reply: &mut Reply) {
        let changed = Interpreter::call(exchange, |call| self.run(exchange, call, reply));
        match changed {
            Ok(changed) => changed.apply(reply),
            Err(reason) => self.note(exchange, &reason),
        }
    }
}

/// The result of the functions.
struct Changed {
    status: u16,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    /// The media type of the body, where it is another kind of body than before.
    content_type: Option<&'static str>,
}

impl Functions {
    fn note(&self, exchange: &Exchange, reason: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        if let Some(replies) = self.pace.add(1, exchange.local().now_ms()) {
            tracing::warn!(replies, "exit-transformer: failed to run lua code: {reason}");
        }
    }

    /// Runs the functions one behind the other. One that fails changes nothing.
    fn run(&self, exchange: &Exchange, call: &Call<'_>, reply: &Reply) -> mlua::Result<Changed> {
        let old_body = read_body(call, reply)?;
        let was_table = old_body.is_table();
        let mut values = (reply.status, old_body, Some(call.lua().create_table()?));
        for script in &self.scripts {
            let (status, body, fields) = &values;
            let result = call.load(script).and_then(|loaded| {
                let fields = fields.clone().map_or(Lua::Nil, Lua::Table);
                loaded.function.call::<MultiValue>((*status, body.clone(), fields))
            });
            match result.and_then(|result| checked(*status, result)) {
                Ok(changed) => values = changed,
                Err(error) => self.note(exchange, &describe(&error)),
            }
        }
        let (status, body, fields) = values;
        let content_type = match (was_table, body.is_table()) {
            (false, true) => Some("application/json"),
            (true, false) => Some("text/plain; charset=utf-8"),
            _ => None,
        };
        Ok(Changed { status, fields: read_fields(fields)?, body: write_body(call, body)?, content_type })
    }
}

/// The body as the functions see it.
fn read_body(call: &Call<'_>, reply: &Reply) -> mlua::Result<Lua> {
    if reply.body.is_empty() {
        return Ok(Lua::Nil);
    }
    let content_type = reply.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if content_type.is_some_and(|(_, value)| value.starts_with("application/json"))
        && let Ok(value @ Lua::Table(_)) = call.json().read(call.lua(), &reply.body)
    {
        return Ok(value);
    }
    call.lua().create_string(&*reply.body).map(Lua::String)
}

type Values = (u16, Lua, Option<Table>);

/// The values that a function has returned, `status` where it gives none.
fn checked(status: u16, result: MultiValue) -> mlua::Result<Values> {
    let mut result = result.into_iter();
    let status = match result.next().unwrap_or_default() {
        Lua::Nil => Some(status),
        Lua::Integer(number) => u16::try_from(number).ok(),
        Lua::Number(number) if number.fract() == 0.0 && (0.0..1_000.0).contains(&number) => {
            Some(number as u16)
        }
        Lua::String(text) => text.to_str().ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    let status = status
        .filter(|status| (200..600).contains(status))
        .ok_or_else(|| mlua::Error::runtime("the function returns no status from 200 to 599"))?;
    let body = result.next().unwrap_or_default();
    let fields = match result.next().unwrap_or_default() {
        Lua::Nil => None,
        Lua::Table(fields) => Some(fields),
        other => {
            let kind = other.type_name();
            return Err(mlua::Error::runtime(format!("the function returns a {kind} in place of fields")));
        }
    };
    Ok((status, body, fields))
}

/// The fields that the functions have set; one with a list of values is several.
fn read_fields(fields: Option<Table>) -> mlua::Result<Vec<(String, Vec<u8>)>> {
    let mut read = Vec::new();
    let Some(fields) = fields else { return Ok(read) };
    for pair in fields.pairs::<String, Lua>() {
        let (name, value) = pair?;
        if !is_token(name.as_bytes()) {
            return Err(mlua::Error::runtime("the function sets a field with an invalid name"));
        }
        let values = match value {
            Lua::Table(list) => list.sequence_values::<Lua>().collect::<mlua::Result<Vec<_>>>()?,
            value => vec![value],
        };
        for value in values {
            if read.len() >= FIELDS_MAX {
                return Err(mlua::Error::runtime(format!("the function sets more than {FIELDS_MAX} fields")));
            }
            read.push((name.clone(), value.to_string()?.into_bytes()));
        }
    }
    Ok(read)
}

fn write_body(call: &Call<'_>, body: Lua) -> mlua::Result<Vec<u8>> {
    match body {
        Lua::Nil => Ok(Vec::new()),
        Lua::String(text) => Ok(text.as_bytes().to_vec()),
        value @ Lua::Table(_) => {
            let mut text = call.json().write(&value).map_err(mlua::Error::runtime)?;
            text.push(b'\n');
            Ok(text)
        }
        other => other.to_string().map(String::into_bytes),
    }
}

impl Changed {
    fn apply(self, reply: &mut Reply) {
        reply.status = self.status;
        reply.body = Cow::Owned(self.body);
        let mut replaced: Vec<&str> = self.fields.iter().map(|(name, _)| &**name).collect();
        replaced.extend(self.content_type.map(|_| "content-type"));
        reply.headers.retain(|(name, _)| !replaced.iter().any(|new| new.eq_ignore_ascii_case(name)));
        let names_type = self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if let Some(content_type) = self.content_type.filter(|_| !names_type && !reply.body.is_empty()) {
            reply.headers.push(("Content-Type".into(), content_type.to_owned()));
        }
        for (name, value) in self.fields {
            // The gateway leaves out a value that cannot stand in a field when it sends the reply.
            reply.headers.push((name.into(), String::from_utf8_lossy(&value).into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, check_configuration, decide};
    use model::catalog::SchemaType;
    use serde_json::json;

    use super::*;

    /// `reply` behind the functions.
    fn changed(functions: &[&str], mut reply: Reply) -> Reply {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({ "functions": functions }));
        let mut exchange =
            scene.exchange(b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n");
        assert!(decide(plugin.rewrite(&mut exchange)).is_none());
        exchange::plugin::transform_reply::transform(&mut exchange, &mut reply);
        reply
    }

    fn function(code: &str) -> String {
        format!("return (function(code, body, header) do {code} end return code, body, header end)(...)")
    }

    fn text(reply: &Reply) -> (u16, String, Vec<String>) {
        let fields = reply.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        (reply.status, String::from_utf8_lossy(&reply.body).into_owned(), fields)
    }

    #[test]
    fn configurations() {
        let check = |config: Value, fault: Option<&str>| {
            check_configuration(&KIND, SchemaType::Plugin, &config, fault);
        };
        check(json!({"functions": []}), None);
        check(json!({"functions": [function("")]}), None);
        check(json!({}), Some("functions"));
        check(json!({"functions": [1]}), Some("functions"));
        let faulty = function("if code == then return 405 end");
        check(
            json!({"functions": [function(""), faulty]}),
            Some("functions[1]: function:1: unexpected symbol"),
        );
        check(json!({"functions": ["\u{1b}LJ"]}), Some("functions[0]"));
    }

    #[test]
    fn functions_change_status_body_and_fields() {
        let refusal =
            || Reply::message(401, "Missing API key in request").with_header("WWW-Authenticate", "key");
        let challenge = "WWW-Authenticate: key".to_owned();
        let json = "Content-Type: application/json".to_owned();
        let plain = "Content-Type: text/plain; charset=utf-8".to_owned();
        let cases = [
            (
                "",
                401,
                "{\"message\":\"Missing API key in request\"}\n",
                vec![json.clone(), challenge.clone()],
            ),
            (
                "if code == 401 then return 402, body, header end",
                402,
                "{\"message\":\"Missing API key in request\"}\n",
                vec![json.clone(), challenge.clone()],
            ),
            ("return 405", 405, "", vec![challenge.clone()]),
            ("return '503', 'text', header", 503, "text", vec![challenge.clone(), plain.clone()]),
            (
                "if body.message == 'Missing API key in request' then return 400, {message = 'no'}, {['content-type'] = 'application/x'} end",
                400,
                "{\"message\":\"no\"}\n",
                vec![challenge.clone(), "content-type: application/x".into()],
            ),
            (
                "header['X-Code'] = code header['www-authenticate'] = {'a', 'b'} return nil, body, header",
                401,
                "{\"message\":\"Missing API key in request\"}\n",
                Vec::new(),
            ),
            (
                "return 400, body.message, nil",
                400,
                "Missing API key in request",
                vec![challenge.clone(), plain],
            ),
        ];
        for (code, status, body, fields) in cases {
            let got = text(&changed(&[&function(code)], refusal()));
            assert_eq!((got.0, &*got.1), (status, body), "{code}");
            if !fields.is_empty() {
                assert_eq!(got.2, fields, "{code}");
            } else {
                let mut lines = got.2;
                lines.sort();
                let expected = [json.as_str(), "X-Code: 401", "www-authenticate: a", "www-authenticate: b"];
                assert_eq!(lines, expected, "{code}");
            }
        }
        let to_table =
            changed(&[&function("return code, {a = body}, header")], Reply::status(500).with_body(&b"x"[..]));
        assert_eq!(text(&to_table), (500, "{\"a\":\"x\"}\n".into(), vec![json]));
    }

    #[test]
    fn each_function_gets_the_result_of_the_one_before() {
        let first = function("if code == 404 then return 410, 'gone', header end");
        let failing = function("return code()");
        let last = function("if code == 410 then return 411, body .. '!', header end");
        let reply = changed(&[&first, &failing, &last], Reply::message(404, "no"));
        assert_eq!((reply.status, &*reply.body), (411, &b"gone!"[..]));
    }

    #[test]
    fn failing_function_leaves_the_reply_as_it_is() {
        let failing = [
            "return code()",
            "while true do end",
            "return 99",
            "return {}",
            "return code, function() end, header",
            "return code, body, 'x'",
            "return code, body, {['a b'] = 1}",
            "local t = {} t.t = t return code, t, header",
            "return require('io')",
        ];
        for code in failing {
            let reply = changed(&[&function(code)], Reply::message(404, "no"));
            let (status, body, fields) = text(&reply);
            if code.contains("function() end") {
                // It is no error: the body is the name of the value, as APISIX prints it.
                assert_eq!(status, 404, "{code}");
                continue;
            }
            assert_eq!((status, &*body), (404, "{\"message\":\"no\"}\n"), "{code}");
            assert_eq!(fields, ["Content-Type: application/json"], "{code}");
        }
    }

    #[test]
    fn function_reads_the_request() {
        let code = "local core = require('apisix.core') local ct = core.request.headers()['Content-Type'] \
            core.log.warn('seen') if ct == 'application/json' and code == 404 then return 405 end";
        assert_eq!(changed(&[&function(code)], Reply::message(404, "no")).status, 405);
    }
}
