//! What must hold of whole exchanges, whatever a client sends and a node answers, however both are cut: the node sees the
//! requests that an independent reading of the client's bytes finds, in order, or less; every answer the client gets is
//! well-formed, its own, and as whole as it says; nothing is left behind; and cutting the bytes differently changes nothing.

use super::exchange_answers::{self, Answer, Reading};
use super::exchange_script::{PLAIN_ANSWER, spelled};
use super::exchange_tunnel::{self, Tunnel, behind_requests};
use super::oracle::{self, End, Reader};
use super::stage::{self, Account, Act, Arrival, Ended, LOCAL_FIELD, Script, WITNESS_FIELD};

/// The input is an exchange as `exchange_script` spells it.
pub fn check(data: &[u8]) {
    let Some(spelled) = spelled(data) else { return };
    let one = judged(&spelled.script(false));
    let other = judged(&spelled.script(true));
    if one.is_calm && other.is_calm {
        assert_eq!(other.told, one.told, "what the client was told depends on how the bytes were cut");
        assert_eq!(other.asked, one.asked, "what the node was asked depends on how the bytes were cut");
    }
}

/// A play that was right.
struct Judged {
    /// Nobody left early, spoke out of turn or broke off, so that cuts and chance may decide nothing.
    is_calm: bool,
    /// The answers' status, maker, body and whether they were whole.
    told: Vec<(u16, bool, Vec<u8>, bool)>,
    /// The whole requests at the node.
    asked: Vec<String>,
}

/// An answer as the client got it.
struct Got {
    status: u16,
    witness: Option<String>,
    local: bool,
    body: Vec<u8>,
    whole: bool,
}

/// A request that the client's bytes hold.
struct Asked {
    account: String,
    method: String,
    /// As the witness says it.
    words: String,
}

/// An arrival at the node, with what it says if it is whole.
struct Met<'a> {
    arrival: &'a Arrival,
    account: Option<String>,
}

fn judged(script: &Script) -> Judged {
    let account = stage::play(script);
    assert!(account.faults.is_empty(), "{:?}", account.faults);
    let (messages, end) = oracle::read(&account.sent);
    let asked: Vec<Asked> = messages.iter().map(|message| Asked::new(message.account())).collect();
    let (answers, tunnel) = answers(&account, &asked);
    let tunnel = tunnel.map(|received| {
        let at_node =
            exchange_tunnel::at_node(&account, script.progress).expect("the node answered with 101");
        at_node.judge(&account, script, answers.len(), &received);
        at_node
    });
    let met = met(&account, tunnel.as_ref());
    for (number, bytes) in account.connections.iter().enumerate() {
        let start = tunnel.as_ref().filter(|tunnel| tunnel.connection == number).map(|tunnel| tunnel.start);
        let spoken = &bytes[..start.unwrap_or(bytes.len())];
        let is_good = !matches!(oracle::read(spoken).1, End::Refused | End::Unspoken);
        assert!(is_good, "the node was sent {}", spoken.escape_ascii());
    }
    assert!(answers.len() <= asked.len() + usize::from(end != End::Closed), "more answers than requests");
    for (number, answer) in answers.iter().enumerate() {
        let (Some(witness), Some(asked)) = (&answer.witness, asked.get(number)) else { continue };
        // A refused head has no words.
        assert!(
            witness.is_empty() || *witness == asked.words,
            "answer {number} is {witness}'s, not {}'s",
            asked.words
        );
    }
    assert!(
        matches(&asked, &answers, &met, account.ended == Some(Ended::InOrder)),
        "requests {:?}, answers {:?}, and at the node {:?}",
        asked.iter().map(|asked| &asked.account).collect::<Vec<_>>(),
        answers.iter().map(|answer| (answer.status, answer.local, answer.whole)).collect::<Vec<_>>(),
        met.iter()
            .map(|met| (&met.account, met.arrival.answer.escape_ascii().to_string()))
            .collect::<Vec<_>>()
    );
    let says_unspoken = answers.iter().any(|answer| answer.local && answer.status == 505);
    assert!(!says_unspoken || end == End::Unspoken, "505 where the request line is malformed or good");
    let is_calm = tunnel.is_none() && is_calm(script, &met) && !speaks_behind_its_last_request(script);
    if is_calm && script.client.iter().all(|act| matches!(act, Act::Send(_))) {
        let plain = met.iter().filter(|met| met.account.is_some() && met.arrival.answer == PLAIN_ANSWER);
        let passed = answers.iter().filter(|answer| answer.status == 200 && !answer.local && answer.whole);
        assert!(plain.count() <= passed.count(), "a plain answer to a good request was not passed on");
    }
    let told = answers.into_iter().map(|answer| {
        let body = if answer.local { Vec::new() } else { answer.body };
        (answer.status, answer.local, body, answer.whole)
    });
    Judged { is_calm, told: told.collect(), asked: met.into_iter().filter_map(|met| met.account).collect() }
}

