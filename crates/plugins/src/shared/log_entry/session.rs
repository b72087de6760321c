//! A logger's entry for one session of layer 4: the fields that a user chose, or all fields. It knows no
//! logger and sends nothing.

use std::time::Duration;

use exchange::plugin::stream::StreamSession;
use net::env;
use router::vars::{BuiltinVariable as Builtin, Value as VariableValue, Variable, VariableSource};
use serde_json::{Map, Value, json};
use stdx::clock::CivilTime;

use super::{LogField, LogFormat, hostname, lossy, ms, typed};

/// The chosen fields, and the ids of the route and of its service.
pub(crate) fn build_chosen_session(format: &LogFormat, session: &StreamSession) -> Map<String, Value> {
    let mut entry = render(format, &Logged::now(session));
    add_route(&mut entry, session, false);
    entry
}

/// All fields, and further ones that have the name of none of them.
pub(crate) fn build_full_session(session: &StreamSession, extra: Option<&LogFormat>) -> Map<String, Value> {
    let logged = Logged::now(session);
    let mut entry = Map::new();
    let mut add = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    add("client_ip", session.client_address.to_string().into());
    add("client_port", session.client_port.into());
    add("protocol", session.transport.as_str().into());
    if session.sni.is_some() || !session.alpn.is_empty() {
        let alpn: Vec<&str> = session.alpn.iter().map(|name| &**name).collect();
        add("tls", json!({ "sni": session.sni.as_deref(), "alpn": alpn }));
    }
    if let Some(id) = &session.mqtt_client_id {
        add("mqtt_client_id", (&**id).into());
    }
    add("bytes_received", session.received_bytes.into());
    add("bytes_sent", session.sent_bytes.into());
    add("status", session.status().into());
    add("end", session.end.map(exchange::plugin::stream::SessionEnd::code).into());
    if let Some(reason) = &session.reason {
        add("reason", (&**reason).into());
    }
    if let Some(node) = session.node {
        add("upstream", node.to_string().into());
        add("connect_time", ms(session.connect_us.saturating_mul(1_000)));
    }
    add("start_time", logged.start_ms().into());
    add("latency", ms(session.duration_ns()));
    let (hostname, version) = (hostname(), env!("CARGO_PKG_VERSION"));
    let (address, port) = (session.local.ip().to_string(), session.local.port());
    add("server", json!({ "hostname": hostname, "version": version, "address": address, "port": port }));
    add_route(&mut entry, session, true);
    for (name, value) in extra.map(|extra| render(extra, &logged)).unwrap_or_default() {
        // A further field adds to the others and replaces none.
        entry.entry(name).or_insert(value);
    }
    entry
}

/// Adds the ids of the route and of its service; only the full entry says that there is no service.
fn add_route(entry: &mut Map<String, Value>, session: &StreamSession, is_full: bool) {
    let service = session.service_id.as_deref().or(is_full.then_some(""));
    if let Some(service) = service {
        entry.insert("service_id".to_owned(), service.into());
    }
    if let Some(route) = &session.route_id {
        entry.insert("route_id".to_owned(), (&**route).into());
    }
}

fn render(format: &LogFormat, logged: &Logged<'_>) -> Map<String, Value> {
    let value = |(name, field): &(String, LogField)| Some((name.clone(), value(field, logged)?));
    format.fields.iter().filter_map(value).collect()
}

/// The value of a field; a session has no bodies.
fn value(field: &LogField, logged: &Logged<'_>) -> Option<Value> {
    match field {
        LogField::Constant(value) => Some(value.clone()),
        LogField::Variable(variable) => logged.variable(variable).map(|value| typed(variable, &value)),
        LogField::RequestBody(_) | LogField::ResponseBody(_) => None,
        LogField::Text(template) => {
            let mut text = Vec::new();
            template.render(logged, &mut text);
            Some(lossy(&text))
        }
        LogField::Object(inside) => Some(Value::Object(render(inside, logged))),
    }
}

/// A session with the time at which it is logged, which a session does not know.
struct Logged<'s> {
    session: &'s StreamSession,
    now: Duration,
}

