//! Some thousand requests from a grammar of mutations, each judged by the oracle: a request that the oracle
//! reads must reach the origin in that form, exactly once; any other must be refused and its connection
//! closed. Decides nothing itself.

use std::sync::Mutex;

use super::oracle::{self, End, Message};
use super::stand::{LAST, Stand, listen, shown};

/// Requests in which every byte is damaged in every way of [`damaged`].
const SOUND: [&str; 5] = [
    "POST /a/b?q=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhello",
    "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
    "GET http://o.test:81/p/./q%41 HTTP/1.1\r\nHost: h:1\r\nConnection: keep-alive\r\n\r\n",
    "PUT /x/../y//z HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
    "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
];

/// A request of an unsupported version; no damage turns it into a supported one.
const UNSPOKEN: &str = "GET /a?b HTTP/2.0\r\nHost: h\r\n\r\n";

/// Bytes that are inserted, or replace another byte.
const DAMAGE: [&[u8]; 17] = [
    b"\0", b"\t", b"\n", b"\x0b", b"\r", b"\r\n", b" ", b"\"", b"%", b",", b"/", b"0", b":", b";", b"a",
    b"\x7f", b"\xff",
];

/// Values of Content-Length.
const LENGTHS: [&str; 22] = [
    "5",
    "05",
    " 5 ",
    "\t5",
    "0",
    "6",
    "",
    "+5",
    "-5",
    "5,5",
    "5, 5",
    "5,",
    "0x5",
    "5.0",
    "5e0",
    "5_0",
    "\"5\"",
    "5;",
    "5 5",
    "18446744073709551621",
    "99999999999999999999999999",
    "\u{665}",
];
/// Values of Transfer-Encoding.
const CODINGS: [&str; 20] = [
    "chunked",
    "Chunked",
    " chunked\t",
    "",
    "identity",
    "chunked, chunked",
    "chunked,",
    ",chunked",
    "gzip",
    "gzip, chunked",
    "chunked, gzip",
    "chunked;a",
    "xchunked",
    "chunkedx",
    "chunk",
    "\"chunked\"",
    "chunked\u{b}",
    "\u{b}chunked",
    "chunked identity",
    "identity, chunked",
];
/// Names that some parser takes for a framing field; the colon is part of them.
const DISGUISES: [&str; 14] = [
    "NAME :",
    "NAME\t:",
    " NAME:",
    "\tNAME:",
    "NAME\u{b}:",
    "NAME\0:",
    "NAME\u{a0}:",
    "\u{a0}NAME:",
    "NAME\r:",
    "NAME\n:",
    "X: y\nNAME:",
    "X: y\r\n NAME:",
    "X: y\rNAME:",
    "NA-ME:",
];
/// Chunked bodies by their size line; the data is `abcde`.
const SIZES: [&str; 26] = [
    "5",
    "05",
    "0000000000000005",
    "00000000000000005",
    "5;a",
    "5;a=b",
    "5;a=\"b\"",
    "5;",
    "5 ",
    " 5",
    "5\t",
    "5 ;a",
    "0x5",
    "+5",
    "-5",
    "5_0",
    "5.",
    "5xyz",
    "5 5",
    "",
    "g",
    "10000000000000005",
    "FFFFFFFFFFFFFFFF",
    "5,5",
    "5;\u{b}",
    "5\0",
];
/// Ends of lines.
const ENDS: [&str; 9] = ["\r\n", "\n", "\r", "\r\r\n", "\n\r", " \r\n", "\0\r\n", "\r \n", "\r\n\r\n"];

/// A request with every byte left out or doubled, and with each damage before it and in its place.
fn damaged(request: &str) -> Vec<Vec<u8>> {
    let bytes = request.as_bytes();
    let mut cases = Vec::new();
    for at in 0..bytes.len() {
        let (before, byte, after) = (&bytes[..at], &bytes[at..=at], &bytes[at + 1..]);
        cases.push([before, after].concat());
        cases.push([before, byte, byte, after].concat());
        for damage in DAMAGE {
            cases.push([before, damage, byte, after].concat());
            cases.push([before, damage, after].concat());
        }
    }
    cases
}

/// Pairs of framing fields in every order, place and version, before a body that is valid for either field.
fn framings() -> Vec<Vec<u8>> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(LENGTHS.map(|value| format!("Content-Length:{value}")));
    lines.extend(CODINGS.map(|value| format!("Transfer-Encoding:{value}")));
    for (name, value) in [("Content-Length", "5"), ("Transfer-Encoding", "chunked")] {
        lines.extend(DISGUISES.map(|disguise| format!("{} {value}", disguise.replace("NAME", name))));
    }
    let mut cases = Vec::new();
    let plain = ["", "Content-Length: 5", "Transfer-Encoding: chunked", "Content-Length: 11"];
    for version in ["1.1", "1.0"] {
        for line in &lines {
            for other in plain {
                for head in [format!("{line}\r\n{other}"), format!("{other}\r\n{line}")] {
                    let head = format!("X-A: 1\r\n{head}\r\nX-B: 2\r\n").replace("\r\n\r\n", "\r\n");
                    let start = format!("POST /f HTTP/{version}\r\nHost: h\r\nConnection: keep-alive\r\n");
                    // One chunk of one byte, or a body of five or eleven bytes followed by the start of a
                    // request.
                    cases.push(format!("{start}{head}\r\n1\r\nZ\r\n0\r\n\r\n").into_bytes());
                }
            }
        }
    }
    cases
}

