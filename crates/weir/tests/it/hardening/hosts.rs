//! Check 9: the host of a request is named exactly once and in one form.

use super::stand::{Stand, account_text};
use crate::support::upstream;

// Check 9.
#[test]
fn check_09_bad_host_is_refused() {
    let stand = Stand::new();
    for fields in [
        "",
        "Host: a\r\nHost: b",
        "Host: a\r\nHost: a",
        "Host: a\r\nhost:",
        "Host:\r\nHost: a",
        "Host : a",
        " Host: a",
        "X: 1\r\n Host: a",
        "Host:\r\n a",
        "Host: a, b",
        "Host: a b",
        "Host: a\tb",
        "Host: u@a",
        "Host: u:p@a",
        "Host: a/b",
        "Host: a?b",
        "Host: a#b",
        "Host: http://a",
        "Host: //a",
        "Host: a\\b",
        "Host: [::1",
        "Host: ::1",
        "Host: [::1]x",
        "Host: [::1]:",
        "Host: [zz]",
        "Host: []",
        "Host: [::1%25eth0]",
        "Host: [127.0.0.1]",
        "Host: a:",
        "Host: a:b",
        "Host: a:-1",
        "Host: a:+80",
        "Host: a:65536",
        "Host: a:000080",
        "Host: a:80:80",
        "Host: :80",
        "Host: a:80 ,",
        "Host: a%",
        "Host: a%2",
        "Host: a%zz",
        "Host: \u{e9}",
        "Host: a\u{0}",
        "Host: a\u{b}",
        "Host: \"a\"",
        "Host: <a>",
        "Host: a|b",
        "Host: a^b",
        "Host: {a}",
    ] {
        let fields = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
        stand.refused(format!("GET / HTTP/1.1\r\n{fields}\r\n"), &[400]);
        if !fields.is_empty() {
            stand.refused(format!("GET / HTTP/1.0\r\n{fields}\r\n"), &[400]);
            stand.refused(format!("GET http://t/ HTTP/1.1\r\n{fields}\r\n"), &[400]);
        }
    }
    for target in [
        "http://",
        "http:///a",
        "http://u@a/",
        "http://u:p@a/",
        "http://a:/",
        "http://a:x/",
        "http://a:65536/",
        "http://[::1/",
        "http://[::1]x/",
        "http://a\\b/",
        "http://a%/",
        "http://a b/",
        "https://?q",
        "http://@a/",
    ] {
        stand.refused(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]);
    }
    stand.end();
}

// Check 9: RFC 9112 section 3.2.2.
#[test]
fn check_09_authority_of_target_wins() {
    let stand = Stand::new();
    for (target, host, want_target, want_host) in [
        ("/a", "h", "/a", "h"),
        ("/a", "H.Example:8080", "/a", "H.Example:8080"),
        ("/a", "[::1]:80", "/a", "[::1]:80"),
        ("/a", "", "/a", ""),
        ("http://t/a", "h", "/a", "t"),
        ("http://t:81/a?b", "h:82", "/a?b", "t:81"),
        ("HTTPS://t", "h", "/", "t"),
        ("http://t?x=/../y", "h", "/?x=/../y", "t"),
        ("http://[::1]:81//a/./b", "h", "/a/b", "[::1]:81"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stand.passed(request, &account_text("GET", want_target, want_host, ""));
    }
    for request in stand.end().iter().filter(|request| request.path() != "/last") {
        let hosts: Vec<_> =
            request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).collect();
        assert_eq!(hosts.len(), 1, "{request:?}");
        assert_eq!(request.header("x-forwarded-host"), request.header("host"));
    }
}

// Check 9: a rule on a host matches every spelling of the host.
#[test]
fn check_09_denied_host_in_every_spelling() {
    let resources = |origin| {
        let upstream = upstream(&[origin], "");
        let deny = "plugins: {ip-restriction: {blacklist: ['0.0.0.0/0', '::/0']}}";
        format!(
            "routes:\n  - {{id: denied, uri: /*, hosts: [admin.test, '*.dev.test', fqdn.test.], {deny}, \
             upstream: {upstream}}}\n  - {{id: all, uri: /*, upstream: {upstream}}}\n"
        )
    };
    let stand = Stand::of(resources, &[]);
    for host in [
        "admin.test",
        "ADMIN.Test",
        "admin.test:80",
        "Admin.Test:09080",
        "admin.test.",
        "admin.test.:80",
        "a.dev.test",
        "A.b.DEV.test.",
        "fqdn.test",
        "fqdn.test.",
    ] {
        for request in [
            format!("GET /a HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
            format!("GET http://{host}/a HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n"),
            format!("GET /a HTTP/1.0\r\nHost: {host}\r\n\r\n"),
        ] {
            let statuses: Vec<u16> =
                stand.exchange(request.as_bytes()).answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, [403], "{request:?}");
        }
    }
    for host in ["admin.test.other", "xadmin.test", "admin.test..", "other.test"] {
        let request = format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stand.passed(request, &account_text("GET", "/a", host, ""));
    }
    stand.end();
}
