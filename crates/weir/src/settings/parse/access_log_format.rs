//! The settings `access_log_format` and `stream_access_log_format`: a template, or fields of a JSON object.
//! Renders nothing.

use router::vars::{BuiltinVariable, Template, Variable};
use stdx::nearest::misspelt;

use super::single;
use crate::settings::values::AccessLogFormat;
use crate::settings::written::SettingTexts;

/// A template, the word `json`, or a map written as JSON.
pub(in crate::settings) fn parse_access_log_format(given: &SettingTexts) -> Result<AccessLogFormat, String> {
    format_of(given, &REQUESTS)
}

/// The same for lines about sessions of layer 4.
pub(in crate::settings) fn stream_access_log_format(given: &SettingTexts) -> Result<AccessLogFormat, String> {
    format_of(given, &SESSIONS)
}

/// The variables of the lines of one log.
struct LogVariables {
    /// Those that are no variables of requests.
    own: &'static [&'static str],
    /// The fields of the value `json`.
    usual: &'static [&'static str],
}

const REQUESTS: LogVariables = LogVariables { own: &[], usual: &USUAL_FIELDS };
const SESSIONS: LogVariables =
    LogVariables { own: exchange::plugin::stream::session::OWN_VARIABLES, usual: &USUAL_SESSION_FIELDS };

fn format_of(given: &SettingTexts, lines: &LogVariables) -> Result<AccessLogFormat, String> {
    match single(given)? {
        "" => Err("is empty; write a text with `$variables`, or `json`".to_owned()),
        "json" => Ok(AccessLogFormat::Json(usual_fields(lines))),
        text if text.starts_with('{') => json_fields(text, lines).map(AccessLogFormat::Json),
        text if text.contains(['\n', '\r']) => Err("holds a line break; an entry is one line".to_owned()),
        text => check_variables(text, lines).map(|()| AccessLogFormat::Template(text.to_owned())),
    }
}

/// The fields of a map written as JSON, in its order. A variable may be without quotes, as nginx allows.
fn json_fields(text: &str, lines: &LogVariables) -> Result<Vec<(String, String)>, String> {
    let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)
        .or_else(|error| serde_json::from_str(&with_quoted_variables(text)).map_err(|_| error))
        .map_err(|error| format!("starts with `{{` but is not a JSON object: {error}"))?;
    let field = |(name, value): (String, serde_json::Value)| match value {
        serde_json::Value::String(template) => check_variables(&template, lines)
            .map(|()| (name.clone(), template))
            .map_err(|reason| format!("field `{name}`: {reason}")),
        _ => Err(format!("field `{name}` is not a text such as `$status`")),
    };
    map.into_iter().map(field).collect()
}

/// The text with quotes around each `$name` and `${name}` that stands outside of a JSON string.
fn with_quoted_variables(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 16);
    let mut is_in_string = false;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let is_part = |other: char| other.is_ascii_alphanumeric() || other == '_';
        let length = match character {
            '\\' if is_in_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '$' if !is_in_string && rest[1..].starts_with('{') => {
                rest.find('}').map_or(rest.len(), |end| end + 1)
            }
            '$' if !is_in_string => 1 + rest[1..].find(|other| !is_part(other)).unwrap_or(rest.len() - 1),
            other => other.len_utf8(),
        };
        is_in_string ^= character == '"';
        let (piece, behind) = rest.split_at(length);
        match character {
            '$' if !is_in_string => quoted.extend(["\"", piece, "\""]),
            _ => quoted.push_str(piece),
        }
        rest = behind;
    }
    quoted
}

/// Refuses a template with a variable that is nearly a known one, because that would be `-` in every line.
/// Another unknown name is accepted: a script may set a variable of this name.
fn check_variables(text: &str, lines: &LogVariables) -> Result<(), String> {
    let template = Template::compile(text).map_err(|error| error.to_string())?;
    for variable in template.variables() {
        if let Variable::Named(name) = variable
            && !lines.own.contains(&&**name)
        {
            let known = BuiltinVariable::ALL.iter().map(|known| known.name());
            if let Some(near) = misspelt(name, known.chain(lines.own.iter().copied())) {
                return Err(format!("there is no variable `${name}`; did you mean `${near}`?"));
            }
        }
    }
    Ok(())
}

/// The fields of the value `json`.
fn usual_fields(lines: &LogVariables) -> Vec<(String, String)> {
    lines.usual.iter().map(|name| ((*name).to_owned(), format!("${name}"))).collect()
}

/// Fields about the request, its result, its duration and the node that answered.
const USUAL_FIELDS: [&str; 18] = [
    "time_iso8601",
    "remote_addr",
    "request_method",
    "host",
    "request_uri",
    "status",
    "request_length",
    "bytes_sent",
    "request_time",
    "http_user_agent",
    "route_id",
    "upstream_addr",
    "upstream_status",
    "upstream_response_time",
    "weir_cause",
    "weir_phase",
    "weir_node",
    "weir_detail",
];

/// Fields about the session, its bytes, its node and its end.
const USUAL_SESSION_FIELDS: [&str; 15] = [
    "time_iso8601",
    "remote_addr",
    "remote_port",
    "protocol",
    "server_port",
    "ssl_server_name",
    "status",
    "bytes_sent",
    "bytes_received",
    "session_time",
    "route_id",
    "upstream_addr",
    "upstream_connect_time",
    "weir_cause",
    "weir_detail",
];
