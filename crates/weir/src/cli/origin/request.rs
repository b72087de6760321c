//! The parts of a request that the echo origin uses: request line, fields and body framing. Does no I/O.

use peer::body::Body;
use peer::head::{self, UNKNOWN_CODING};

/// A request head; borrows the bytes it was read from.
#[derive(Debug)]
pub(super) struct OriginRequestHead<'a> {
    /// The method, as sent.
    pub(super) method: &'a [u8],
    /// The target, as sent.
    pub(super) target: &'a [u8],
    /// Whether it is HTTP/1.1 rather than 1.0.
    pub(super) is_1_1: bool,
    /// The field lines with their line ends, without the empty line.
    pub(super) fields: &'a [u8],
    /// The framing of the body.
    pub(super) body: Body,
    /// Whether the connection serves another request.
    pub(super) keep_alive: bool,
    /// Whether the client waits for a 100 before it sends its body.
    pub(super) expects_continue: bool,
    /// The length of the head with its empty line.
    pub(super) bytes: usize,
}

/// The head at the start of `input`, `None` while it is incomplete.
///
/// # Errors
/// The status of the response to an invalid head.
pub(super) fn parse_head(input: &[u8]) -> Result<Option<OriginRequestHead<'_>>, u16> {
    let parsed = head::parse(input, head::request_line)
        .map_err(|fault| if fault == UNKNOWN_CODING { 501_u16 } else { 400 })?;
    let Some(head) = parsed else {
        return if input.len() >= super::INPUT_BYTES { Err(431) } else { Ok(None) };
    };
    let (line, facts) = (head.line, head.facts);
    // Chunked wins over a length (RFC 9112, 6.3), so that a request that a gateway has passed on with both is
    // answered.
    let body = if facts.is_chunked { Body::CHUNKED } else { Body::of_length(facts.length.unwrap_or(0)) };
    Ok(Some(OriginRequestHead {
        method: line.method,
        target: line.target,
        is_1_1: line.is_1_1,
        fields: head.fields,
        body,
        keep_alive: facts.keeps_alive(line.is_1_1),
        expects_continue: facts.expects_continue,
        bytes: head.bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faulty_heads_have_a_status() {
        let check = |text: &str, wanted: Result<bool, u16>| {
            assert_eq!(parse_head(text.as_bytes()).map(|head| head.is_some()), wanted, "{text:?}");
        };
        check("", Ok(false));
        check("GET / HTTP/1.1\r\n\r\n", Ok(true));
        check("GET /\r\n\r\n", Err(400));
        check("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", Err(400));
        check("GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", Err(501));
        check(&"a".repeat(super::super::INPUT_BYTES), Err(431));
    }

    #[test]
    fn chunks_win_over_a_length() {
        let check = |fields: &str, body: Body| {
            let text = format!("PUT / HTTP/1.1\r\n{fields}\r\n");
            assert_eq!(parse_head(text.as_bytes()).unwrap().unwrap().body, body, "{fields}");
        };
        check("", Body::WHOLE);
        check("Content-Length: 0\r\n", Body::WHOLE);
        check("Content-Length: 3\r\n", Body::of_length(3));
        check("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", Body::CHUNKED);
    }
}
