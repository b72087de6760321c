//! What must hold of a connection that was switched to another protocol: behind the request that asked for it, the node
//! gets the client's bytes and the client the node's, as they were sent. It refuses to know what they mean.

use super::exchange_answers::{self, Reading};
use super::oracle::Reader;
use super::stage::{Account, Act, Answer, Progress, Script};

/// A wait that no timeout of a tunnel is near, however many of them there are in one script, in nanoseconds.
const SHORT_WAIT_NS: u64 = 100_000_000;

/// A tunnel as the node knows it.
pub struct Tunnel {
    /// The number of its connection.
    pub connection: usize,
    /// The number of the arrival that was answered with 101.
    pub arrival: usize,
    /// Where in the connection's bytes the tunnel begins.
    pub start: usize,
}

/// The tunnel that the node agreed to last: an earlier one may have been lost on its way, and what looks like a request
/// inside a tunnel may be answered with 101 as well.
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
    /// Asserts that both sides got what the other sent, behind the client's first `requests` requests and in `received`,
    /// and all of it where nobody ended the tunnel.
    pub fn judge(&self, account: &Account, script: &Script, requests: usize, received: &[u8]) {
        let to_node = behind_requests(&account.sent, requests);
        let at_node = &account.connections[self.connection][self.start..];
        let to_client = self.sent_by_node(account);
        let told = |got: &[u8], sent: &[u8]| format!("{} of {}", got.escape_ascii(), sent.escape_ascii());
        assert!(to_node.starts_with(at_node), "the node got {} through the tunnel", told(at_node, to_node));
        assert!(
            to_client.starts_with(received),
            "the client got {} through the tunnel",
            told(received, &to_client)
        );
        if stays(script) {
            assert!(to_node == at_node, "the node got only {} through the tunnel", told(at_node, to_node));
            assert!(
                to_client == received,
                "the client got only {} through the tunnel",
                told(received, &to_client)
            );
        }
    }

    /// What the node sent behind its 101.
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

/// The client's bytes behind its first `count` requests.
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

/// Whether both sides leave it to the gateway to end the tunnel, and do not keep it waiting.
fn stays(script: &Script) -> bool {
    let goes_on = |act: &Act| match act {
        Act::Send(_) => true,
        Act::Wait(wait_ns) => *wait_ns < SHORT_WAIT_NS,
        Act::Shut | Act::Close | Act::Reset => false,
    };
    let of_node = |answer: &Answer| answer.acts.iter().all(goes_on);
    script.client.iter().all(goes_on) && script.answers.iter().all(of_node)
}
