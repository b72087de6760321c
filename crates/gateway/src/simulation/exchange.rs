//! One client connection and whatever node connections come of it, through a whole gateway in memory: what the client
//! sends, how that is cut and when, and what the node answers, is handed in; what each side received is handed back.
//! It knows no HTTP beyond the witness that its plugin puts on every answer; what is right others must say.

use std::cell::RefCell;
use std::rc::Rc;

use model::Kind;
use serde_json::{Value, json};

use super::gateway::Gateway;
use super::ledger::Ledger;
use super::names::Names;
use super::plan::{Faults, Plan, client_address, node_address, proxy_address};
use super::wire::{Broken, Peer};
use exchange::options::Limits;
use exchange::options::Timeouts;
use net::env::memory::{Link, connect_from, set_link, simulate, sleep_ns};
use net::env::{self, Listener};

/// The field that says which request an answer is made for: its method and canonical path.
pub const WITNESS_FIELD: &str = "X-Witness";
/// The field that is there when the gateway made the answer itself.
pub const LOCAL_FIELD: &str = "X-Local";

/// The virtual time an exchange may take: several times what the waits of a script and all timeouts come to.
const PLAY_MS_MAX: u64 = 120_000;
/// How long after the client everything must be at rest: longer than any timeout here, and than that of a tunnel twice.
/// What a node sends through one whose client has left counts as life once; the next cannot be sent.
const REST_NS: u64 = 7_000_000_000;
/// What peers read at once: more than any script sends.
const READ_BYTES: usize = 64 * 1024;

/// Something that one side does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sends these bytes, in one piece as far as the network is concerned.
    Send(Vec<u8>),
    /// Waits, in nanoseconds.
    Wait(u64),
    /// Closes its sending side.
    Shut,
    /// Closes.
    Close,
    /// Resets.
    Reset,
}

/// What the node does about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether it begins at the request's head, not at its end.
    pub early: bool,
    /// What it does then.
    pub acts: Vec<Act>,
}

/// How far the bytes at the front of a stream make a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The head is not complete.
    Nothing,
    /// The head is complete, the body is not.
    Head,
    /// All of it, in so many bytes.
    Whole(usize),
}

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Script {
    /// Of the order in which things that could happen at the same time do.
    pub seed: u64,
    /// Whether the route lets connections be upgraded.
    pub upgrades: bool,
    /// What the client does.
    pub client: Vec<Act>,
    /// What the node does about the first request, the second and so on, on whichever connection it comes.
    pub answers: Vec<Answer>,
    /// What it does about those behind.
    pub last: Answer,
    /// Where a request at the front of a stream ends.
    pub progress: fn(&[u8]) -> Progress,
}

/// How a side's reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It left before that, by its script.
    Left,
    /// In order.
    InOrder,
    /// By a reset.
    Reset,
}

/// A request as the node met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of its connection.
    pub connection: usize,
    /// Where in the connection's bytes it begins.
    pub start: usize,
    /// Whether it is there to its end.
    pub whole: bool,
    /// What was sent in answer.
    pub answer: Vec<u8>,
    /// Whether its connection was then closed by the node, and how.
    pub closed: Option<Act>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Account {
    /// What the client sent.
    pub sent: Vec<u8>,
    /// What it received.
    pub received: Vec<u8>,
    /// How that ended.
    pub ended: Option<Ended>,
    /// What the node received, by connection.
    pub connections: Vec<Vec<u8>>,
    /// The requests that it began to answer, in that order.
    pub arrivals: Vec<Arrival>,
    /// What was left behind in the gateway, in words.
    pub faults: Vec<String>,
}

/// Plays `script`.
///
/// # Panics
/// As the gateway does; and when it does not end.
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
    // Each write arrives as one piece and takes as long as every other, so that scripts alone decide on cuts.
    let link = Link { latency_ns: (20_000, 20_000), ..Link::default() };
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
        limits: Limits {
            head_timeout_ms: 1_000,
            idle_timeout_ms: 1_500,
            body_timeout_ms: 1_000,
            send_timeout_ms: 1_000,
            ..Limits::default()
        },
        timeouts: Timeouts { connect_ms: 500, send_ms: 1_000, read_ms: 1_000, tunnel_idle_ms: 3_000 },
        client_link: Link::default(),
        node_link: Link::default(),
        faults: Faults::default(),
        second_listener: false,
        changes: 0,
        drain_after_ms: None,
        farewell_ms: 0,
        planted: None,
    }
}

fn objects(upgrades: bool) -> Vec<(Kind, String, Value)> {
    let nodes = json!({node_address(0).to_string(): 1});
    let upstream = json!({"nodes": nodes, "type": "least_conn"});
    let route = json!({"uri": "/*", "upstream": upstream, "enable_websocket": upgrades});
    vec![
        (Kind::GlobalRule, "1".to_owned(), json!({"id": "1", "plugins": {"witness": {}}})),
        (Kind::Route, "1".to_owned(), route),
    ]
}

/// Does what the client's acts say, reading whatever comes; then reads to the end.
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
            // Where the other side has gone, reading tells.
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

/// Waits, and reads what comes meanwhile.
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

/// A connection of the node: one request after another, each answered by the next answer of the script.
async fn serve(mut peer: Peer, connection: usize, script: Rc<Script>, account: Shared) {
    let mut start = 0;
    // The arrival that is being read, once it was answered early.
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

/// Does what the answer says; false if the connection is over by that.
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
                // It may still be spoken to; it says no more.
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
