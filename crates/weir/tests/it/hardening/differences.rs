//! The same bytes sent to this gateway, nginx and HAProxy, each in front of an origin that records. Each
//! difference in the requests that they accept, or in the form that they pass on, must have its reason in
//! `docs/reference/differences.md`. Without the two programs the test compares nothing.

mod bodies;
mod chunks;
mod fields;
mod reasons;
mod request_lines;

use std::fmt::Write;
use std::net::SocketAddr;

use testkit::{Client, Haproxy, Nginx, Origin, Reply, Request, Step, wait_until};

use super::stand::{listen, shown};
use crate::support::in_front_of;
use reasons::REASONS;

/// One stream of bytes. `@` stands for the field line that marks a request with the number of its case.
pub(super) struct Case {
    /// The subject, as a row of the page.
    name: &'static str,
    /// The request, and the bytes hidden in it.
    bytes: &'static str,
    /// The reason for a difference: a key of [`REASONS`]; empty where there must be none.
    reason: &'static str,
}

/// All cases, in the order of the page.
fn cases() -> Vec<&'static Case> {
    [bodies::CASES, chunks::CASES, request_lines::CASES, fields::CASES].into_iter().flatten().collect()
}

/// The outcome of a case in one proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// The statuses of the responses to the client.
    statuses: Vec<u16>,
    /// The whole requests that reached the origin.
    requests: Vec<String>,
    /// Whether bytes that are no request reached the origin.
    malformed: bool,
    /// Whether the proxy might as well have passed the request on: see [`BY_CHANCE`].
    by_chance: bool,
}

impl Outcome {
    /// Whether two proxies read the same requests, whatever statuses they sent.
    fn means(&self, other: &Outcome) -> bool {
        (&self.requests, self.malformed) == (&other.requests, other.malformed)
    }

    fn text(&self) -> String {
        let statuses: Vec<String> = self.statuses.iter().map(u16::to_string).collect();
        let answered = if statuses.is_empty() { "no answer".to_owned() } else { statuses.join(", ") };
        let malformed = match self {
            Outcome { by_chance: true, .. } => " or passed on, by chance",
            Outcome { malformed: true, .. } => " and bytes that are no request",
            _ => "",
        };
        match self.requests.as_slice() {
            [] => format!("{answered}{malformed}"),
            requests => format!("{}{malformed}", requests.join(" + ")),
        }
    }
}

/// The name and version of a proxy, and its outcome of each case.
struct Column {
    title: String,
    outcomes: Vec<Outcome>,
}

/// Sends every case to the proxy at `address`. Calls `stop` to end the proxy, so that no further request can
/// reach `origin`.
fn column(title: String, origin: &Origin, address: SocketAddr, stop: impl FnOnce()) -> Column {
    let mut outcomes = Vec::new();
    let mut seen_by = Vec::new();
    for (number, case) in cases().iter().enumerate() {
        let mark = format!("X-Case: {number}\r\n");
        let last = format!("GET /last HTTP/1.1\r\nHost: h\r\n{mark}Connection: close\r\n\r\n");
        let mut client = Client::connect(address);
        // Ignored, because a proxy may refuse and close before it has read everything.
        let _ = client.try_send(format!("{}{last}", case.bytes.replace('@', &mark)).as_bytes());
        let statuses = listen(&mut client).answers.iter().map(|answer| answer.status).collect();
        outcomes.push(Outcome { statuses, ..Outcome::default() });
        seen_by.push(origin.requests().len());
    }
    stop();
    wait_until("the origin has seen the end of every connection", || {
        origin.closed_connections() >= origin.connections()
    });
    for (index, request) in origin.requests().into_iter().enumerate() {
        let head = String::from_utf8_lossy(&request.raw_head).to_ascii_lowercase();
        let marked = head.split("x-case: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let number: Option<usize> = marked.and_then(|number| number.trim().parse().ok());
        // A proxy that drops the fields drops the mark, too. Such a request was answered, so it reached the
        // origin before its case ended.
        let number = number.unwrap_or_else(|| seen_by.partition_point(|&seen| seen <= index));
        let outcome = &mut outcomes[number];
        match &request.body_error {
            None if request.path() == "/last" => {}
            None => outcome.requests.push(meaning(&request)),
            // A proxy that stopped in the middle has passed no request on.
            Some(error) => outcome.malformed |= error.starts_with("not a "),
        }
    }
    Column { title, outcomes }
}

/// The meaning of a request for an origin, without the spelling and order of its fields and without the
/// fields that a proxy adds.
fn meaning(request: &Request) -> String {
    let host = request.header("host").unwrap_or("-").to_ascii_lowercase();
    let host = host.split_once(':').map_or(host.as_str(), |(name, _)| name);
    let mut text = format!("{} {} for `{host}`", request.method, request.target);
    if !request.body.is_empty() {
        write!(text, " with {:?}", request.text()).unwrap();
    }
    let mut fields: Vec<String> = request
        .headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| !ADDED.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    fields.sort();
    if !fields.is_empty() {
        write!(text, " ({})", fields.join("; ")).unwrap();
    }
    text
}

/// The origin's response: 200 to a whole request and 400 to all else. A proxy that stops in the middle of a
/// request also answers 400, so that the client gets the same status whichever response arrives. After a 400
/// the origin reads on until the proxy closes, because a reset might overtake the response. The origin closes
/// only on request, which happens only at the far end of a tunnel.
fn answer(request: &Request) -> Reply {
    match request.body_error {
        None if request.header("connection") == Some("close") => {
            Reply::with(200, &[("Connection", "close")], b"seen").close()
        }
        None => Reply::ok("seen"),
        Some(_) => Reply::status(400, "").then(Step::FinishSending).then(Step::AwaitClose),
    }
}

fn columns() -> Option<[Column; 3]> {
    let (nginx_version, haproxy_version) = (Nginx::version()?, Haproxy::version()?);

    let origin = Origin::start(answer);
    let weir = in_front_of(&origin);
    let ours = column("weir".to_owned(), &origin, weir.proxy(), || drop(weir));

    let origin = Origin::start(answer);
    let nginx = Nginx::start(&format!(
        "location / {{ proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
         proxy_set_header Host $host; }}",
        origin.address()
    ));
    let theirs = column(version_of("nginx", &nginx_version), &origin, nginx.address(), || drop(nginx));

    let origin = Origin::start(answer);
    let haproxy = Haproxy::proxying(origin.address());
    let mut others =
        column(version_of("HAProxy", &haproxy_version), &origin, haproxy.address(), || drop(haproxy));
    for (case, outcome) in cases().iter().zip(&mut others.outcomes) {
        if case.name == BY_CHANCE {
            // The proxy's own 400, or the origin's and then the response to the next request.
            assert!(outcome.requests.is_empty() && outcome.statuses[0] == 400, "{BY_CHANCE}: {outcome:?}");
            *outcome = Outcome { statuses: vec![400], by_chance: true, ..Outcome::default() };
        }
    }
    Some([ours, theirs, others])
}

