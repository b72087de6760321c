//! The fields that pass the proxy, their order and case, the fields that the proxy adds, and targets at the
//! origin.

use testkit::{Origin, Reply, Request};

use crate::support::{in_front_of, in_front_of_with};

/// Sends `request` and returns it as the origin received it.
fn forwarded(weir: &testkit::Weir, origin: &Origin, request: &str) -> Request {
    let mut client = weir.client();
    client.send(request.as_bytes());
    let response = client.read_response(false).unwrap();
    assert_eq!(response.status, 200, "{request:?}: {}", response.text());
    origin.last_request()
}

#[test]
fn fields_keep_their_order_and_case() {
    let origin = Origin::answering("");
    let weir = in_front_of(&origin);
    let fields = "X-b: 1\r\naccept: */*\r\nX-B: 2\r\nUser-AGENT: x  y\r\nEmpty:\r\nCookie: a=1\r\ncookie: b=\u{e9}\r\n";
    let seen = forwarded(&weir, &origin, &format!("GET / HTTP/1.1\r\nHost: Example.com:80\r\n{fields}\r\n"));
    let raw = String::from_utf8(seen.raw_head).unwrap();
    assert!(raw.starts_with("GET / HTTP/1.1\r\nHost: Example.com:80\r\n"), "{raw}");
    assert!(raw.contains(fields), "{raw}");
}

#[test]
fn a_response_keeps_its_fields() {
    let fields = "x-One: 1\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\n";
    let reply = format!("HTTP/1.1 299 Fine By Me\r\n{fields}Content-Length: 0\r\n\r\n");
    let origin = Origin::start(move |_| Reply::raw(reply.as_bytes()));
    let head = String::from_utf8(in_front_of(&origin).get("/").raw_head).unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 299 Fine By Me\r\n{fields}")), "{head}");
}

