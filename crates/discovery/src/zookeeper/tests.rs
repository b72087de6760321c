//! Tests of the registry ZooKeeper against a stand-in that speaks its protocol: a tree of nodes with watches,
//! in memory.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use model::discovery::ServiceKey;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{BuildContext, build};
use crate::followed::Followed;

/// The nodes by path, and the open connections.
#[derive(Default)]
struct Nodes {
    data: BTreeMap<String, String>,
    sessions: Vec<TcpStream>,
    /// Watched paths; the stand-in sends an event to all sessions.
    watched: Vec<String>,
    /// Whether no node may be read.
    is_refusing: bool,
}

struct StandIn {
    address: SocketAddr,
    nodes: Arc<Mutex<Nodes>>,
}

impl StandIn {
    /// Starts a server that asks for these credentials, if there are some.
    fn start(credentials: Option<&'static str>) -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let nodes = Arc::new(Mutex::new(Nodes::default()));
        let shared = Arc::clone(&nodes);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let nodes = Arc::clone(&shared);
                // The session ends with its connection; the error of a closed one does not matter.
                thread::spawn(move || drop(serve(stream, &nodes, credentials)));
            }
        });
        StandIn { address, nodes }
    }

    /// Makes, changes or removes a node, and fires the watches that concern it.
    fn set(&self, path: &str, data: Option<&str>) {
        let mut nodes = self.nodes.lock();
        match data {
            Some(data) => drop(nodes.data.insert(path.to_owned(), data.to_owned())),
            None => drop(nodes.data.remove(path)),
        }
        let parent = path.rsplit_once('/').unwrap().0.to_owned();
        for changed in [path.to_owned(), parent] {
            if let Some(at) = nodes.watched.iter().position(|watched| *watched == changed) {
                nodes.watched.remove(at);
                let event = [int(3), int(3), text(&changed)].concat();
                let frame = framed(&[int(-1), vec![0; 8], int(0), event].concat());
                nodes.sessions.retain_mut(|session| session.write_all(&frame).is_ok());
            }
        }
    }

    /// Ends all sessions.
    fn drop_sessions(&self) {
        for session in self.nodes.lock().sessions.drain(..) {
            let _ = session.shutdown(std::net::Shutdown::Both);
        }
    }

    fn block(&self) -> Value {
        json!({"host": [self.address.to_string()]})
    }
}

fn serve(mut stream: TcpStream, nodes: &Mutex<Nodes>, credentials: Option<&str>) -> std::io::Result<()> {
    read(&mut stream)?;
    let session = [int(0), int(10_000), vec![0; 8], text("0123456789abcdef"), vec![0]].concat();
    stream.write_all(&framed(&session))?;
    nodes.lock().sessions.push(stream.try_clone()?);
    let mut is_known = credentials.is_none();
    loop {
        let request = read(&mut stream)?;
        let (xid, operation) = (number(&request[..4]), number(&request[4..8]));
        let mut nodes = nodes.lock();
        let (code, body) = match operation {
            11 => (0, Vec::new()),
            100 => {
                is_known = credentials.is_some_and(|credentials| request.ends_with(credentials.as_bytes()));
                (if is_known { 0 } else { -115 }, Vec::new())
            }
            _ if !is_known || nodes.is_refusing => (-102, Vec::new()),
            _ => answer(&mut nodes, operation, std::str::from_utf8(&request[12..request.len() - 1]).unwrap()),
        };
        stream.write_all(&framed(&[int(xid), vec![0; 8], int(code), body].concat()))?;
    }
}

fn answer(nodes: &mut Nodes, operation: i32, path: &str) -> (i32, Vec<u8>) {
    let below = format!("{path}/");
    let children: Vec<&str> = nodes.data.keys().filter_map(|key| key.strip_prefix(&below)).collect();
    let reply = match operation {
        12 if !children.is_empty() => {
            let names = children.iter().flat_map(|child| text(child));
            (0, int(i32::try_from(children.len()).unwrap()).into_iter().chain(names).collect())
        }
        4 if nodes.data.contains_key(path) => (0, text(&nodes.data[path])),
        _ => (-101, Vec::new()),
    };
    nodes.watched.push(path.to_owned());
    reply
}

fn read(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; usize::try_from(number(&length)).unwrap()];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn number(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().unwrap())
}

