//! Plays one client connection, and the node connections that it causes, through a whole gateway in memory. A
//! script states what the client sends, how that is cut and when, and what the node answers; the account
//! returns what each side received. This module knows no HTTP except the witness fields that its plugin sets
//! on every response; the caller judges whether the account is right.

use std::cell::RefCell;
use std::rc::Rc;

use model::ObjectKind;
use serde_json::{Value, json};

use super::gateway::Gateway;
use super::ledger::Ledger;
use super::names::Names;
use super::plan::{Faults, Plan, client_address, node_address, proxy_address};
use super::wire::{Broken, Peer};
use exchange::options::AttemptTimeouts;
use exchange::options::EngineLimits;
use net::env::memory::{LinkBehavior, connect_from, set_link, simulate, sleep_ns};
use net::env::{self, Listener};

/// Response field with the request that the response was made for: its method and canonical path.
pub const WITNESS_FIELD: &str = "X-Witness";
/// Response field that is present when the gateway made the response itself.
pub const LOCAL_FIELD: &str = "X-Local";

/// Longest virtual time of an exchange, in milliseconds: several times the sum of a script's waits and all
/// timeouts.
const PLAY_MS_MAX: u64 = 120_000;
/// How long after the client all tasks must be at rest, in nanoseconds: longer than every timeout of this
/// plan and than two idle timeouts of a tunnel, because bytes that a node sends through a tunnel after its
/// client has left restart the idle timer once; the next write fails.
const REST_NS: u64 = 7_000_000_000;
/// Bytes that peers read at once: more than any script sends.
const READ_BYTES: usize = 64 * 1024;

/// One step of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sends these bytes, as one piece of the simulated network.
    Send(Vec<u8>),
    /// Waits this many nanoseconds.
    Wait(u64),
    /// Closes the sending side.
    Shut,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
}

/// Reaction of the node to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether the reaction begins at the end of the request's head instead of the end of the request.
    pub early: bool,
    /// Steps of the reaction.
    pub acts: Vec<Act>,
}

/// How much of a request the bytes at the front of a stream contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The head is not complete.
    Nothing,
    /// The head is complete, the body is not.
    Head,
    /// The request is complete; it takes this many bytes.
    Whole(usize),
}

/// Input of a play.
#[derive(Clone, Debug)]
pub struct Script {
    /// Seed of the order of events that are due at the same time.
    pub seed: u64,
    /// Whether the route lets connections be upgraded (`enable_websocket`).
    pub upgrades: bool,
    /// Steps of the client.
    pub client: Vec<Act>,
    /// Reactions of the node to the first request, the second and so on, on any connection.
    pub answers: Vec<Answer>,
    /// Reaction to every request after those.
    pub last: Answer,
    /// Tells where a request at the front of a stream ends.
    pub progress: fn(&[u8]) -> Progress,
}

/// How the reading of the client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client left before the end, as its script says.
    Left,
    /// By an orderly close.
    InOrder,
    /// By a reset.
    Reset,
}

/// A request that the node received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the node connection.
    pub connection: usize,
    /// Offset of the request in the bytes of its connection.
    pub start: usize,
    /// Whether the request arrived to its end.
    pub whole: bool,
    /// Bytes that the node sent in answer.
    pub answer: Vec<u8>,
    /// How the node closed the connection after its answer, if it did.
    pub closed: Option<Act>,
}

/// Output of a play.
#[derive(Debug, Default)]
pub struct Account {
    /// Bytes that the client sent.
    pub sent: Vec<u8>,
    /// Bytes that the client received.
    pub received: Vec<u8>,
    /// How the client's reading ended.
    pub ended: Option<Ended>,
    /// Bytes that the node received, by connection.
    pub connections: Vec<Vec<u8>>,
    /// Requests that the node began to answer, in that order.
    pub arrivals: Vec<Arrival>,
    /// State that was left in the gateway, in words; empty if none.
    pub faults: Vec<String>,
}

/// Plays `script`.
///
/// # Panics
/// If the gateway panics, and if the play does not end within its virtual time.
pub fn play(script: &Script) -> Account {
    let account = Rc::new(RefCell::new(Account::default()));
    let scene = scene(Rc::new(script.clone()), account.clone());
    match simulate(script.seed, false, PLAY_MS_MAX, scene).result {
        Some(Ok(())) => account.take(),
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => panic!("not over after {PLAY_MS_MAX} ms"),
    }
}

type Shared = Rc<RefCell<Account>>;

async fn scene(script: Rc<Script>, account: Shared) {
    // Each write arrives as one piece and all take equally long, so that only the script decides on cuts.
    let link = LinkBehavior { latency_ns: (20_000, 20_000), ..LinkBehavior::default() };
    set_link(proxy_address(), link.clone());
    set_link(node_address(0), link);
    let ledger = Rc::new(Ledger::new());
    let gateway = Gateway::new(&Rc::new(plan()), &ledger, &Names::default(), &objects(script.upgrades));
    env::spawn(node(script.clone(), account.clone()));
    client(&script, &account).await;
    sleep_ns(REST_NS).await;
    gateway.judge_at_rest();
    gateway.drain();
    sleep_ns(REST_NS).await;
    gateway.judge_drained();
    gateway.stop();
    sleep_ns(REST_NS).await;
    gateway.judge_stopped();
    account.borrow_mut().faults = ledger.take_violations();
}

