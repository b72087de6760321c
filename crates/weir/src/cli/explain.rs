//! `weir explain`: the route that a request would take, why the other routes lost, its plugins and its
//! endpoints. Decides nothing itself: the running instance answers; without one, the same code reads the
//! store or the resources file.

mod ask;
mod journey;
mod record;
mod session;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueHint;
use control::source::store::RunningInstance;
use model::report::{ExplainQuestion, ExplainSession, SessionTransport};
use serde::Serialize;
use serde_json::Value;

use super::run::settings_file;
use crate::admin_client::{address_of, is_in_environment, running_on};
use crate::ask::RequestFailure;
use crate::boot;
use crate::settings::{SETTINGS, SettingLocation, Settings, WrittenSettings};
use crate::terminal::{Paint, print, print_error};
use crate::top::numbers::clean;
use record::DecisionRecord;
use session::SessionRecord;

/// Tell which route a request or a session would take, why the others lost, and what its plugins would do
///
/// Nothing is sent and nothing is counted: plugins that would ask a server or count say so.
///
/// Asks the instance that runs on the data folder through its control API, whatever its port. Where none
/// runs, or with `--resources`, it reads the store or the resources file itself.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExplainArguments {
    /// Method, such as GET
    #[arg(value_parser = method, required_unless_present_any = ["tcp", "udp"], requires = "url")]
    method: Option<String>,
    /// URL, or only its path and query; the host may also come from `-H 'Host: …'`
    #[arg(value_parser = url)]
    url: Option<String>,
    /// Header field of the request; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Explain a session of layer 4 over TCP instead: the address and port that its client connects to
    #[arg(long, value_name = "IP:PORT", conflicts_with_all = ["method", "headers"])]
    tcp: Option<SocketAddr>,
    /// Explain a session of layer 4 over UDP instead: the address and port that its client sends to
    #[arg(long, value_name = "IP:PORT", conflicts_with_all = ["method", "headers", "tcp", "sni", "alpn", "tls"])]
    udp: Option<SocketAddr>,
    /// TLS of that session over TCP ends at the gateway (a listener of `stream_tls`)
    #[arg(long, requires = "tcp")]
    tls: bool,
    /// Server name of the TLS handshake of that session
    #[arg(long, value_name = "NAME", requires = "tcp")]
    sni: Option<String>,
    /// Protocol that the handshake offers by ALPN; repeatable
    #[arg(long, value_name = "PROTOCOL", requires = "tcp")]
    alpn: Vec<String>,
    /// Protocol that the first bytes of that session show: http1, http2, tls, ssh or mqtt
    #[arg(long, value_name = "PROTOCOL", conflicts_with = "method")]
    first: Option<String>,
    /// Address of the client
    #[arg(long, visible_alias = "from", value_name = "IP", default_value = "127.0.0.1")]
    remote_addr: IpAddr,
    /// Print the whole decision record as JSON
    #[arg(long)]
    json: bool,
    /// Settings file (YAML) of the instance
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, env = "WEIR_CONFIG", hide_env_values = true)]
    config: Option<OsString>,
    /// Control API of the instance to ask [default: that of the instance on the data folder, else as in its
    /// settings]
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["data", "resources"])]
    control: Option<String>,
    /// Data folder: ask the instance that runs on it, or read the store in it where none runs
    #[arg(long, value_name = "DIR", conflicts_with = "resources")]
    data: Option<String>,
    /// Read this resources file instead of asking an instance
    #[arg(long, value_name = "FILE")]
    resources: Option<String>,
}

/// A request to explain.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ExplainRequest {
    pub(crate) method: String,
    /// An absolute URL, or a path with its query.
    pub(crate) url: String,
    /// Header fields, names and values, in order.
    pub(crate) headers: Vec<(String, String)>,
    /// The client's address.
    pub(crate) remote_addr: IpAddr,
}

impl ExplainRequest {
    /// The question as the gateway takes it.
    pub(crate) fn for_gateway(&self) -> ExplainQuestion {
        ExplainQuestion {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            remote_addr: self.remote_addr,
            body_bytes: 0,
            with: None,
        }
    }
}

