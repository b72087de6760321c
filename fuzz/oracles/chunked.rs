//! Oracle of the decoder of the chunked coding, for any bytes.

use http1::chunked::{ChunkError, Decoder, Piece};
use http1::{Limits, encode};

use super::naive_head::{self, Field};
use super::steering::steering;

/// A complete message: its data, its trailers, and the number of consumed bytes.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    data: Vec<u8>,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    taken_bytes: usize,
}

/// The input is three steering bytes and a body. With the first switch, data is consumed in halves.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let input = steering.input;
    let halves = steering.switches & 1 != 0;
    let whole = decode(&mut Decoder::new(), input, halves, [].into_iter());
    let mut used = Decoder::new();
    let cut = decode(&mut used, input, !halves, steering.cuts.into_iter());
    assert_eq!(cut, whole, "cut at {:?}", steering.cuts);
    used.reset();
    assert_eq!(decode(&mut used, input, halves, 0..input.len()), whole, "byte by byte, in a used decoder");
    match (&whole, naive(input)) {
        (Ok(Some(message)), Some(twin)) => {
            assert_eq!(*message, twin);
            encoded(message);
        }
        (Ok(Some(_)), None) => panic!("only the decoder takes {}", input.escape_ascii()),
        (_, Some(_)) => panic!("only the twin takes {}: {whole:?}", input.escape_ascii()),
        (_, None) => {}
    }
}

/// Feeds the input in pieces that end at the cuts. Asserts that the number of steps is bounded by the input.
fn decode(
    decoder: &mut Decoder,
    input: &[u8],
    halves: bool,
    cuts: impl Iterator<Item = usize>,
) -> Result<Option<Message>, ChunkError> {
    let (mut data, mut at, mut steps, mut pieces) = (Vec::new(), 0, 0, 0);
    for cut in cuts.chain([input.len()]) {
        pieces += 1;
        loop {
            steps += 1;
            // Every step ends a piece or consumes at least one byte of data.
            assert!(steps <= pieces + input.len() + 1, "{steps} steps for {} bytes", input.len());
            let step = decoder.decode(&input[at..cut])?;
            at += step.consumed;
            assert!(at <= cut);
            match step.piece {
                Piece::Data(length) => {
                    assert!(length > 0 && at + length <= cut);
                    let used = if halves { length.div_ceil(2) } else { length };
                    data.extend_from_slice(&input[at..at + used]);
                    at += used;
                    decoder.took(used);
                }
                Piece::More => {
                    assert!(at == cut && !decoder.is_done());
                    break;
                }
                Piece::End => {
                    assert!(decoder.is_done());
                    let owned = |field: message::FieldRef<'_>| (field.name.to_vec(), field.value.to_vec());
                    let trailers = decoder.trailers().iter().map(owned).collect();
                    return Ok(Some(Message { data, trailers, taken_bytes: at }));
                }
            }
        }
    }
    Ok(None)
}

/// The message at the start of `input`, read line by line; none if it is malformed or incomplete.
fn naive(input: &[u8]) -> Option<Message> {
    let mut rest = input;
    let (mut data, mut extension_bytes) = (Vec::new(), 0);
    loop {
        let line = line(&mut rest)?;
        let size = line.split(|byte| *byte == b';').next()?;
        let extension = line.get(size.len() + 1..).unwrap_or_default();
        extension_bytes += extension.len();
        let digits = !size.is_empty() && size.len() <= 16 && size.iter().all(u8::is_ascii_hexdigit);
        if !digits
            || !message::syntax::is_field_value(extension)
            || extension_bytes > Limits::CHUNK_EXTENSION_BYTES
        {
            return None;
        }
        let size = u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        let chunk = rest.get(..usize::try_from(size).ok()?)?;
        data.extend_from_slice(chunk);
        rest = rest[chunk.len()..].strip_prefix(b"\r\n")?;
    }
    let section_start = input.len() - rest.len();
    let mut fields = Vec::new();
    loop {
        let line = line(&mut rest)?;
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        fields.push((&line[..colon], naive_head::trim(&line[colon + 1..])));
    }
    let taken_bytes = input.len() - rest.len();
    let good =
        |(name, value): &Field<'_>| message::syntax::is_token(name) && message::syntax::is_field_value(value);
    let small =
        fields.len() <= Limits::TRAILER_FIELDS && taken_bytes - section_start <= Limits::TRAILER_BYTES;
    if !small || !fields.iter().all(good) {
        return None;
    }
    let sent =
        fields.iter().filter(|(name, _)| !FORBIDDEN.iter().any(|other| name.eq_ignore_ascii_case(other)));
    let trailers = sent.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    Some(Message { data, trailers, taken_bytes })
}

/// Removes the next line. CRLF ends it; a CR or LF before that is a fault.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let (line, behind) = rest.split_at(end);
    *rest = behind.strip_prefix(b"\r\n")?;
    Some(line)
}

/// Asserts that an encoded message is decoded to the same message.
fn encoded(message: &Message) {
    let mut out = Vec::new();
    for chunk in message.data.chunks(CHUNK_BYTES) {
        encode::chunk_prefix(&mut out, chunk.len());
        out.extend_from_slice(chunk);
        out.extend_from_slice(encode::CHUNK_END);
    }
    let mut trailers = message::Headers::new();
    for (name, value) in &message.trailers {
        let name = std::str::from_utf8(name).expect("a token is text");
        trailers.append(name, value).expect("a trailer that was accepted");
    }
    encode::trailers(&mut out, &trailers);
    let again = decode(&mut Decoder::new(), &out, false, [].into_iter()).map(|again| again.expect("it ends"));
    let again = again.expect("what we encode is well-formed");
    assert_eq!((&again.data, &again.trailers), (&message.data, &message.trailers));
    assert_eq!(again.taken_bytes, out.len());
}

/// Length of an encoded chunk, short so that there are several.
const CHUNK_BYTES: usize = 17;
/// Fields that the gateway knows and that a trailer section must not have (RFC 9110 section 6.5.1).
const FORBIDDEN: [&[u8]; 36] = [
    b"Connection",
    b"Keep-Alive",
    b"Proxy-Connection",
    b"Proxy-Authenticate",
    b"Proxy-Authorization",
    b"Proxy-Authentication-Info",
    b"HTTP2-Settings",
    b"TE",
    b"Transfer-Encoding",
    b"Upgrade",
    b"Host",
    b"Content-Length",
    b"Content-Type",
    b"Content-Encoding",
    b"Content-Range",
    b"Authorization",
    b"WWW-Authenticate",
    b"Cookie",
    b"Set-Cookie",
    b"Trailer",
    b"Expect",
    b"Cache-Control",
    b"Range",
    b"If-Match",
    b"If-None-Match",
    b"If-Modified-Since",
    b"Forwarded",
    b"X-Forwarded-For",
    b"X-Forwarded-Proto",
    b"X-Forwarded-Host",
    b"X-Forwarded-Port",
    b"X-Forwarded-Prefix",
    b"X-Real-IP",
    b"apikey",
    b"Location",
    b"Via",
];