fn plan() -> Plan {
    Plan {
        workers: 1,
        clients: 1,
        connections: 1,
        requests: 1,
        nodes: 1,
        nodes_up: 1,
        routes: 1,
        limits: EngineLimits {
            head_timeout_ms: 1_000,
            idle_timeout_ms: 1_500,
            body_timeout_ms: 1_000,
            send_timeout_ms: 1_000,
            ..EngineLimits::default()
        },
        timeouts: AttemptTimeouts { connect_ms: 500, send_ms: 1_000, read_ms: 1_000, tunnel_idle_ms: 3_000 },
        client_link: LinkBehavior::default(),
        node_link: LinkBehavior::default(),
        faults: Faults::default(),
        second_listener: false,
        changes: 0,
        drain_after_ms: None,
        farewell_ms: 0,
        is_protected: false,
        planted: None,
    }
}

fn objects(upgrades: bool) -> Vec<(ObjectKind, String, Value)> {
    let nodes = json!({node_address(0).to_string(): 1});
    let upstream = json!({"nodes": nodes, "type": "least_conn"});
    let route = json!({"uri": "/*", "upstream": upstream, "enable_websocket": upgrades});
    vec![
        (ObjectKind::GlobalRule, "1".to_owned(), json!({"id": "1", "plugins": {"witness": {}}})),
        (ObjectKind::Route, "1".to_owned(), route),
    ]
}

/// Carries out the client's steps and reads meanwhile; then reads to the end.
async fn client(script: &Script, account: &Shared) {
    let stream = connect_from(client_address(0, 0), proxy_address()).await.expect("the gateway listens");
    let mut peer = Peer::new(stream, READ_BYTES);
    let mut ended = None;
    for act in &script.client {
        match act {
            Act::Send(bytes) => {
                let count = peer.write_listening(bytes, false).await;
                account.borrow_mut().sent.extend_from_slice(&bytes[..count]);
                if count < bytes.len() {
                    break;
                }
            }
            Act::Wait(wait_ns) => wait(&mut peer, *wait_ns).await,
            // A failed shutdown needs no report, because the read below sees the same end or reset.
            Act::Shut => _ = peer.shut().await,
            Act::Close | Act::Reset => {
                ended = Some(Ended::Left);
                break;
            }
        }
    }
    if ended.is_none() {
        ended = Some(to_end(&mut peer).await);
    } else if script.client.contains(&Act::Reset) {
        peer.stream.reset_on_close();
    }
    let mut account = account.borrow_mut();
    account.received = peer.take_held();
    account.ended = ended;
}

async fn to_end(peer: &mut Peer) -> Ended {
    loop {
        match peer.fill().await {
            Ok(()) => {}
            Err(Broken::End) => return Ended::InOrder,
            Err(_) => return Ended::Reset,
        }
    }
}

/// Waits and reads what arrives meanwhile.
async fn wait(peer: &mut Peer, wait_ns: u64) {
    let reading = async {
        while peer.fill().await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = reading => {}
        () = sleep_ns(wait_ns) => {}
    }
}

async fn node(script: Rc<Script>, account: Shared) {
    let listener = Listener::attach(env::bind(node_address(0), false).unwrap()).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let number = account.borrow().connections.len();
        account.borrow_mut().connections.push(Vec::new());
        env::spawn(serve(Peer::new(stream, READ_BYTES), number, script.clone(), account.clone()));
    }
}

/// Serves one node connection: request after request, each with the next reaction of the script.
async fn serve(mut peer: Peer, connection: usize, script: Rc<Script>, account: Shared) {
    let mut start = 0;
    // The arrival that was answered early and is still being read.
    let mut answered = None;
    loop {
        account.borrow_mut().connections[connection].extend(peer.take_held());
        let progress = (script.progress)(&account.borrow().connections[connection][start..]);
        let number = account.borrow().arrivals.len();
        let early = answer_of(&script, number).early;
        if answered.is_none()
            && (matches!(progress, Progress::Whole(_)) || early && progress == Progress::Head)
        {
            let arrival = Arrival { connection, start, whole: false, answer: Vec::new(), closed: None };
            account.borrow_mut().arrivals.push(arrival);
            answered = Some(number);
            if !respond(&mut peer, number, &script, &account).await {
                let rest = peer.take_held();
                let mut account = account.borrow_mut();
                account.arrivals[number].whole = matches!(progress, Progress::Whole(_));
                account.connections[connection].extend(rest);
                return;
            }
        }
        if let (Progress::Whole(bytes), Some(number)) =
            (progress, answered.take_if(|_| matches!(progress, Progress::Whole(_))))
        {
            account.borrow_mut().arrivals[number].whole = true;
            start += bytes;
            continue;
        }
        if peer.fill().await.is_err() {
            return;
        }
    }
}

fn answer_of(script: &Script, number: usize) -> &Answer {
    script.answers.get(number).unwrap_or(&script.last)
}

/// Carries out a reaction; false if it ended the connection.
async fn respond(peer: &mut Peer, number: usize, script: &Script, account: &Shared) -> bool {
    for act in &answer_of(script, number).acts {
        match act {
            Act::Send(bytes) => {
                let count = peer.write_listening(bytes, false).await;
                account.borrow_mut().arrivals[number].answer.extend_from_slice(&bytes[..count]);
                if count < bytes.len() {
                    return false;
                }
            }
            Act::Wait(wait_ns) => wait(peer, *wait_ns).await,
            Act::Shut => {
                account.borrow_mut().arrivals[number].closed = Some(Act::Shut);
                let _ = peer.shut().await;
                // The gateway may still send; the node reads it and sends nothing more.
                while peer.fill().await.is_ok() {}
                return false;
            }
            Act::Close | Act::Reset => {
                account.borrow_mut().arrivals[number].closed = Some(act.clone());
                if *act == Act::Reset {
                    peer.stream.reset_on_close();
                }
                return false;
            }
        }
    }
    true
}