/// A request or a session to explain; its JSON is the body of `POST /v1/weir/explain`.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum ExplainQuery {
    /// A request.
    Request(ExplainRequest),
    /// A session of layer 4.
    Session { stream: ExplainSession },
}

impl ExplainQuery {
    fn of(arguments: ExplainArguments) -> ExplainQuery {
        let ExplainArguments { remote_addr, sni, alpn, first, .. } = arguments;
        let transport = match (arguments.udp, arguments.tls) {
            (Some(_), _) => SessionTransport::Udp,
            (None, true) => SessionTransport::Tls,
            (None, false) => SessionTransport::Tcp,
        };
        match arguments.tcp.or(arguments.udp) {
            Some(local) => {
                let stream = ExplainSession { local, transport, remote_addr, sni, alpn, first };
                ExplainQuery::Session { stream }
            }
            None => ExplainQuery::Request(ExplainRequest {
                method: arguments.method.unwrap_or_default(),
                url: arguments.url.unwrap_or_default(),
                headers: arguments.headers,
                remote_addr,
            }),
        }
    }

    fn offline(&self, settings: &Settings) -> anyhow::Result<Value> {
        match self {
            ExplainQuery::Request(question) => boot::explain_offline(settings, question),
            ExplainQuery::Session { stream } => boot::explain_session_offline(settings, stream),
        }
    }
}

/// Asks, and prints the answer. The exit code is 0 also when no route matches, because that is an answer.
pub(crate) fn execute_explain(arguments: ExplainArguments) -> anyhow::Result<ExitCode> {
    let settings = settings(&arguments)?;
    let is_given = arguments.control.is_some() || arguments.data.is_none() && is_in_environment("control");
    let running = if is_given { None } else { running_on(&settings.data) };
    // Offline only without a running instance, because that one has locked its store.
    let is_offline = arguments.resources.is_some() || arguments.data.is_some() && running.is_none();
    let is_json = arguments.json;
    let is_named = arguments.control.is_some();
    let asked = ExplainQuery::of(arguments);
    let answer =
        if is_offline { asked.offline(&settings)? } else { answer(&settings, &asked, running, is_named)? };
    if is_json {
        print(serde_json::to_string_pretty(&answer).context("the record is not JSON")?);
        return Ok(ExitCode::SUCCESS);
    }
    const UNKNOWN_FORM: &str =
        "the instance answered in a form this version does not know; see it with `--json`";
    let (answer, paint) = (cleaned(answer), Paint::for_stdout());
    let text = match &asked {
        ExplainQuery::Request(question) => {
            serde_json::from_value::<DecisionRecord>(answer).context(UNKNOWN_FORM)?.render(question, paint)
        }
        ExplainQuery::Session { stream } => {
            serde_json::from_value::<SessionRecord>(answer).context(UNKNOWN_FORM)?.render(stream, paint)
        }
    };
    print(text.trim_end());
    Ok(ExitCode::SUCCESS)
}

/// The answer with texts that a terminal does not obey: paths, names and values of fields hold any
/// characters.
fn cleaned(value: Value) -> Value {
    let clean = |text: &str| clean(&text.replace(['\n', '\r', '\t'], " "));
    match value {
        Value::String(text) => clean(&text).into(),
        Value::Array(items) => items.into_iter().map(cleaned).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (clean(&name), cleaned(value))).collect()
        }
        other => other,
    }
}

