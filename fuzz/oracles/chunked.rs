//! What must hold of the chunked decoder, whatever bytes it is shown.

use http1::chunked::{ChunkError, Decoder, Piece};
use http1::{Limits, encode};

use super::naive_head::{self, Field};
use super::steering::steering;

/// A message that ended: its data, its trailers, how many bytes it took.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    data: Vec<u8>,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    taken_bytes: usize,
}

/// The input is a body behind three steering bytes; the first switch takes data in halves.
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

/// Feeds the input in pieces that end at the cuts, and counts steps: there may be no more than the input explains.
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
            // A step ends a piece or has taken a byte of data at least.
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

/// The message at the start of `input`, read line by line; none when it is malformed or does not end.
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

/// Takes the next line off; CRLF ends it, and no CR or LF may stand before.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let (line, behind) = rest.split_at(end);
    *rest = behind.strip_prefix(b"\r\n")?;
    Some(line)
}

/// What is encoded is decoded as the same.
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

/// Short chunks, so that there are several.
const CHUNK_BYTES: usize = 17;
/// Fields that a trailer section must not carry (RFC 9110 section 6.5.1) and that this program knows.
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
