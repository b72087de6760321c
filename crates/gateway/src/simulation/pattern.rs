//! Bodies that name their request: each byte follows from an identity and its offset, so that a missing,
//! doubled or foreign byte is found at its offset.

/// Identity of a body or of the bytes of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The body of this request.
    Request(u64),
    /// The response body to this request, from the execution with this number.
    Answer(u64, usize),
    /// The bytes that the client sends through the tunnel of this request.
    Up(u64),
    /// The bytes that the node sends through the tunnel of this request.
    Down(u64),
}

impl Whose {
    fn seed(self) -> u64 {
        let (kind, id, number) = match self {
            Whose::Request(id) => (1, id, 0),
            Whose::Answer(id, execution) => (2, id, execution as u64),
            Whose::Up(id) => (3, id, 0),
            Whose::Down(id) => (4, id, 0),
        };
        (id << 16 | number << 4 | kind).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn byte(self, place: u64) -> u8 {
        let word = (self.seed() ^ (place / 8)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        (word >> (8 * (place % 8))) as u8
    }

    /// The bytes at the offsets `from..to`.
    pub(crate) fn bytes(self, from: u64, to: u64) -> Vec<u8> {
        (from..to).map(|place| self.byte(place)).collect()
    }

    /// Whether `piece` equals the bytes at offset `from`.
    pub(crate) fn is_at(self, from: u64, piece: &[u8]) -> bool {
        piece.iter().zip(from..).all(|(byte, place)| *byte == self.byte(place))
    }
}
