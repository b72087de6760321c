//! Message rules of RFC 9113 section 8 as tables.

use super::*;
use message::FieldId;

const LIMITS: HeadLimits = HeadLimits { max_head_bytes: 1000, max_line_bytes: 0, max_fields: 12 };

fn read(section: Section, fields: &[(&str, &str)]) -> Parsed {
    let mut reader = HeadReader::new(section, LIMITS);
    for (name, value) in fields {
        reader.field(&Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
            id: FieldId::of(name.as_bytes()),
            is_valid: true,
            is_sensitive: *name == "x-secret",
        });
    }
    reader.finish()
}

/// The fields of a good section as `name=value`, or the reason.
fn verdict(section: Section, fields: &[(&str, &str)]) -> Result<Vec<String>, &'static str> {
    match read(section, fields) {
        Parsed::Good(head) => Ok(head
            .headers
            .iter()
            .map(|field| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                format!("{}={}", text(field.name), text(field.value))
            })
            .collect()),
        Parsed::TooLarge(_) => Err("too large"),
        Parsed::Malformed(reason, _) => Err(reason),
    }
}

const GET: Section = Section::Request { extended: false };
const EXTENDED: Section = Section::Request { extended: true };
const START: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/a?b"), (":authority", "h")];

/// The start of a request with other fields behind it.
fn with(fields: &[(&'static str, &'static str)]) -> Result<Vec<String>, &'static str> {
    let mut all = START.to_vec();
    all.extend_from_slice(fields);
    verdict(GET, &all)
}

#[test]
fn request_head_has_its_parts() {
    let Parsed::Good(head) = read(GET, &START) else { panic!("it is good") };
    let text = |span| String::from_utf8_lossy(head.headers.text(span)).into_owned();
    assert_eq!((text(head.spans.method), head.method), ("GET".into(), Method::Get));
    assert_eq!((text(head.spans.target), text(head.spans.path)), ("/a?b".into(), "/a".into()));
    assert_eq!((text(head.spans.query.unwrap()), text(head.spans.authority)), ("b".into(), "h".into()));
    assert_eq!((head.scheme, head.spans.upgrade), (Scheme::Https, None));
}

