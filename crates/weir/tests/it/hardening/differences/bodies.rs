//! Cases of the differential test about the length of a body: lengths and codings. Holds no code.

use super::Case;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "an ordinary request",
        bytes: "GET /a?b HTTP/1.1\r\nHost: h\r\n@X-A: 1\r\n\r\n",
        reason: "",
    },
    Case {
        name: "a body with its length",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "a chunked body",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "a GET with a body",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length before Transfer-Encoding",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        reason: "framing",
    },
    Case {
        name: "Transfer-Encoding before Content-Length",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        reason: "framing",
    },
    Case {
        name: "Content-Length: 0 beside chunked, a request behind",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "framing",
    },
    Case {
        name: "Content-Length: +5",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: +5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: -5",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: -5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: 0x5",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 0x5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: 5.0",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5.0\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: 5e0",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5e0\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: 5,5",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5,5\r\n\r\nhello",
        reason: "framing",
    },
    Case {
        name: "Content-Length: 5, 5",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5, 5\r\n\r\nhello",
        reason: "framing",
    },
    Case {
        name: "Content-Length: 5 5",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5 5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: 5;",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5;\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: \"5\"",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: \"5\"\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: (empty)",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: \r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: 18446744073709551621",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 18446744073709551621\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: 0005",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 0005\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length: 5(tab)",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5\t\r\n\r\nhello",
        reason: "framing",
    },
    Case {
        name: "Content-Length twice, the same",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        reason: "framing",
    },
    Case {
        name: "Content-Length twice, different",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: Chunked",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: chunked, chunked",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: identity",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: identity, chunked",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: identity, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: gzip, chunked",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: chunked, gzip",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked, gzip\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: gzip",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: gzip\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: xchunked",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: chunked;a",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked;a\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: \"chunked\"",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: \"chunked\"\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: ,chunked",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: ,chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: chunked,",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked,\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "framing",
    },
    Case {
        name: "Transfer-Encoding: (empty)",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: \r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: (VT)chunked",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: \u{b}chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding: chunked(VT)",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\u{b}\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding twice",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding and identity on two lines",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Transfer-Encoding in HTTP/1.0",
        bytes: "POST /a HTTP/1.0\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        reason: "framing",
    },
    Case {
        name: "Content-Length, space before the colon",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length : 5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length, tab before the colon",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length\t: 5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length folded away",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@X: 1\r\n Content-Length: 5\r\n\r\nhello",
        reason: "field syntax",
    },
    Case {
        name: "Content-Length with its value folded",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length:\r\n 5\r\n\r\nhello",
        reason: "field syntax",
    },
    Case {
        name: "Content-Length with VT in the name",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length\u{b}: 5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content-Length with NUL in the name",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content-Length\0: 5\r\n\r\nhello",
        reason: "",
    },
    Case {
        name: "Content_Length",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Content_Length: 5\r\n\r\nhello",
        reason: "odd names",
    },
];
