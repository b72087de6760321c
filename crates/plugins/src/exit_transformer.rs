//! # exit-transformer
//!
//! Changes the replies that the gateway and its plugins make, such as refusals of authentication and limits,
//! with functions in Lua.
//!
//! ```json
//! {
//!   "functions": [
//!     "return (function(code, body, header) if code == 401 then return 403, {error = body.message}, header end return code, body, header end)(...)"
//!   ]
//! }
//! ```
//!
//! **Functions.** Each entry is Lua that gets the status, the body and the fields of the reply as `...` and
//! returns all three, changed or not; most return the result of a function, as the example does. The first
//! entry gets the reply of the gateway, each further one the result of the one before. `body` is a table
//! where the reply is JSON, otherwise a string, or `nil` without a body. `header` is empty at first: its
//! entries are set on the response, and the other fields of the reply stay. A status other than 200 to 599 is
//! an error; without a status the old one stays, and `nil` as body means none. A table as body is sent as
//! JSON.
//!
//! **When.** The functions see replies that are made after this plugin has run, in its place before nearly
//! all others: in a global rule for all requests, the 404 for requests without a route among them. Responses
//! of upstreams are not changed, and neither are the errors for an upstream that cannot be reached or does
//! not answer (502 and 504; `error-page` and `response-rewrite` change those), refusals of malformed
//! requests, and replies that come in pieces.
//!
//! **Lua.** The functions of Lua 5.1, `ngx.var` and `require` of `cjson`, `cjson.safe` and `apisix.core`
//! (`json`, `log`, `request`, `string`, `table`) are there; files, processes, byte code and other modules are
//! not. Names that a function assigns are kept by this function and this worker, until what all functions and
//! templates of a worker keep takes 64 MiB. An entry that does not compile is refused, with its line. A
//! function that fails is logged, and the reply goes to the next one as it was. All functions of one reply
//! together may execute 5 million instructions or take half a second.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::events::EventCounter;
use exchange::plugin::transform_reply::{TransformReply, transform_replies};
use exchange::plugin::{BufferedReply, Build, Flow, Plugin, PluginKind, PluginPhase};
use message::syntax::is_token;
use mlua::{MultiValue, Table, Value as Lua};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use lua::{DecodingBudget, Interpreter, LuaScript, ScriptCall, describe};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "exit-transformer",
    22_950,
    &[PluginPhase::Rewrite],
    ExitTransformerConfig::schema,
    build,
)
.checked(|config| functions(config).map(drop))
.documented(include_str!("exit_transformer.rs"));

/// Milliseconds between two lines about failures of one instance.
const LOG_INTERVAL_MS: u64 = 1_000;
/// Fields that a function sets on one reply.
const FIELDS_MAX: usize = 100;

attributes! {
    struct ExitTransformerConfig {
        /// The functions, in the order in which they run.
        functions: Vec<String>, { "items": { "type": "string", "description": "Lua that returns a status, a body and fields." } };
    }
}

/// The compiled plugin.
struct ExitTransformer(Arc<Functions>);

struct Functions {
    scripts: Box<[Arc<LuaScript>]>,
    failures: EventCounter,
    pace: Pace,
}

fn functions(config: &Value) -> Result<Box<[Arc<LuaScript>]>, String> {
    let config: ExitTransformerConfig = config::parse_config(config)?;
    let compile = |(index, source): (usize, String)| {
        LuaScript::compile("function", source.into_bytes())
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
    fn transform(&self, exchange: &Exchange, reply: &mut BufferedReply) {
        let changed = Interpreter::call(exchange, |call| self.run(exchange, call, reply));
        match changed {
            Ok(changed) => match exchange.local().shared.check_room(changed.body.len()) {
                Ok(()) => changed.apply(reply),
                Err(failure) => self.note(exchange, &failure.detail),
            },
            Err(reason) => self.note(exchange, &reason),
        }
    }
}

/// The result of the functions.
struct TransformedReply {
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
    fn run(
        &self,
        exchange: &Exchange,
        call: &ScriptCall<'_>,
        reply: &BufferedReply,
    ) -> mlua::Result<TransformedReply> {
        let old_body = read_body(call, reply)?;
        // The functions do not pay for the decoding.
        call.restart_budget();
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
        Ok(TransformedReply {
            status,
            fields: read_fields(fields)?,
            body: write_body(call, body)?,
            content_type,
        })
    }
}

/// The body as the functions see it.
fn read_body(call: &ScriptCall<'_>, reply: &BufferedReply) -> mlua::Result<Lua> {
    if reply.body.is_empty() {
        return Ok(Lua::Nil);
    }
    let decoding = DecodingBudget::begin();
    let content_type = reply.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if content_type.is_some_and(|(_, value)| value.starts_with("application/json"))
        && let Ok(value @ Lua::Table(_)) = call.json().read(call.lua(), &reply.body, &|| decoding.charge())
    {
        return Ok(value);
    }
    call.lua().create_string(&*reply.body).map(Lua::String)
}

type ExitFunctionValues = (u16, Lua, Option<Table>);

/// The values that a function has returned, `status` where it gives none.
fn checked(status: u16, result: MultiValue) -> mlua::Result<ExitFunctionValues> {
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

fn write_body(call: &ScriptCall<'_>, body: Lua) -> mlua::Result<Vec<u8>> {
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

impl TransformedReply {
    fn apply(self, reply: &mut BufferedReply) {
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
mod tests;