#[test]
fn pseudo_fields_of_requests() {
    let cases: [(&[(&str, &str)], &str); 14] = [
        (&[(":scheme", "http"), (":path", "/")], "missing :method"),
        (&[(":method", "GET"), (":path", "/")], "missing :scheme or :path"),
        (&[(":method", "GET"), (":scheme", "http")], "missing :scheme or :path"),
        (&[(":method", "GET"), (":scheme", "http"), (":path", "")], "malformed :path"),
        (&[(":method", "GET"), (":scheme", "http"), (":path", "a")], ":path does not begin with a slash"),
        (&[(":method", "GET"), (":scheme", "http"), (":path", "*")], ":path does not begin with a slash"),
        (&[(":method", "GET"), (":scheme", "http"), (":path", "/a b")], "malformed :path"),
        (&[(":method", "GET"), (":scheme", "1"), (":path", "/")], "malformed :scheme"),
        (&[(":method", "G T"), (":scheme", "http"), (":path", "/")], "malformed :method"),
        (&[(":method", "GET"), (":method", "GET")], "repeated pseudo-field"),
        (&[(":status", "200")], "unknown pseudo-field"),
        (&[(":protocol", "websocket")], "unknown pseudo-field"),
        (&[("a", "1"), (":method", "GET")], "pseudo-field behind a regular field"),
        (&[(":authority", "u@h")], "malformed authority"),
    ];
    for (fields, reason) in cases {
        assert_eq!(verdict(GET, fields), Err(reason), "{fields:?}");
    }
    let asterisk = [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*")];
    assert_eq!(verdict(GET, &asterisk), Ok(vec![]));
}

#[test]
fn connect_forms() {
    let plain = [(":method", "CONNECT"), (":authority", "h:1")];
    assert_eq!(verdict(GET, &plain), Ok(vec!["host=h:1".into()]));
    let reason = "CONNECT with :scheme or :path, or without :authority";
    assert_eq!(verdict(GET, &plain[..1]), Err(reason));
    assert_eq!(verdict(GET, &[plain[0], plain[1], (":path", "/")]), Err(reason));
    let extended = [
        (":method", "CONNECT"),
        (":scheme", "https"),
        (":path", "/"),
        (":authority", "h"),
        (":protocol", "websocket"),
    ];
    let Parsed::Good(head) = read(EXTENDED, &extended) else { panic!("it is good") };
    assert_eq!(head.headers.text(head.spans.upgrade.unwrap()), b"websocket");
    assert_eq!(verdict(GET, &extended), Err("unknown pseudo-field"));
    assert_eq!(verdict(EXTENDED, &extended[1..]), Err("missing :method"));
    let get = [START[0], START[1], START[2], START[3], (":protocol", "websocket")];
    assert_eq!(verdict(EXTENDED, &get), Err(":protocol without CONNECT or :authority"));
}

#[test]
fn regular_fields_of_requests() {
    let good = |fields: &[&str]| Ok(fields.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    assert_eq!(with(&[("te", "trailers")]), good(&["host=h", "te=trailers"]));
    assert_eq!(with(&[("te", "gzip")]), Err("TE other than trailers"));
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        assert_eq!(verdict(GET, &[START[0], (name, "x")]), Err("connection-specific field"), "{name}");
    }
    assert_eq!(with(&[("host", "H")]), good(&["host=h"]));
    assert_eq!(with(&[("host", "x")]), Err("Host differs from the authority"));
    assert_eq!(
        with(&[("content-length", "1"), ("content-length", "1")]),
        Err("more than one Content-Length")
    );
    assert_eq!(with(&[("content-length", "-1")]), Err("malformed Content-Length"));
    assert_eq!(with(&[("content-length", "9223372036854775808")]), Err("malformed Content-Length"));
    assert_eq!(
        with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")]),
        good(&["host=h", "x=y", "cookie=a=1; b=2"])
    );
    let no_authority = [START[0], START[1], START[2], ("host", "only"), ("host", "other")];
    assert_eq!(verdict(GET, &no_authority[..4]), good(&["host=only"]));
    assert_eq!(verdict(GET, &no_authority), Err("Host differs from the authority"));
}

#[test]
fn responses_and_trailers() {
    for (status, expected) in [
        ("200", Ok(vec![])),
        ("999", Ok(vec![])),
        ("101", Err("status 101")),
        ("099", Err("malformed :status")),
        ("20", Err("malformed :status")),
        ("2000", Err("malformed :status")),
        ("2x0", Err("malformed :status")),
    ] {
        assert_eq!(verdict(Section::Response, &[(":status", status)]), expected, "{status}");
    }
    assert_eq!(verdict(Section::Response, &[]), Err("missing :status"));
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        let fields = [(":status", "200"), (name, "x"), ("a", "b")];
        assert_eq!(verdict(Section::Response, &fields), Ok(vec!["a=b".into()]), "{name}");
    }
    assert_eq!(verdict(Section::Response, &[(":path", "/")]), Err("unknown pseudo-field"));
    assert_eq!(verdict(Section::Trailers, &[(":status", "200")]), Err("pseudo-field in trailers"));
    assert_eq!(verdict(Section::Trailers, &[("connection", "x")]), Err("connection-specific field"));
    let trailers = [("grpc-status", "0"), ("content-length", "x"), ("host", "h")];
    assert_eq!(verdict(Section::Trailers, &trailers), Ok(vec!["grpc-status=0".into()]));
}

#[test]
fn blanks_at_the_ends_of_response_values_are_dropped() {
    let read = |section, name: &str, value: &str| {
        let mut reader = HeadReader::new(section, LIMITS);
        let field = |name: &str, value: &str| {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let is_valid = crate::field::is_name(name) && crate::field::is_value(value);
            let id = FieldId::of(name);
            reader.field(&Field { name, value, id, is_valid, is_sensitive: false });
        };
        let start = if section == Section::Response { &[(":status", "200")][..] } else { &START[..] };
        start.iter().chain([&(name, value)]).map(|(name, value)| (*name, *value)).for_each({
            let mut field = field;
            move |(name, value)| field(name, value)
        });
        match reader.finish() {
            Parsed::Good(head) => head.headers.get(name).map(<[u8]>::to_vec).ok_or("dropped"),
            Parsed::Malformed(reason, _) => Err(reason),
            Parsed::TooLarge(_) => Err("too large"),
        }
    };
    let malformed: Result<Vec<u8>, _> = Err("invalid byte in a field name or value");
    for (name, value, expected) in [
        ("a", " b\t ", Ok(b"b".to_vec())),
        ("a", " ", Ok(vec![])),
        ("a", "b\u{1} ", malformed.clone()),
        ("A", "b ", malformed.clone()),
        ("a", "b\r\nc: d ", malformed.clone()),
    ] {
        assert_eq!(read(Section::Response, name, value), expected, "{name}: {value:?}");
    }
    assert_eq!(read(GET, "a", "b "), malformed, "of requests it is a fault");
}

