//! The part of a request body that the attempt in flight has sent, kept so that a retry can send it again. A
//! body that is longer than the limit is let go, and the request is not retried after that.

use exchange::overload::OverloadState;

/// See the module.
#[derive(Debug)]
pub(super) struct KeptBody {
    bytes: Vec<u8>,
    limit_bytes: usize,
    is_whole: bool,
}

impl KeptBody {
    /// Keeps up to `limit_bytes`.
    pub(super) fn new(limit_bytes: usize) -> KeptBody {
        KeptBody { bytes: Vec::new(), limit_bytes, is_whole: true }
    }

    /// An attempt begins to send the body.
    pub(super) fn restart(&mut self) {
        self.bytes.clear();
        self.is_whole = true;
    }

    /// The attempt has sent `piece`. Nothing more is kept once the limit is exceeded or memory is short.
    pub(super) fn add(&mut self, piece: &[u8], shared: &OverloadState) {
        let fits = self.is_whole
            && self.bytes.len() + piece.len() <= self.limit_bytes
            && shared.append_limited(&mut self.bytes, piece, self.limit_bytes).is_ok();
        if !fits {
            self.is_whole = false;
            self.bytes = Vec::new();
        }
    }

    /// Everything that the attempt has sent; none if parts of it were let go.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        self.is_whole.then(|| std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_kept_up_to_the_limit() {
        let shared = OverloadState::default();
        let mut kept = KeptBody::new(4);
        kept.add(b"ab", &shared);
        kept.add(b"cd", &shared);
        assert_eq!(kept.take(), Some(b"abcd".to_vec()));
        kept.restart();
        kept.add(b"abc", &shared);
        kept.add(b"de", &shared);
        kept.add(b"f", &shared);
        assert_eq!(kept.take(), None, "a piece was let go");
        kept.restart();
        kept.add(b"g", &shared);
        assert_eq!(kept.take(), Some(b"g".to_vec()));
    }
}
