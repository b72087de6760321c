//! The nodes of a simulation. They read requests, execute each one and record that in the ledger, and answer
//! in every way that HTTP allows and in some that it does not.

use std::rc::Rc;

use super::ledger::{Excuse, Ledger};
use super::pattern::Whose;
use super::plan::{Plan, Plant, node_address};
use super::tunnel;
use super::wire::{Body, Head, Peer};
use net::env::memory::{Random, note, sleep_ns};
use net::env::{self, Listener, Stream};

pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) plan: Rc<Plan>,
    pub(crate) ledger: Rc<Ledger>,
}

/// Fault of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The node closes the connection in order before the first byte.
    NoAnswer,
    /// The node resets the connection before the first byte.
    ResetBefore,
    /// The node closes the connection in order inside the response.
    Cut,
    /// The node resets the connection inside the response.
    ResetInside,
    /// The response begins later than the gateway waits.
    Late,
    /// The body stops for longer than the gateway waits.
    Stall,
    /// The bytes are not HTTP.
    Nonsense,
}

const FAULTS: &[Fault] = &[
    Fault::NoAnswer,
    Fault::ResetBefore,
    Fault::Cut,
    Fault::ResetInside,
    Fault::Late,
    Fault::Stall,
    Fault::Nonsense,
];
/// A pause longer than every timeout of the gateway in a simulation, in nanoseconds.
const TOO_LONG_NS: u64 = 1_300_000_000;
/// Longest pause of a node without a fault, in nanoseconds.
const PAUSE_NS: u64 = 40_000_000;

/// How the end of a response body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length,
    Chunked,
    Close,
}

/// A response, drawn before it is sent.
struct Answer {
    id: u64,
    execution: usize,
    status: u16,
    bytes: u64,
    framing: Framing,
    /// The response says `Connection: close`.
    closes: bool,
    /// The node closes the connection after the response, with or without `Connection: close`.
    ends: bool,
    fault: Option<Fault>,
}

/// Accepts and serves connections for the whole run.
pub(crate) async fn run(node: Rc<Node>, mut random: Random) {
    let address = node_address(node.number);
    let listener = Listener::attach(env::bind(address, false).unwrap()).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        env::spawn(serve(node.clone(), stream, random.fork()));
    }
}

async fn serve(node: Rc<Node>, stream: Stream, mut random: Random) {
    let read_bytes = random.between(100, 20_000) as usize;
    let mut peer = Peer::new(stream, read_bytes);
    let mut served = 0;
    loop {
        let head = if served > 0 && random.chance(node.plan.faults.idle_close) {
            let patience_ns = random.below(PAUSE_NS);
            tokio::select! {
                biased;
                head = peer.head() => head,
                () = sleep_ns(patience_ns) => {
                    note(|| format!("node {}: {:?} closed while idle", node.number, peer.stream));
                    return node.ledger.idle_close();
                }
            }
        } else {
            peer.head().await
        };
        let Ok(Some(head)) = head else { return };
        served += 1;
        if !one(&node, &mut peer, &head, &mut random).await {
            return node.ledger.idle_close();
        }
    }
}

/// Serves one request; false if the connection is over.
async fn one(node: &Rc<Node>, peer: &mut Peer, head: &Head, random: &mut Random) -> bool {
    let ledger = &node.ledger;
    let mut parts = head.word(1).split('/').skip(1);
    let route = parts.next().and_then(|route| route.strip_prefix('r')?.parse().ok()).unwrap_or(usize::MAX);
    let id: u64 = parts.next().and_then(|id| id.parse().ok()).unwrap_or_default();
    note(|| format!("node {}: {:?} {}", node.number, peer.stream, head.line));
    if head.number("x-id") != Some(id) {
        ledger.violation(format!("request {id} arrived with the fields of {:?}", head.get("x-id")));
    }
    ledger.arrived(id, node.number, head.word(0), route);
    if ledger.entry(id).is_none() {
        return false;
    }
    if head.get("upgrade").is_some() && random.chance(80) {
        tunnel::at_node(node, peer, id, random).await;
        return false;
    }
    let body = Body::of_request(head);
    let early = body != Body::Done && random.chance(10);
    if !early && !read_body(ledger, peer, id, body).await {
        return false;
    }
    let answer = draw(node, head, id, random);
    if early {
        ledger.answer_early(id, answer.ends);
    }
    let goes_on = send(node, peer, &answer, random).await;
    if early && goes_on {
        return read_body(ledger, peer, id, body).await;
    }
    goes_on
}

/// Reads a request's body and compares it with the bytes that the client sent; false if the framing shows
/// that it was cut.
async fn read_body(ledger: &Ledger, peer: &mut Peer, id: u64, mut body: Body) -> bool {
    let mut place = 0;
    while body != Body::Done {
        let Ok(piece) = peer.piece(&mut body).await else { return false };
        if !Whose::Request(id).is_at(place, &piece) {
            ledger.violation(format!("the body of request {id} is not its own from byte {place} on"));
        }
        place += piece.len() as u64;
    }
    let sent = ledger.entry(id).map_or(0, |entry| entry.body_bytes);
    if place != sent {
        ledger.violation(format!("request {id} arrived whole with {place} of {sent} bytes of body"));
    }
    true
}