#[test]
fn limits_of_a_list() {
    let fields = |count: usize| vec![("a", "b"); count];
    assert!(verdict(Section::Trailers, &fields(LIMITS.max_fields)).is_ok());
    assert_eq!(verdict(Section::Trailers, &fields(LIMITS.max_fields + 1)), Err("too large"));
    let value = "v".repeat(LIMITS.max_head_bytes - LIST_OVERHEAD - 1);
    assert!(verdict(Section::Trailers, &[("a", &value)]).is_ok());
    assert_eq!(verdict(Section::Trailers, &[("aa", &value)]), Err("too large"));
}

#[test]
fn crumbs_are_one_field_and_pseudo_fields_none() {
    let fields = |count: usize, crumbs: usize| {
        let mut all = START.to_vec();
        all.extend(vec![("host", "h")]);
        all.extend(vec![("c", "d"); count]);
        all.extend(vec![("cookie", "a=1"); crumbs]);
        verdict(GET, &all)
    };
    assert!(fields(LIMITS.max_fields, 0).is_ok());
    assert_eq!(fields(LIMITS.max_fields + 1, 0), Err("too large"));
    // 1,000 bytes of the list are enough for eight crumbs beside these.
    assert!(fields(LIMITS.max_fields - 1, 8).is_ok());
    assert_eq!(fields(LIMITS.max_fields, 1), Err("too large"));
    // They count towards the size of the list.
    assert_eq!(fields(0, 25), Err("too large"));
    // Trailers have no crumbs.
    assert_eq!(verdict(Section::Trailers, &vec![("cookie", "a"); LIMITS.max_fields + 1]), Err("too large"));
}

#[test]
fn refused_requests_keep_what_was_asked() {
    let agent = ("user-agent", "curl");
    let long = "v".repeat(2_000);
    let good = [":method=GET", ":path=/a?b", "host=h", "user-agent=curl"];
    type Row<'r> = (&'r [(&'r str, &'r str)], &'r [&'r str]);
    let table: [Row<'_>; 6] = [
        (&[START[0], START[1], START[2], START[3], ("connection", "x"), agent], &good),
        (&[START[0], START[1], START[2], START[3], ("x", &long), agent], &good),
        (&[("A", "b"), START[0], START[1], START[2], START[3], agent], &good),
        (
            &[START[0], START[1], (":path", "/caf\u{e9} x?y"), START[3], agent],
            &[":method=GET", ":path=/caf\u{e9} x?y", "host=h", "user-agent=curl"],
        ),
        (
            &[(":method", "G T"), START[2], (":authority", "a b"), ("cookie", "secret")],
            &[":method=G T", ":path=/a?b", "host=a b"],
        ),
        (&[START[0]], &[":method=GET", ":path="]),
    ];
    for (fields, expected) in table {
        let (Parsed::Malformed(_, head) | Parsed::TooLarge(head)) = read(GET, fields) else {
            panic!("it is refused: {fields:?}")
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut texts = vec![
            format!(":method={}", text(head.headers.text(head.spans.method))),
            format!(":path={}", text(head.headers.text(head.spans.target))),
        ];
        texts.extend(head.headers.iter().map(|field| format!("{}={}", text(field.name), text(field.value))));
        assert_eq!(texts, expected, "{fields:?}");
    }
}

#[test]
fn sensitive_fields_stay_marked() {
    let Parsed::Good(head) = read(Section::Trailers, &[("a", "1"), ("x-secret", "2")]) else {
        panic!("it is good")
    };
    assert_eq!(head.headers.iter().map(|field| field.sensitive).collect::<Vec<_>>(), [false, true]);
}
