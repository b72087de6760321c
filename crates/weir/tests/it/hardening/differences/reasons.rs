//! The reasons for differences between the proxies: texts of the page. Holds no code and no case.

/// The reasons by key, in the order of the page.
pub(super) const REASONS: &[(&str, &str)] = &[
    (
        "framing",
        "a length that is repeated, or a coding beside a length or in HTTP/1.0, is refused even where all \
         copies agree: a server behind may not agree (RFC 9112 sections 6.1 and 6.3 let a recipient refuse). \
         So is a list of codings that is not the one word `chunked`. White space around one number is white \
         space (RFC 9110 section 5.5).",
    ),
    (
        "chunks",
        "the syntax of chunks is taken literally: 1 to 16 digits, no white space, CRLF, trailers that \
         are fields (RFC 9112 section 7.1). Leniency here is how one reader's chunk becomes another's \
         request.",
    ),
    (
        "lines",
        "lines end in CRLF and the parts of a request line are separated by one space; at most one empty \
         line may stand before it. RFC 9112 sections 2.2 and 3 allow more and require nothing.",
    ),
    (
        "versions",
        "1.0 and 1.1 are spoken. Another version is told so with 505 (RFC 9110 section 15.6.6) instead of \
         being guessed: section 2.5 lets 1.2 be read as 1.1, but no client is known to use it. A line without a version, \
         HTTP/0.9, is refused.",
    ),
    (
        "methods and targets",
        "no tunnel and no echo for a client (RFC 9110 sections 9.3.6 and 9.3.8), no target that names no \
         resource of a gateway, no byte in a target that a URI cannot have (RFC 3986 section 2). Methods \
         are case-sensitive names, and unknown ones are passed on (RFC 9110 section 9.1).",
    ),
    (
        "hosts and absolute targets",
        "Host is there once, in HTTP/1.1, and is a host (RFC 9112 section 3.2; RFC 3986 section 3.2.2). \
         An absolute target overrules it (RFC 9112 section 3.2.2) and is passed on in origin form. \
         Without any host the field is sent empty. The dot that ends a fully qualified name is passed on \
         as sent and left out of matching.",
    ),
    (
        "field syntax",
        "names are tokens, values hold no control character, and there is no folding (RFC 9110 sections \
         5.1 and 5.5; RFC 9112 sections 5.1 and 5.2). Others drop the field or pass the byte on.",
    ),
    (
        "odd names",
        "an underscore or a dot is a character of a token (RFC 9110 section 5.6.2) and APISIX passes \
         such names on. Names that differ by `_` and `-` from a field that the gateway or a plugin writes are \
         dropped, because CGI reads both as one name.",
    ),
    (
        "fields of one connection",
        "what belongs to the client's connection stays there: Connection and what it names, Keep-Alive, \
         Proxy-*, TE, Upgrade (RFC 9110 section 7.6.1). Upgrades pass on routes that allow them.",
    ),
    (
        "expectations",
        "the gateway answers `100-continue` itself and passes no expectation on \
         ([0006](../decisions/0006-continue.md)); another one is refused with 417 (RFC 9110 section \
         10.1.1).",
    ),
    (
        "paths",
        "there is one form of a path, which is matched, logged and passed on (RFC 3986 section 6.2.2); \
         an encoded slash is matched as a slash and passed on encoded \
         ([0027](../decisions/0027-encoded-slash-is-matched.md)); \
         spellings that an origin may read as another path are refused. The others match one form here \
         and pass on another.",
    ),
];
