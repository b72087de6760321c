//! Oracle of a client of HTTP/2 that sends any bytes behind a good start of the connection, through a whole
//! gateway. The node receives well-formed requests of HTTP/1 only, the client well-formed frames only, each
//! stream at most one response that ends once, and no resource is left over.

use std::collections::BTreeMap;

use super::exchange_script::{PLAIN_ANSWER, progress};
use super::oracle::{self, End};
use super::stage::{self, Act, Answer, Script};
use super::steering::steering;

/// Preface and an empty SETTINGS frame.
const START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The largest payload of a frame that the gateway may send before the client allows more (RFC 9113 section
/// 4.2).
const FRAME_BYTES_MAX: usize = 16_384;
/// The largest payload that a client can allow.
const FRAME_BYTES_ALLOWED_MAX: usize = (1 << 24) - 1;
/// Nanoseconds between two pieces: longer than a piece takes to arrive, so that each piece is read alone.
const CUT_NS: u64 = 45_000;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The input is three steering bytes, as for the target `http2`, and the client's frames.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let input = steering.input;
    let [first, second] = steering.cuts;
    for pieces in [vec![input], vec![&input[..first], &input[first..second], &input[second..]]] {
        judge(&script(steering.switches, &pieces));
    }
}

fn script(switches: u8, pieces: &[&[u8]]) -> Script {
    let mut client = vec![Act::Send(START.to_vec())];
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        client.push(Act::Send(piece.to_vec()));
        client.push(Act::Wait(CUT_NS));
    }
    client.push(match switches >> 6 {
        0 => Act::Shut,
        1 => Act::Reset,
        // The gateway ends the connection.
        _ => Act::Wait(CUT_NS),
    });
    Script {
        seed: u64::from(switches),
        upgrades: switches & 0x20 != 0,
        client,
        answers: Vec::new(),
        last: Answer { early: switches & 0x10 != 0, acts: vec![Act::Send(PLAIN_ANSWER.to_vec())] },
        progress,
    }
}

fn judge(script: &Script) {
    let account = stage::play(script);
    assert!(account.faults.is_empty(), "{:?}", account.faults);
    for bytes in &account.connections {
        let (_, end) = oracle::read(bytes);
        let is_good = !matches!(end, End::Refused | End::Unspoken);
        // A WebSocket is accepted by no answer of this script, so that all bytes are of HTTP.
        assert!(is_good, "the node was sent {}", bytes.escape_ascii());
    }
    frames(&account.received);
}

/// How far the response of a stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Response {
    has_begun: bool,
    has_ended: bool,
    was_reset: bool,
}

/// Judges the frames that the client received. The last one may be cut by the end of the connection.
fn frames(received: &[u8]) {
    let mut streams: BTreeMap<u32, Response> = BTreeMap::new();
    let (mut rest, mut block_of, mut has_failed) = (received, None, false);
    while let Some((header, behind)) = rest.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let (kind, flags) = (header[3], header[4]);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let largest =
            if matches!(kind, HEADERS | CONTINUATION) { FRAME_BYTES_ALLOWED_MAX } else { FRAME_BYTES_MAX };
        assert!(length <= largest && kind <= CONTINUATION && stream < 1 << 31, "{header:?}");
        assert!(
            block_of.is_none_or(|block| kind == CONTINUATION && stream == block),
            "{header:?} in a block"
        );
        assert!(!has_failed, "{header:?} behind a GOAWAY with an error");
        let response = streams.entry(stream).or_default();
        match kind {
            HEADERS | DATA => {
                assert!(stream % 2 == 1, "{header:?}");
                assert!(!response.has_ended && !response.was_reset, "{header:?} behind the end");
                assert!(kind == HEADERS || response.has_begun, "{header:?} before a head");
                response.has_begun = true;
                response.has_ended = flags & END_STREAM != 0;
            }
            RST_STREAM => {
                assert!(stream % 2 == 1 && length == 4, "{header:?}");
                response.was_reset = true;
            }
            _ => {}
        }
        if matches!(kind, HEADERS | CONTINUATION) {
            block_of = (flags & END_HEADERS == 0).then_some(stream);
        }
        let Some((payload, behind)) = behind.split_at_checked(length) else { return };
        has_failed = kind == GOAWAY && payload[4..8] != [0; 4];
        rest = behind;
    }
}
