//! The limits of copies that are under way: their number at one mirror, so that a silent one does not keep
//! others from getting copies, and the bytes that a worker holds for all of them. It sends none.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Copies under way to one mirror, of all workers: a mirror that does not answer holds each for a minute.
const COPIES_MAX: usize = 256;
/// Bytes of the bodies of all copies under way on one worker.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// The copies of one mirror.
#[derive(Default)]
pub(super) struct MirrorCopyCount(AtomicUsize);

/// The bytes of one worker.
#[derive(Default)]
pub(super) struct MirrorBodyBytes(Cell<usize>);

/// The place of one copy, until it is dropped.
pub(super) struct MirrorPermit {
    copies: Arc<MirrorCopyCount>,
    bodies: Rc<MirrorBodyBytes>,
    bytes: usize,
}

impl MirrorPermit {
    /// A place for a copy with a body of so many bytes; `None` if there is none left.
    pub(super) fn take(
        copies: &Arc<MirrorCopyCount>,
        bodies: &Rc<MirrorBodyBytes>,
        bytes: usize,
    ) -> Option<MirrorPermit> {
        if bodies.0.get() + bytes > BYTES_MAX {
            return None;
        }
        let more = |count: usize| (count < COPIES_MAX).then_some(count + 1);
        copies.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        bodies.0.set(bodies.0.get() + bytes);
        Some(MirrorPermit { copies: copies.clone(), bodies: bodies.clone(), bytes })
    }
}

impl Drop for MirrorPermit {
    fn drop(&mut self) {
        self.copies.0.fetch_sub(1, Ordering::Relaxed);
        self.bodies.0.set(self.bodies.0.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_their_bytes_are_limited() {
        let (copies, bodies) = (Arc::new(MirrorCopyCount::default()), Rc::new(MirrorBodyBytes::default()));
        let take = |bytes: usize| MirrorPermit::take(&copies, &bodies, bytes);
        let places: Vec<MirrorPermit> = (0..COPIES_MAX).map_while(|_| take(1)).collect();
        assert_eq!(places.len(), COPIES_MAX);
        assert!(take(0).is_none());
        assert!(
            MirrorPermit::take(&Arc::default(), &bodies, 1).is_some(),
            "another mirror has places of its own"
        );
        drop(places);
        let half = take(BYTES_MAX / 2);
        assert!(half.is_some() && take(BYTES_MAX / 2 + 1).is_none());
        assert!(MirrorPermit::take(&Arc::default(), &bodies, BYTES_MAX / 2 + 1).is_none());
        drop(half);
        assert!(take(BYTES_MAX).is_some());
    }
}
