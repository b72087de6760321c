//! Oracle of an upgraded connection: after the upgrade request, the node receives the bytes of the client and
//! the client those of the node, unchanged.

use super::exchange_answers::{self, Reading};
use super::oracle::Reader;
use super::stage::{Account, Act, Answer, Progress, Script};

/// A wait in nanoseconds; all such waits of one script together stay far below the timeouts of a tunnel.
const SHORT_WAIT_NS: u64 = 100_000_000;

/// A tunnel at the node.
pub struct Tunnel {
    /// The number of its connection.
    pub connection: usize,
    /// The number of the arrival that was answered with 101.
    pub arrival: usize,
    /// The offset of the tunnel in the bytes of the connection.
    pub start: usize,
}

/// The last tunnel of the node. An earlier 101 may have been lost on its way, and bytes inside a tunnel that
/// look like a request may be answered with 101 too.
pub fn at_node(account: &Account, progress: fn(&[u8]) -> Progress) -> Option<Tunnel> {
    let switches = |number: &usize| {
        let answer = exchange_answers::read(&account.arrivals[*number].answer, "GET", false);
        matches!(answer, Reading::Whole(answer) if answer.status == 101)
    };
    let last = (0..account.arrivals.len()).rfind(switches)?;
    let connection = account.arrivals[last].connection;
    let on_connection = |number: &usize| account.arrivals[*number].connection == connection;
    let arrival = (0..=last).filter(on_connection).find(switches)?;
    let start = account.arrivals[arrival].start;
    let Progress::Whole(bytes) = progress(&account.connections[connection][start..]) else { return None };
    Some(Tunnel { connection, arrival, start: start + bytes })
}

impl Tunnel {
    /// Asserts that each side received a prefix of the other side's bytes, and all of them if neither side
    /// ended the tunnel. The client's bytes begin after its first `requests` requests; `received` is the end
    /// of the client.
    pub fn judge(&self, account: &Account, script: &Script, requests: usize, received: &[u8]) {
        let to_node = behind_requests(&account.sent, requests);
        let at_node = &account.connections[self.connection][self.start..];
        let to_client = self.sent_by_node(account);
        let shown = |got: &[u8], sent: &[u8]| format!("{} of {}", got.escape_ascii(), sent.escape_ascii());
        assert!(to_node.starts_with(at_node), "the node got {} through the tunnel", shown(at_node, to_node));
        assert!(
            to_client.starts_with(received),
            "the client got {} through the tunnel",
            shown(received, &to_client)
        );
        if stays(script) {
            assert!(to_node == at_node, "the node got only {} through the tunnel", shown(at_node, to_node));
            assert!(
                to_client == received,
                "the client got only {} through the tunnel",
                shown(received, &to_client)
            );
        }
    }

    /// The bytes of the node after its 101.
    fn sent_by_node(&self, account: &Account) -> Vec<u8> {
        let arrivals = account.arrivals[self.arrival..].iter();
        let of_tunnel = arrivals.filter(|arrival| arrival.connection == self.connection);
        let bytes: Vec<u8> = of_tunnel.flat_map(|arrival| arrival.answer.iter().copied()).collect();
        match exchange_answers::read(&bytes, "GET", false) {
            Reading::Whole(answer) => bytes[answer.taken_bytes..].to_vec(),
            other => panic!("no 101: {other:?}"),
        }
    }
}

/// The bytes of the client after its first `count` requests.
pub fn behind_requests(bytes: &[u8], count: usize) -> &[u8] {
    let mut reader = Reader { rest: bytes };
    for number in 0..count {
        assert!(
            reader.message().is_ok(),
            "request {number} is not whole, and the connection went on behind it"
        );
    }
    reader.rest
}

/// Whether neither side ends the tunnel or waits for long.
fn stays(script: &Script) -> bool {
    let goes_on = |act: &Act| match act {
        Act::Send(_) => true,
        Act::Wait(wait_ns) => *wait_ns < SHORT_WAIT_NS,
        Act::Shut | Act::Close | Act::Reset => false,
    };
    let of_node = |answer: &Answer| answer.acts.iter().all(goes_on);
    script.client.iter().all(goes_on) && script.answers.iter().all(of_node)
}
