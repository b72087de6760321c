//! Guards calls of the storage library. The library trusts the pages it reads, so that a damaged page may
//! fail one of its assertions; such a panic is a fault of the file. It does not know the calls.
//!
//! Two measures keep such a panic from doing harm. Its text is not printed, because the caller reports the
//! fault itself. And the library's objects are not dropped while the stack unwinds, because a second panic,
//! in a `drop`, would abort the process: they are leaked, and the store is not used afterwards.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Depth of guarded calls of this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether a panic of this thread would be caught and reported as a fault of the store. A panic hook prints
/// nothing then.
pub fn panic_is_expected() -> bool {
    DEPTH.get() > 0
}

/// The library has panicked.
#[derive(Debug)]
pub(super) struct Panicked;

/// Calls the library. Objects of the library that `call` creates must be wrapped in [`Leaked`].
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    DEPTH.set(DEPTH.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(call));
    DEPTH.set(DEPTH.get() - 1);
    result.map_err(|panic| {
        let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        tracing::debug!(said, "the storage library has panicked");
        Panicked
    })
}

/// An object of the library that is leaked instead of dropped while its thread panics. Outside of
/// [`guarded`], a panic of its `drop` is caught.
#[derive(Debug)]
pub(super) struct Leaked<T>(Option<T>);

impl<T> Leaked<T> {
    pub(super) fn new(object: T) -> Leaked<T> {
        Leaked(Some(object))
    }

    pub(super) fn into_inner(mut self) -> T {
        self.0.take().expect("it is taken only here, which consumes this")
    }

    /// Leaks the object.
    pub(super) fn forget(mut self) {
        std::mem::forget(self.0.take());
    }
}

impl<T> Deref for Leaked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken only by what consumes this")
    }
}

impl<T> DerefMut for Leaked<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is taken only by what consumes this")
    }
}

impl<T> Drop for Leaked<T> {
    fn drop(&mut self) {
        let object = self.0.take();
        if std::thread::panicking() {
            std::mem::forget(object);
        } else if panic_is_expected() {
            drop(object);
        } else {
            // A panic here loses no data: tables and transactions that must be dropped properly are dropped
            // inside a guarded call.
            let _ = guarded(|| drop(object));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_is_caught_and_its_objects_are_leaked() {
        struct Fragile;
        impl Drop for Fragile {
            fn drop(&mut self) {
                assert!(!std::thread::panicking(), "a second panic would abort");
            }
        }
        assert!(!panic_is_expected());
        let result = guarded(|| {
            assert!(panic_is_expected());
            let _fragile = Leaked::new(Fragile);
            if panic_is_expected() {
                panic!("a page is damaged");
            }
        });
        assert!(result.is_err() && !panic_is_expected());
        assert_eq!(guarded(|| 7).unwrap(), 7);
        drop(Leaked::new(Fragile));
        drop(Leaked::new(Fragile).into_inner());
    }
}
