//! Both ends of a tunnel: each sends bytes that name their request, closes its sending side, and checks the
//! bytes of the other.

use std::rc::Rc;

use super::ledger::{Excuse, Ledger};
use super::node::Node;
use super::pattern::Whose;
use super::plan::Plant;
use super::wire::{Broken, Peer};
use net::env::memory::{Random, note, sleep_ns};

/// Longest pause inside a tunnel, in nanoseconds: long enough for configuration changes to happen meanwhile.
const PAUSE_NS: u64 = 150_000_000;

/// Number of bytes that pass each way through the tunnel of a request; derived from its number, so that both
/// ends know them.
pub(crate) fn bytes_of(id: u64) -> (u64, u64) {
    let mut random = Random::new(id);
    (random.below(4_000), random.below(20_000))
}

/// Plays the node's end: accepts the upgrade, sends and checks.
pub(crate) async fn at_node(node: &Rc<Node>, peer: &mut Peer, id: u64, random: &mut Random) {
    let (up_bytes, down_bytes) = bytes_of(id);
    let execution = node.ledger.execute(id, 101, down_bytes);
    let head = format!(
        "HTTP/1.1 101 Switching\r\nX-Id: {id}\r\nX-Execution: {execution}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    let mut bytes = Whose::Down(id).bytes(0, down_bytes);
    if node.plan.planted == Some(Plant::TunnelByte)
        && let Some(byte) = bytes.last_mut()
    {
        *byte ^= 1;
    }
    // Some nodes send the first bytes together with the 101.
    let ahead = if random.chance(30) { bytes.len() / 2 } else { 0 };
    let mut first = head.into_bytes();
    first.extend(&bytes[..ahead]);
    let mut breaks = None;
    if random.chance(node.plan.faults.node) {
        node.ledger.excuse(id, Excuse::Node);
        breaks = Some(random.below(down_bytes + 1));
    }
    if breaks.is_none() {
        node.ledger.will_be_whole(id, execution);
    }
    if peer.write_listening(&first, false).await == first.len() {
        let outcome = speak(peer, &bytes[ahead..], breaks, random).await;
        if let Some(got) = outcome {
            judge(&node.ledger, id, "node", Whose::Up(id), up_bytes, &got);
        }
    }
    if breaks.is_some() {
        peer.stream.reset_on_close();
    }
}

/// Plays the client's end of an established tunnel.
pub(crate) async fn at_client(
    ledger: &Ledger,
    peer: &mut Peer,
    id: u64,
    gives_up: bool,
    random: &mut Random,
) -> Got {
    let (up_bytes, down_bytes) = bytes_of(id);
    let breaks = gives_up.then(|| random.below(up_bytes + 1));
    let got = speak(peer, &Whose::Up(id).bytes(0, up_bytes), breaks, random).await;
    let got = got.unwrap_or(Got { bytes: Vec::new(), end: Err(Broken::Reset) });
    if breaks.is_some() {
        peer.stream.reset_on_close();
    } else {
        judge(ledger, id, "client", Whose::Down(id), down_bytes, &got);
    }
    got
}

/// The bytes that one end received and how the stream ended.
pub(crate) struct Got {
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: Result<(), Broken>,
}

/// Sends `bytes` with pauses, closes the sending side, and reads to the end. Breaks off after `breaks` bytes,
/// if given, and then returns `None`.
async fn speak(peer: &mut Peer, bytes: &[u8], breaks: Option<u64>, random: &mut Random) -> Option<Got> {
    let end = breaks.map_or(bytes.len(), |breaks| bytes.len().min(breaks as usize));
    let mut sent = 0;
    while sent < end {
        let until = end.min(sent + 1 + random.below(end as u64) as usize);
        let count = peer.write_listening(&bytes[sent..until], false).await;
        sent += count;
        if sent < until {
            break;
        }
        sleep_ns(random.below(PAUSE_NS)).await;
    }
    if breaks.is_some() {
        return None;
    }
    // A failed shutdown needs no report, because the reads below see the same end or reset.
    let _ = peer.shut().await;
    let end = loop {
        match peer.fill().await {
            Ok(()) => {}
            Err(Broken::End) => break Ok(()),
            Err(broken) => break Err(broken),
        }
    };
    Some(Got { bytes: peer.take_held(), end })
}

fn judge(ledger: &Ledger, id: u64, side: &str, whose: Whose, bytes: u64, got: &Got) {
    note(|| format!("tunnel {id}: the {side} got {} of {bytes} bytes, {:?}", got.bytes.len(), got.end));
    if !whose.is_at(0, &got.bytes) || got.bytes.len() as u64 > bytes {
        ledger.violation(format!("the {side} of tunnel {id} got bytes that are not its own"));
    }
    let whole = got.bytes.len() as u64 == bytes && got.end.is_ok();
    if !whole && !ledger.may_be_cut(id) {
        ledger.violation(format!("the {side} of tunnel {id} got {} of {bytes} bytes", got.bytes.len()));
    }
}
