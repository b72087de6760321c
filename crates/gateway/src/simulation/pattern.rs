//! Bodies that say whose they are: each byte follows from an identity and its place, so that a byte that is missing,
//! doubled or somebody else's is seen where it stands.

/// Which of a request's bodies it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The request's own body.
    Request(u64),
    /// The answer to it, of its so-manieth execution.
    Answer(u64, usize),
    /// What its client sends through its tunnel.
    Up(u64),
    /// What the node sends through it.
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

    /// The bytes from `from` to `to`.
    pub(crate) fn bytes(self, from: u64, to: u64) -> Vec<u8> {
        (from..to).map(|place| self.byte(place)).collect()
    }

    /// Whether `piece` is what stands at `from`.
    pub(crate) fn is_at(self, from: u64, piece: &[u8]) -> bool {
        piece.iter().zip(from..).all(|(byte, place)| *byte == self.byte(place))
    }
}
