//! Oracle of whole exchanges, for any bytes of the client and the node and any cuts. The node receives the
//! requests that an independent reading of the client's bytes finds, in order, or fewer. Every response to
//! the client is well-formed, belongs to its request, and looks complete only if it is. No resource is left
//! over. Other cuts of the same bytes give the same result.

use super::exchange_answers::{self, Answer, Reading};
use super::exchange_script::{PLAIN_ANSWER, spelled};
use super::exchange_tunnel::{self, Tunnel, behind_requests};
use super::lenient_answers;
use super::oracle::{self, End, Reader};
use super::stage::{self, Account, Act, Arrival, Ended, LOCAL_FIELD, Script, WITNESS_FIELD};

/// The input is an exchange in the notation of `exchange_script`.
pub fn check(data: &[u8]) {
    let Some(spelled) = spelled(data) else { return };
    let one = judged(&spelled.script(false));
    let other = judged(&spelled.script(true));
    if one.is_calm && other.is_calm {
        assert_eq!(other.responses, one.responses, "the responses depend on the cuts");
        assert_eq!(other.asked, one.asked, "the requests at the node depend on the cuts");
    }
}

/// The result of a run that passed.
struct Judged {
    /// No side closed early, sent out of turn or stopped in the middle, so that neither cuts nor the seed may
    /// change the result.
    is_calm: bool,
    /// Of each response: the status, whether it is a local reply, the body, and whether it is complete.
    responses: Vec<(u16, bool, Vec<u8>, bool)>,
    /// The complete requests at the node.
    asked: Vec<String>,
}

/// A response that the client received.
struct Received {
    status: u16,
    witness: Option<String>,
    local: bool,
    body: Vec<u8>,
    whole: bool,
}

/// A request in the client's bytes.
struct Asked {
    account: String,
    method: String,
    /// Method and path, as in the witness field.
    words: String,
}

/// An arrival at the node; with the account of its request if that is complete.
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
        // The witness of a refused head is empty.
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
    let is_calm = tunnel.is_none() && is_calm(script, &met) && !sends_after_its_last_request(script);
    if is_calm && script.client.iter().all(|act| matches!(act, Act::Send(_))) {
        let plain = met.iter().filter(|met| met.account.is_some() && met.arrival.answer == PLAIN_ANSWER);
        let passed = answers.iter().filter(|answer| answer.status == 200 && !answer.local && answer.whole);
        assert!(plain.count() <= passed.count(), "a plain answer to a good request was not passed on");
    }
    let responses = answers.into_iter().map(|answer| {
        let body = if answer.local { Vec::new() } else { answer.body };
        (answer.status, answer.local, body, answer.whole)
    });
    Judged {
        is_calm,
        responses: responses.collect(),
        asked: met.into_iter().filter_map(|met| met.account).collect(),
    }
}

impl Asked {
    fn new(account: String) -> Asked {
        let mut words = account.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default();
        Asked { method: method.to_owned(), words: format!("{method} {path}"), account }
    }

    /// Whether the method is idempotent (RFC 9110 section 9.2.2).
    fn is_idempotent(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "TRACE")
    }
}

/// The arrivals outside the tunnel, because bytes inside a tunnel may look like requests.
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

/// The final responses that the client received, and the bytes of a tunnel after them. Asserts that the
/// responses are well-formed and that no other byte was received.
fn answers(account: &Account, asked: &[Asked]) -> (Vec<Received>, Option<Vec<u8>>) {
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
        let got = Received {
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

/// Whether this is a local reply. Responses without the fields that the plugin of the stage adds are local
/// too.
fn is_local(answer: &Answer) -> bool {
    answer.get(&LOCAL_FIELD.to_ascii_lowercase()).is_some()
        || answer.get(&WITNESS_FIELD.to_ascii_lowercase()).is_none()
}

/// The method of the request that is answered next. If the request is incomplete, the witness field of the
/// response has it. A refused head counts as HEAD or as no method. A HEAD request that was refused because it
/// was late (408) may get a body.
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

/// Whether the client's bytes begin with a HEAD request, after an empty line, which is allowed.
fn asks_for_head(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\r\n").unwrap_or(bytes).starts_with(b"HEAD ")
}

/// Whether requests, responses and arrivals at the node fit together in order. Each request arrives not at
/// all, once, or again if it is idempotent and its earlier attempts were not answered; the response to the
/// client follows from that of the node. One more incomplete request may have arrived. Without `has_all`,
/// responses may be missing, because the client closed or a reset destroyed them.
fn matches(asked: &[Asked], answers: &[Received], met: &[Met<'_>], has_all: bool) -> bool {
    let Some((next, others)) = asked.split_first() else {
        let behind = met.iter().all(|met| met.account.is_none());
        return behind
            && met.len() <= 1
            && answers.len() <= 1
            && answers.iter().all(|answer| follows_from(answer, "", met));
    };
    let (answer, later) = (answers.first(), answers.get(1..).unwrap_or_default());
    for attempts in 0..=met.len().min(ATTEMPTS_MAX) {
        let (now, rest) = met.split_at(attempts);
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
        let fits = match answer {
            Some(answer) => follows_from(answer, &next.method, now),
            None => !has_all || rest.is_empty(),
        };
        if fits && matches(others, later, rest, has_all) {
            return true;
        }
    }
    false
}

/// Whether the gateway may have received no byte of the response: there was none, or a reset destroyed it.
fn is_unseen(arrival: &Arrival) -> bool {
    arrival.answer.is_empty() || arrival.closed == Some(Act::Reset)
}

/// Whether the response to the client follows from the response of the node to the last attempt.
fn follows_from(answer: &Received, method: &str, attempts: &[Met<'_>]) -> bool {
    let Some(last) = attempts.last() else { return answer.local };
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
        // Bytes before the fault may have been passed on, but the response must not look complete, unless it
        // is of a form that is read from nodes.
        odd => {
            matches!(odd, Reading::Malformed(_)) && !answer.whole
                || lenient_answers::read(&last.arrival.answer, method, in_order).is_some_and(
                    |(read, is_whole)| {
                        read.status == answer.status
                            && if answer.whole {
                                is_whole && read.body == answer.body
                            } else {
                                read.body.starts_with(&answer.body)
                            }
                    },
                )
        }
    }
}

/// Whether the result depends on no race between the client, the gateway and the node.
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
    // A reset may or may not destroy bytes that were sent before it.
    let resets = met.iter().any(|one| one.arrival.closed == Some(Act::Reset));
    !early && !resets && !script.client.iter().any(leaves) && met.iter().enumerate().all(is_plain)
}

/// Whether the client sends on after it has asked for the close, which RFC 9112 section 9.6 forbids. Bytes
/// that arrive after the response was sent reset the connection and may destroy the response.
fn sends_after_its_last_request(script: &Script) -> bool {
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

/// Limit of arrivals of one request: an attempt, a retry on a new connection, and one more to detect a
/// mistake.
const ATTEMPTS_MAX: usize = 3;
