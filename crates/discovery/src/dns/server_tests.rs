//! The registry against a scripted name server: SRV records with their targets, the time to live, names that
//! do not exist, and servers that fail.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::followed::Followed;

/// The records of each name; a name that is missing does not exist.
type Zone = BTreeMap<&'static str, Vec<RData>>;

/// A name server on a free port; records hold for no time, so that the block's `ttl_min` decides.
struct NameServer {
    address: SocketAddr,
    /// None: each question is answered SERVFAIL.
    zone: Arc<Mutex<Option<Zone>>>,
    failing: Failing,
}

/// Questions by name and type that are not answered by the zone: by this code, or dropped without one.
type Failing = Arc<Mutex<Vec<(&'static str, RecordType, Option<ResponseCode>)>>>;

impl NameServer {
    fn start(zone: Zone) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Some(zone)));
        let (script, failing) = (Arc::clone(&zone), Failing::default());
        let faults = Arc::clone(&failing);
        thread::spawn(move || {
            let mut question = [0; 1500];
            while let Ok((length, peer)) = socket.recv_from(&mut question) {
                if let Some(answer) = answer(&question[..length], script.lock().as_ref(), &faults) {
                    // Ignored, because the registry may have ended.
                    let _ = socket.send_to(&answer, peer);
                }
            }
        });
        NameServer { address, zone, failing }
    }

    fn fail(&self, name: &'static str, record_type: RecordType, code: Option<ResponseCode>) {
        self.failing.lock().push((name, record_type, code));
    }

    fn say(&self, zone: Option<Zone>) {
        *self.zone.lock() = zone;
    }

    fn block(&self) -> Value {
        json!({"servers": [self.address.to_string()], "ttl_max": 1})
    }
}

fn answer(question: &[u8], zone: Option<&Zone>, failing: &Failing) -> Option<Vec<u8>> {
    let asked = Message::from_vec(question).unwrap();
    let query = asked.queries[0].clone();
    let mut message = Message::response(asked.metadata.id, asked.metadata.op_code);
    message.add_query(query.clone());
    let name = query.name().to_ascii().to_lowercase();
    let is_asked = |(of, record_type, _): &&(&str, RecordType, Option<ResponseCode>)| {
        *of == name && *record_type == query.query_type()
    };
    if let Some((.., code)) = failing.lock().iter().find(is_asked) {
        message.metadata.response_code = (*code)?;
        return message.to_vec().ok();
    }
    let mut named = name.clone();
    if let Some(target) = zone.and_then(|zone| alias(zone, &name)) {
        let record = Record::from_rdata(query.name().clone(), 0, RData::CNAME(CNAME(target.clone())));
        message.answers.push(record);
        // As servers that have both records do: the whole chain in one answer.
        named = target.to_ascii().to_lowercase();
        if query.query_type() == RecordType::CNAME {
            return message.to_vec().ok();
        }
    }
    match zone.map(|zone| zone.get(&*named)) {
        None => message.metadata.response_code = ResponseCode::ServFail,
        Some(None) => message.metadata.response_code = ResponseCode::NXDomain,
        Some(Some(records)) => {
            let fitting = records.iter().filter(|data| data.record_type() == query.query_type());
            let owner = Name::from_ascii(&named).unwrap();
            message.answers.extend(fitting.map(|data| Record::from_rdata(owner.clone(), 0, data.clone())));
        }
    }
    message.to_vec().ok()
}

fn alias(zone: &Zone, name: &str) -> Option<Name> {
    zone.get(name)?.iter().find_map(|data| match data {
        RData::CNAME(target) => Some(target.0.clone()),
        _ => None,
    })
}

fn cname(target: &str) -> RData {
    RData::CNAME(CNAME(Name::from_ascii(target).unwrap()))
}

