//! A copy of the first bytes of a body, made while it is forwarded, for plugins that log it. It is bounded,
//! and knows neither direction nor plugin.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::overload::OverloadState;
use crate::plugin::stored::BodyTap;

/// See the module.
#[derive(Debug)]
pub struct BodyCopy {
    limit_bytes: usize,
    bytes: Vec<u8>,
    shared: Arc<OverloadState>,
    /// Bytes were left out.
    is_cut: bool,
    /// The body has ended.
    has_ended: bool,
}

impl BodyCopy {
    /// The bytes that were kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A copy that keeps nothing yet.
    pub fn new(shared: Arc<OverloadState>) -> BodyCopy {
        BodyCopy { limit_bytes: 0, bytes: Vec::new(), shared, is_cut: false, has_ended: false }
    }

    /// Keeps at least so many bytes.
    pub fn extend_limit(&mut self, limit_bytes: usize) {
        self.limit_bytes = self.limit_bytes.max(limit_bytes);
    }

    /// Takes what still fits of a piece. When memory is short the copy ends where it is.
    pub fn add(&mut self, piece: &[u8]) {
        let room = self.limit_bytes.saturating_sub(self.bytes.len());
        self.is_cut |= piece.len() > room;
        let piece = &piece[..piece.len().min(room)];
        if self.shared.append_limited(&mut self.bytes, piece, self.limit_bytes).is_err() {
            self.is_cut = true;
            self.limit_bytes = self.bytes.len();
        }
    }
}

/// Copies of the first bytes of both bodies, for the log phase.
#[derive(Default)]
pub struct BodyCopies {
    /// Filled while the request body is sent on.
    pub request: Option<SharedCopy>,
    /// The response body as the client received it, before it was coded.
    pub response: Option<BodyCopy>,
    /// Gets the bytes of the upstream's response body before plugins edit them.
    pub tap: Option<Box<dyn BodyTap>>,
    /// Set once the tap takes no more, for a stream that nothing else reads; see [`crate::inner`].
    pub tap_refusal: Option<Rc<Cell<bool>>>,
}

/// A copy that is filled by an upload while the exchange holds it too. Each try sends the body from its
/// beginning, and begins the copy anew.
#[derive(Clone, Debug)]
pub struct SharedCopy(Rc<RefCell<BodyCopy>>);

impl SharedCopy {
    /// A copy of at most `limit_bytes`.
    pub fn new(limit_bytes: usize, shared: Arc<OverloadState>) -> SharedCopy {
        SharedCopy(Rc::new(RefCell::new(BodyCopy { limit_bytes, ..BodyCopy::new(shared) })))
    }

    /// Forgets what was kept: the body starts again.
    pub fn restart(&self) {
        let mut copy = self.0.borrow_mut();
        copy.bytes.clear();
        (copy.is_cut, copy.has_ended) = (false, false);
    }

    /// Says that the body has ended.
    pub fn end(&self) {
        self.0.borrow_mut().has_ended = true;
    }

    /// The body, if it has ended and nothing of it was left out.
    pub fn whole<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let copy = self.0.borrow();
        (copy.has_ended && !copy.is_cut).then(|| read(&copy.bytes))
    }

    /// Adds the next bytes of the body.
    pub fn add(&self, piece: &[u8]) {
        self.0.borrow_mut().add(piece);
    }

    /// The bytes that were kept, if any were.
    pub fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let copy = self.0.borrow();
        (!copy.bytes.is_empty()).then(|| read(&copy.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_asked_for() {
        let check = |limits: &[usize], pieces: &[&str], kept: &str| {
            let mut copy = BodyCopy::new(Arc::default());
            limits.iter().for_each(|limit| copy.extend_limit(*limit));
            pieces.iter().for_each(|piece| copy.add(piece.as_bytes()));
            assert_eq!(String::from_utf8_lossy(copy.bytes()), kept, "{limits:?} {pieces:?}");
        };
        check(&[5], &["abc", "def", "ghi"], "abcde");
        check(&[3], &["abc", "def"], "abc");
        check(&[2, 4, 1], &["abcdef"], "abcd");
        check(&[9], &["abc", "", "def"], "abcdef");
        check(&[0], &["abc"], "");
    }

    #[test]
    fn when_memory_is_short_a_copy_ends_where_it_is() {
        let shared = Arc::new(OverloadState::default());
        let mut copy = BodyCopy::new(shared.clone());
        copy.extend_limit(100);
        copy.add(b"abc");
        shared.memory.update(95, 100);
        copy.add(b"def");
        shared.memory.update(10, 100);
        copy.add(b"ghi");
        assert_eq!(copy.bytes(), b"abc", "and has no hole");
    }

    #[test]
    fn whole_body_has_ended_and_misses_nothing() {
        let copy = SharedCopy::new(4, Arc::default());
        let whole = || copy.whole(<[u8]>::to_vec);
        copy.add(b"abcd");
        assert_eq!(whole(), None);
        copy.end();
        assert_eq!(whole(), Some(b"abcd".to_vec()));
        copy.restart();
        copy.add(b"abcde");
        copy.end();
        assert_eq!(whole(), None);
        copy.restart();
        copy.end();
        assert_eq!(whole(), Some(Vec::new()));
    }

    #[test]
    fn another_try_begins_anew() {
        let copy = SharedCopy::new(4, Arc::default());
        let upload = copy.clone();
        upload.add(b"abc");
        upload.restart();
        assert_eq!(copy.read(<[u8]>::to_vec), None);
        upload.add(b"xyzzy");
        assert_eq!(copy.read(<[u8]>::to_vec), Some(b"xyzz".to_vec()));
    }
}
