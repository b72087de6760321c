//! Connection identifiers that name the process generation and the socket of their connection, so that a
//! datagram which the kernel gave to another socket finds its way. The names are hidden by a keyed mask (AES
//! header protection of RFC 9001 section 5.4.3 over a random nonce), so that an observer cannot link the
//! identifiers of one connection.

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use aws_lc_rs::rand;
use quinn::{ConnectionId, ConnectionIdGenerator};
use quinn_proto::InvalidCid;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are hidden: the generation, the slot, and two zeros by which an identifier of this program is
/// recognised.
const HIDDEN_BYTES: usize = 5;
const NONCE_BYTES: usize = 8;
/// Bytes of an identifier.
pub(super) const LENGTH: usize = HIDDEN_BYTES + NONCE_BYTES;
/// Fills the nonce up to a sample of header protection.
const SAMPLE_END: &[u8; 8] = b"weir cid";
/// The first bit of a packet with a long header (RFC 8999 section 5.1).
const LONG_HEADER: u8 = 0x80;
/// Where the destination identifier stands: behind the first byte, and in long headers behind the version and
/// its length.
const SHORT_ID_AT: usize = 1;
const LONG_ID_LENGTH_AT: usize = 5;

/// The socket that a connection was accepted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketLocation {
    /// The process, by the number of upgrades before it.
    pub generation: u16,
    /// The socket among those of its listener.
    pub slot: u8,
}

/// Reads and hides places.
pub(super) struct PlaceKey(HeaderProtectionKey);

impl PlaceKey {
    pub(super) fn new(key: &[u8; 16]) -> PlaceKey {
        PlaceKey(HeaderProtectionKey::new(&AES_128, key).expect("a key of AES-128 has 16 bytes"))
    }

    /// An identifier for a connection at `place`.
    pub(super) fn hide(&self, place: SocketLocation, nonce: [u8; NONCE_BYTES]) -> [u8; LENGTH] {
        let [high, low] = place.generation.to_be_bytes();
        let mut bytes = [0; LENGTH];
        for (byte, (plain, mask)) in
            bytes.iter_mut().zip([high, low, place.slot, 0, 0].iter().zip(self.mask(&nonce)))
        {
            *byte = plain ^ mask;
        }
        bytes[HIDDEN_BYTES..].copy_from_slice(&nonce);
        bytes
    }

    /// The place that an identifier names; none if this program did not make it.
    pub(super) fn reveal(&self, id: &[u8]) -> Option<SocketLocation> {
        let id: &[u8; LENGTH] = id.try_into().ok()?;
        let (hidden, nonce) = id.split_first_chunk::<HIDDEN_BYTES>()?;
        let mask = self.mask(nonce.try_into().ok()?);
        let [high, low, slot, zero, also_zero] = std::array::from_fn(|index| hidden[index] ^ mask[index]);
        let place = SocketLocation { generation: u16::from_be_bytes([high, low]), slot };
        (zero == 0 && also_zero == 0).then_some(place)
    }

    /// The place of the connection that a datagram belongs to. A client chooses the identifier of its first
    /// packets at random, so that one of them in 65,536 is misread; it begins a connection in the place where
    /// it is passed to.
    pub(super) fn place_of(&self, datagram: &[u8]) -> Option<SocketLocation> {
        self.reveal(destination(datagram)?)
    }

    fn mask(&self, nonce: &[u8; NONCE_BYTES]) -> [u8; HIDDEN_BYTES] {
        let mut sample = [0; NONCE_BYTES + SAMPLE_END.len()];
        sample[..NONCE_BYTES].copy_from_slice(nonce);
        sample[NONCE_BYTES..].copy_from_slice(SAMPLE_END);
        self.0.new_mask(&sample).expect("a sample of AES-128 has 16 bytes")
    }
}

impl std::fmt::Debug for PlaceKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PlaceKey")
    }
}

/// The destination identifier of a datagram's first packet, if it may be one of this program.
fn destination(datagram: &[u8]) -> Option<&[u8]> {
    let first = *datagram.first()?;
    if first & LONG_HEADER == 0 {
        return datagram.get(SHORT_ID_AT..SHORT_ID_AT + LENGTH);
    }
    let length = usize::from(*datagram.get(LONG_ID_LENGTH_AT)?);
    let from = LONG_ID_LENGTH_AT + 1;
    (length == LENGTH).then(|| datagram.get(from..from + LENGTH)).flatten()
}

/// Makes the identifiers of one socket.
#[derive(Debug)]
pub(super) struct PlacedIds {
    pub(super) key: Arc<PlaceKey>,
    pub(super) place: SocketLocation,
}

impl ConnectionIdGenerator for PlacedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut nonce = [0; NONCE_BYTES];
        if rand::fill(&mut nonce).is_err() {
            // Weaker against observers; the connection works all the same.
            nonce = crate::env::random_u64().to_be_bytes();
        }
        ConnectionId::new(&self.key.hide(self.place, nonce))
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.key.reveal(id).map(drop).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifier_reveals_its_place_to_its_key_only() {
        let (key, other) = (PlaceKey::new(&[1; 16]), PlaceKey::new(&[2; 16]));
        let mut seen = std::collections::HashSet::new();
        for number in 0..1_000_u64 {
            let place = SocketLocation { generation: number as u16 * 65, slot: number as u8 };
            let id = key.hide(place, number.to_be_bytes());
            assert_eq!(key.reveal(&id), Some(place));
            assert_ne!(other.reveal(&id), Some(place));
            seen.insert(id[..HIDDEN_BYTES].to_vec());
        }
        assert!(seen.len() > 990, "the hidden part shows a pattern: {}", seen.len());
    }

    #[test]
    fn place_is_found_in_both_kinds_of_headers() {
        let key = PlaceKey::new(&[1; 16]);
        let place = SocketLocation { generation: 7, slot: 3 };
        let id = key.hide(place, [9; NONCE_BYTES]);
        let short = [&[0x40][..], &id, &[0; 20]].concat();
        let long = [&[0xe0, 0, 0, 0, 1, LENGTH as u8][..], &id, &[0; 20]].concat();
        for datagram in [&short, &long] {
            assert_eq!(key.place_of(datagram), Some(place));
            for cut in 0..LENGTH {
                assert_eq!(key.place_of(&datagram[..cut]), None, "cut at {cut}");
            }
        }
        let other_length = [&[0xe0, 0, 0, 0, 1, 8][..], &id].concat();
        assert_eq!(key.place_of(&other_length), None);
    }
}
