//! Lookups against a scripted name server: which family is asked for, and which addresses are used.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::thread;

use hickory_resolver::proto::op::Message;
use hickory_resolver::proto::rr::Record;
use hickory_resolver::proto::rr::rdata::{A, AAAA};
use stdx::address_family::FamilyOrder;

use super::*;

/// Answers by the name that is asked for: `4` and `6` in it say which records it has, `f4` and `f6` which
/// questions fail, `d4` and `d6` which are dropped.
fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut question = [0; 1500];
        while let Ok((length, peer)) = socket.recv_from(&mut question) {
            let asked = Message::from_vec(&question[..length]).unwrap();
            let query = asked.queries[0].clone();
            let name = query.name().to_ascii();
            let (digit, data) = match query.query_type() {
                RecordType::A => ("4", RData::A(A(Ipv4Addr::new(10, 0, 0, 1)))),
                _ => ("6", RData::AAAA(AAAA(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)))),
            };
            if name.contains(&format!("d{digit}")) {
                continue;
            }
            let mut message = Message::response(asked.metadata.id, asked.metadata.op_code);
            message.add_query(query.clone());
            if name.contains(&format!("f{digit}")) {
                message.metadata.response_code = ResponseCode::ServFail;
            } else if name.contains(digit) {
                message.answers.push(Record::from_rdata(query.name().clone(), 60, data));
            }
            // Ignored, because the test may have ended.
            let _ = socket.send_to(&message.to_vec().unwrap(), peer);
        }
    });
    address
}

#[test]
fn one_family_of_a_name_is_used() {
    use AddressFamily::{V4, V6};
    let server = name_server();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let every: fn(IpAddr) -> bool = |_| true;
    let none: fn(IpAddr) -> bool = |_| false;
    let only_v6: fn(IpAddr) -> bool = |address| address.is_ipv6();
    let (v4, v6, nothing): (&[&str], &[&str], &[&str]) = (&["10.0.0.1"], &["fd00::1"], &[]);
    // families, routes, name → addresses, whether a part is missing
    type Row<'r> = (&'r [AddressFamily], fn(IpAddr) -> bool, &'r str, &'r [&'r str], bool);
    let rows: [Row<'_>; 14] = [
        (&[V4, V6], every, "n46", v4, false),
        (&[V6, V4], every, "n46", v6, false),
        (&[V4], every, "n46", v4, false),
        (&[V4], every, "n6", nothing, false),
        (&[V4, V6], every, "n6", v6, false),
        (&[V4, V6], only_v6, "n46", v6, false),
        (&[V4, V6], only_v6, "n4", v4, false),
        (&[V4, V6], none, "n46", v4, false),
        // The second family is not asked for, so that its server cannot delay the first one.
        (&[V4, V6], every, "n4f6", v4, false),
        (&[V4, V6], every, "n4d6", v4, false),
        (&[V4, V6], every, "f4n6", v6, true),
        (&[V4, V6], every, "d4n6", v6, true),
        (&[V4, V6], every, "f4f6", nothing, false),
        (&[V4, V6], every, "nothing", nothing, false),
    ];
    for (families, has_route, name, expected, is_part) in rows {
        let order = FamilyOrder::new(families.iter().copied()).unwrap();
        let lookup = SystemLookup::new(&LookupOptions {
            servers: vec![server],
            search: false,
            timeout: Duration::from_millis(100),
            choice: AddressChoice { order, has_route },
        });
        let found = runtime.block_on(lookup.lookup(&format!("{name}.test")));
        let row = format!("{families:?} {name}");
        let found = found.unwrap_or_else(|reason| {
            assert!(!reason.is_empty() && expected.is_empty(), "{row}: {reason}");
            LookupAnswer::default()
        });
        let texts: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(
            (texts, found.failure.is_some()),
            (expected.iter().map(ToString::to_string).collect(), is_part),
            "{row}"
        );
    }
}

#[test]
fn localhost_is_not_asked_of_a_name_server() {
    // A server that nothing listens at: an answer can only come from the hosts file or the zone `localhost`.
    let options = LookupOptions { servers: vec!["127.0.0.1:1".parse().unwrap()], ..LookupOptions::default() };
    let lookup = SystemLookup::new(&options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for name in ["localhost", "LOCALHOST", "localhost.", "foo.localhost"] {
        let found = runtime.block_on(lookup.lookup(name)).unwrap();
        let families: Vec<_> = found.addresses.iter().map(|address| AddressFamily::of(*address)).collect();
        assert!(found.addresses.iter().all(IpAddr::is_loopback), "{name}: {found:?}");
        assert!(
            !families.is_empty() && families.iter().all(|family| *family == families[0]),
            "{name}: {found:?}"
        );
    }
}