fn address_v6(last: u16) -> RData {
    RData::AAAA(AAAA([0xfd00, 0, 0, 0, 0, 0, 0, last].into()))
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
    web.wait_for(&["10.0.0.1:8080 5", "10.0.0.2:8080 5", "10.0.0.3:8081 2"]);
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

#[test]
fn addresses_of_a_target_share_its_weight() {
    let zone = BTreeMap::from([
        ("_s.test.", vec![srv(10, 60, 7601, "a.test."), srv(10, 20, 7602, "b.test.")]),
        ("a.test.", vec![address(1)]),
        ("b.test.", vec![address(2), address(3)]),
    ]);
    let server = NameServer::start(zone);
    let web = Followed::start("dns", &server.block(), "_s.test");
    web.wait_for(&["10.0.0.1:7601 60", "10.0.0.2:7602 10", "10.0.0.3:7602 10"]);
}

#[test]
fn one_family_of_addresses_is_used() {
    let zone = || {
        BTreeMap::from([
            ("_s.test.", vec![srv(0, 1, 80, "both.test."), srv(0, 1, 81, "six.test.")]),
            ("both.test.", vec![address(1), address_v6(1)]),
            ("six.test.", vec![address_v6(2)]),
        ])
    };
    let check = |order: Option<Value>, service: &str, expected: &[&str]| {
        let server = NameServer::start(zone());
        let mut block = server.block();
        if let Some(order) = order {
            block["order"] = order;
        }
        Followed::start("dns", &block, service).wait_for(expected);
    };
    check(None, "_s.test", &["10.0.0.1:80 1", "fd00::2:81 1"]);
    check(Some(json!(["SRV"])), "_s.test", &["10.0.0.1:80 1", "fd00::2:81 1"]);
    check(Some(json!(["SRV", "AAAA", "A"])), "_s.test", &["fd00::1:80 1", "fd00::2:81 1"]);
    check(Some(json!(["SRV", "A"])), "_s.test", &["10.0.0.1:80 1"]);
    check(None, "both.test:80", &["10.0.0.1:80 1"]);
    check(Some(json!(["AAAA", "A"])), "both.test:80", &["fd00::1:80 1"]);
    check(None, "six.test:80", &["fd00::2:80 1"]);
}

#[test]
fn failed_question_goes_on_to_the_next_type() {
    for code in [Some(ResponseCode::ServFail), Some(ResponseCode::NotImp), Some(ResponseCode::Refused), None]
    {
        let server = NameServer::start(zone());
        server.fail("b.test.", RecordType::SRV, code);
        let mut block = server.block();
        block["timeout_ms"] = json!(50);
        let web = Followed::start("dns", &block, "b.test:80");
        web.wait_for(&["10.0.0.3:80 1"]);
        web.wait_for_note("SRV");
    }
}

#[test]
fn failed_question_keeps_the_records_in_force() {
    let server = NameServer::start(BTreeMap::from([
        ("web.test.", vec![srv(0, 1, 8080, "a.test."), address(9)]),
        ("a.test.", vec![address(1)]),
    ]));
    let web = Followed::start("dns", &server.block(), "web.test");
    web.wait_for(&["10.0.0.1:8080 1"]);
    server.fail("web.test.", RecordType::SRV, Some(ResponseCode::ServFail));
    web.wait_for_failure("web.test");
    assert_eq!(web.shown(), ["10.0.0.1:8080 1"]);
}

#[test]
fn records_behind_an_alias_are_found() {
    let server = NameServer::start(BTreeMap::from([
        ("_cn.test.", vec![cname("_cn2.test.")]),
        ("_cn2.test.", vec![cname("_s.test.")]),
        ("_one.test.", vec![cname("_s.test.")]),
        ("_s.test.", vec![srv(10, 60, 7611, "a.test.")]),
        ("a.test.", vec![address(1)]),
        ("_loop.test.", vec![cname("_loop.test.")]),
    ]));
    let web = Followed::start("dns", &server.block(), "_cn.test");
    web.wait_for(&["10.0.0.1:7611 60"]);
    web.follow(&model::discovery::ServiceKey::new("dns", "_one.test")).wait_for(&["10.0.0.1:7611 60"]);
    let looping = web.follow(&model::discovery::ServiceKey::new("dns", "_loop.test"));
    looping.wait_for_failure("aliases");
}

#[test]
fn target_that_fails_keeps_its_addresses() {
    let zone = |weight| {
        BTreeMap::from([
            ("_s.test.", vec![srv(1, weight, 7602, "b.test."), srv(9, 1, 7601, "a.test.")]),
            ("a.test.", vec![address(1)]),
            ("b.test.", vec![address(2)]),
        ])
    };
    let server = NameServer::start(zone(1));
    let web = Followed::start("dns", &server.block(), "_s.test");
    web.wait_for(&["10.0.0.1:7601 1", "10.0.0.2:7602 1"]);
    server.fail("b.test.", RecordType::A, Some(ResponseCode::ServFail));
    web.wait_for_note("b.test. A");
    assert_eq!(web.shown(), ["10.0.0.1:7601 1", "10.0.0.2:7602 1"]);
    server.say(Some(zone(5)));
    web.wait_for(&["10.0.0.1:7601 1", "10.0.0.2:7602 5"]);
}
