//! The same bytes to this gateway, to nginx and to HAProxy, each in front of an origin that records: where they differ in
//! what they accept, or in what they pass on, the difference has its reason in `docs/reference/differences.md`.
//! Without the two programs there is nothing to compare.

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

/// One stream of bytes. `@` stands for the line that marks a request as this case's.
pub(super) struct Case {
    /// What it is about, as a row of the page.
    name: &'static str,
    /// The request, and what hides in it.
    bytes: &'static str,
    /// Why the three differ: a key of [`REASONS`]; empty where they must not.
    reason: &'static str,
}

/// All cases, in the order of the page.
fn cases() -> Vec<&'static Case> {
    [bodies::CASES, chunks::CASES, request_lines::CASES, fields::CASES].into_iter().flatten().collect()
}

/// What became of a case in one proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// The statuses that the client got.
    statuses: Vec<u16>,
    /// What reached the origin, whole.
    requests: Vec<String>,
    /// Whether something reached it that is no request.
    malformed: bool,
    /// Whether the proxy could as well have passed it on: see [`BY_CHANCE`].
    by_chance: bool,
}

impl Outcome {
    /// Whether two proxies understood the same, whatever they said about it.
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

/// A proxy's name, version, and what it made of each case.
struct Column {
    title: String,
    outcomes: Vec<Outcome>,
}

/// Asks the proxy at `address` every case; `stop` ends it, so that all that reached `origin` is known.
fn column(title: String, origin: &Origin, address: SocketAddr, stop: impl FnOnce()) -> Column {
    let mut outcomes = Vec::new();
    let mut seen_by = Vec::new();
    for (number, case) in cases().iter().enumerate() {
        let mark = format!("X-Case: {number}\r\n");
        let last = format!("GET /last HTTP/1.1\r\nHost: h\r\n{mark}Connection: close\r\n\r\n");
        let mut client = Client::connect(address);
        // A proxy may refuse and close before it has read everything.
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
        // Whoever drops the fields drops the mark; such a request was answered, so it was there when its case ended.
        let number = number.unwrap_or_else(|| seen_by.partition_point(|&seen| seen <= index));
        let outcome = &mut outcomes[number];
        match &request.body_error {
            None if request.path() == "/last" => {}
            None => outcome.requests.push(meaning(&request)),
            // A proxy that stopped in the middle has passed nothing on.
            Some(error) => outcome.malformed |= error.starts_with("not a "),
        }
    }
    Column { title, outcomes }
}

/// What a request means to an origin: not how its fields are spelled or ordered, nor what a proxy adds.
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

/// What the origin says: 200 to a whole request and 400 to all else, as a proxy does that stops in the middle of one: so
/// the client hears the same whichever of the two it hears. Behind a 400 it reads on until the proxy closes, since a
/// reset might overtake the answer. It closes where it is asked to, which only the far end of a tunnel is.
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
            // Its own 400, or the origin's and then the answer to what follows.
            assert!(outcome.requests.is_empty() && outcome.statuses[0] == 400, "{BY_CHANCE}: {outcome:?}");
            *outcome = Outcome { statuses: vec![400], by_chance: true, ..Outcome::default() };
        }
    }
    Some([ours, theirs, others])
}

/// `nginx 1.22` of whatever `nginx -v` says.
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
        // Whatever others make of it: one request or none comes of one.
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

/// The page is about the versions that it names; with others it is left alone.
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

/// A text as the cell of a table.
fn cell(text: &str) -> String {
    let escaped: String = text
        .chars()
        .flat_map(|sign| if sign.is_control() { sign.escape_default().collect() } else { vec![sign] })
        .collect();
    escaped.replace('|', "\\|").replace('<', "\\<")
}

/// Fields that a proxy adds or writes anew, and the mark of the case.
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

/// A case that a process of HAProxy 2.6 either refuses or passes on as it is, always the same within one process: it
/// depends on nothing that was sent.
const BY_CHANCE: &str = "a trailer with a space in its name";