fn draw(node: &Node, head: &Head, id: u64, random: &mut Random) -> Answer {
    let status = *random.pick(&[200, 200, 200, 200, 201, 204, 304, 404, 500]);
    let has_body = head.word(0) != "HEAD" && status != 204 && status != 304;
    let bytes = match random.below(10) {
        _ if !has_body => 0,
        0 => 0,
        1..6 => random.below(200),
        6..9 => random.below(5_000),
        _ => random.below(60_000),
    };
    let framing = match random.below(10) {
        _ if !has_body => Framing::None,
        0..5 => Framing::Length,
        5..9 => Framing::Chunked,
        _ => Framing::Close,
    };
    let mut fault = random.chance(node.plan.faults.node).then(|| *random.pick(FAULTS));
    if fault.is_some() {
        node.ledger.excuse(id, Excuse::Node);
    } else if node.plan.planted == Some(Plant::BreaksSilently) && random.chance(10) {
        fault = Some(*random.pick(FAULTS));
    }
    let mut execution = node.ledger.execute(id, status, bytes);
    if node.plan.planted == Some(Plant::DoneTwice) && random.chance(20) {
        execution = node.ledger.execute(id, status, bytes);
    }
    note(|| {
        format!(
            "node {}: request {id} is answered {status}, {bytes} bytes {framing:?}, {fault:?}",
            node.number
        )
    });
    let closes = framing == Framing::Close || random.chance(15);
    // Some nodes close the connection without having sent `Connection: close`.
    let ends = closes || random.chance(node.plan.faults.idle_close / 4);
    Answer { id, execution, status, bytes, framing, closes, ends, fault }
}

/// Sends a response; false if the connection is over.
async fn send(node: &Node, peer: &mut Peer, answer: &Answer, random: &mut Random) -> bool {
    sleep_ns(random.below(PAUSE_NS)).await;
    match answer.fault {
        Some(Fault::NoAnswer) => return false,
        Some(Fault::ResetBefore) => {
            peer.stream.reset_on_close();
            return false;
        }
        Some(Fault::Nonsense) => {
            let _ = peer.write_listening(b"HTTP/1.1 2x0 what\r\n\r\n", false).await;
            return false;
        }
        Some(Fault::Late) => sleep_ns(TOO_LONG_NS).await,
        _ => {}
    }
    if random.chance(15) {
        let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n";
        peer.write_listening(interim, false).await;
        sleep_ns(random.below(PAUSE_NS)).await;
    }
    let mut bytes = encode_head(node, answer);
    let head_bytes = bytes.len();
    encode_body(node, answer, random, &mut bytes);
    let end = match answer.fault {
        Some(Fault::Cut | Fault::ResetInside) => {
            peer.stream.reset_on_close();
            if answer.fault == Some(Fault::Cut) && answer.framing != Framing::Close {
                peer.stream.end_on_close();
            }
            random.below(bytes.len() as u64) as usize
        }
        _ => bytes.len(),
    };
    if end == bytes.len() {
        node.ledger.will_be_whole(answer.id, answer.execution);
    }
    let sent = send_in_pieces(node, peer, answer, &bytes[..end], head_bytes, random).await;
    if sent < bytes.len() {
        return false;
    }
    !answer.ends
}

async fn send_in_pieces(
    node: &Node,
    peer: &mut Peer,
    answer: &Answer,
    bytes: &[u8],
    head_bytes: usize,
    random: &mut Random,
) -> usize {
    let mut sent = 0;
    let mut stalled = answer.fault != Some(Fault::Stall);
    let pauses = random.chance(30);
    while sent < bytes.len() {
        let end = if pauses || !stalled {
            sent + 1 + random.below(bytes.len() as u64) as usize
        } else {
            bytes.len()
        };
        let end = end.min(bytes.len());
        let count = peer.write_listening(&bytes[sent..end], false).await;
        sent += count;
        if sent < end {
            note(|| format!("node {}: {:?} takes no more of answer {}", node.number, peer.stream, answer.id));
            return sent;
        }
        if sent > head_bytes && sent < bytes.len() && !stalled {
            stalled = true;
            sleep_ns(TOO_LONG_NS).await;
        }
        if pauses {
            sleep_ns(random.below(PAUSE_NS / 4)).await;
        }
    }
    sent
}

fn encode_head(node: &Node, answer: &Answer) -> Vec<u8> {
    let Answer { id, execution, status, .. } = *answer;
    let id = if node.plan.planted == Some(Plant::OtherIdentity) && id % 7 == 3 { id - 1 } else { id };
    let mut head = format!("HTTP/1.1 {status} Answer\r\nX-Id: {id}\r\nX-Execution: {execution}\r\n");
    match answer.framing {
        Framing::Length => head += &format!("Content-Length: {}\r\n", body_bytes(node, answer)),
        Framing::Chunked => head += "Transfer-Encoding: chunked\r\n",
        Framing::None | Framing::Close => {}
    }
    if answer.closes {
        head += "Connection: close\r\n";
    }
    head += "\r\n";
    head.into_bytes()
}

fn body_bytes(node: &Node, answer: &Answer) -> u64 {
    let cut = node.plan.planted == Some(Plant::CutPassedAsWhole) && answer.id % 5 == 2;
    if cut { answer.bytes / 2 } else { answer.bytes }
}

fn encode_body(node: &Node, answer: &Answer, random: &mut Random, out: &mut Vec<u8>) {
    let body = Whose::Answer(answer.id, answer.execution).bytes(0, body_bytes(node, answer));
    match answer.framing {
        Framing::None => {}
        Framing::Length | Framing::Close => out.extend(body),
        Framing::Chunked => {
            let mut rest = &body[..];
            while !rest.is_empty() {
                let count = 1 + random.below(rest.len() as u64) as usize;
                out.extend(format!("{count:x}\r\n").bytes());
                out.extend(&rest[..count]);
                out.extend(b"\r\n");
                rest = &rest[count..];
            }
            out.extend(b"0\r\n");
            if random.chance(30) {
                out.extend(b"X-Sum: 1\r\n");
            }
            out.extend(b"\r\n");
        }
    }
}