#[test]
fn targets_reach_the_origin_in_origin_form() {
    let origin = Origin::answering("");
    let weir = in_front_of(&origin);
    let check = |target: &str, host: &str, want: &str, want_host: &str| {
        let seen = forwarded(&weir, &origin, &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((seen.target.as_str(), seen.header("host")), (want, Some(want_host)), "{target}");
        assert_eq!(seen.header("x-forwarded-host"), Some(want_host), "{target}");
    };
    check("/a?b=%2f&c=%41&&d=?e", "h", "/a?b=%2f&c=%41&&d=?e", "h");
    check("/a?", "h", "/a?", "h");
    check("/a?%7e[]|\"", "h", "/a?%7e[]|\"", "h");
    check("/?//..//", "h", "/?//..//", "h");
    check("http://other.example/a?b", "h", "/a?b", "other.example");
    check("HTTP://other.example:8080", "h", "/", "other.example:8080");
    check("http://other.example?x=1", "h", "/?x=1", "other.example");
    check("/%7Ea/%2f/./b//c/../d", "h", "/~a/%2F/b/d", "h");
    check("/a//b;c=1/", "h", "/a/b;c=1/", "h");
}

#[test]
fn hop_by_hop_fields_never_cross() {
    let names = [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authorization",
        "Proxy-Authenticate",
        "TE",
        "Upgrade",
        "HTTP2-Settings",
        "X-Nominated",
        "Transfer-Encoding",
        "Proxy-Authentication-Info",
    ];
    let origin = Origin::start(|_| {
        Reply::raw(
            b"HTTP/1.1 200 OK\r\nConnection: X-Nominated, Upgrade\r\nX-Nominated: 1\r\nKeep-Alive: timeout=5\r\n\
              Proxy-Connection: keep-alive\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nTE: trailers\r\n\
              Proxy-Authentication-Info: x\r\nContent-Length: 0\r\nX-Stays: 1\r\n\r\n",
        )
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    client.send(
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Nominated, Upgrade, HTTP2-Settings, TE\r\nX-Nominated: 1\r\n\
          Keep-Alive: 5\r\nProxy-Connection: x\r\nProxy-Authorization: x\r\nTE: trailers, deflate\r\nUpgrade: h2c\r\n\
          HTTP2-Settings: AAMAAABkAAQAAP__\r\nX-Stays: 1\r\n\r\n",
    );
    let response = client.read_response(false).unwrap();
    assert_eq!((response.status, response.header("x-stays")), (200, Some("1")));
    let seen = origin.last_request();
    assert_eq!(seen.header("x-stays"), Some("1"));
    for name in names {
        assert_eq!(seen.header(name), None, "{name} to the origin");
        assert_eq!(response.header(name), None, "{name} to the client");
    }
}

#[test]
fn a_nomination_cannot_take_away_what_others_rely_on() {
    let origin = Origin::start(|request| Reply::ok(&request.text()));
    let weir = in_front_of(&origin);
    let seen = forwarded(
        &weir,
        &origin,
        "POST / HTTP/1.1\r\nHost: h\r\nConnection: Host, Cookie, Authorization, Content-Length, Content-Type, \
         X-Forwarded-For, X-Real-IP, X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Port, Via\r\nCookie: a=1\r\n\
         Authorization: Basic x\r\nContent-Type: text/plain\r\nX-Forwarded-For: 1.2.3.4\r\nContent-Length: 3\r\n\r\nabc",
    );
    let peer = "127.0.0.1";
    let forwarded_for = format!("1.2.3.4, {peer}");
    for (name, value) in [
        ("Host", "h"),
        ("Cookie", "a=1"),
        ("Authorization", "Basic x"),
        ("Content-Type", "text/plain"),
        ("X-Forwarded-For", forwarded_for.as_str()),
        ("X-Real-IP", peer),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Host", "h"),
        ("Via", "1.1 weir"),
        ("Content-Length", "3"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    assert_eq!(seen.text(), "abc");
}

#[test]
fn the_client_is_named_to_the_origin() {
    let origin = Origin::answering("");
    let sent = "GET / HTTP/1.1\r\nHost: h:1\r\nX-Forwarded-For: 10.1.1.1\r\nx-forwarded-for: 10.2.2.2\r\n\
        X-Real-IP: 10.3.3.3\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 443\r\n\
        Via: 1.0 front\r\n\r\n";
    let check = |weir: &testkit::Weir, request: &str, want: &[(&str, &[&str])]| {
        let seen = forwarded(weir, &origin, request);
        for (name, values) in want {
            let all: Vec<&str> = seen
                .headers
                .iter()
                .filter(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str())
                .collect();
            assert_eq!(all, *values, "{name} of {request:?}");
        }
    };
    let strict = in_front_of(&origin);
    let port = strict.proxy().port().to_string();
    check(&strict, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", &[("X-Forwarded-Port", &[&port])]);
    check(
        &strict,
        "GET / HTTP/1.1\r\nHost: h:1\r\n\r\n",
        &[
            ("X-Forwarded-For", &["127.0.0.1"]),
            ("X-Real-IP", &["127.0.0.1"]),
            ("X-Forwarded-Proto", &["http"]),
            ("X-Forwarded-Host", &["h:1"]),
            ("X-Forwarded-Port", &["1"]),
            ("Via", &["1.1 weir"]),
        ],
    );
    check(
        &strict,
        sent,
        &[
            ("X-Forwarded-For", &["10.1.1.1, 10.2.2.2, 127.0.0.1"]),
            ("X-Real-IP", &["127.0.0.1"]),
            ("X-Forwarded-Proto", &["http"]),
            ("X-Forwarded-Host", &["h:1"]),
            ("X-Forwarded-Port", &["1"]),
            ("Via", &["1.0 front", "1.1 weir"]),
        ],
    );
    check(&strict, "GET / HTTP/1.0\r\nHost: h\r\n\r\n", &[("Via", &["1.0 weir"])]);
    let trusting = in_front_of_with(&origin, &["--trusted-addresses", "10.0.0.0/8,127.0.0.0/8"]);
    check(
        &trusting,
        sent,
        &[
            ("X-Forwarded-For", &["10.1.1.1, 10.2.2.2, 127.0.0.1"]),
            ("X-Real-IP", &["127.0.0.1"]),
            ("X-Forwarded-Proto", &["https"]),
            ("X-Forwarded-Host", &["evil"]),
            ("X-Forwarded-Port", &["443"]),
        ],
    );
    let other = in_front_of_with(&origin, &["--trusted-addresses", "10.0.0.0/8"]);
    check(&other, sent, &[("X-Forwarded-Proto", &["http"]), ("X-Forwarded-Host", &["h:1"])]);
}

#[test]
fn the_server_field_is_a_setting() {
    let check = |arguments: &[&str], origin_says: &'static str, forwarded: &[&str], local: &[&str]| {
        let origin = Origin::start(move |_| {
            Reply::raw(format!("HTTP/1.1 200 OK\r\n{origin_says}Content-Length: 0\r\n\r\n").as_bytes())
        });
        let resources =
            crate::support::route("uri: /here", &crate::support::upstream(&[origin.address()], ""));
        let weir = crate::support::builder(&resources).arguments(arguments).start();
        assert_eq!(weir.get("/here").header_all("server"), forwarded, "{arguments:?} {origin_says:?}");
        assert_eq!(weir.get("/elsewhere").header_all("server"), local, "{arguments:?}");
    };
    let default = concat!("weir/", env!("CARGO_PKG_VERSION"));
    check(&[], "", &[default], &[default]);
    check(&[], "Server: nginx\r\n", &[default], &[default]);
    check(&["--server-header", "gate"], "Server: nginx\r\n", &["gate"], &["gate"]);
    check(&["--server-header", "off"], "Server: nginx\r\n", &["nginx"], &[]);
}

#[test]
fn every_final_answer_has_one_date() {
    let origin = Origin::start(|request| match request.path() {
        "/dated" => Reply::with(200, &[("date", "Tue, 15 Nov 1994 08:12:31 GMT")], b""),
        "/empty" => Reply::with(204, &[], b""),
        _ => Reply::ok(""),
    });
    let weir = in_front_of(&origin);
    assert_eq!(weir.get("/dated").header_all("date"), ["Tue, 15 Nov 1994 08:12:31 GMT"]);
    for path in ["/", "/empty"] {
        let response = weir.get(path);
        let dates = response.header_all("date");
        assert!(dates.len() == 1 && dates[0].len() == 29 && dates[0].ends_with(" GMT"), "{path}: {dates:?}");
    }
}

#[test]
fn names_with_underscores_do_not_imitate_fields() {
    let origin = Origin::answering("");
    let routes = format!(
        "routes:\n\
         - {{id: '1', uri: /*, vars: [[http_time_window, '==', '1']], plugins: {{proxy-rewrite: \
            {{headers: {{set: {{X-Window: '$http_time_window', X-User: gateway}}}}}}}}, \
            upstream: {{nodes: {{'{node}': 1}}}}}}\n\
         - {{id: '2', uri: /*, upstream: {{nodes: {{'{node}': 1}}}}}}\n",
        node = origin.address()
    );
    let weir = crate::support::gateway(&routes);
    for name in ["time_window", "time-window", "Time_Window"] {
        let lines = format!(
            "{name}: 1\r\nX_User: root\r\nX_Real_IP: 1.1.1.1\r\nx-forwarded_for: 1.1.1.1\r\nContent_Length: 5\r\n\
             Transfer_Encoding: chunked\r\nX_Other: kept\r\n"
        );
        let seen = forwarded(&weir, &origin, &format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
        assert_eq!((seen.header("x-window"), seen.header("x-user")), (Some("1"), Some("gateway")), "{name}");
        assert_eq!((seen.header("x_other"), seen.header(name)), (Some("kept"), Some("1")));
        let head = String::from_utf8_lossy(&seen.raw_head).to_ascii_lowercase();
        for imitation in ["x_user", "x_real_ip", "x-forwarded_for", "content_length", "transfer_encoding"] {
            assert!(!head.contains(imitation), "{imitation} is in {head}");
        }
    }
}
