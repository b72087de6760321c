//! Compressors of one worker that wait for the next body: a state takes hundreds of kilobytes, and resetting it is cheaper
//! than allocating and clearing another one.

use std::cell::RefCell;

use exchange::plugin::EncoderFailed;

use super::encoder::Compressor;

/// Compressors of one coding that a worker keeps. More than this many bodies at the same time are coded with states of
/// their own, which are freed afterwards.
const IDLE_MAX: usize = 8;

/// See the module.
pub(super) struct Pool<C: Compressor> {
    idle: RefCell<Vec<(C::Settings, C)>>,
}

impl<C: Compressor> Default for Pool<C> {
    fn default() -> Self {
        Pool { idle: RefCell::default() }
    }
}

impl<C: Compressor> Pool<C> {
    /// A compressor with these settings, ready for a body.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn take(&self, settings: &C::Settings, length: Option<u64>) -> Result<C, EncoderFailed> {
        let mut idle = self.idle.borrow_mut();
        // The last one that was given is the warmest in the caches.
        if let Some(found) = idle.iter().rposition(|(own, _)| own == settings) {
            let (_, mut compressor) = idle.swap_remove(found);
            if compressor.reset(settings, length) {
                return Ok(compressor);
            }
        }
        C::new(settings, length)
    }

    /// Keeps a used compressor. The oldest one makes place for it, so that settings that are no longer in use do not stay.
    pub(super) fn give(&self, settings: &C::Settings, compressor: C) {
        let mut idle = self.idle.borrow_mut();
        if !C::IS_REUSED {
            return;
        }
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push((settings.clone(), compressor));
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.borrow().len()
    }
}
