//! Cases of the differential test about chunks and their trailers. Holds no code.

use super::Case;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "chunk size line `5;a`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5;a=b`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5 ;a`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5 ;a\r\nhello\r\n0\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "chunk size line `5 `",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "chunk size line `5(tab)`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\t\r\nhello\r\n0\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "chunk size line ` 5`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `0x5`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `+5`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `-5`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5_0`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5_0\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5.`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5.\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5xyz`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5xyz\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5 5`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5 5\r\nhello\r\n0\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "chunk size line ``",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `00000000000000005`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "chunk size line `0000000000000005`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n0000000000000005\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5;a(VT)`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5;a\u{b}\r\nhello\r\n0\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "chunk size line `5;a(LF)b`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5;a(CR)b`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "chunk size line `5(NUL)`",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\0\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "LF behind a chunk size",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "LF behind chunk data",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "CR behind a chunk size",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\rhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "two other bytes behind chunk data",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "LF behind the last chunk",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "LF as the last line",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\n",
        reason: "chunks",
    },
    Case {
        name: "chunk data longer than its size",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
        reason: "",
    },
    Case {
        name: "a trailer",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
        reason: "",
    },
    Case {
        name: "a trailer without a colon",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "a trailer with a space in its name",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX T: 1\r\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "a trailer with LF",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\n\r\n",
        reason: "chunks",
    },
    Case {
        name: "the trailer Content-Length",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
        reason: "",
    },
];
