//! A value that is lent for the time of one call: code that keeps no borrow, such as functions that a script
//! calls back, reaches it through a cell of its thread. It knows nothing of the value.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::NonNull;

/// Holds the place of a value while [`Lent::lend`] runs. Clones of an `Rc` of it are given to the code that
/// is called back.
pub struct Lent<T> {
    place: Cell<Option<Place<T>>>,
}

/// A lent value.
struct Place<T> {
    at: NonNull<T>,
    /// Whether the lender has borrowed it exclusively.
    is_exclusive: bool,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Place<T> {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Default for Lent<T> {
    fn default() -> Lent<T> {
        Lent { place: Cell::new(None) }
    }
}

/// Puts the former place back, also where the call panics.
struct Restore<'a, T> {
    place: &'a Cell<Option<Place<T>>>,
    former: Option<Place<T>>,
}

impl<T> Drop for Restore<'_, T> {
    fn drop(&mut self) {
        self.place.set(self.former);
    }
}

impl<T> Lent<T> {
    /// Runs `call`, during which [`Lent::with`] reaches `value`. A future is lent its value anew at each
    /// poll. A call inside another one lends its own value, and the outer value again when it ends.
    pub fn lend<R>(&self, value: &mut T, call: impl FnOnce() -> R) -> R {
        self.lend_place(Place { at: NonNull::from(value), is_exclusive: true }, call)
    }

    /// As [`Lent::lend`], for a value that may only be read: [`Lent::with`] does not reach it.
    pub fn lend_shared<R>(&self, value: &T, call: impl FnOnce() -> R) -> R {
        self.lend_place(Place { at: NonNull::from(value), is_exclusive: false }, call)
    }

    fn lend_place<R>(&self, place: Place<T>, call: impl FnOnce() -> R) -> R {
        let former = self.place.replace(Some(place));
        let _restore = Restore { place: &self.place, former };
        call()
    }

    /// Runs `work` with the value. None where no value is lent or it may only be read, or where `work` of
    /// another call holds it.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut place = self.place.get().filter(|place| place.is_exclusive)?;
        self.place.set(None);
        let _restore = Restore { place: &self.place, former: Some(place) };
        // SAFETY: `lend` has an exclusive borrow of the value for as long as the place stands in the cell,
        // because its guard takes the place out before the borrow ends. The place is out of the cell while
        // `work` runs, so that this is the only reference made of it. The cell cannot be shared with another
        // thread, because `Cell` is not `Sync`.
        Some(work(unsafe { place.at.as_mut() }))
    }

    /// Runs `work` with the value, which may have been lent for reading alone. None where no value is lent,
    /// or where `work` of another call holds it.
    pub fn read<R>(&self, work: impl FnOnce(&T) -> R) -> Option<R> {
        let place = self.place.take()?;
        let _restore = Restore { place: &self.place, former: Some(place) };
        // SAFETY: as for `with`; `lend_shared` has a shared borrow of the value, and this reference is shared
        // as well.
        Some(work(unsafe { place.at.as_ref() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_reached_only_while_it_is_lent() {
        let lent = Lent::default();
        assert_eq!(lent.with(|value: &mut u32| *value), None);
        let mut value = 1;
        lent.lend(&mut value, || {
            assert_eq!(lent.with(|value| *value += 1), Some(()));
            assert_eq!(lent.with(|_| lent.with(|value| *value)), Some(None), "held by the outer one");
            let mut inner = 7;
            lent.lend(&mut inner, || assert_eq!(lent.with(|value| *value), Some(7)));
            assert_eq!(lent.with(|value| *value), Some(2), "the outer value is back");
        });
        assert_eq!((value, lent.with(|value| *value)), (2, None));
    }

    #[test]
    fn value_lent_for_reading_is_not_changed() {
        let (lent, value) = (Lent::default(), 5_u32);
        assert_eq!(lent.read(|value| *value), None);
        lent.lend_shared(&value, || {
            assert_eq!(lent.with(|value| *value), None);
            assert_eq!(lent.read(|value| *value), Some(5));
            assert_eq!(lent.read(|_| lent.read(|value| *value)), Some(None), "held by the outer one");
            let mut inner = 7;
            lent.lend(&mut inner, || assert_eq!(lent.read(|value| *value), Some(7)));
        });
        assert_eq!(lent.read(|value| *value), None);
    }

    #[test]
    fn panic_takes_the_value_back() {
        let lent = Lent::default();
        let mut value = 1_u8;
        let call = std::panic::AssertUnwindSafe(|| lent.lend(&mut value, || panic!("in the call")));
        assert!(std::panic::catch_unwind(call).is_err());
        assert_eq!(lent.with(|value| *value), None);
    }
}
