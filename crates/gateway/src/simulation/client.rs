//! The clients of a simulation. They keep connections, send requests one by one or several at once, in every
//! framing, wait for `100`, close their sending side, upgrade, and give up. Each client reads its responses
//! in order and compares every byte.

use std::rc::Rc;

use super::h2_client;
use super::ledger::{Ending, Excuse, Ledger};
use super::pattern::Whose;
use super::plan::{Plan, Plant, client_address, proxy_address, second_address};
use super::plugins::{EDIT_MASK, LOCAL_STATUS};
use super::tunnel;
use super::wire::{Body, Broken, Head, Peer};
use net::env::memory::{Random, connect_from, note, sleep_ns};
use net::env::monotonic_ns;

/// Longest pause of a client without a fault, in nanoseconds.
const PAUSE_NS: u64 = 60_000_000;
/// A pause longer than every timeout of the gateway in a simulation, in nanoseconds.
const TOO_LONG_NS: u64 = 1_300_000_000;
/// Shortest idle time after which the gateway may close a kept connection because `max_connections` is small,
/// in nanoseconds.
const IDLE_LEAST_NS: u64 = 1_000_000_000;
/// How long a client waits for `100` before it sends its body without it, in nanoseconds.
const CONTINUE_NS: u64 = 300_000_000;
/// Most requests that a client sends at once.
const PIPELINED_MAX: u64 = 4;

pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) plan: Rc<Plan>,
    pub(crate) ledger: Rc<Ledger>,
}

/// A request that a client sends.
struct Request {
    id: u64,
    method: &'static str,
    old: bool,
    upgrades: bool,
    waits: bool,
    /// The request asks a plugin to panic.
    panics: bool,
    bytes: Vec<u8>,
    head_bytes: usize,
}

/// Fault of a client during one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The client closes before it has sent the whole request.
    GivesUpSending,
    /// The client closes before it has read the response.
    GivesUpReading,
    /// The client stops sending for longer than the gateway waits.
    Stops,
    /// The client stops reading for longer than the gateway waits.
    ReadsLate,
}

const FAULTS: &[Fault] = &[Fault::GivesUpSending, Fault::GivesUpReading, Fault::Stops, Fault::ReadsLate];

/// A connection and the reasons for which it may end.
struct Line {
    peer: Peer,
    /// The last response said `Connection: close`.
    must_close: bool,
    shut: bool,
    answers: usize,
    /// When the current requests were sent; `before_ns` is the time of the requests before them.
    sent_ns: u64,
    before_ns: u64,
    /// The node answered before it had read the whole last request, so the connection may end after the
    /// response without `Connection: close`.
    early: bool,
}

/// Opens the connections that the plan gives to this client, one after another.
pub(crate) async fn run(client: Rc<Client>, mut random: Random) {
    for connection in 0..client.plan.connections {
        sleep_ns(random.below(PAUSE_NS)).await;
        let local = client_address(client.number, connection);
        let second = client.plan.second_listener && random.chance(40);
        let place = if second { second_address() } else { proxy_address() };
        let asked_ns = monotonic_ns();
        match connect_from(local, place).await {
            Ok(stream) => {
                note(|| format!("client {}: {stream:?}", client.number));
                if client.plan.speaks_http2(client.number) {
                    h2_client::talk(&client, stream, &mut random).await;
                    continue;
                }
                let read_bytes = random.between(100, 20_000) as usize;
                let peer = Peer::new(stream, read_bytes);
                let sent_ns = monotonic_ns();
                let mut line = Line {
                    peer,
                    must_close: false,
                    shut: false,
                    answers: 0,
                    sent_ns,
                    before_ns: sent_ns,
                    early: false,
                };
                talk(&client, &mut line, &mut random).await;
            }
            Err(_) if second && !client.ledger.listened_since(asked_ns) => {}
            Err(_) if client.ledger.drain_ns.get() == u64::MAX => {
                client.ledger.violation(format!("client {} cannot connect", client.number));
            }
            Err(_) => return,
        }
    }
}

