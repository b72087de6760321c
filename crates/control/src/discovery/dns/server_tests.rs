//! The registry against a scripted name server: SRV records with their targets, the time to live, names that do not exist, and
//! servers that fail.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::discovery::followed::Followed;

/// The records of each name; a name that is missing does not exist.
type Zone = BTreeMap<&'static str, Vec<RData>>;

/// A name server on a free port; records hold for no time, so that the block's `ttl_min` decides.
struct NameServer {
    address: SocketAddr,
    /// None: each question is answered SERVFAIL.
    zone: Arc<Mutex<Option<Zone>>>,
}

impl NameServer {
    fn start(zone: Zone) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Some(zone)));
        let script = Arc::clone(&zone);
        thread::spawn(move || {
            let mut question = [0; 1500];
            while let Ok((length, peer)) = socket.recv_from(&mut question) {
                let answer = answer(&question[..length], script.lock().as_ref());
                // Ignored, because the registry may have ended.
                let _ = socket.send_to(&answer, peer);
            }
        });
        NameServer { address, zone }
    }

    fn say(&self, zone: Option<Zone>) {
        *self.zone.lock() = zone;
    }

    fn block(&self) -> Value {
        json!({"servers": [self.address.to_string()], "ttl_max": 1})
    }
}

fn answer(question: &[u8], zone: Option<&Zone>) -> Vec<u8> {
    let asked = Message::from_vec(question).unwrap();
    let query = asked.queries[0].clone();
    let mut message = Message::response(asked.metadata.id, asked.metadata.op_code);
    message.add_query(query.clone());
    let name = query.name().to_ascii().to_lowercase();
    match zone.map(|zone| zone.get(&*name)) {
        None => message.metadata.response_code = ResponseCode::ServFail,
        Some(None) => message.metadata.response_code = ResponseCode::NXDomain,
        Some(Some(records)) => {
            let fitting = records.iter().filter(|data| data.record_type() == query.query_type());
            message
                .answers
                .extend(fitting.map(|data| Record::from_rdata(query.name().clone(), 0, data.clone())));
        }
    }
    message.to_vec().unwrap()
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> RData {
    RData::SRV(SRV::new(priority, weight, port, Name::from_ascii(target).unwrap()))
}

fn address(last: u8) -> RData {
    RData::A(A(Ipv4Addr::new(10, 0, 0, last)))
}

fn zone() -> Zone {
    BTreeMap::from([
        ("_web._tcp.test.", vec![srv(0, 5, 8080, "a.test."), srv(9, 0, 8081, "b.test.")]),
        ("a.test.", vec![address(1), address(2)]),
        ("b.test.", vec![address(3)]),
    ])
}

#[test]
fn srv_records_name_ports_weights_and_priorities() {
    let server = NameServer::start(zone());
    let web = Followed::start("dns", &server.block(), "_web._tcp.test");
    web.wait_for(&["10.0.0.1:8080 5", "10.0.0.2:8080 5", "10.0.0.3:8081 1"]);
    assert_eq!(web.priorities(), [0, 0, -9]);
    let named = web.follow(&model::discovery::ServiceKey::new("dns", "a.test:81"));
    named.wait_for(&["10.0.0.1:81 1", "10.0.0.2:81 1"]);
}

#[test]
fn answer_is_renewed_after_its_time_to_live() {
    let server = NameServer::start(zone());
    let web = Followed::start("dns", &server.block(), "a.test:80");
    web.wait_for(&["10.0.0.1:80 1", "10.0.0.2:80 1"]);
    server.say(Some(BTreeMap::from([("a.test.", vec![address(9)])])));
    web.wait_for(&["10.0.0.9:80 1"]);
}

#[test]
fn name_followed_again_is_looked_up_at_once() {
    let server = NameServer::start(zone());
    let mut block = server.block();
    (block["ttl_min"], block["ttl_max"]) = (json!(3600), json!(3600));
    let keeper = Followed::start("dns", &block, "b.test:80");
    let key = model::discovery::ServiceKey::new("dns", "a.test:80");
    for last in 1..4 {
        server.say(Some(BTreeMap::from([("a.test.", vec![address(last)])])));
        keeper.follow(&key).wait_for(&[&format!("10.0.0.{last}:80 1")]);
    }
}

#[test]
fn failure_keeps_nodes_and_missing_name_takes_them() {
    let server = NameServer::start(zone());
    let web = Followed::start("dns", &server.block(), "b.test:80");
    web.wait_for(&["10.0.0.3:80 1"]);
    server.say(None);
    web.wait_for_failure("b.test");
    assert_eq!(web.shown(), ["10.0.0.3:80 1"]);
    server.say(Some(BTreeMap::new()));
    web.wait_for_note("does not know the service b.test:80");
}

#[test]
fn search_domains_of_the_file_complete_names() {
    let server = NameServer::start(zone());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resolv.conf");
    std::fs::write(&path, "nameserver 127.0.0.1\nsearch other.test test\noptions ndots:2\n").unwrap();
    let mut block = server.block();
    block["resolv_conf"] = json!(path);
    Followed::start("dns", &block, "b:80").wait_for(&["10.0.0.3:80 1"]);
}
