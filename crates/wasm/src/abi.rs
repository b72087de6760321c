//! The numbers of the proxy-wasm ABI, and the serialised form of maps. It knows no guest.

use crate::limits::{PAIRS_BYTES_MAX, PAIRS_MAX};

/// The status of a host function, as guests see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum AbiStatus {
    Ok = 0,
    NotFound = 1,
    BadArgument = 2,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    InternalFailure = 10,
    Unimplemented = 12,
}

/// A version of the ABI, which a module names by an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AbiVersion {
    V0_1_0,
    V0_2_0,
    V0_2_1,
}

impl AbiVersion {
    /// The versions with the exports that name them.
    pub(crate) const ALL: [(&'static str, AbiVersion); 3] = [
        ("proxy_abi_version_0_1_0", AbiVersion::V0_1_0),
        ("proxy_abi_version_0_2_0", AbiVersion::V0_2_0),
        ("proxy_abi_version_0_2_1", AbiVersion::V0_2_1),
    ];

    /// Whether callbacks of heads are told if a body follows.
    pub(crate) fn tells_end_of_stream(self) -> bool {
        self > AbiVersion::V0_1_0
    }
}

/// A buffer by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferId {
    RequestBody,
    ResponseBody,
    DownstreamData,
    UpstreamData,
    CallBody,
    GrpcMessage,
    VmConfiguration,
    PluginConfiguration,
    CallData,
}

impl BufferId {
    /// The buffer of `number`.
    pub(crate) fn of(number: i32) -> Option<BufferId> {
        Some(match number {
            0 => BufferId::RequestBody,
            1 => BufferId::ResponseBody,
            2 => BufferId::DownstreamData,
            3 => BufferId::UpstreamData,
            4 => BufferId::CallBody,
            5 => BufferId::GrpcMessage,
            6 => BufferId::VmConfiguration,
            7 => BufferId::PluginConfiguration,
            8 => BufferId::CallData,
            _ => return None,
        })
    }
}

/// A map by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapId {
    RequestHeaders,
    RequestTrailers,
    ResponseHeaders,
    ResponseTrailers,
    GrpcInitial,
    GrpcTrailing,
    CallHeaders,
    CallTrailers,
}

impl MapId {
    /// The map of `number`.
    pub(crate) fn of(number: i32) -> Option<MapId> {
        Some(match number {
            0 => MapId::RequestHeaders,
            1 => MapId::RequestTrailers,
            2 => MapId::ResponseHeaders,
            3 => MapId::ResponseTrailers,
            4 => MapId::GrpcInitial,
            5 => MapId::GrpcTrailing,
            6 => MapId::CallHeaders,
            7 => MapId::CallTrailers,
            _ => return None,
        })
    }
}

/// The half of an exchange that a guest pauses and continues, or the beginning of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamSide {
    Request,
    Response,
    Downstream,
}

impl StreamSide {
    /// How many there are.
    pub(crate) const COUNT: usize = StreamSide::Downstream as usize + 1;

    /// The stream of `number`; bytes of nodes pass no guest.
    pub(crate) fn of(number: i32) -> Option<StreamSide> {
        match number {
            0 => Some(StreamSide::Request),
            1 => Some(StreamSide::Response),
            2 => Some(StreamSide::Downstream),
            _ => None,
        }
    }
}

/// A map in memory: names and values in their order.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The serialised form of pairs: their number, the lengths of each, and the bytes of each with a zero behind
/// it.
pub(crate) fn serialize<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> Vec<u8> {
    let (count, bytes) = pairs
        .clone()
        .fold((0, 4), |(count, bytes), (name, value)| (count + 1, bytes + 10 + name.len() + value.len()));
    let mut out = Vec::with_capacity(bytes);
    let put = |out: &mut Vec<u8>, number: usize| out.extend_from_slice(&(number as u32).to_le_bytes());
    put(&mut out, count);
    for (name, value) in pairs.clone() {
        put(&mut out, name.len());
        put(&mut out, value.len());
    }
    for (name, value) in pairs {
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(value);
        out.push(0);
    }
    out
}

/// The pairs of a serialised map; none if it is malformed or exceeds a limit. Nothing at all, and one zero,
/// are empty maps.
pub(crate) fn deserialize(bytes: &[u8]) -> Option<Pairs> {
    // Nothing at all, and one zero byte, stand for an empty map.
    if bytes.is_empty() || bytes == [0] {
        return Some(Pairs::new());
    }
    if bytes.len() > PAIRS_BYTES_MAX {
        return None;
    }
    let number = |at: usize| {
        let four = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
    };
    let count = number(0)?;
    if count > PAIRS_MAX {
        return None;
    }
    let mut at = 4 + count * 8;
    let mut take = |length: usize| {
        let end = at.checked_add(length)?;
        let part = bytes.get(at..end)?.to_vec();
        // The zero behind it may be missing at the very end: some guests leave it out.
        at = end.checked_add(1)?;
        Some(part)
    };
    let mut pairs = Pairs::with_capacity(count);
    for index in 0..count {
        let (name, value) = (number(4 + index * 8)?, number(8 + index * 8)?);
        pairs.push((take(name)?, take(value)?));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_survive_serialising() {
        let pairs: Pairs = vec![(b":path".to_vec(), b"/a?b".to_vec()), (b"x".to_vec(), Vec::new())];
        let bytes = serialize(pairs.iter().map(|(name, value)| (&name[..], &value[..])));
        assert_eq!(bytes.len(), 4 + 2 * 8 + (5 + 1 + 4 + 1) + (1 + 1 + 1));
        assert_eq!(deserialize(&bytes), Some(pairs));
        assert_eq!(deserialize(&[]), Some(Pairs::new()));
        assert_eq!(deserialize(&[0]), Some(Pairs::new()));
    }

    #[test]
    fn malformed_maps_are_refused() {
        let good = serialize([(&b"name"[..], &b"value"[..])].into_iter());
        for end in 1..good.len() - 1 {
            assert_eq!(deserialize(&good[..end]), None, "cut at {end}");
        }
        for (at, what) in [(0, "count"), (4, "name"), (8, "value")] {
            let mut faulty = good.clone();
            faulty[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            assert_eq!(deserialize(&faulty), None, "{what}");
        }
        assert_eq!(deserialize(&vec![1; PAIRS_BYTES_MAX + 1]), None);
    }
}
