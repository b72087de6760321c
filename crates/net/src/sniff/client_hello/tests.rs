//! Tables of ClientHellos: good ones in every cut, and each rule broken once.

use super::*;

fn vector(bytes: &[u8], length_bytes: usize) -> Vec<u8> {
    let length = bytes.len().to_be_bytes();
    [&length[length.len() - length_bytes..], bytes].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), vector(content, 2)].concat()
}

fn name(name: &[u8]) -> Vec<u8> {
    extension(SERVER_NAME, &vector(&[vec![HOST_NAME], vector(name, 2)].concat(), 2))
}

fn alpn(names: &[&[u8]]) -> Vec<u8> {
    let names: Vec<u8> = names.iter().flat_map(|name| vector(name, 1)).collect();
    extension(ALPN, &vector(&names, 2))
}

fn body(extensions: &[Vec<u8>]) -> Vec<u8> {
    let fixed =
        [vec![3, 3], vec![7; 32], vector(&[9; 32], 1), vector(&[0x0a, 0x0a, 0x13, 0x01], 2), vector(&[0], 1)];
    [fixed.concat(), vector(&extensions.concat(), 2)].concat()
}

/// The message in records of at most `piece` bytes.
fn records(body: &[u8], piece: usize) -> Vec<u8> {
    let message = [vec![CLIENT_HELLO], vector(body, 3)].concat();
    message.chunks(piece).flat_map(|part| [vec![HANDSHAKE, 3, 1], vector(part, 2)].concat()).collect()
}

fn found(extensions: &[Vec<u8>]) -> Look<ClientHello> {
    client_hello(&records(&body(extensions), RECORD_MAX_BYTES))
}

fn named(name: &str) -> Look<ClientHello> {
    Look::Found(ClientHello { server_name: Some(name.into()), ..ClientHello::default() })
}

#[test]
fn hello_is_found_however_it_is_cut() {
    let extensions = [
        extension(0x5a5a, &[0]),
        alpn(&[b"\x8a\x8a", b"h2", b"http/1.1"]),
        name(b"Db.Example.COM."),
        extension(ENCRYPTED_CLIENT_HELLO, &[0, 1, 2]),
    ];
    let expected = ClientHello {
        server_name: Some("db.example.com".into()),
        alpn: ["h2".into(), "http/1.1".into()].into(),
        has_ech: true,
    };
    for piece in [RECORD_MAX_BYTES, 100, 2, 1] {
        let whole = records(&body(&extensions), piece);
        for cut in 0..whole.len() {
            assert_eq!(client_hello(&whole[..cut]), Look::More, "records of {piece}, cut at {cut}");
        }
        assert_eq!(client_hello(&whole), Look::Found(expected.clone()), "records of {piece}");
        let more = [whole, b"GET / HTTP/1.1\r\n\r\n".to_vec()].concat();
        assert_eq!(client_hello(&more), Look::Found(expected.clone()), "records of {piece} and more");
    }
}

#[test]
fn names_are_validated() {
    let long = format!("{}.example", "a".repeat(64));
    let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "a".repeat(61));
    let too_long = format!("{longest}a");
    let cases: &[(&[u8], Look<ClientHello>)] = &[
        (b"a", named("a")),
        (b"_x.A-b.example", named("_x.a-b.example")),
        (longest.as_bytes(), named(&longest)),
        (b"192.0.2.7", Look::Found(ClientHello::default())),
        (b"2001:db8::1", Look::Found(ClientHello::default())),
        (b"", Look::No),
        (b".", Look::No),
        (b"a..b", Look::No),
        (b".a", Look::No),
        (b"a b", Look::No),
        (b"a\0.example", Look::No),
        (b"*.example", Look::No),
        (b"a:443", Look::No),
        ("m\u{fc}ller.example".as_bytes(), Look::No),
        (b"\xff", Look::No),
        (long.as_bytes(), Look::No),
        (too_long.as_bytes(), Look::No),
    ];
    for (written, expected) in cases {
        assert_eq!(found(&[name(written)]), *expected, "{}", written.escape_ascii());
    }
}