/// `nginx 1.22` from the output of `nginx -v`.
fn version_of(name: &str, said: &str) -> String {
    let number =
        said.split([' ', '/', '-']).find(|word| word.starts_with(|sign: char| sign.is_ascii_digit()));
    let parts: Vec<&str> = number.unwrap_or_default().split('.').take(2).collect();
    format!("{name} {}", parts.join("."))
}

// Differential test of checks 1 to 16.
#[test]
fn differences_to_nginx_and_haproxy_have_reasons() {
    let Some(columns) = columns() else { return };
    let [ours, nginx, haproxy] = &columns;
    let mut unexplained = Vec::new();
    for (number, case) in cases().iter().enumerate() {
        let [ours, nginx, haproxy] = [ours, nginx, haproxy].map(|column| &column.outcomes[number]);
        let differ = !ours.means(nginx) || !ours.means(haproxy);
        if differ && case.reason.is_empty() {
            unexplained.push(format!(
                "{}: {}\n  weir: {}\n  nginx: {}\n  HAProxy: {}",
                case.name,
                shown(case.bytes.as_bytes()),
                ours.text(),
                nginx.text(),
                haproxy.text()
            ));
        }
        // One request at most comes of one, in whatever way the other proxies read it.
        assert!(!ours.malformed && ours.requests.len() <= 1, "{}: {}", case.name, ours.text());
    }
    assert!(
        unexplained.is_empty(),
        "{} differences without a reason:\n{}",
        unexplained.len(),
        unexplained.join("\n")
    );
    for (key, _) in REASONS {
        assert!(cases().iter().any(|case| case.reason == *key), "the reason {key} explains nothing");
    }
    compare_page(&columns);
}

/// Compares the page, or writes it with `UPDATE=1`. Skipped with other versions of the proxies than those
/// that the page names.
fn compare_page(columns: &[Column; 3]) {
    let page = page(columns);
    let file = super::pages::repository().join("docs/reference/differences.md");
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&file, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap();
    if columns.iter().all(|column| committed.contains(&column.title)) {
        assert!(
            committed == page,
            "docs/reference/differences.md is out of date: `UPDATE=1 cargo test -p weir --test it differences` writes it"
        );
    }
}

fn page(columns: &[Column; 3]) -> String {
    let [ours, nginx, haproxy] = columns;
    let mut out = format!(
        "# Where weir, nginx and HAProxy differ\n\n\
         <!-- Made from crates/weir/tests/it/hardening/differences by `UPDATE=1 cargo test -p weir --test it \
         differences`; edit it there. -->\n\n\
         {} streams of bytes were sent to weir, {} and {}, each with its defaults in front of an origin that records \
         every request. They agree on {}. The others are below: what reached the origin, or the status where nothing \
         did. A difference without a reason fails the test.\n\n## Reasons\n\n",
        cases().len(),
        nginx.title,
        haproxy.title,
        cases().iter().filter(|case| case.reason.is_empty()).count(),
    );
    for (key, text) in REASONS {
        writeln!(out, "- **{key}**: {text}").unwrap();
    }
    for (key, _) in REASONS {
        write!(
            out,
            "\n## {key}\n\n| sent | {} | {} | {} |\n|---|---|---|---|\n",
            ours.title, nginx.title, haproxy.title
        )
        .unwrap();
        for (number, case) in cases().iter().enumerate().filter(|(_, case)| case.reason == *key) {
            let cells = [ours, nginx, haproxy].map(|column| cell(&column.outcomes[number].text()));
            writeln!(out, "| {} | {} |", cell(case.name), cells.join(" | ")).unwrap();
        }
    }
    out
}

/// A text as the cell of a Markdown table.
fn cell(text: &str) -> String {
    let escaped: String = text
        .chars()
        .flat_map(|sign| if sign.is_control() { sign.escape_default().collect() } else { vec![sign] })
        .collect();
    escaped.replace('|', "\\|").replace('<', "\\<")
}

/// Fields that a proxy adds or rewrites, and the field with the mark of the case.
const ADDED: [&str; 11] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "x-case",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "via",
];

/// A case that a process of HAProxy 2.6 either refuses or passes on unchanged, always the same within one
/// process, independent of the bytes that were sent.
const BY_CHANCE: &str = "a trailer with a space in its name";