impl Asked {
    fn new(account: String) -> Asked {
        let mut words = account.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default();
        Asked { method: method.to_owned(), words: format!("{method} {path}"), account }
    }

    /// RFC 9110 section 9.2.2.
    fn is_idempotent(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "TRACE")
    }
}

/// What looks like requests inside the tunnel is none.
fn met<'a>(account: &'a Account, tunnel: Option<&Tunnel>) -> Vec<Met<'a>> {
    let is_spoken = |arrival: &&Arrival| {
        tunnel.is_none_or(|tunnel| arrival.connection != tunnel.connection || arrival.start < tunnel.start)
    };
    let said = |arrival: &Arrival| {
        let bytes = &account.connections[arrival.connection][arrival.start..];
        let message = oracle::read(bytes).0.into_iter().next().filter(|_| arrival.whole);
        message.map(|message| message.account())
    };
    let arrivals = account.arrivals.iter().filter(is_spoken);
    arrivals.map(|arrival| Met { arrival, account: said(arrival) }).collect()
}

/// The final answers in what the client received, and what came through a tunnel behind them. Asserts that they are
/// well-formed and that nothing else came.
fn answers(account: &Account, asked: &[Asked]) -> (Vec<Got>, Option<Vec<u8>>) {
    let (mut answers, mut rest) = (Vec::new(), &account.received[..]);
    let ended = account.ended == Some(Ended::InOrder);
    while !rest.is_empty() {
        let method = method_of(rest, account, asked, answers.len());
        let (answer, whole) = match exchange_answers::read(rest, &method, ended) {
            Reading::Whole(answer) => (answer, true),
            Reading::Cut { head: Some(answer) } => (answer, false),
            Reading::Cut { head: None } => break,
            Reading::Malformed(text) => panic!("the client got {text} in {}", rest.escape_ascii()),
        };
        rest = &rest[answer.taken_bytes..];
        let got = Got {
            status: answer.status,
            witness: answer.get(&WITNESS_FIELD.to_ascii_lowercase()).map(str::to_owned),
            local: is_local(&answer),
            body: answer.body.clone(),
            whole,
        };
        answers.push(got);
        if answer.status == 101 {
            return (answers, Some(rest.to_vec()));
        }
        assert!(
            !(whole && answer.closes()) || rest.is_empty(),
            "behind the last answer: {}",
            rest.escape_ascii()
        );
        if !whole {
            break;
        }
    }
    (answers, None)
}

/// Answers that no plugin saw are the gateway's own.
fn is_local(answer: &Answer) -> bool {
    answer.get(&LOCAL_FIELD.to_ascii_lowercase()).is_some()
        || answer.get(&WITNESS_FIELD.to_ascii_lowercase()).is_none()
}

/// The method of the request that is answered next; where the request is not whole, the answer itself says. A head that
/// was refused has none but HEAD, whatever came of it afterwards: it may have been too late, and then for that, too.
fn method_of(bytes: &[u8], account: &Account, asked: &[Asked], number: usize) -> String {
    let as_head = match exchange_answers::read(bytes, "HEAD", false) {
        Reading::Whole(answer) => Some(answer),
        _ => None,
    };
    let witness = as_head.as_ref().and_then(|answer| answer.get(&WITNESS_FIELD.to_ascii_lowercase()));
    match (asked.get(number), witness) {
        (_, Some("")) => {
            let is_late = as_head.as_ref().is_some_and(|answer| answer.status == 408);
            let has_body = as_head.as_ref().is_some_and(|answer| answer.taken_bytes < bytes.len());
            let is_head = asks_for_head(behind_requests(&account.sent, number)) && !(is_late && has_body);
            if is_head { "HEAD".to_owned() } else { String::new() }
        }
        (Some(asked), _) => asked.method.clone(),
        (None, witness) => {
            witness.and_then(|words| words.split(' ').next().map(str::to_owned)).unwrap_or_default()
        }
    }
}

/// Whether a request at the front of a client's bytes is HEAD, behind the empty line that is forgiven.
fn asks_for_head(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\r\n").unwrap_or(bytes).starts_with(b"HEAD ")
}