/// Chunked bodies with every size line, every line end at every place, and trailers.
fn chunkings() -> Vec<Vec<u8>> {
    let head = "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut bodies: Vec<String> = SIZES.iter().map(|size| format!("{size}\r\nabcde\r\n0\r\n\r\n")).collect();
    bodies.extend(SIZES.iter().map(|size| format!("5\r\nabcde\r\n{size}\r\nabcde\r\n0\r\n\r\n")));
    let lines = ["5", "abcde", "0", "X-T: 1", ""];
    for (place, _) in lines.iter().enumerate() {
        for end in ENDS {
            let body = lines.iter().enumerate();
            bodies.push(
                body.map(|(at, line)| format!("{line}{}", if at == place { end } else { "\r\n" })).collect(),
            );
        }
    }
    for last in ["00", "0;a", "0 ", "0x0", "-0", "", "0000000000000000", "00000000000000000"] {
        bodies.push(format!("5\r\nabcde\r\n{last}\r\n\r\n"));
    }
    for trailer in
        ["A: b", "A:", "A", ":", ": b", "A : b", " A: b", "A: b\r\n c", "A: \0", "A\0: b", "A: b\rc"]
    {
        bodies.push(format!("5\r\nabcde\r\n0\r\n{trailer}\r\n\r\n"));
    }
    bodies.into_iter().map(|body| format!("{head}{body}").into_bytes()).collect()
}

/// Sends each case to the gateway and the oracle; returns the disagreements.
fn disagreements(stand: &Stand, cases: &[Vec<u8>]) -> Vec<String> {
    let found = &Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for part in cases.chunks(cases.len().div_ceil(CLIENTS)) {
            scope.spawn(move || {
                for case in part {
                    if let Err(what) = judge(stand, case) {
                        let mut found = found.lock().unwrap();
                        found.push(format!("{}: {what}", shown(case)));
                        if found.len() >= ENOUGH {
                            return;
                        }
                    }
                }
            });
        }
    });
    let mut found = found.lock().unwrap();
    std::mem::take(&mut *found)
}

fn judge(stand: &Stand, case: &[u8]) -> Result<(), String> {
    let bytes = [case, LAST.as_bytes()].concat();
    let (messages, end) = oracle::read(&bytes);
    let mut client = stand.weir().client();
    // Ignored, because a gateway may refuse and close before it has read everything.
    let _ = client.try_send(&bytes);
    for message in messages.iter().map(Message::account) {
        let answer = client.read_response(false).map_err(|broken| format!("{broken} for {message}"))?;
        if (answer.status, answer.text().as_str()) != (200, message.as_str()) {
            return Err(format!("{} {:?} for {message}", answer.status, answer.text()));
        }
        stand.expect_one_more();
    }
    if end == End::Waiting {
        // Fails if the connection is closed already, which is as good.
        let _ = client.stream().shutdown(std::net::Shutdown::Write);
    }
    let heard = listen(&mut client);
    let statuses: Vec<u16> = heard.answers.iter().map(|answer| answer.status).collect();
    let fits = match (end, statuses.as_slice()) {
        (End::Closed | End::Waiting, []) => true,
        (End::Unspoken, [status]) => *status == 505,
        // 505 is right only for a request line that is valid except for its version.
        (End::Refused, [status]) => (400..600).contains(status) && *status != 505,
        (End::Waiting, [status]) => (400..600).contains(status),
        _ => false,
    };
    // A gateway that waits for the rest of an announced body may have sent 100 (Continue).
    let invited = end == End::Waiting && heard.rest == b"HTTP/1.1 100 Continue\r\n\r\n";
    if fits && (heard.rest.is_empty() || invited) {
        Ok(())
    } else {
        Err(format!("{statuses:?} and {:?}, where the oracle says {end:?}", shown(&heard.rest)))
    }
}

/// Judges all of `cases`; checks that the origin got the requests that the oracle read and no other.
fn all_agree(cases: &[Vec<u8>], at_least: usize) {
    assert!(cases.len() >= at_least, "only {} cases", cases.len());
    let stand = Stand::new();
    let found = disagreements(&stand, cases);
    assert!(found.is_empty(), "{} of {} cases:\n{}", found.len(), cases.len(), found.join("\n"));
    stand.end();
}

// Checks 1 to 4, 9 and 11: damage anywhere in a head or body.
#[test]
fn every_damaged_byte_is_read_as_the_oracle_reads_it() {
    let cases: Vec<Vec<u8>> = SOUND.iter().flat_map(|request| damaged(request)).collect();
    all_agree(&cases, 10_000);
}

// Check 10.
#[test]
fn damaged_versions_agree_with_oracle() {
    all_agree(&damaged(UNSPOKEN), 1_000);
}

// Checks 1, 2, 3 and 4.
#[test]
fn framing_field_pairs_agree_with_oracle() {
    all_agree(&framings(), 1_000);
}

// Check 5.
#[test]
fn every_chunked_body_is_read_as_the_oracle_reads_it() {
    all_agree(&chunkings(), 100);
}

/// Connections at a time.
const CLIENTS: usize = 4;
/// Number of disagreements after which a client stops.
const ENOUGH: usize = 10;