/// Runs one connection from its first request to its end.
async fn talk(client: &Client, line: &mut Line, random: &mut Random) {
    let mut left = client.plan.requests;
    while left > 0 {
        let count = if random.chance(25) { random.between(1, PIPELINED_MAX.min(left)) } else { 1 };
        left -= count;
        let mut requests: Vec<Request> = (0..count).map(|_| draw(client, count > 1, random)).collect();
        // A request after one that may switch protocols or end the connection would be read as something else
        // or not at all.
        let last = requests.iter().position(|request| request.upgrades || request.old);
        if let Some(last) = last {
            for request in requests.drain(last + 1..) {
                client.ledger.end(request.id, Ending::GivenUp, false);
            }
        }
        let shuts = left == 0 && last.is_none() && random.chance(10);
        if !batch(client, line, &requests, shuts, random).await {
            return;
        }
        let long = random.chance(5);
        sleep_ns(if long { TOO_LONG_NS } else { random.below(PAUSE_NS) }).await;
    }
    end(client, line).await;
}

/// Reports bytes that arrive after the last response.
async fn end(client: &Client, line: &mut Line) {
    tokio::select! {
        biased;
        more = line.peer.fill() => {
            if more.is_ok() || line.peer.holds_bytes() {
                let extra = String::from_utf8_lossy(&line.peer.take_held()).into_owned();
                client.ledger.violation(format!("client {} got more than it asked for: {extra:?}", client.number));
            }
        }
        () = sleep_ns(PAUSE_NS / 4) => {}
    }
}