/// Whether requests, answers and what the node met can be told as one story: in order, each request is met not at all,
/// once, or again where its work may be done twice and was not answered; and what a node's answer says is what the client
/// was told. One more request may have begun. Who does not have all that was sent may lack answers (`has_all`): it left,
/// or a reset destroyed them.
fn matches(asked: &[Asked], answers: &[Got], met: &[Met<'_>], has_all: bool) -> bool {
    let Some((next, others)) = asked.split_first() else {
        let behind = met.iter().all(|met| met.account.is_none());
        return behind
            && met.len() <= 1
            && answers.len() <= 1
            && answers.iter().all(|answer| told(answer, "", met));
    };
    let (answer, later) = (answers.first(), answers.get(1..).unwrap_or_default());
    for tries in 0..=met.len().min(TRIES_MAX) {
        let (now, rest) = met.split_at(tries);
        if now.last().is_some_and(|met| met.account.as_ref().is_some_and(|account| *account != next.account))
        {
            return false;
        }
        let again = now.len().saturating_sub(1);
        let may_repeat = now[..again].iter().all(|met| is_unseen(met.arrival));
        if again > 0
            && !(may_repeat && (next.is_idempotent() || now[..again].iter().all(|met| met.account.is_none())))
        {
            return false;
        }
        let is_told = match answer {
            Some(answer) => told(answer, &next.method, now),
            None => !has_all || rest.is_empty(),
        };
        if is_told && matches(others, later, rest, has_all) {
            return true;
        }
    }
    false
}

/// Whether the gateway may have seen nothing of an answer: there was none, or a reset destroyed it on its way.
fn is_unseen(arrival: &Arrival) -> bool {
    arrival.answer.is_empty() || arrival.closed == Some(Act::Reset)
}

/// Whether the client's answer follows from what the node, at the last try, answered.
fn told(answer: &Got, method: &str, tries: &[Met<'_>]) -> bool {
    let Some(last) = tries.last() else { return answer.local };
    if answer.local {
        return true;
    }
    let in_order = matches!(last.arrival.closed, Some(Act::Close | Act::Shut));
    match exchange_answers::read(&last.arrival.answer, method, in_order) {
        Reading::Whole(whole) => {
            whole.status == answer.status
                && if answer.whole { whole.body == answer.body } else { whole.body.starts_with(&answer.body) }
        }
        Reading::Cut { head: Some(head) } => {
            head.status == answer.status && !answer.whole && head.body.starts_with(&answer.body)
        }
        Reading::Cut { head: None } => false,
        // What comes before the fault may have been passed on; it never looks whole.
        Reading::Malformed(_) => !answer.whole,
    }
}

/// Whether nothing in it depends on who is quicker.
fn is_calm(script: &Script, met: &[Met<'_>]) -> bool {
    let leaves = |act: &Act| matches!(act, Act::Close | Act::Reset);
    let early = script.answers.iter().any(|answer| answer.early);
    let is_plain = |(number, one): (usize, &Met<'_>)| {
        let arrival = one.arrival;
        let method = one.account.as_deref().and_then(|account| account.split(' ').next()).unwrap_or_default();
        let in_order = matches!(arrival.closed, Some(Act::Close | Act::Shut));
        match exchange_answers::read(&arrival.answer, method, in_order) {
            Reading::Whole(answer) => {
                arrival.closed.is_none() || answer.closes() || answer.until_end || number + 1 == met.len()
            }
            _ => false,
        }
    };
    // It may destroy what was sent before it, or not.
    let resets = met.iter().any(|one| one.arrival.closed == Some(Act::Reset));
    !early && !resets && !script.client.iter().any(leaves) && met.iter().enumerate().all(is_plain)
}

/// Whether the client goes on where it has asked for the close, as it must not (RFC 9112 section 9.6). That resets its
/// connection, and may destroy the answer, if nothing of it had arrived before the answer was sent.
fn speaks_behind_its_last_request(script: &Script) -> bool {
    let pieces = script.client.iter().filter_map(|act| match act {
        Act::Send(bytes) => Some(&bytes[..]),
        _ => None,
    });
    let mut piece_ends = pieces.clone().scan(0, |end, piece| {
        *end += piece.len();
        Some(*end)
    });
    let bytes: Vec<u8> = pieces.flatten().copied().collect();
    let mut reader = Reader { rest: &bytes };
    let asks_for_close = std::iter::from_fn(|| reader.message().ok()).any(|(_, goes_on)| !goes_on);
    let end = bytes.len() - reader.rest.len();
    asks_for_close && end < bytes.len() && piece_ends.any(|piece_end| piece_end == end)
}

/// Arrivals of one request: a try, one more on a fresh connection, and room for a mistake to show as one.
const TRIES_MAX: usize = 3;
