//! A value that one side replaces as a whole and many threads read without touching a shared count.
//! It does not know what the value is and when it is worth replacing.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The current value and its generation, which grows by one with every publication and starts at 1.
#[derive(Debug)]
pub struct Published<T> {
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T> Published<T> {
    /// A cell that starts with `value`.
    pub fn new(value: Arc<T>) -> Self {
        Self { generation: AtomicU64::new(1), current: Mutex::new(value) }
    }

    /// Replaces the value; returns the new generation. The old value is dropped here, outside the lock, if no
    /// reader holds it.
    pub fn publish(&self, value: Arc<T>) -> u64 {
        let mut current = self.lock();
        let old = std::mem::replace(&mut *current, value);
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        self.generation.store(generation, Ordering::Release);
        drop(current);
        drop(old);
        generation
    }

    /// The generation of the current value.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The current value; takes the lock, so it is not for the request path (see [`Reader`]).
    pub fn load(&self) -> Arc<T> {
        Arc::clone(&self.lock())
    }

    fn load_with_generation(&self) -> (Arc<T>, u64) {
        let current = self.lock();
        // Both change only under the lock, so they belong together.
        (Arc::clone(&current), self.generation.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Arc<T>> {
        // Nothing panics while the lock is held; a poisoned one still holds a whole value.
        self.current.lock()
    }
}

/// One thread's own reference to the published value.
#[derive(Debug)]
pub struct Reader<T> {
    source: Arc<Published<T>>,
    value: Arc<T>,
    generation: u64,
}

impl<T> Reader<T> {
    /// A reader that holds the current value.
    pub fn new(source: Arc<Published<T>>) -> Self {
        let (value, generation) = source.load_with_generation();
        Self { source, value, generation }
    }

    /// Takes up a newer value if there is one and then returns the OLD one, so that the caller decides which
    /// thread drops it. Costs one relaxed load when nothing changed.
    pub fn refresh(&mut self) -> Option<Arc<T>> {
        if self.source.generation.load(Ordering::Relaxed) == self.generation {
            return None;
        }
        let (value, generation) = self.source.load_with_generation();
        self.generation = generation;
        Some(std::mem::replace(&mut self.value, value))
    }

    /// The value held since the last refresh.
    pub fn get(&self) -> &Arc<T> {
        &self.value
    }

    /// The generation of the value held.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self { source: Arc::clone(&self.source), value: Arc::clone(&self.value), generation: self.generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_sees_change_once_and_returns_old_value() {
        let cell = Arc::new(Published::new(Arc::new("a")));
        let mut reader = Reader::new(Arc::clone(&cell));
        assert_eq!((**reader.get(), reader.generation(), reader.refresh()), ("a", 1, None));
        assert_eq!(cell.publish(Arc::new("b")), 2);
        assert_eq!(cell.publish(Arc::new("c")), 3);
        assert_eq!(**reader.get(), "a");
        assert_eq!(reader.refresh().as_deref(), Some(&"a"));
        assert_eq!((**reader.get(), reader.generation(), reader.refresh()), ("c", 3, None));
        assert_eq!((cell.generation(), *cell.load()), (3, "c"));
    }

    #[test]
    fn readers_never_see_another_generations_value() {
        let cell = Arc::new(Published::new(Arc::new(1u64)));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let mut reader = Reader::new(Arc::clone(&cell));
                scope.spawn(move || {
                    while reader.generation() < 1000 {
                        let before = reader.generation();
                        if let Some(old) = reader.refresh() {
                            assert_eq!(*old, before);
                        }
                        assert_eq!(**reader.get(), reader.generation());
                        std::hint::spin_loop();
                    }
                });
            }
            for value in 2..=1000 {
                cell.publish(Arc::new(value));
            }
        });
    }
}
