//! The script of an exchange, read from an input: the bytes of the client and of the node, their times, and
//! their cuts.

use super::exchange_answers::{self, Reading};
use super::stage::{Act, Answer, Progress, Script};

/// Marks inside an input. They are bytes that no head needs, so that seeds stay readable.
mod mark {
    /// A wait that is shorter than any timeout.
    pub(super) const WAIT: u8 = 0xf2;
    /// A wait that is longer than any timeout of a request or an answer.
    pub(super) const LONG_WAIT: u8 = 0xf3;
    /// The side closes its sending direction.
    pub(super) const SHUT: u8 = 0xf4;
    /// The side closes.
    pub(super) const CLOSE: u8 = 0xf5;
    /// The side resets.
    pub(super) const RESET: u8 = 0xf6;
    /// The next byte is not a mark.
    pub(super) const LITERAL: u8 = 0xf9;
    /// At the start of a response: it is sent before the body of the request was read.
    pub(super) const EARLY: u8 = 0xfa;
    /// The next part begins. The first part is the client's, each further part is a response.
    pub(super) const NEXT: u8 = 0xff;
}

/// The response of the node to requests without a part of their own.
pub const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// Limit of waits in one part; further waits are ignored because they only take time.
const WAITS_MAX: usize = 4;
/// Limit of responses; later requests get the plain one.
const ANSWERS_MAX: usize = 8;
/// Limit of cuts in one part.
const CUTS_MAX: usize = 64;
/// Nanoseconds between two pieces: longer than a piece takes to arrive, so that each piece is read alone.
const CUT_NS: u64 = 45_000;
/// The waits of clients and nodes. They and their sums differ, so that cuts cannot decide a race between
/// them.
const CLIENT_WAITS_NS: [u64; 2] = [70_000_000, 1_700_000_000];
const NODE_WAITS_NS: [u64; 2] = [45_000_000, 1_900_000_000];

/// A parsed input.
pub struct Spelled {
    switches: u8,
    seed: u8,
    piece_bytes: usize,
    cut_from: u8,
    parts: Vec<(bool, Vec<Act>)>,
}

/// Reads an input: four steering bytes, then parts. None if there are fewer than four bytes.
pub fn spelled(data: &[u8]) -> Option<Spelled> {
    let [switches, seed, piece, cut_from, rest @ ..] = data else { return None };
    let mut parts = Vec::new();
    let mut rest = rest;
    while parts.len() <= ANSWERS_MAX {
        let waits = if parts.is_empty() { CLIENT_WAITS_NS } else { NODE_WAITS_NS };
        let (part, behind) = part(rest, waits);
        parts.push(part);
        let Some(behind) = behind else { break };
        rest = behind;
    }
    let piece_bytes = 1 + usize::from(*piece) % 64;
    Some(Spelled { switches: *switches, seed: *seed, piece_bytes, cut_from: *cut_from, parts })
}

/// The first part, and the rest of the input.
fn part(input: &[u8], waits_ns: [u64; 2]) -> ((bool, Vec<Act>), Option<&[u8]>) {
    let early = input.first() == Some(&mark::EARLY);
    let mut bytes = input.iter().enumerate();
    let (mut acts, mut text, mut waits) = (Vec::new(), Vec::new(), 0);
    let mut behind = None;
    while let Some((place, byte)) = bytes.next() {
        let act = match *byte {
            mark::NEXT => {
                behind = Some(&input[place + 1..]);
                break;
            }
            mark::EARLY if place == 0 => continue,
            mark::WAIT => Act::Wait(waits_ns[0]),
            mark::LONG_WAIT => Act::Wait(waits_ns[1]),
            mark::SHUT => Act::Shut,
            mark::CLOSE => Act::Close,
            mark::RESET => Act::Reset,
            mark::LITERAL => {
                text.extend(bytes.next().map(|(_, byte)| *byte));
                continue;
            }
            other => {
                text.push(other);
                continue;
            }
        };
        if !text.is_empty() {
            acts.push(Act::Send(std::mem::take(&mut text)));
        }
        if matches!(act, Act::Wait(_)) {
            waits += 1;
        }
        if waits <= WAITS_MAX || !matches!(act, Act::Wait(_)) {
            acts.push(act);
        }
    }
    if !text.is_empty() {
        acts.push(Act::Send(text));
    }
    // Acts after a close or reset are dropped, and so are bytes after the sending side was shut down.
    if let Some(end) = acts.iter().position(|act| matches!(act, Act::Close | Act::Reset)) {
        acts.truncate(end + 1);
    }
    if let Some(shut) = acts.iter().position(|act| *act == Act::Shut) {
        let ends: Vec<Act> = acts
            .drain(shut + 1..)
            .filter(|act| matches!(act, Act::Close | Act::Reset | Act::Wait(_)))
            .collect();
        acts.extend(ends);
    }
    ((early, acts), behind)
}