#[test]
fn hello_without_name_has_none() {
    let none = Look::Found(ClientHello::default());
    assert_eq!(found(&[]), none);
    assert_eq!(found(&[extension(43, &[2, 3, 4])]), none);
    let mut old = body(&[]);
    old.truncate(old.len() - 2);
    assert_eq!(client_hello(&records(&old, 100)), none, "without the list of extensions");
}

#[test]
fn lengths_that_lie_are_refused() {
    let host = [vec![HOST_NAME], vector(b"a.example", 2)].concat();
    let cases = [
        ("two names", extension(SERVER_NAME, &vector(&[host.clone(), host.clone()].concat(), 2))),
        ("a name of another type", extension(SERVER_NAME, &vector(&[vec![1], vector(b"a", 2)].concat(), 2))),
        ("an empty list of names", extension(SERVER_NAME, &[0, 0])),
        ("an empty server_name", extension(SERVER_NAME, &[])),
        ("bytes behind the list", extension(SERVER_NAME, &[vector(&host, 2), vec![0]].concat())),
        ("a list that ends early", extension(SERVER_NAME, &[vec![0, 40], host.clone()].concat())),
        ("a name that ends early", extension(SERVER_NAME, &vector(&[0, 0, 40, b'a'], 2))),
        ("the extension twice", [name(b"a.example"), name(b"b.example")].concat()),
        ("ALPN twice", [alpn(&[b"h2"]), alpn(&[b"h2"])].concat()),
        ("ALPN without names", alpn(&[])),
        ("ALPN with an empty name", alpn(&[b"h2", b""])),
        ("ALPN that ends early", extension(ALPN, &[0, 3, 9, b'h', b'2'])),
        ("an extension that ends early", vec![0, 16, 0, 9, 1]),
        ("half an extension", vec![0]),
    ];
    for (case, extensions) in cases {
        assert_eq!(found(&[extensions]), Look::No, "{case}");
    }
    let good = body(&[name(b"a.example")]);
    let changed = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        client_hello(&records(&changed, RECORD_MAX_BYTES))
    };
    assert_eq!(changed(0, 3), named("a.example"));
    assert_eq!(changed(0, 2), Look::No, "a version before SSL 3.0");
    assert_eq!(changed(34, 33), Look::No, "a session id of 33 bytes");
    assert_eq!(changed(68, 3), Look::No, "half a suite");
    assert_eq!(
        client_hello(&records(&[good.clone(), vec![0]].concat(), 100)),
        Look::No,
        "bytes behind the extensions"
    );
    assert_eq!(client_hello(&records(&good[..50], 100)), Look::No, "a message that ends early");
}

#[test]
fn other_bytes_are_refused_at_once() {
    let cases: &[(&str, &[u8])] = &[
        ("HTTP", b"G"),
        ("an alert", &[21]),
        ("SSL 2.0", &[0x80]),
        ("another version", &[22, 2]),
        ("an empty record", &[22, 3, 1, 0, 0]),
        ("a record of 16,385 bytes", &[22, 3, 1, 0x40, 0x01]),
        ("a ServerHello", &[22, 3, 3, 0, 9, 2]),
        ("a message of 16 MiB", &[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff]),
        ("another record inside", &[22, 3, 1, 0, 1, 1, 23]),
    ];
    for (case, bytes) in cases {
        assert_eq!(client_hello(bytes), Look::No, "{case}");
        assert_eq!(client_hello(&bytes[..bytes.len() - 1]), Look::More, "{case}, cut");
    }
}

#[test]
fn hello_over_the_limit_is_refused() {
    let padding = |bytes: usize| {
        records(&body(&[extension(21, &vec![0; bytes]), name(b"a.example")]), RECORD_MAX_BYTES)
    };
    assert_eq!(client_hello(&padding(CLIENT_HELLO_MAX_BYTES - 200)), named("a.example"));
    let over = padding(CLIENT_HELLO_MAX_BYTES);
    assert_eq!(client_hello(&over), Look::No);
    // In records of one byte the headers count: what could still become one is refused at the limit.
    let fragments = records(&body(&[extension(21, &[0; 8_000])]), 1);
    assert_eq!(client_hello(&fragments[..CLIENT_HELLO_MAX_BYTES - 1]), Look::More);
    assert_eq!(client_hello(&fragments[..CLIENT_HELLO_MAX_BYTES]), Look::No);
    assert_eq!(client_hello(&fragments), Look::No);
}
