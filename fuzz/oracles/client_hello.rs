//! Oracle of the look at a ClientHello, for any bytes.

use net::sniff::{CLIENT_HELLO_MAX_BYTES, ClientHello, Look, client_hello};

use super::prefixes::settled;
use super::steering::steering;

/// The input is three steering bytes and the bytes of a connection. With the second switch the input is a
/// handshake message, which is put into records of seven bytes first.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let input = match steering.switches & 2 {
        0 => steering.input.to_vec(),
        _ => steering
            .input
            .chunks(7)
            .flat_map(|part| [&[22, 3, 1, 0, part.len() as u8], part].concat())
            .collect(),
    };
    let cuts = steering.cuts.map(|cut| cut.min(input.len()));
    let whole = settled(&input, cuts, &Look::More, client_hello);
    let twin = message(&input).and_then(|message| read(&message));
    match whole {
        Look::Found(hello) => {
            if let Some(name) = &hello.server_name {
                assert!(
                    !name.is_empty() && name.len() <= 253 && **name == *name.to_ascii_lowercase(),
                    "{name}"
                );
            }
            assert_eq!(twin.as_ref(), Some(&hello));
            let more = [&input[..], b"\x17\x03\x03\x00\x01x"].concat();
            assert_eq!(client_hello(&more), Look::Found(hello));
        }
        Look::No => assert_eq!(twin, None, "only the twin takes it"),
        Look::More => {
            assert_eq!(twin, None, "the twin has it already");
            assert!(input.len() < CLIENT_HELLO_MAX_BYTES, "{} bytes are waited for", input.len());
        }
    }
}

/// The body of the message that the records hold, byte by byte; none if it is not whole or no ClientHello.
fn message(input: &[u8]) -> Option<Vec<u8>> {
    let (mut at, mut bytes) = (0, Vec::new());
    loop {
        let header = input.get(at..at + 5)?;
        let length = usize::from(header[3]) * 256 + usize::from(header[4]);
        if header[0] != 22 || header[1] != 3 || length == 0 || length > 16_384 {
            return None;
        }
        at += 5;
        for _ in 0..length {
            bytes.push(*input.get(at).filter(|_| at < CLIENT_HELLO_MAX_BYTES)?);
            at += 1;
            let whole = bytes
                .get(1..4)
                .map(|length| length.iter().fold(0, |sum, byte| sum * 256 + usize::from(*byte)));
            if bytes[0] != 1 || whole.is_some_and(|whole| whole > CLIENT_HELLO_MAX_BYTES - 9) {
                return None;
            }
            if whole.is_some_and(|whole| bytes.len() == whole + 4) {
                return Some(bytes.split_off(4));
            }
        }
    }
}

/// The content, by offsets.
fn read(body: &[u8]) -> Option<ClientHello> {
    let number = |at: usize, bytes: usize| {
        body.get(at..at + bytes).map(|bytes| bytes.iter().fold(0, |sum, byte| sum * 256 + usize::from(*byte)))
    };
    let session = number(34, 1)?;
    let suites = number(35 + session, 2)?;
    let compressions = number(37 + session + suites, 1)?;
    let end = 38 + session + suites + compressions;
    if body[0] != 3 || session > 32 || suites == 0 || suites % 2 == 1 || compressions == 0 || end > body.len()
    {
        return None;
    }
    let mut hello = ClientHello::default();
    if end == body.len() {
        return Some(hello);
    }
    if end + 2 + number(end, 2)? != body.len() {
        return None;
    }
    let (mut at, mut kinds) = (end + 2, Vec::new());
    while at < body.len() {
        let (kind, length) = (number(at, 2)?, number(at + 2, 2)?);
        let content = body.get(at + 4..at + 4 + length)?;
        if kinds.contains(&kind) && [0, 16].contains(&kind) {
            return None;
        }
        kinds.push(kind);
        match kind {
            0 => hello.server_name = name(content)?,
            16 => hello.alpn = alpn(content)?,
            0xfe0d => hello.has_ech = true,
            _ => {}
        }
        at += 4 + length;
    }
    Some(hello)
}

fn name(content: &[u8]) -> Option<Option<Box<str>>> {
    let [list_high, list_low, 0, high, low, name @ ..] = content else { return None };
    let lengths = [[*list_high, *list_low], [*high, *low]].map(|pair| usize::from(u16::from_be_bytes(pair)));
    if lengths != [name.len() + 3, name.len()] {
        return None;
    }
    let name = String::from_utf8(name.to_vec()).ok()?.to_lowercase();
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Some(None);
    }
    let name = name.strip_suffix('.').unwrap_or(&name);
    let is_good = name.len() <= 253
        && name.split('.').all(|label| !label.is_empty() && label.len() <= 63)
        && name.chars().all(|letter| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '_' | '.'));
    is_good.then(|| Some(name.into()))
}

fn alpn(content: &[u8]) -> Option<Box<[Box<str>]>> {
    let [high, low, names @ ..] = content else { return None };
    if usize::from(u16::from_be_bytes([*high, *low])) != names.len() || names.is_empty() {
        return None;
    }
    let (mut at, mut all) = (0, Vec::new());
    while at < names.len() {
        let length = usize::from(names[at]);
        let name = names.get(at + 1..at + 1 + length).filter(|name| !name.is_empty())?;
        if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
            all.push(String::from_utf8_lossy(name).into());
        }
        at += 1 + length;
    }
    Some(all.into())
}
