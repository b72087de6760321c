//! Compressors of one worker that wait for the next body: a state takes hundreds of kilobytes, and resetting
//! it is cheaper than allocating and clearing another one.

use std::cell::RefCell;
use std::sync::Arc;

use exchange::overload::OverloadState;
use exchange::overload::reservation::Reservation;
use exchange::plugin::EncoderFailed;

use super::encoder::Compressor;

/// Compressors of one coding that a worker keeps. More than this many bodies at the same time are coded with
/// states of their own, which are freed afterwards.
const IDLE_MAX: usize = 8;

/// A compressor with the memory that is reserved for it.
pub(super) struct PooledCompressor<C> {
    pub(super) compressor: C,
    reservation: Reservation,
}

/// See the module.
pub(super) struct CompressorPool<C: Compressor> {
    shared: Arc<OverloadState>,
    idle: RefCell<Vec<(C::Settings, PooledCompressor<C>)>>,
}

impl<C: Compressor> CompressorPool<C> {
    /// An empty pool. Its states reserve their memory in `shared`.
    pub(super) fn new(shared: Arc<OverloadState>) -> Self {
        CompressorPool { shared, idle: RefCell::default() }
    }

    /// A compressor with these settings, ready for a body. Memory is reserved only for a new one, and for an
    /// idle one that grows, because other idle ones are in the resident set already.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn take(
        &self,
        settings: &C::Settings,
        length: Option<u64>,
    ) -> Result<PooledCompressor<C>, EncoderFailed> {
        let bytes = C::state_bytes(settings, length);
        let mut idle = self.idle.borrow_mut();
        // The last one that was given is the warmest in the caches.
        if let Some(found) = idle.iter().rposition(|(own, _)| own == settings) {
            let (_, mut state) = idle.swap_remove(found);
            if state.reservation.grow_to(bytes).is_ok() && state.compressor.reset(settings, length) {
                return Ok(state);
            }
        }
        let reservation =
            Reservation::new(&self.shared, bytes).map_err(|_| EncoderFailed("memory is short"))?;
        Ok(PooledCompressor { compressor: C::new(settings, length)?, reservation })
    }

    /// Keeps a used compressor. The oldest one makes place for it, so that settings that are no longer in use
    /// do not stay.
    pub(super) fn give(&self, settings: &C::Settings, state: PooledCompressor<C>) {
        let mut idle = self.idle.borrow_mut();
        if !C::IS_REUSED {
            return;
        }
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push((settings.clone(), state));
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.borrow().len()
    }
}
