//! Nodes with a name instead of an address, and a scripted name server: the gateway follows the TTL, and
//! keeps the addresses while DNS fails.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;
use testkit::{Client, Origin, Reply, Weir, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// The response of the name server to every question.
#[derive(Clone, Debug)]
enum Says {
    /// These addresses, with a TTL of one second.
    Addresses(Vec<Ipv4Addr>),
    /// The code SERVFAIL.
    Failure,
    /// No response.
    Silence,
}

/// A name server on a free port.
struct NameServer {
    address: SocketAddr,
    says: Arc<Mutex<Says>>,
    asked: Arc<AtomicUsize>,
}

impl NameServer {
    fn start(says: Says) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (says, asked) = (Arc::new(Mutex::new(says)), Arc::new(AtomicUsize::new(0)));
        let (script, count) = (Arc::clone(&says), Arc::clone(&asked));
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut question) {
                count.fetch_add(1, Ordering::SeqCst);
                let says = script.lock().unwrap().clone();
                if let Some(answer) = answer(&question[..length], &says) {
                    // Ignored, because the gateway may have ended.
                    let _ = socket.send_to(&answer, peer);
                }
            }
        });
        NameServer { address, says, asked }
    }

    fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    /// Waits for so many further questions that the former response is no longer in force.
    fn wait_for_questions(&self) {
        let before = self.asked.load(Ordering::SeqCst);
        wait_until("the name server is asked again", || self.asked.load(Ordering::SeqCst) >= before + 3);
    }
}

