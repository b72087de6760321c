//! Cases of the differential test about request lines, targets and hosts. Holds no code.

use super::Case;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "an empty line before the request",
        bytes: "\r\nGET /a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "",
    },
    Case {
        name: "two empty lines before the request",
        bytes: "\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "lines",
    },
    Case {
        name: "a bare LF before the request",
        bytes: "\nGET /a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "lines",
    },
    Case { name: "a space before the method", bytes: " GET /a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case {
        name: "two spaces behind the method",
        bytes: "GET  /a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "lines",
    },
    Case {
        name: "two spaces behind the target",
        bytes: "GET /a  HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "lines",
    },
    Case {
        name: "a space at the end of the request line",
        bytes: "GET /a HTTP/1.1 \r\nHost: h\r\n@\r\n",
        reason: "lines",
    },
    Case { name: "a tab behind the method", bytes: "GET\t/a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "lines" },
    Case { name: "a space in the target", bytes: "GET /a b HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "a lower-case version", bytes: "GET /a http/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "HTTP/1.2", bytes: "GET /a HTTP/1.2\r\nHost: h\r\n@\r\n", reason: "versions" },
    Case { name: "HTTP/2.0", bytes: "GET /a HTTP/2.0\r\nHost: h\r\n@\r\n", reason: "versions" },
    Case { name: "HTTP/01.1", bytes: "GET /a HTTP/01.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "HTTP/1.01", bytes: "GET /a HTTP/1.01\r\nHost: h\r\n@\r\n", reason: "versions" },
    Case { name: "no version", bytes: "GET /a\r\nHost: h\r\n@\r\n", reason: "versions" },
    Case {
        name: "a lower-case method",
        bytes: "get /a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "methods and targets",
    },
    Case { name: "an unknown method", bytes: "BREW /a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "a method that is no token", bytes: "G(T /a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "a target without a slash", bytes: "GET a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "a target in authority form", bytes: "GET h:80 HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "GET *", bytes: "GET * HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "methods and targets" },
    Case {
        name: "OPTIONS *",
        bytes: "OPTIONS * HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "methods and targets",
    },
    Case {
        name: "CONNECT",
        bytes: "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "methods and targets",
    },
    Case { name: "TRACE", bytes: "TRACE /a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "methods and targets" },
    Case {
        name: "a fragment",
        bytes: "GET /a#b HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "methods and targets",
    },
    Case {
        name: "a raw byte beyond ASCII in the target",
        bytes: "GET /\u{e9} HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "methods and targets",
    },
    Case { name: "NUL in the target", bytes: "GET /a\0b HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "DEL in the target", bytes: "GET /a\u{7f} HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case {
        name: "a target with quotes and brackets",
        bytes: "GET /a?b=\"<>[]{}|^` HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "",
    },
    Case {
        name: "LF instead of CRLF everywhere",
        bytes: "GET /a HTTP/1.1\nHost: h\nX-A: 1\n@\n",
        reason: "lines",
    },
    Case { name: "LF behind the request line", bytes: "GET /a HTTP/1.1\nHost: h\r\n@\r\n", reason: "lines" },
    Case {
        name: "LF behind a field",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: 1\nX-B: 2\r\n\r\n",
        reason: "lines",
    },
    Case { name: "LF as the empty line", bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@\n", reason: "lines" },
    Case {
        name: "an absolute target",
        bytes: "GET http://h/a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "an absolute target that contradicts Host",
        bytes: "GET http://t/a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "an absolute target without a path",
        bytes: "GET http://t HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "an absolute https target",
        bytes: "GET https://t/a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "an absolute target with a user",
        bytes: "GET http://u@t/a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "",
    },
    Case {
        name: "an absolute target with another scheme",
        bytes: "GET ftp://t/a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "an absolute target without a host",
        bytes: "GET http:///a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case { name: "no Host", bytes: "GET /a HTTP/1.1\r\n@\r\n", reason: "hosts and absolute targets" },
    Case {
        name: "Host twice, different",
        bytes: "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n@\r\n",
        reason: "",
    },
    Case {
        name: "Host twice, the same",
        bytes: "GET /a HTTP/1.1\r\nHost: a\r\nHost: a\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "an empty Host",
        bytes: "GET /a HTTP/1.1\r\nHost:\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case { name: "Host with a user", bytes: "GET /a HTTP/1.1\r\nHost: u@h\r\n@\r\n", reason: "" },
    Case {
        name: "Host with a path",
        bytes: "GET /a HTTP/1.1\r\nHost: h/a\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host with a list",
        bytes: "GET /a HTTP/1.1\r\nHost: a, b\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host with a space",
        bytes: "GET /a HTTP/1.1\r\nHost: a b\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host with half a bracket",
        bytes: "GET /a HTTP/1.1\r\nHost: [::1\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host with a word as port",
        bytes: "GET /a HTTP/1.1\r\nHost: h:port\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host with port 99999",
        bytes: "GET /a HTTP/1.1\r\nHost: h:99999\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host with an empty port",
        bytes: "GET /a HTTP/1.1\r\nHost: h:\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host in capitals with a port",
        bytes: "GET /a HTTP/1.1\r\nHost: H.Example:8080\r\n@\r\n",
        reason: "",
    },
    Case {
        name: "Host with a dot at its end",
        bytes: "GET /a HTTP/1.1\r\nHost: h.\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host with a raw byte beyond ASCII",
        bytes: "GET /a HTTP/1.1\r\nHost: \u{e9}\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "Host folded",
        bytes: "GET /a HTTP/1.1\r\nHost:\r\n h\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
    Case {
        name: "no Host in HTTP/1.0",
        bytes: "GET /a HTTP/1.0\r\n@\r\n",
        reason: "hosts and absolute targets",
    },
];