impl Spelled {
    /// The script, with each part sent at once or in many pieces.
    pub fn script(&self, cut: bool) -> Script {
        let (_, client) = &self.parts[0];
        let client = if cut { self.cut(client, usize::MAX) } else { client.clone() };
        let answer = |(early, acts): &(bool, Vec<Act>)| {
            let acts = if cut { self.cut(acts, whole_bytes(acts)) } else { acts.clone() };
            Answer { early: *early, acts }
        };
        let plain = Act::Send(PLAIN_ANSWER.to_vec());
        Script {
            seed: u64::from(self.seed),
            upgrades: self.switches & 1 != 0,
            client,
            answers: self.parts[1..].iter().map(answer).collect(),
            last: Answer { early: false, acts: vec![plain] },
            progress,
        }
    }

    /// The same bytes in pieces, from a place that the input names. Bytes after the first `until` bytes are
    /// not cut, because late bytes after a response may be read as the next response.
    fn cut(&self, acts: &[Act], until: usize) -> Vec<Act> {
        let total: usize =
            acts.iter().map(|act| if let Act::Send(bytes) = act { bytes.len() } else { 0 }).sum();
        let mut from = total * usize::from(self.cut_from) / 255;
        let (mut cuts, mut sent, mut pieces) = (0, 0, Vec::new());
        for act in acts {
            let Act::Send(bytes) = act else {
                pieces.push(act.clone());
                continue;
            };
            let mut rest = &bytes[..];
            while sent.max(from) + self.piece_bytes < until.min(sent + rest.len()) && cuts < CUTS_MAX {
                let count = sent.max(from) + self.piece_bytes - sent;
                pieces.extend([Act::Send(rest[..count].to_vec()), Act::Wait(CUT_NS)]);
                (rest, sent, cuts, from) = (&rest[count..], sent + count, cuts + 1, 0);
            }
            sent += rest.len();
            pieces.push(Act::Send(rest.to_vec()));
        }
        pieces
    }
}

/// The length of a response for any method; `usize::MAX` if it is incomplete.
fn whole_bytes(acts: &[Act]) -> usize {
    let bytes: Vec<u8> = acts
        .iter()
        .flat_map(|act| if let Act::Send(bytes) = act { &bytes[..] } else { &[] })
        .copied()
        .collect();
    // The response to HEAD is the shortest.
    match exchange_answers::read(&bytes, "HEAD", false) {
        Reading::Whole(answer) => answer.taken_bytes,
        Reading::Cut { .. } | Reading::Malformed(_) => usize::MAX,
    }
}

/// The end of the first request in the stream of a node. The header fields are enough, because the gateway
/// sends one framing.
pub fn progress(bytes: &[u8]) -> Progress {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Progress::Nothing;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let value = |name: &str| {
        text.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let body = &bytes[head + 4..];
    let body_bytes = match (value("content-length"), value("transfer-encoding")) {
        (_, Some(_)) => exchange_answers::chunks(body, &mut Vec::new()).ok().flatten(),
        (Some(length), None) => length.parse().ok().filter(|length| *length <= body.len()),
        (None, None) => Some(0),
    };
    body_bytes.map_or(Progress::Head, |body_bytes| Progress::Whole(head + 4 + body_bytes))
}
