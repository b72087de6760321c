//! Writing heads and chunks, appended to a caller's buffer; it does not know where the bytes go.

use message::{FieldSet, Headers, Version};

/// The end of the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";
/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// The empty line that ends a head.
pub const HEAD_END: &[u8] = b"\r\n";
/// An interim answer that invites the body (RFC 9110 section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Appends `METHOD path[?query] HTTP/1.1 CRLF`. An empty but present query keeps its mark.
pub fn request_line(out: &mut Vec<u8>, method: &[u8], path: &[u8], query: Option<&[u8]>) {
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(path);
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends `HTTP/1.1 status reason CRLF`. An intermediary states its own version, 1.1, whatever the origin's
/// (RFC 9110 section 2.5); without a reason the space before it stays (RFC 9112 section 4).
pub fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    out.extend_from_slice(Version::Http11.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// Appends every field that is sent on: not removed, not hop-by-hop.
pub fn fields(out: &mut Vec<u8>, headers: &Headers) {
    fields_except(out, headers, FieldSet::EMPTY);
}

/// As [`fields`], without those with a name in `skip`, which the caller writes in a form of its own.
pub fn fields_except(out: &mut Vec<u8>, headers: &Headers, skip: FieldSet) {
    headers.for_each_run(skip, |run| {
        out.extend_from_slice(run);
        out.extend_from_slice(b"\r\n");
    });
}

/// Appends one field line. For values the program makes itself; what a user wrote goes through
/// [`Headers::set`], which checks it.
pub fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(
        message::syntax::is_token(name.as_bytes()) && message::syntax::is_field_value(value),
        "unchecked field {name}"
    );
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field line with a number as its value.
pub fn number_field(out: &mut Vec<u8>, name: &str, value: u64) {
    field(out, name, itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the size line of a chunk of `length` bytes; `length` is not zero, which would end the body.
pub fn chunk_prefix(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "a chunk of no bytes ends the body");
    let mut digits = [0; 2 * size_of::<usize>()];
    let mut first = digits.len();
    let mut rest = length;
    loop {
        first -= 1;
        digits[first] = b"0123456789abcdef"[rest & 0xF];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
    out.extend_from_slice(b"\r\n");
}

/// Appends the last chunk, the trailer section and the empty line that ends the message.
pub fn trailers(out: &mut Vec<u8>, trailers: &Headers) {
    out.extend_from_slice(b"0\r\n");
    fields(out, trailers);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::FieldId;

    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn skipped_names_split_the_runs() {
        let mut headers = Headers::new();
        for (name, value) in [("A", "1"), ("Host", "h"), ("B", "2"), ("C", "3"), ("Date", "d")] {
            headers.append(name, value.as_bytes()).unwrap();
        }
        let skip = FieldSet::of(&[FieldId::Host, FieldId::Date]);
        check(|out| fields_except(out, &headers, skip), "A: 1\r\nB: 2\r\nC: 3\r\n");
    }

    #[test]
    fn lines() {
        check(|out| request_line(out, b"GET", b"/a", None), "GET /a HTTP/1.1\r\n");
        check(|out| request_line(out, b"PUT", b"/", Some(b"")), "PUT /? HTTP/1.1\r\n");
        check(|out| request_line(out, b"X", b"/", Some(b"a=1")), "X /?a=1 HTTP/1.1\r\n");
        check(|out| status_line(out, 200, b"OK"), "HTTP/1.1 200 OK\r\n");
        check(|out| status_line(out, 599, b""), "HTTP/1.1 599 \r\n");
        check(|out| field(out, "A", b"b"), "A: b\r\n");
        check(
            |out| number_field(out, "Content-Length", u64::MAX),
            "Content-Length: 18446744073709551615\r\n",
        );
    }

    #[test]
    fn chunks() {
        for (length, expected) in
            [(1, "1\r\n"), (15, "f\r\n"), (16, "10\r\n"), (usize::MAX, "ffffffffffffffff\r\n")]
        {
            check(|out| chunk_prefix(out, length), expected);
        }
        let mut fields = Headers::new();
        check(|out| trailers(out, &fields), "0\r\n\r\n");
        fields.append("Digest", b"x").unwrap();
        check(|out| trailers(out, &fields), "0\r\nDigest: x\r\n\r\n");
    }
}
