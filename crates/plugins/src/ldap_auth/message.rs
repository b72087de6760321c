//! The messages of LDAP that a simple bind needs (RFC 4511 sections 4.2 and 4.3), in the basic encoding
//! rules: each element is a tag, a length and a content. It reads and writes no stream.

/// The longest message that is read. The response to a bind is a code and perhaps a sentence.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 * 1024;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
/// `[APPLICATION 0]` of bind requests.
const BIND_REQUEST: u8 = 0x60;
/// `[APPLICATION 1]` of bind responses.
const BIND_RESPONSE: u8 = 0x61;
/// `[0]` of the simple authentication in a bind request.
const SIMPLE: u8 = 0x80;
/// The only version of the protocol in use.
const VERSION: u8 = 3;
/// The largest id of a message (RFC 4511 section 4.1.1).
pub(super) const MESSAGE_ID_MAX: u32 = i32::MAX as u32;

/// The message `id` of a bind as `name` with `password`.
pub(super) fn bind_request(id: u32, name: &str, password: &[u8]) -> Vec<u8> {
    let mut bind = element(INTEGER, &[VERSION]);
    bind.extend(element(OCTET_STRING, name.as_bytes()));
    bind.extend(element(SIMPLE, password));
    let bytes = id.to_be_bytes();
    // The shortest form; a first bit that is set would make the number negative.
    let first = (0..3).find(|at| bytes[*at] != 0 || bytes[at + 1] >= 0x80).unwrap_or(3);
    let mut message = element(INTEGER, &bytes[first..]);
    message.extend(element(BIND_REQUEST, &bind));
    element(SEQUENCE, &message)
}

/// The result code at the beginning of `received`, and the length of its message; none while bytes are
/// missing. It answers the message `id`.
///
/// # Errors
/// The bytes are no response to this bind, in words.
pub(super) fn bind_result(id: u32, received: &[u8]) -> Result<Option<(u32, usize)>, &'static str> {
    if received.first().is_some_and(|tag| *tag != SEQUENCE) {
        return Err("the answer is no LDAP message");
    }
    let Some((_, message, rest)) = split(received)? else {
        return Ok(None);
    };
    let whole = received.len() - rest.len();
    let (answered, operation) = expect(message, INTEGER)?;
    if integer(answered)? != id {
        return Err("the answer belongs to another request");
    }
    let (response, _controls) = expect(operation, BIND_RESPONSE)?;
    let (code, rest) = expect(response, ENUMERATED)?;
    let (_matched, rest) = expect(rest, OCTET_STRING)?;
    let (_text, _referral) = expect(rest, OCTET_STRING)?;
    Ok(Some((integer(code)?, whole)))
}

/// One element.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short @ ..0x80) => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let significant = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(0)..];
            // At most eight bytes.
            out.push(0x80 | significant.len() as u8);
            out.extend_from_slice(significant);
        }
    }
    out.extend_from_slice(content);
    out
}

/// The tag and content of the first element, and the bytes after it.
type Split<'b> = (u8, &'b [u8], &'b [u8]);

/// Splits the first element off; none while bytes are missing.
fn split(bytes: &[u8]) -> Result<Option<Split<'_>>, &'static str> {
    let (Some(&tag), Some(&first)) = (bytes.first(), bytes.get(1)) else { return Ok(None) };
    let (length, start) = match first {
        // LDAP allows only the definite form (RFC 4511 section 5.1), and four bytes say any length that is
        // accepted.
        0x80 | 0x85.. => return Err("a length of the answer has a form that LDAP does not allow"),
        0x81..=0x84 => {
            let start = 2 + usize::from(first & 0x7f);
            let Some(length) = bytes.get(2..start) else { return Ok(None) };
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), start)
        }
        short => (usize::from(short), 2),
    };
    if length > MESSAGE_BYTES_MAX {
        return Err("the answer is longer than 64 KiB");
    }
    let content = bytes.get(start..start + length);
    Ok(content.map(|content| (tag, content, &bytes[start + length..])))
}

/// The content of the first element, which has to have this tag, and the bytes after it.
fn expect(bytes: &[u8], tag: u8) -> Result<(&[u8], &[u8]), &'static str> {
    match split(bytes)? {
        Some((found, content, rest)) if found == tag => Ok((content, rest)),
        Some(_) => Err("the answer is no response to a bind"),
        None => Err("an element of the answer is longer than the message"),
    }
}

