//! The listeners of the control side with clients that send nothing, clients outside the allow list, and
//! browsers that send requests on behalf of other sites.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Client, Weir, wait_until};

use crate::support::BINARY;

/// More connections than a listener has seats.
const CROWD: usize = 600;
const KEY: (&str, &str) = ("X-API-KEY", ADMIN_KEY);

/// Connections that send nothing.
fn silent(address: SocketAddr) -> Vec<TcpStream> {
    (0..CROWD).map(|_| TcpStream::connect(address).unwrap()).collect()
}

/// Whether the peer has closed the connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// A connection from that address of the loopback network.
fn connect_from(source: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let SocketAddr::V4(to) = to else { panic!("{to} is no IPv4 address") };
    let descriptor = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&descriptor, &SocketAddrV4::new(source, 0)).unwrap();
    connect(&descriptor, &to).unwrap();
    TcpStream::from(descriptor)
}

/// The status of a GET on an open connection.
fn get(mut stream: TcpStream, path: &str) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: weir\r\nX-API-KEY: {ADMIN_KEY}\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn silent_connections_keep_no_client_out() {
    let weir = Weir::start(BINARY);
    for (listener, path) in [
        ("status", "/status/ready"),
        ("admin", "/apisix/admin/routes"),
        ("control", "/v1/routes"),
        ("metrics", "/apisix/prometheus/metrics"),
    ] {
        let address = weir.address(listener);
        // Has sent a request, so that it does not count as silent.
        let mut kept = Client::connect(address);
        assert_eq!(kept.request("GET", path, &[KEY], b"").status, 200, "{listener}");
        let crowd = silent(address);
        for _ in 0..3 {
            let asked = Client::connect(address).request("GET", path, &[KEY], b"");
            assert_eq!(asked.status, 200, "{listener}");
        }
        assert!(is_closed(&crowd[0]), "{listener}: the longest silent connection gave way");
        assert_eq!(kept.request("GET", path, &[KEY], b"").status, 200, "{listener}: the kept one did not");
        // Another source address gets a seat, however many the first one holds.
        assert_eq!(get(connect_from(Ipv4Addr::new(127, 0, 0, 2), address), path), "200", "{listener}");
    }
}

#[test]
fn address_outside_the_allow_list_takes_no_seat() {
    let weir = Weir::builder(BINARY).arguments(&["--admin-allow", "127.0.0.2/32"]).start();
    let admin = weir.address("admin");
    let crowd = silent(admin);
    assert!(crowd.iter().all(is_closed), "each is closed at once");
    assert_eq!(get(connect_from(Ipv4Addr::new(127, 0, 0, 2), admin), "/apisix/admin/routes"), "200");
    wait_until("it is in the log", || weir.stderr().iter().any(|line| line.contains("allow list")));
    let lines = weir.stderr().iter().filter(|line| line.contains("allow list")).count();
    assert!(lines < CROWD / 10, "{lines} lines for {CROWD} connections");
}

#[test]
fn foreign_page_with_a_cookie_writes_nothing() {
    let weir = Weir::start(BINARY);
    let cookie = format!("x_api_key={ADMIN_KEY}");
    let route = json!({"uri": "/a", "plugins": {"mocking": {"response_example": "x"}}}).to_string();
    let put = |more: &[(&str, &str)]| {
        let fields = [&[("Cookie", cookie.as_str()), ("Content-Type", "text/plain")], more].concat();
        weir.admin_raw("PUT", "routes/1", &fields, route.as_bytes())
    };
    let refused = put(&[("Origin", "http://evil.example")]);
    assert_eq!(refused.status, 403);
    assert!(refused.json()["error_msg"].as_str().unwrap().contains("x_api_key"), "{}", refused.text());
    assert_eq!(put(&[]).status, 403);
    assert_eq!(weir.admin("GET", "routes", Value::Null).1["total"], 0, "nothing was written");
    let own = format!("http://{}", weir.address("admin"));
    assert_eq!(put(&[("Origin", &own)]).status, 201);
    assert_eq!(put(&[("Sec-Fetch-Site", "same-origin")]).status, 200);
}

#[test]
fn memory_limit_bounds_whole_sets() {
    let weir = Weir::builder(BINARY).arguments(&["--memory-limit", "64MiB"]).start();
    let set = format!("{{\"routes\": []}}{}", " ".repeat(4 << 20));
    for target in ["weir/plan", "weir/apply"] {
        let refused = weir.admin_raw("POST", target, &[KEY], set.as_bytes());
        let expected = format!("is greater than the maximum size {} allowed", 4 << 20);
        assert!(refused.status == 400 && refused.text().contains(&expected), "{}", refused.text());
    }
    assert_eq!(weir.admin_raw("POST", "weir/plan", &[KEY], &set.as_bytes()[..2 << 20]).status, 200);
}
