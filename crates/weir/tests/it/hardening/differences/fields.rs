//! Cases of the differential test about fields, expectations and paths. Holds no code.

use super::Case;

pub(super) const CASES: &[Case] = &[
    Case { name: "an empty field name", bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@: 1\r\n\r\n", reason: "" },
    Case {
        name: "a field without a colon",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A\r\n\r\n",
        reason: "field syntax",
    },
    Case {
        name: "a space in a field name",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X A: 1\r\n\r\n",
        reason: "",
    },
    Case {
        name: "a space before the colon",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A : 1\r\n\r\n",
        reason: "",
    },
    Case {
        name: "a space before the name",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@ X-A: 1\r\n\r\n",
        reason: "field syntax",
    },
    Case {
        name: "a folded field",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: 1\r\n 2\r\n\r\n",
        reason: "field syntax",
    },
    Case {
        name: "NUL in a value",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: a\0b\r\n\r\n",
        reason: "field syntax",
    },
    Case { name: "CR in a value", bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: a\rb\r\n\r\n", reason: "" },
    Case {
        name: "a control character in a value",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: a\u{1}b\r\n\r\n",
        reason: "field syntax",
    },
    Case {
        name: "DEL in a value",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: a\u{7f}b\r\n\r\n",
        reason: "field syntax",
    },
    Case { name: "a tab in a value", bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: a\tb\r\n\r\n", reason: "" },
    Case {
        name: "bytes beyond ASCII in a value",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: \u{e9}\r\n\r\n",
        reason: "",
    },
    Case {
        name: "bytes beyond ASCII in a name",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-\u{e9}: 1\r\n\r\n",
        reason: "field syntax",
    },
    Case {
        name: "brackets in a name",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X(A): 1\r\n\r\n",
        reason: "field syntax",
    },
    Case {
        name: "a quote in a name",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X\"A: 1\r\n\r\n",
        reason: "field syntax",
    },
    Case {
        name: "an underscore in a name",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X_A: 1\r\n\r\n",
        reason: "odd names",
    },
    Case {
        name: "a dot in a name",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X.A: 1\r\n\r\n",
        reason: "odd names",
    },
    Case {
        name: "a field twice",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@X-A: 1\r\nX-A: 2\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Connection names a field",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Connection: X-A\r\nX-A: 1\r\n\r\n",
        reason: "fields of one connection",
    },
    Case {
        name: "Connection names Cookie",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Connection: Cookie\r\nCookie: a=1\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Connection names Authorization",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Connection: Authorization\r\nAuthorization: x\r\n\r\n",
        reason: "",
    },
    Case {
        name: "Connection is no list of tokens",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Connection: a b\r\n\r\n",
        reason: "fields of one connection",
    },
    Case {
        name: "Keep-Alive",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Keep-Alive: 5\r\n\r\n",
        reason: "fields of one connection",
    },
    Case {
        name: "Proxy-Connection",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Proxy-Connection: keep-alive\r\n\r\n",
        reason: "fields of one connection",
    },
    Case {
        name: "Proxy-Authorization",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Proxy-Authorization: x\r\n\r\n",
        reason: "fields of one connection",
    },
    Case {
        name: "TE: trailers",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Connection: TE\r\nTE: trailers\r\n\r\n",
        reason: "fields of one connection",
    },
    Case {
        name: "Upgrade: h2c",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        reason: "fields of one connection",
    },
    Case {
        name: "Upgrade: websocket",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        reason: "fields of one connection",
    },
    Case {
        name: "Expect without a body",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Expect: 100-continue\r\n\r\n",
        reason: "expectations",
    },
    Case {
        name: "an unknown expectation",
        bytes: "GET /a HTTP/1.1\r\nHost: h\r\n@Expect: x\r\n\r\n",
        reason: "expectations",
    },
    Case {
        name: "Expect with a body",
        bytes: "POST /a HTTP/1.1\r\nHost: h\r\n@Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        reason: "expectations",
    },
    Case {
        name: "Expect in HTTP/1.0",
        bytes: "POST /a HTTP/1.0\r\nHost: h\r\n@Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        reason: "expectations",
    },
    Case { name: "path `//a`", bytes: "GET //a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a//b`", bytes: "GET /a//b HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/./a`", bytes: "GET /./a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/x/../a`", bytes: "GET /x/../a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case {
        name: "path `/x/%2e%2e/a`",
        bytes: "GET /x/%2e%2e/a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "paths",
    },
    Case { name: "path `/%61`", bytes: "GET /%61 HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/%7ea`", bytes: "GET /%7ea HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a%2fb`", bytes: "GET /a%2fb HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a%2Fb`", bytes: "GET /a%2Fb HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "path `/../a`", bytes: "GET /../a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/x/../../a`", bytes: "GET /x/../../a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/..;/a`", bytes: "GET /..;/a HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a;b/c`", bytes: "GET /a;b/c HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "path `/x/..%2fa`", bytes: "GET /x/..%2fa HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a\\b`", bytes: "GET /a\\b HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a%5cb`", bytes: "GET /a%5cb HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a%00b`", bytes: "GET /a%00b HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a%0ab`", bytes: "GET /a%0ab HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a%zz`", bytes: "GET /a%zz HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a%`", bytes: "GET /a% HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/%c0%ae`", bytes: "GET /%c0%ae HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case {
        name: "path `/%252e%252e/a`",
        bytes: "GET /%252e%252e/a HTTP/1.1\r\nHost: h\r\n@\r\n",
        reason: "",
    },
    Case { name: "path `/a%20b`", bytes: "GET /a%20b HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "path `/a/.`", bytes: "GET /a/. HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "paths" },
    Case { name: "path `/a?b=/../c`", bytes: "GET /a?b=/../c HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
    Case { name: "path `/a?b=%00`", bytes: "GET /a?b=%00 HTTP/1.1\r\nHost: h\r\n@\r\n", reason: "" },
];