/// The running instance's answer; if none runs and none was named, the answer from the configuration on disk.
fn answer(
    settings: &Settings,
    asked: &ExplainQuery,
    running: Option<RunningInstance>,
    is_named: bool,
) -> anyhow::Result<Value> {
    let Some(control) = address_of(running.as_ref(), "control", settings, settings.control)? else {
        return asked.offline(settings);
    };
    match (ask::fetch_decision(control, asked), running) {
        (Ok(answer), _) => Ok(answer),
        (Err(RequestFailure::NotThere(error)), Some(running)) => bail!(
            "process {} runs on the data folder {} and does not answer at {control}: {error}; name its control API with \
             --control",
            running.process,
            settings.data.display()
        ),
        (Err(RequestFailure::NotThere(error)), None) if is_named => {
            bail!("no instance answers at {control}: {error}; see the line `listening control` of its output")
        }
        (Err(RequestFailure::NotThere(_)), None) => {
            print_error(format_args!(
                "no instance runs on {} or at {control}; reading its configuration from disk",
                settings.data.display()
            ));
            asked.offline(settings)
        }
        (Err(RequestFailure::Refused(reason)), _) => bail!("{reason}"),
    }
}

/// The instance's settings, with the arguments of this command on top.
fn settings(arguments: &ExplainArguments) -> anyhow::Result<Settings> {
    let config = settings_file(arguments.config.clone());
    let mut flags = WrittenSettings::default();
    let given =
        [("control", &arguments.control), ("data", &arguments.data), ("resources", &arguments.resources)];
    for (name, value) in given {
        let setting = SETTINGS.iter().find(|setting| setting.name == name).expect("a setting of that name");
        if let Some(value) = value {
            flags.insert(setting, vec![value.clone()], SettingLocation::Flag);
        }
    }
    let mut settings = Settings::load(config.as_deref(), std::env::vars_os(), flags)?.settings;
    if arguments.data.is_some() {
        // Cleared, because the named folder is asked for even if the settings file has a declarative mode.
        settings.resources = None;
    }
    Ok(settings)
}

fn method(text: &str) -> Result<String, String> {
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_token { Ok(text.to_owned()) } else { Err("a method is a word such as GET".to_owned()) }
}

fn url(text: &str) -> Result<String, String> {
    let is_url = text.starts_with('/') || text.starts_with("http://") || text.starts_with("https://");
    let is_visible = text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    match (is_url, is_visible) {
        (true, true) => Ok(text.to_owned()),
        (true, false) => Err("a URL holds no spaces or control characters; write them as %20".to_owned()),
        (false, _) => Err("write `http://host/path`, or `/path` with `-H 'Host: …'`".to_owned()),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    if text.chars().any(char::is_control) {
        return Err("a header field holds no line break or other control character".to_owned());
    }
    match text.split_once(':') {
        Some((name, value)) if !name.is_empty() && !name.contains(' ') => {
            Ok((name.to_owned(), value.trim().to_owned()))
        }
        _ => Err("write `Name: value`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_its_arguments() {
        assert_eq!(header("Host: a.example").unwrap(), ("Host".to_owned(), "a.example".to_owned()));
        assert_eq!(header("X-Empty:").unwrap(), ("X-Empty".to_owned(), String::new()));
        assert!(header("A: b\r\nC: d").is_err());
        assert!(header("Host a").is_err() && header(": a").is_err() && header("A B: c").is_err());
        assert!(url("/a?b=c").is_ok() && url("http://a/").is_ok() && url("https://a").is_ok());
        assert!(url("a/b").is_err() && url("/a b").is_err() && url("").is_err());
        assert!(method("GET").is_ok() && method("").is_err() && method("GE T").is_err());
    }

    #[test]
    fn answer_cannot_steer_the_terminal() {
        let answer =
            serde_json::json!({"params": {"a\u{1b}": ["x\u{9b}2J\u{202e}", "a\nb", 7]}, "closed": null});
        let expected = serde_json::json!({"params": {"a?": ["x?2J?", "a b", 7]}, "closed": null});
        assert_eq!(cleaned(answer), expected);
    }

    #[test]
    fn the_question_is_json() {
        let question = ExplainRequest {
            method: "GET".to_owned(),
            url: "/a".to_owned(),
            headers: vec![("Host".to_owned(), "x".to_owned())],
            remote_addr: IpAddr::from([10, 0, 0, 1]),
        };
        let expected = r#"{"method":"GET","url":"/a","headers":[["Host","x"]],"remote_addr":"10.0.0.1"}"#;
        assert_eq!(serde_json::to_string(&question).unwrap(), expected);
    }
}
