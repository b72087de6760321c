//! The compiled contents of entries: a chosen format, or all parts with further fields and bodies. It sends
//! nothing.

use exchange::Exchange;
use exchange::plugin::BodyNeed;
use exchange::plugin::stream::StreamSession;
use router::vars::Expression;
use serde_json::{Map, Value};

use super::fields::{BodyFields, FormatFields};
use crate::shared::log_entry::{self, BodyLimits, BodyPart, LogFormat, LoggedBodies};

/// See the module.
pub(crate) struct Contents {
    format: Option<LogFormat>,
    extra: Option<LogFormat>,
    bodies: LoggedBodies,
    /// How much of the request body has to be kept, in bytes; `kept_response_bytes` is that of the response
    /// body.
    kept_request_bytes: usize,
    kept_response_bytes: usize,
}

/// One entry before it takes the form that a server wants.
pub(crate) struct LogEntry {
    /// Its fields; `extra` is among them.
    pub(crate) fields: Map<String, Value>,
    /// A format chose the fields; otherwise they are all parts.
    pub(crate) is_chosen: bool,
    /// The fields of `log_format_extra`, for plugins that send only some of the parts.
    pub(crate) extra: Map<String, Value>,
}

impl Contents {
    /// Compiles the fields of an instance; formats that it does not have are those of the metadata.
    ///
    /// # Errors
    /// A variable or an expression that is malformed, with the name of its field.
    pub(crate) fn compile(
        format: &FormatFields,
        bodies: &BodyFields,
        metadata: Option<&Value>,
    ) -> Result<Contents, String> {
        let of_metadata =
            |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_object);
        let limits = BodyLimits {
            request_bytes: bodies.max_req_body_bytes,
            response_bytes: bodies.max_resp_body_bytes,
        };
        // An empty format of an instance chooses no field; an empty one of the metadata is as good as none.
        let chosen = of_metadata("log_format").filter(|fields| !fields.is_empty());
        let chosen = format.log_format.as_ref().or(chosen);
        let chosen = chosen.map(|written| LogFormat::compile("log_format", written, limits)).transpose()?;
        let extra = format.log_format_extra.as_ref().or(of_metadata("log_format_extra"));
        let extra =
            extra.map(|written| LogFormat::compile("log_format_extra", written, limits)).transpose()?;
        let extra = extra.filter(|_| chosen.is_none());
        let request = part(
            "include_req_body_expr",
            bodies.include_req_body,
            &bodies.include_req_body_expr,
            limits.request_bytes,
        )?;
        let response = part(
            "include_resp_body_expr",
            bodies.include_resp_body,
            &bodies.include_resp_body_expr,
            limits.response_bytes,
        )?;
        let any = |uses: fn(&LogFormat) -> bool| chosen.iter().chain(&extra).any(uses);
        let kept = |is_named: bool, part: &Option<BodyPart>, max_bytes: usize| {
            if is_named || (part.is_some() && chosen.is_none()) { max_bytes } else { 0 }
        };
        Ok(Contents {
            kept_request_bytes: kept(any(LogFormat::uses_request_body), &request, limits.request_bytes),
            kept_response_bytes: kept(any(LogFormat::uses_response_body), &response, limits.response_bytes),
            bodies: LoggedBodies { request, response },
            format: chosen,
            extra,
        })
    }

    /// The need of the request body; the same for all exchanges, because a condition may ask for the
    /// response.
    pub(crate) fn wants_request_body(&self) -> BodyNeed {
        copy(self.kept_request_bytes)
    }

    /// The need of the response body of this exchange.
    pub(crate) fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        let applies = self.bodies.response.as_ref().is_none_or(|part| part.applies(exchange));
        let is_named = self.format.iter().chain(&self.extra).any(LogFormat::uses_response_body);
        if applies || is_named { copy(self.kept_response_bytes) } else { BodyNeed::None }
    }

    /// Calls `read` with the logged part of the request body, if there is one.
    pub(crate) fn read_request_body(&self, exchange: &Exchange, read: impl FnOnce(&[u8])) {
        if let Some(part) = self.bodies.request.as_ref().filter(|part| part.applies(exchange)) {
            exchange.read_request_body(|body| read(&body[..body.len().min(part.max_bytes)]));
        }
    }

    /// The entry as a JSON object that names a route in any case.
    pub(crate) fn json(&self, exchange: &Exchange) -> Vec<u8> {
        match &self.format {
            Some(format) => log_entry::json::render_chosen_entry(format, exchange),
            None => log_entry::json::render_full_entry(exchange, &self.bodies, self.extra.as_ref()),
        }
    }

    /// The entry as a JSON object that names a route only if the request matched one.
    pub(crate) fn json_of_route(&self, exchange: &Exchange) -> Vec<u8> {
        match exchange.route() {
            Some(_) => self.json(exchange),
            None => self.entry(exchange).into_json(),
        }
    }

    /// The entry of a session of layer 4 that has ended, as a JSON object.
    pub(crate) fn session_json(&self, session: &StreamSession) -> Vec<u8> {
        let fields = match &self.format {
            Some(format) => log_entry::session::build_chosen_session(format, session),
            None => log_entry::session::build_full_session(session, self.extra.as_ref()),
        };
        // A map with text keys becomes JSON without errors.
        serde_json::to_vec(&fields).unwrap_or_default()
    }

    /// The entry of an exchange that has ended.
    pub(crate) fn entry(&self, exchange: &Exchange) -> LogEntry {
        if let Some(format) = &self.format {
            let mut fields = format.render(exchange);
            log_entry::add_route_ids(&mut fields, exchange, false);
            return LogEntry { fields, is_chosen: true, extra: Map::new() };
        }
        let mut fields = log_entry::build_full_entry(exchange, &self.bodies);
        log_entry::add_route_ids(&mut fields, exchange, true);
        let extra = self.extra.as_ref().map(|extra| extra.render(exchange)).unwrap_or_default();
        for (name, value) in &extra {
            // A further field adds to the parts and replaces none.
            fields.entry(name).or_insert_with(|| value.clone());
        }
        LogEntry { fields, is_chosen: false, extra }
    }
}

impl LogEntry {
    /// The entry as a JSON object.
    pub(crate) fn into_json(self) -> Vec<u8> {
        // A map with text keys becomes JSON without errors.
        serde_json::to_vec(&self.fields).unwrap_or_default()
    }
}

fn part(
    name: &str,
    is_included: bool,
    written: &Option<Value>,
    max_bytes: usize,
) -> Result<Option<BodyPart>, String> {
    let condition = written.as_ref().map(Expression::compile).transpose();
    let condition =
        condition.map_err(|error| format!("failed to validate the '{name}' expression: {error}"))?;
    Ok(is_included.then_some(BodyPart { condition, max_bytes }))
}

/// A copy of the first `limit_bytes` of a body.
pub(crate) fn copy(limit_bytes: usize) -> BodyNeed {
    if limit_bytes == 0 { BodyNeed::None } else { BodyNeed::Copy { limit_bytes } }
}