/// The response to `question` (RFC 1035, section 4).
fn answer(question: &[u8], says: &Says) -> Option<Vec<u8>> {
    const HEADER_BYTES: usize = 12;
    const TYPE_A: [u8; 2] = [0, 1];
    let name_bytes: usize = question[HEADER_BYTES..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let asked = &question[HEADER_BYTES..HEADER_BYTES + name_bytes + 4];
    let asked_type = &asked[name_bytes..name_bytes + 2];
    let (code, addresses) = match says {
        Says::Addresses(addresses) if asked_type == TYPE_A => (0, addresses.clone()),
        Says::Addresses(_) => (0, Vec::new()),
        Says::Failure => (2, Vec::new()),
        Says::Silence => return None,
    };
    let mut message = question[..2].to_vec();
    // A response, with recursion wanted and available; one question, and only answers after it.
    message.extend([0x81, 0x80 | code, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
    message.extend(asked);
    for address in addresses {
        // The name of the question, type A, class IN, one second, four bytes.
        message.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        message.extend(address.octets());
    }
    Some(message)
}

/// Two origins at one port of two addresses; each answers with its own text.
fn pair() -> (Origin, Origin, u16) {
    let answering = |text: &'static str| move |_: &testkit::Request| Reply::ok(text);
    let one = Origin::start_at("127.0.0.1:0", answering("one"));
    let port = one.port();
    let other = Origin::start_at(&format!("127.0.0.2:{port}"), answering("other"));
    (one, other, port)
}

const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A gateway that uses the name server `server`, with a route to `origin.test`.
fn gateway(server: &NameServer, port: u16) -> Weir {
    gateway_with(server, port, &[])
}

/// As [`gateway`], with further settings.
fn gateway_with(server: &NameServer, port: u16, arguments: &[&str]) -> Weir {
    let server = server.address.to_string();
    let weir = Weir::builder(BINARY).arguments(&["--dns-servers", &server]).arguments(arguments).start();
    weir.put("upstreams/1", json!({"nodes": {format!("origin.test:{port}"): 1}}));
    weir.put("routes/1", json!({"uri": "/*", "upstream_id": "1"}));
    weir
}

#[test]
fn a_name_is_followed_and_kept_while_dns_fails() {
    let (_one, _other, port) = pair();
    let server = NameServer::start(Says::Addresses(vec![ONE]));
    let weir = gateway(&server, port);
    assert_eq!(weir.get("/").text(), "one", "a name is known before its object is in force");
    server.say(Says::Addresses(vec![OTHER]));
    wait_until("the new address is used", || weir.get("/").text() == "other");
    for trouble in [Says::Failure, Says::Addresses(Vec::new())] {
        server.say(trouble);
        server.wait_for_questions();
        assert_eq!(weir.get("/").text(), "other", "the last good answer is served");
    }
    server.say(Says::Addresses(vec![ONE, OTHER]));
    wait_until("both addresses are used", || {
        let answers = [weir.get("/").text(), weir.get("/").text()];
        answers.contains(&"one".to_owned()) && answers.contains(&"other".to_owned())
    });
}

#[test]
fn unknown_name_is_503_and_harms_no_other() {
    let (one, _other, port) = pair();
    let server = NameServer::start(Says::Silence);
    let weir = gateway(&server, port);
    weir.put("routes/2", json!({"uri": "/address", "upstream": {"nodes": {one.address().to_string(): 1}}}));
    assert_eq!((weir.get("/").status, weir.get("/address").text().as_str()), (503, "one"));
    server.say(Says::Addresses(vec![OTHER]));
    wait_until("the name is known", || weir.get("/").text() == "other");
}

#[test]
fn bounds_and_timeout_of_lookups_are_settings() {
    let (_one, _other, port) = pair();
    let server = NameServer::start(Says::Silence);
    let bounds = ["--dns-ttl-min-ms", "20", "--dns-ttl-max-ms", "20"];
    let arguments = [&bounds[..], &["--dns-timeout-ms", "20", "--dns-search=false"]].concat();
    let weir = gateway_with(&server, port, &arguments);
    assert_eq!(weir.get("/").status, 503);
    server.say(Says::Addresses(vec![ONE]));
    wait_until("the name is known", || weir.get("/").text() == "one");
    // A TTL of one second, cut to 20 ms, because a hundred questions would otherwise take minutes.
    let before = server.asked.load(Ordering::SeqCst);
    wait_until("it is asked a hundred times", || server.asked.load(Ordering::SeqCst) >= before + 100);
}

#[test]
fn name_of_metadata_service_is_not_checked() {
    let server = NameServer::start(Says::Addresses(vec![Ipv4Addr::new(169, 254, 169, 254)]));
    let server = server.address.to_string();
    let weir = Weir::builder(BINARY).arguments(&["--dns-servers", &server]).start();
    let checks = json!({"active": {"type": "tcp", "unhealthy": {"interval": 1, "tcp_failures": 1}}});
    weir.put("upstreams/1", json!({"nodes": {"origin.test:80": 1}, "checks": checks}));
    let why =
        "active checks: 1 TCP failure, the last: the address is link-local, where metadata services are";
    wait_until("the node is unhealthy", || {
        let answer = Client::connect(weir.address("control")).get("/v1/weir/upstreams/1").json();
        answer["nodes"][0]["unhealthy"]["why"] == why
    });
}

#[test]
fn name_of_a_registry_reaches_no_metadata_service() {
    let (_one, _other, port) = pair();
    let metadata = Ipv4Addr::new(169, 254, 169, 254);
    let server = NameServer::start(Says::Addresses(vec![metadata]));
    let folder = tempfile::tempdir().unwrap();
    let targets = folder.path().join("shop.json");
    std::fs::write(&targets, json!([{"targets": [format!("meta.test:{port}")]}]).to_string()).unwrap();
    let discovery = json!({"file": {"files": [targets]}}).to_string();
    let weir = Weir::builder(BINARY)
        .arguments(&["--dns-servers", &server.address.to_string(), "--discovery", &discovery])
        .start();
    let upstream = json!({"type": "roundrobin", "discovery_type": "file", "service_name": "shop"});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    assert_eq!(weir.get("/").status, 503);
    wait_until("the log says why", || {
        weir.stderr().iter().any(|line| line.contains("169.254.169.254") && line.contains("link-local"))
    });
    server.say(Says::Addresses(vec![ONE]));
    wait_until("a usual address is used", || weir.get("/").text() == "one");
    server.say(Says::Addresses(vec![metadata]));
    wait_until("the name is judged again", || weir.get("/").status == 503);
}

#[test]
fn addresses_of_a_name_share_its_weight() {
    let (one, _other, port) = pair();
    let server = NameServer::start(Says::Addresses(vec![ONE, OTHER]));
    let third = Origin::start_at("127.0.0.1:0", |_: &testkit::Request| Reply::ok("third"));
    let weir = Weir::builder(BINARY)
        .settings("workers: 1\n")
        .arguments(&["--dns-servers", &server.address.to_string()])
        .start();
    let nodes = json!({format!("origin.test:{port}"): 2, third.address().to_string(): 2});
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": nodes}}));
    // One address of IPv4 alone, wherever the hosts file has `localhost` for both families.
    let local = json!({format!("localhost:{port}"): 2, third.address().to_string(): 1});
    weir.put("routes/2", json!({"uri": "/local", "upstream": {"nodes": local}}));
    let mut client = Client::connect(weir.address("proxy"));
    let mut counted = |path: &str, count: usize| {
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..count {
            *counts.entry(client.get(path).text()).or_insert(0) += 1;
        }
        counts.into_iter().map(|(text, count)| format!("{text} {count}")).collect::<Vec<_>>()
    };
    assert_eq!(counted("/", 40), ["one 10", "other 10", "third 20"]);
    assert_eq!(counted("/local", 30), ["one 20", "third 10"]);
    drop(one);
}
