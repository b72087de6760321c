//! The slots of a cluster: which slot a key belongs to, and the redirections that nodes answer with. It asks
//! no node.

use super::resp::RedisValue;

/// Slots of every cluster.
pub(super) const SLOTS: usize = 16_384;

/// The slot of a key: of the part between the first `{` and the next `}`, if there is one and it is not
/// empty.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        Some(&rest[..length])
    });
    crc16(tag.unwrap_or(key)) % SLOTS as u16
}

/// CRC-16 of the XMODEM protocol, which the cluster specification of Redis prescribes.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        }
    }
    crc
}

/// Another node that a command belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// From now on.
    Moved { slot: u16, place: String },
    /// This time, while the slot moves.
    Ask { place: String },
}

impl Redirection {
    /// Reads an error; `answered_by` is the place of the node; its host counts where none is named.
    pub(super) fn parse(error: &str, answered_by: &str) -> Option<Redirection> {
        let mut words = error.split(' ');
        let kind = words.next()?;
        if kind != "MOVED" && kind != "ASK" {
            return None;
        }
        let slot = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let place = place(host, port.parse().ok()?, answered_by);
        Some(if kind == "MOVED" { Redirection::Moved { slot, place } } else { Redirection::Ask { place } })
    }
}

/// The slots of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) place: String,
}

/// Reads the reply to CLUSTER SLOTS; what is no range is left out.
pub(super) fn ranges(reply: &RedisValue, answered_by: &str) -> Vec<SlotRange> {
    let range = |entry: &RedisValue| {
        let [first, last, master, ..] = entry.as_array()? else { return None };
        let slot = |value: &RedisValue| {
            value
                .as_integer()
                .and_then(|slot| u16::try_from(slot).ok())
                .filter(|slot| usize::from(*slot) < SLOTS)
        };
        let [host, port, ..] = master.as_array()? else { return None };
        let port = u16::try_from(port.as_integer()?).ok()?;
        let place = place(host.as_text().unwrap_or_default(), port, answered_by);
        Some(SlotRange { first: slot(first)?, last: slot(last)?, place })
    };
    reply.as_array().unwrap_or_default().iter().filter_map(range).collect()
}

/// `HOST:PORT` of a node: the host of the node that names it, if it names none.
fn place(host: &str, port: u16, answered_by: &str) -> String {
    let own_host = answered_by.rsplit_once(':').map_or(answered_by, |(host, _)| host);
    match host {
        "" | "?" => format!("{own_host}:{port}"),
        host => super::settings::format_host_port(host, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // From `redis-cli CLUSTER KEYSLOT`.
        for (key, slot) in
            [("", 0), ("foo", 12_182), ("123456789", 12_739), ("{foo}bar", 12_182), ("a{foo}b{x}", 12_182)]
        {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"{}foo"), crc16(b"{}foo") % SLOTS as u16);
        assert_eq!(slot_of(b"{foo"), crc16(b"{foo") % SLOTS as u16);
    }

    #[test]
    fn redirections_are_read() {
        let check = |error: &str, expected: Option<Redirection>| {
            assert_eq!(Redirection::parse(error, "10.0.0.9:1"), expected, "{error}");
        };
        let moved = |place: &str| Some(Redirection::Moved { slot: 12_182, place: place.to_owned() });
        check("MOVED 12182 10.0.0.1:7002", moved("10.0.0.1:7002"));
        check("MOVED 12182 :7002", moved("10.0.0.9:7002"));
        check("MOVED 12182 fd00::1:7002", moved("[fd00::1]:7002"));
        check("ASK 1 h:7002", Some(Redirection::Ask { place: "h:7002".to_owned() }));
        for other in ["MOVED", "MOVED 99999 h:1", "MOVED 1 h", "MOVED 1 h:x", "ERR MOVED 1 h:1", "TRYAGAIN"] {
            check(other, None);
        }
    }

    #[test]
    fn ranges_are_read_from_the_reply() {
        let bytes = |text: &str| RedisValue::Bytes(text.as_bytes().to_vec());
        let node = |host: RedisValue, port: i64| {
            RedisValue::Array(vec![host, RedisValue::Integer(port), bytes("id")])
        };
        let entry = |first, last, master| {
            RedisValue::Array(vec![RedisValue::Integer(first), RedisValue::Integer(last), master])
        };
        let reply = RedisValue::Array(vec![
            entry(0, 5_460, node(bytes("10.0.0.1"), 7_001)),
            entry(5_461, 16_383, node(RedisValue::Nil, 7_002)),
            entry(5, 99_999, node(bytes("h"), 1)),
            RedisValue::Nil,
        ]);
        let range = |first, last, place: &str| SlotRange { first, last, place: place.to_owned() };
        let expected = [range(0, 5_460, "10.0.0.1:7001"), range(5_461, 16_383, "10.0.0.9:7002")];
        assert_eq!(ranges(&reply, "10.0.0.9:1"), expected);
        assert_eq!(ranges(&RedisValue::Nil, "h:1"), []);
    }
}