fn int(number: i32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn text(text: &str) -> Vec<u8> {
    framed(text.as_bytes())
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [int(i32::try_from(bytes.len()).unwrap()), bytes.to_vec()].concat()
}

fn node(address: &str) -> String {
    json!({"address": address, "port": 80, "payload": null}).to_string()
}

#[test]
fn watches_report_each_change() {
    let server = StandIn::start(None);
    let orders = Followed::start("zookeeper", &server.block(), "orders");
    orders.wait_for_note("does not know the service orders");
    server.set("/services/orders/1", Some(&node("10.0.0.1")));
    server.set("/services/orders", None);
    orders.wait_for(&["10.0.0.1:80 100"]);
    server.set("/services/orders/2", Some(&node("10.0.0.2")));
    orders.wait_for(&["10.0.0.1:80 100", "10.0.0.2:80 100"]);
    server.set("/services/orders/2", Some(&node("10.0.0.3")));
    orders.wait_for(&["10.0.0.1:80 100", "10.0.0.3:80 100"]);
    server.set("/services/orders/1", None);
    orders.wait_for(&["10.0.0.3:80 100"]);
    server.set("/services/orders/4", Some("faulty"));
    orders.wait_for_note("an instance is left out: the data of a node is no instance");
    assert_eq!(orders.shown(), ["10.0.0.3:80 100"]);
}

#[test]
fn nodes_stay_while_the_session_is_lost() {
    let server = StandIn::start(None);
    server.set("/services/orders/1", Some(&node("10.0.0.1")));
    let orders = Followed::start("zookeeper", &server.block(), "orders");
    orders.wait_for(&["10.0.0.1:80 100"]);
    server.nodes.lock().data.insert("/services/orders/2".to_owned(), node("10.0.0.2"));
    server.drop_sessions();
    orders.wait_for(&["10.0.0.1:80 100", "10.0.0.2:80 100"]);
    let states = orders.all_shown();
    let first = states.iter().position(|state| !state.is_empty()).unwrap();
    assert!(states[first..].iter().all(|state| !state.is_empty()), "{states:?}");
}

#[test]
fn refused_service_is_read_again_in_its_session() {
    let server = StandIn::start(None);
    server.set("/services/orders/1", Some(&node("10.0.0.1")));
    server.nodes.lock().is_refusing = true;
    let orders = Followed::start("zookeeper", &server.block(), "orders");
    orders.wait_for_note("the credentials may not read /services/orders");
    let mut key = ServiceKey::new("zookeeper", "orders");
    key.args.insert("metadata".into(), "{}".into());
    let further = orders.follow(&key);
    further.wait_for_note("the credentials may not read /services/orders");
    server.nodes.lock().is_refusing = false;
    orders.wait_for(&["10.0.0.1:80 100"]);
    further.wait_for(&["10.0.0.1:80 100"]);
    assert_eq!(server.nodes.lock().sessions.len(), 1, "a refusal does not end the session");
}

#[test]
fn overlong_list_fails_its_service_only() {
    let server = StandIn::start(None);
    server.set("/services/orders/1", Some(&node("10.0.0.1")));
    let name = format!("/services/long/{}", "x".repeat(9 << 20));
    server.set(&name, Some(""));
    let long = Followed::start("zookeeper", &server.block(), "long");
    long.wait_for_note("the reply about /services/long has more than");
    let orders = long.follow(&ServiceKey::new("zookeeper", "orders"));
    orders.wait_for(&["10.0.0.1:80 100"]);
    assert_eq!(server.nodes.lock().sessions.len(), 1);
}

#[test]
fn forbidden_address_is_not_connected_to() {
    let block = json!({"host": ["169.254.169.254:2181"]});
    let orders = Followed::start("zookeeper", &block, "orders");
    orders.wait_for_note("the setting outbound_allow lists");
    let faulty = build(&json!({"host": ["h:70000"]}), &BuildContext::default());
    assert_eq!(faulty.err().as_deref(), Some("the server `h:70000` has no port from 1 to 65535"));
}

#[test]
fn credentials_are_sent_and_refused() {
    let server = StandIn::start(Some("me:secret"));
    server.set("/services/orders/1", Some(&node("10.0.0.1")));
    let with = |password: &str| {
        let mut block = server.block();
        block["auth"] = json!({"user": "me", "password": password});
        Followed::start("zookeeper", &block, "orders")
    };
    with("secret").wait_for(&["10.0.0.1:80 100"]);
    with("wrong").wait_for_note("the server refuses the credentials");
    let without = Followed::start("zookeeper", &server.block(), "orders");
    without.wait_for_note("the credentials may not read /services/orders");
}

#[test]
fn other_protocol_and_faulty_name_are_named() {
    let server = testkit::Origin::on_accept(|_| testkit::Reply::raw(b"HTTP/1.1 400 Bad\r\n\r\n").close());
    let block = json!({"host": [server.address().to_string()]});
    Followed::start("zookeeper", &block, "a").wait_for_note("a frame of the server has more than");
    let server = StandIn::start(None);
    Followed::start("zookeeper", &server.block(), "a//b")
        .wait_for_note("the service name `a//b` is no path of nodes");
}

#[test]
fn server_with_tls_is_verified_and_asked() {
    let folder = tempfile::tempdir().unwrap();
    let authority = testkit::Authority::new("zookeeper");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let server = StandIn::start(None);
    server.set("/services/orders/1", Some(&node("10.0.0.1")));
    let front = testkit::TlsFront::to(server.address, &authority.pair(&["localhost"]));
    let with = |tls: Value| {
        let block = json!({"host": [format!("localhost:{}", front.port())], "tls": tls});
        Followed::start("zookeeper", &block, "orders")
    };
    let orders = with(json!({"ca": ca}));
    orders.wait_for(&["10.0.0.1:80 100"]);
    server.set("/services/orders/2", Some(&node("10.0.0.2")));
    orders.wait_for(&["10.0.0.1:80 100", "10.0.0.2:80 100"]);
    with(json!({})).wait_for_note("no TLS with it");
    with(json!({"verify": false})).wait_for(&["10.0.0.1:80 100", "10.0.0.2:80 100"]);
}