fn draw(client: &Client, pipelined: bool, random: &mut Random) -> Request {
    let plan = &client.plan;
    let method = *random.pick(&["GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE"]);
    let route = random.below(plan.routes as u64) as usize;
    let has_body = matches!(method, "POST" | "PUT");
    let body_bytes = match random.below(10) {
        _ if !has_body => 0,
        0..6 => random.below(200),
        6..9 => random.below(4_000),
        _ => random.below(50_000),
    };
    let old = !has_body && random.chance(5);
    let upgrades = method == "GET" && !old && random.chance(15);
    let chunked = has_body && random.chance(40);
    let waits = has_body && !pipelined && random.chance(15);
    let id = client.ledger.ask(method, route, body_bytes);
    let version = if old { "1.0" } else { "1.1" };
    let mut head = format!("{method} /r{route}/{id} HTTP/{version}\r\nHost: h\r\nX-Id: {id}\r\n");
    if upgrades {
        head += "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    }
    if waits {
        head += "Expect: 100-continue\r\n";
    }
    let panics = random.chance(plan.faults.panic);
    if panics {
        head += &format!("X-Panic: {}\r\n", random.pick(&["access", "head", "body"]));
    }
    let body = Whose::Request(id).bytes(0, body_bytes);
    let mut bytes = Vec::new();
    if chunked {
        head += "Transfer-Encoding: chunked\r\n";
        let mut rest = &body[..];
        while !rest.is_empty() {
            let count = 1 + random.below(rest.len() as u64) as usize;
            bytes.extend(format!("{count:x}\r\n").bytes());
            bytes.extend(&rest[..count]);
            bytes.extend(b"\r\n");
            rest = &rest[count..];
        }
        bytes.extend(b"0\r\n\r\n");
    } else if has_body {
        head += &format!("Content-Length: {body_bytes}\r\n");
        bytes = body;
    }
    head += "\r\n";
    let head_bytes = head.len();
    bytes.splice(0..0, head.into_bytes());
    Request { id, method, old, upgrades, waits, panics, bytes, head_bytes }
}

/// Sends some requests at once and reads their responses; false if the connection is over.
async fn batch(
    client: &Client,
    line: &mut Line,
    requests: &[Request],
    shuts: bool,
    random: &mut Random,
) -> bool {
    let ledger = &client.ledger;
    (line.before_ns, line.sent_ns) = (line.sent_ns, monotonic_ns());
    let fault = random.chance(client.plan.faults.client).then(|| *random.pick(FAULTS));
    // A panic ends the connection and may cut responses of other requests that are still on their way.
    let panics = requests.iter().any(|request| request.panics);
    for request in requests {
        if panics {
            ledger.excuse(request.id, Excuse::Panic);
        }
        note(|| format!("client {}: {} {} {fault:?}", client.number, request.id, request.method));
        if fault.is_some() {
            ledger.excuse(request.id, Excuse::Client);
        }
        if shuts {
            ledger.excuse(request.id, Excuse::HalfClosed);
        }
    }
    let bytes: Vec<u8> = requests.iter().flat_map(|request| request.bytes.iter().copied()).collect();
    if !send(line, requests, &bytes, fault, random).await {
        requests.iter().for_each(|request| ledger.end(request.id, Ending::GivenUp, false));
        return false;
    }
    if shuts {
        line.shut = true;
        // A failed shutdown needs no report, because the reads below see the same end or reset.
        let _ = line.peer.shut().await;
    }
    if fault == Some(Fault::ReadsLate) {
        sleep_ns(TOO_LONG_NS).await;
    }
    let mut requests = requests.iter();
    while let Some(request) = requests.next() {
        let gives_up = fault == Some(Fault::GivesUpReading) && random.chance(50);
        if gives_up && !request.upgrades {
            ledger.end(request.id, Ending::GivenUp, false);
            requests.for_each(|request| ledger.end(request.id, Ending::GivenUp, false));
            return false;
        }
        if client.plan.planted == Some(Plant::AnswerUnread) && random.chance(10) {
            ledger.end(request.id, Ending::GivenUp, false);
            continue;
        }
        let ending = answer(client, line, request, gives_up, random).await;
        line.early = ledger.entry(request.id).is_some_and(|entry| entry.early);
        let harmed = line.peer.stream.is_harmed();
        ledger.end(request.id, ending, harmed);
        if !goes_on(line, request, ending) {
            for request in requests {
                ledger.end(request.id, Ending::Nothing { expected: true }, harmed);
            }
            return false;
        }
    }
    true
}

fn goes_on(line: &mut Line, request: &Request, ending: Ending) -> bool {
    line.answers += 1;
    let whole = matches!(ending, Ending::Answer { whole: true, .. });
    whole && !line.must_close && !request.old && !request.upgrades
}

/// Sends the requests; false if the client gave up.
async fn send(
    line: &mut Line,
    requests: &[Request],
    bytes: &[u8],
    fault: Option<Fault>,
    random: &mut Random,
) -> bool {
    let peer = &mut line.peer;
    let mut sent = 0;
    if requests[0].waits {
        sent = peer.write_listening(&bytes[..requests[0].head_bytes], true).await;
        tokio::select! {
            biased;
            _ = peer.fill() => {}
            () = sleep_ns(CONTINUE_NS) => {}
        }
    }
    let pauses = random.chance(20) || fault == Some(Fault::Stops);
    let mut stopped = fault != Some(Fault::Stops);
    while sent < bytes.len() {
        let end = if pauses {
            bytes.len().min(sent + 1 + random.below(bytes.len() as u64) as usize)
        } else {
            bytes.len()
        };
        let count = peer.write_listening(&bytes[sent..end], true).await;
        sent += count;
        if sent < end {
            return true;
        }
        if fault == Some(Fault::GivesUpSending) && random.chance(50) {
            if random.chance(50) {
                peer.stream.reset_on_close();
            }
            return false;
        }
        if pauses && !stopped && sent < bytes.len() {
            stopped = true;
            sleep_ns(TOO_LONG_NS).await;
        } else if pauses {
            sleep_ns(random.below(PAUSE_NS / 8)).await;
        }
    }
    true
}

/// Reads the response to one request.
async fn answer(
    client: &Client,
    line: &mut Line,
    request: &Request,
    gives_up: bool,
    random: &mut Random,
) -> Ending {
    let ledger = &client.ledger;
    let head = loop {
        let head = match line.peer.head().await {
            Ok(Some(head)) => head,
            Ok(None) => return nothing(client, line),
            Err(Broken::Malformed(text)) => {
                ledger.violation(format!("request {} got no HTTP: {text:?}", request.id));
                return Ending::GivenUp;
            }
            Err(_) if !line.peer.holds_bytes() => return nothing(client, line),
            Err(_) => return cut_head(ledger, request),
        };
        match head.status() {
            101 => break head,
            100..200 if request.old => {
                ledger.violation(format!("request {} is of HTTP/1.0 and got {}", request.id, head.line));
            }
            100..200 => {}
            _ => break head,
        }
    };
    note(|| format!("client {}: request {} gets {}", client.number, request.id, head.line));
    line.must_close |= head.closes();
    // Every response carries the stamp of its request, except a 408, because its request was never read
    // whole.
    let stamp = head.number("x-stamp");
    if stamp.is_some_and(|stamp| stamp != request.id) || stamp.is_none() && head.status() != 408 {
        ledger.violation(format!("request {} got the answer of {stamp:?}: {}", request.id, head.line));
    }
    if head.status() == 101 {
        return upgraded(client, line, request, &head, gives_up, random).await;
    }
    match (head.number("x-id"), head.number("x-execution")) {
        (Some(id), Some(execution)) => {
            if id != request.id {
                ledger.violation(format!("request {} was answered by the answer of {id}", request.id));
            }
            read_answer(client, line, request, &head, execution as usize, random).await
        }
        _ => read_local(ledger, line, request, &head).await,
    }
}

/// Outcome of a connection that ended before a response: `expected` says whether the gateway was allowed to
/// close it.
fn nothing(client: &Client, line: &Line) -> Ending {
    // The gateway may have become idle long before this client had read its last response.
    let idle_ns = monotonic_ns() - line.before_ns;
    let expected = client.ledger.drain_ns.get() != u64::MAX
        || client.ledger.is_upset_since(line.before_ns)
        || line.early
        || line.shut
        || client.plan.limits.max_connections < 1_000 && (line.answers == 0 || idle_ns >= IDLE_LEAST_NS)
        || idle_ns >= client.plan.limits.idle_timeout_ms * 1_000_000;
    Ending::Nothing { expected }
}

/// Outcome of a response that ended inside its head: its identity is unknown, but the cut must have an
/// excuse.
fn cut_head(ledger: &Ledger, request: &Request) -> Ending {
    let executions = ledger.entry(request.id).map_or(Vec::new(), |entry| entry.executions);
    match executions.last() {
        Some(last) => {
            let execution = Some(executions.len() - 1);
            Ending::Answer { status: last.status, execution, bytes: 0, whole: false }
        }
        // No node executed the request, so the gateway made the response.
        None => Ending::Nothing { expected: false },
    }
}

async fn read_answer(
    client: &Client,
    line: &mut Line,
    request: &Request,
    head: &Head,
    execution: usize,
    random: &mut Random,
) -> Ending {
    let whose = Whose::Answer(request.id, execution);
    let mask = if head.get("x-edited").is_some() { EDIT_MASK } else { 0 };
    let mut body = Body::of_response(head, request.method);
    let slow = random.chance(15);
    let mut bytes = 0;
    let mut whole = true;
    while body != Body::Done {
        match line.peer.piece(&mut body).await {
            Ok(mut piece) => {
                piece.iter_mut().for_each(|byte| *byte ^= mask);
                if !whose.is_at(bytes, &piece) {
                    let place = format!("{bytes} on, execution {execution}");
                    client
                        .ledger
                        .violation(format!("the answer to {} is not its own from {place}", request.id));
                }
                bytes += piece.len() as u64;
            }
            Err(Broken::Malformed(text)) => {
                client.ledger.violation(format!("the answer to {} is no HTTP: {text}", request.id));
                whole = false;
                break;
            }
            Err(_) => {
                whole = false;
                break;
            }
        }
        if slow {
            sleep_ns(random.below(PAUSE_NS / 16)).await;
        }
    }
    if head.word(0) == "HTTP/1.1" && request.method == "HEAD" {
        // A response to HEAD has no body, so the bytes that the execution recorded stand in for it.
        bytes = client
            .ledger
            .entry(request.id)
            .map_or(0, |entry| entry.executions.get(execution).map_or(0, |done| done.bytes));
    }
    Ending::Answer { status: head.status(), execution: Some(execution), bytes, whole }
}

async fn read_local(ledger: &Ledger, line: &mut Line, request: &Request, head: &Head) -> Ending {
    let status = head.status();
    let body = line.peer.whole(Body::of_response(head, request.method)).await;
    let wanted = format!("local {}", request.id);
    match &body {
        Ok(body) if status == LOCAL_STATUS && request.method != "HEAD" => {
            let right =
                body == wanted.as_bytes() || body.iter().map(|byte| byte ^ EDIT_MASK).eq(wanted.bytes());
            if !right {
                ledger.violation(format!("request {} got the local answer {body:?}", request.id));
            }
        }
        _ => {}
    }
    Ending::Answer { status, execution: None, bytes: 0, whole: body.is_ok() }
}

async fn upgraded(
    client: &Client,
    line: &mut Line,
    request: &Request,
    head: &Head,
    gives_up: bool,
    random: &mut Random,
) -> Ending {
    if !request.upgrades || head.number("x-id") != Some(request.id) {
        client.ledger.violation(format!("request {} was upgraded by {}", request.id, head.line));
    }
    let got = tunnel::at_client(&client.ledger, &mut line.peer, request.id, gives_up, random).await;
    if gives_up {
        return Ending::GivenUp;
    }
    let execution = head.number("x-execution").map(|execution| execution as usize);
    let whole = got.end.is_ok() && got.bytes.len() as u64 == tunnel::bytes_of(request.id).1;
    Ending::Answer { status: 101, execution, bytes: got.bytes.len() as u64, whole }
}