/// A number from 0 on.
fn integer(content: &[u8]) -> Result<u32, &'static str> {
    match content {
        [first, ..] if content.len() <= 4 && *first < 0x80 => {
            Ok(content.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
        }
        _ => Err("a number of the answer is out of range"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response as servers write it: code, matched name, text.
    fn response(id: u8, code: u8, text: &str) -> Vec<u8> {
        let mut result = element(ENUMERATED, &[code]);
        result.extend(element(OCTET_STRING, b""));
        result.extend(element(OCTET_STRING, text.as_bytes()));
        let mut message = element(INTEGER, &[id]);
        message.extend(element(BIND_RESPONSE, &result));
        element(SEQUENCE, &message)
    }

    #[test]
    fn request_has_the_bytes_of_the_standard() {
        let expected = b"\x30\x13\x02\x01\x01\x60\x0e\x02\x01\x03\x04\x04cn=a\x80\x03pwd";
        assert_eq!(bind_request(1, "cn=a", b"pwd"), expected);
        let long = bind_request(1, "cn=a", &[b'x'; 300]);
        assert_eq!(&long[..4], b"\x30\x82\x01\x40");
        assert_eq!(&long[20..24], b"\x80\x82\x01\x2c");
        assert_eq!(long.len(), 4 + 0x140);
    }

    #[test]
    fn ids_have_their_shortest_form_and_count() {
        let check = |id: u32, expected: &[u8]| {
            let request = bind_request(id, "cn=a", b"pwd");
            assert_eq!(
                &request[2..4 + expected.len()],
                [&[INTEGER, expected.len() as u8], expected].concat()
            );
        };
        check(1, &[1]);
        check(127, &[127]);
        check(128, &[0, 128]);
        check(0x1234, &[0x12, 0x34]);
        check(0x0080_0000, &[0, 0x80, 0, 0]);
        check(MESSAGE_ID_MAX, &[0x7f, 0xff, 0xff, 0xff]);
        let success = response(7, 0, "");
        assert_eq!(bind_result(7, &success), Ok(Some((0, success.len()))));
        for other in [1, 6, 8] {
            assert!(bind_result(other, &success).is_err(), "{other}");
        }
    }

    #[test]
    fn responses_are_read_or_refused() {
        let success = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
        assert_eq!(bind_result(1, success), Ok(Some((0, success.len()))));
        let refused = response(1, 49, &"x".repeat(1_000));
        assert_eq!(bind_result(1, &refused), Ok(Some((49, refused.len()))));
        for length in 0..refused.len() {
            assert_eq!(bind_result(1, &refused[..length]), Ok(None), "{length}");
        }
        let mut more = refused.clone();
        more.extend_from_slice(b"more");
        assert_eq!(bind_result(1, &more), Ok(Some((49, refused.len()))));
        let long_lengths =
            b"\x30\x84\x00\x00\x00\x10\x02\x01\x01\x61\x84\x00\x00\x00\x07\x0a\x01\x00\x04\x00\x04\x00";
        assert_eq!(bind_result(1, long_lengths).unwrap(), Some((0, long_lengths.len())));
        let faults: [&[u8]; 8] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"\x30\x80",
            b"\x30\x84\x7f\xff\xff\xff",
            b"\x30\x85\x00\x00\x00\x00\x01",
            b"\x30\x03\x02\x01\x01",
            b"\x30\x0c\x02\x01\x01\x61\x7f\x0a\x01\x00\x04\x00\x04\x00",
            b"\x30\x0c\x02\x01\x01\x65\x07\x0a\x01\x00\x04\x00\x04\x00",
            b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x80\x04\x00\x04\x00",
        ];
        for fault in faults {
            assert!(bind_result(1, fault).is_err(), "{fault:x?}");
        }
        // The notice of disconnection has the id 0.
        assert!(bind_result(1, &response(0, 0, "")).is_err());
    }

    /// Flips, cuts and inserts bytes of responses at random: none is read as a success that was none, and
    /// none panics.
    #[test]
    fn mangled_refusal_never_becomes_a_success() {
        let refused = response(1, 49, "invalid credentials");
        // The byte of the code: a change of it alone is another code, perhaps that of success.
        let code = refused.windows(3).position(|bytes| bytes == [ENUMERATED, 1, 49]).unwrap() + 2;
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200_000 {
            let mut bytes = refused.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                match random.u8(..3) {
                    0 if at != code => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at.max(1)),
                    _ if at > code => bytes.insert(at, random.u8(..)),
                    _ => {}
                }
            }
            if let Ok(Some((read, length))) = bind_result(1, &bytes) {
                assert!(length <= bytes.len(), "{bytes:x?}");
                assert_ne!(read, 0, "{bytes:x?}");
            }
        }
        for _ in 0..200_000 {
            let length = random.usize(..40);
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
            let _ = bind_result(1, &bytes);
        }
    }
}