impl<'s> Logged<'s> {
    fn now(session: &'s StreamSession) -> Logged<'s> {
        Logged { session, now: env::wall_clock() }
    }

    /// When the session began, in milliseconds since the Unix epoch.
    fn start_ms(&self) -> u64 {
        let age_ms = self.session.duration_ns() / 1_000_000;
        u64::try_from(self.now.as_millis()).unwrap_or(u64::MAX).saturating_sub(age_ms)
    }
}

impl VariableSource for Logged<'_> {
    fn variable<'a>(&'a self, variable: &Variable) -> Option<VariableValue<'a>> {
        let Variable::Builtin(builtin) = variable else { return self.session.variable(variable) };
        let time = CivilTime::at(self.now.as_secs());
        let CivilTime { year, month, day, hour, minute, second } = time;
        let text = match builtin {
            Builtin::Msec => format!("{}.{:03}", self.now.as_secs(), self.now.subsec_millis()),
            Builtin::TimeIso8601 => {
                format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
            }
            Builtin::TimeLocal => {
                let month = time.month_name();
                format!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
            }
            Builtin::Hostname => hostname().to_owned(),
            Builtin::Pid => std::process::id().to_string(),
            _ => return self.session.variable(variable),
        };
        Some(VariableValue::owned(text.into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use exchange::plugin::stream::SessionEnd;

    use super::*;
    use crate::shared::log_entry::BodyLimits;

    fn session() -> StreamSession {
        let mut session = StreamSession::new(
            "192.0.2.7:4000".parse().unwrap(),
            "127.0.0.1:9100".parse().unwrap(),
            1_000_000,
        );
        session.sni = Some("db.example".into());
        session.alpn = ["postgresql".into()].into();
        session.route_id = Some("1".into());
        session.node = Some("127.0.0.1:5432".parse().unwrap());
        session.connect_us = 1_500;
        (session.received_bytes, session.sent_bytes) = (10, 20);
        session.ended_ns = 251_000_000;
        session.end = Some(SessionEnd::Closed);
        session
    }

    #[test]
    fn whole_entry_has_every_part_of_a_session() {
        let extra = json!({"mine": "$server_port", "status": 1});
        let limits = BodyLimits { request_bytes: 1, response_bytes: 1 };
        let extra = LogFormat::compile("log_format_extra", extra.as_object().unwrap(), limits).unwrap();
        let mut entry = build_full_session(&session(), Some(&extra));
        let start_ms = entry.remove("start_time").unwrap().as_u64().unwrap();
        assert!(start_ms > 1_600_000_000_000);
        assert_eq!(entry.remove("server").unwrap()["port"], 9100);
        let expected = json!({
            "client_ip": "192.0.2.7", "client_port": 4000, "protocol": "TCP",
            "tls": {"sni": "db.example", "alpn": ["postgresql"]},
            "bytes_received": 10, "bytes_sent": 20, "status": 200, "end": "closed",
            "upstream": "127.0.0.1:5432", "connect_time": 1.5, "latency": 250.0,
            "service_id": "", "route_id": "1", "mine": "9100",
        });
        assert_eq!(Value::Object(entry), expected);
    }

    #[test]
    fn chosen_fields_are_those_of_the_session() {
        let format = json!({
            "ip": "$remote_addr", "status": "$status", "sent": "$bytes_sent", "got": "$bytes_received",
            "took": "$session_time", "text": "$protocol to $upstream_addr", "none": "$uri", "body": "$request_body",
            "in": {"end": "$weir_cause", "port": "$server_port"}, "constant": 7,
        });
        let limits = BodyLimits { request_bytes: 1, response_bytes: 1 };
        let format = LogFormat::compile("log_format", format.as_object().unwrap(), limits).unwrap();
        let expected = json!({
            "ip": "192.0.2.7", "status": 200, "sent": 20, "got": "10", "took": "0.250",
            "text": "TCP to 127.0.0.1:5432", "in": {"end": "closed", "port": "9100"}, "constant": 7,
            "route_id": "1",
        });
        assert_eq!(Value::Object(build_chosen_session(&format, &session())), expected);
    }

    #[test]
    fn times_are_those_of_the_log_line() {
        let (session, now) = (session(), Duration::from_millis(1_795_000_000_250));
        let logged = Logged { session: &session, now };
        let text = |name: &str| {
            let variable = Variable::parse(name).unwrap();
            String::from_utf8(logged.variable(&variable).unwrap().text().into_owned()).unwrap()
        };
        assert_eq!(text("time_iso8601"), "2026-11-18T11:06:40+00:00");
        assert_eq!(text("time_local"), "18/Nov/2026:11:06:40 +0000");
        assert_eq!(text("msec"), "1795000000.250");
        assert_eq!(logged.start_ms(), 1_795_000_000_000);
    }
}
