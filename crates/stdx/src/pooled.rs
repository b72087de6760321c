//! A box with memory from free lists of the current thread, so that a steady state of short-lived values
//! (futures, per-request state) allocates nothing. It does not know its content.
//!
//! Blocks are grouped by power-of-two size classes; what is larger or more strictly aligned goes to the
//! allocator. The box is not `Send`: a block returns to the list of the thread that made it.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;

/// An owned value in pooled memory.
pub struct PooledBox<T: ?Sized> {
    value: NonNull<T>,
    /// It owns a `T` and drops it.
    owns: PhantomData<T>,
}

/// Moving the box never moves the value, so the box itself may always be moved, as with `Box`.
impl<T: ?Sized> Unpin for PooledBox<T> {}

impl<T> PooledBox<T> {
    /// Moves `value` to pooled memory.
    pub fn new(value: T) -> Self {
        Self::make(|| value)
    }

    /// Makes a value in pooled memory. Where the compiler sees what `make` does it makes the value in its
    /// place, which a value that is handed over cannot be: it is made first and copied then.
    #[inline]
    #[allow(unsafe_code)]
    pub fn make(make: impl FnOnce() -> T) -> Self {
        let place = Blocks::take(Layout::new::<T>()).cast::<T>();
        // SAFETY: the block is at least as large and as aligned as `T` asks for, and has no other owner.
        // Should `make` panic the block is lost, and nothing else.
        unsafe { place.write(make()) };
        Self { value: place, owns: PhantomData }
    }

    /// Moves the value to pooled memory where it stays until it is dropped.
    pub fn pin(value: T) -> Pin<Self> {
        Self::new(value).into_pin()
    }

    /// Moves the value out.
    #[allow(unsafe_code)]
    pub fn into_inner(self) -> T {
        let place = self.into_raw();
        // SAFETY: `into_raw` gave up the ownership, so the value is read out exactly once.
        let value = unsafe { place.read() };
        Blocks::give(place.cast(), Layout::new::<T>());
        value
    }
}

impl<T: ?Sized> PooledBox<T> {
    /// Promises that the value stays where it is.
    #[allow(unsafe_code)]
    pub fn into_pin(self) -> Pin<Self> {
        // SAFETY: moving the box does not move the value, and a pinned box cannot be taken apart again:
        // `into_inner`, `downcast` and the other conversions take a box that is not pinned.
        unsafe { Pin::new_unchecked(self) }
    }

    fn into_raw(self) -> NonNull<T> {
        std::mem::ManuallyDrop::new(self).value
    }
}

impl<T: Any> PooledBox<T> {
    /// Forgets the type, keeps it findable: see `downcast`.
    pub fn into_any(self) -> PooledBox<dyn Any> {
        PooledBox { value: self.into_raw(), owns: PhantomData }
    }
}

impl PooledBox<dyn Any> {
    /// The value as a `T`, or the box unchanged when it holds something else.
    pub fn downcast<T: Any>(self) -> Result<PooledBox<T>, Self> {
        if (*self).is::<T>() {
            Ok(PooledBox { value: self.into_raw().cast(), owns: PhantomData })
        } else {
            Err(self)
        }
    }
}

impl<F: Future> PooledBox<F> {
    /// Forgets the type of a future, for code that keeps futures of many kinds.
    pub fn into_dyn_future<'a>(self) -> Pin<PooledBox<dyn Future<Output = F::Output> + 'a>>
    where
        F: 'a,
    {
        let erased: PooledBox<dyn Future<Output = F::Output> + 'a> =
            PooledBox { value: self.into_raw(), owns: PhantomData };
        erased.into_pin()
    }
}

impl<T: ?Sized> Deref for PooledBox<T> {
    type Target = T;

    #[allow(unsafe_code)]
    fn deref(&self) -> &T {
        // SAFETY: the box owns an initialised value until it is dropped or taken apart.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for PooledBox<T> {
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the box is borrowed exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized> Drop for PooledBox<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        /// Gives the block back even when the value's own drop panics.
        struct Return(NonNull<u8>, Layout);
        impl Drop for Return {
            fn drop(&mut self) {
                Blocks::give(self.0, self.1);
            }
        }
        let _block = Return(self.value.cast(), Layout::for_value::<T>(self));
        // SAFETY: the value is initialised, is dropped only here, and the box is not used afterwards.
        unsafe { self.value.drop_in_place() };
    }
}

impl<T: std::fmt::Debug + ?Sized> std::fmt::Debug for PooledBox<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(formatter)
    }
}

/// The free blocks of a thread, a list for each size class.
struct Blocks {
    free: [Vec<NonNull<u8>>; CLASSES],
}

impl Blocks {
    /// A block for `layout`, uninitialised.
    #[allow(unsafe_code)]
    fn take(layout: Layout) -> NonNull<u8> {
        let class = class_of(layout);
        if let Some(class) = class {
            let free = BLOCKS.try_with(|blocks| blocks.borrow_mut().free[class].pop());
            if let Ok(Some(block)) = free {
                return block;
            }
        }
        let layout = allocation(layout, class);
        // SAFETY: `allocation` never gives a layout of size zero.
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Takes back a block that `take` gave for the same layout; its content is dead.
    fn give(block: NonNull<u8>, layout: Layout) {
        let class = class_of(layout);
        let kept = class.is_some_and(|class| {
            // While the thread ends its lists may be gone; then the block goes to the allocator.
            let keep = |blocks: &RefCell<Self>| blocks.borrow_mut().keep(class, block);
            BLOCKS.try_with(keep).unwrap_or(false)
        });
        if !kept {
            release(block, allocation(layout, class));
        }
    }

    fn keep(&mut self, class: usize, block: NonNull<u8>) -> bool {
        let free = &mut self.free[class];
        let room = free.len() < FREE_BYTES >> (SMALLEST_SHIFT as usize + class);
        if room {
            free.push(block);
        }
        room
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for (class, free) in self.free.iter_mut().enumerate() {
            for block in free.drain(..) {
                release(block, class_layout(class));
            }
        }
    }
}

#[allow(unsafe_code)]
fn release(block: NonNull<u8>, layout: Layout) {
    // SAFETY: every block was made by `alloc` in `Blocks::take` with this very layout, which `allocation`
    // derives from the value's layout alone, and is released once: lists and boxes own their blocks.
    unsafe { dealloc(block.as_ptr(), layout) };
}

/// The size class of a layout; `None` when it is too large or too strictly aligned for the lists.
fn class_of(layout: Layout) -> Option<usize> {
    if layout.size() > LARGEST_BYTES || layout.align() > BLOCK_ALIGN {
        return None;
    }
    let size = layout.size().max(1 << SMALLEST_SHIFT).next_power_of_two();
    Some((size.trailing_zeros() - SMALLEST_SHIFT) as usize)
}

/// The layout that the allocator is asked for, for a value of `layout`; never of size zero.
fn allocation(layout: Layout, class: Option<usize>) -> Layout {
    match class {
        Some(class) => class_layout(class),
        // Without a class but of size zero: a value of no bytes with an unusual alignment.
        None if layout.size() == 0 => Layout::from_size_align(layout.align(), layout.align())
            .expect("a size equal to a valid alignment is a valid layout"),
        None => layout,
    }
}

fn class_layout(class: usize) -> Layout {
    Layout::from_size_align(1 << (SMALLEST_SHIFT as usize + class), BLOCK_ALIGN)
        .expect("classes are small powers of two")
}

thread_local! {
    static BLOCKS: RefCell<Blocks> = const { RefCell::new(Blocks { free: [const { Vec::new() }; CLASSES] }) };
}

/// The smallest block is 64 bytes: a cache line; smaller ones would share it.
const SMALLEST_SHIFT: u32 = 6;
/// Larger values are rare and their initialisation dwarfs the allocation.
const LARGEST_BYTES: usize = 8 * 1024;
/// 64, 128, ... 8192.
const CLASSES: usize = 8;
/// The size that the allocator gives anyway.
const BLOCK_ALIGN: usize = 16;
/// Bytes that a thread keeps of each class: 1 MiB, so 8 MiB at most.
const FREE_BYTES: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    fn address<T: ?Sized>(value: &PooledBox<T>) -> usize {
        value.value.as_ptr().cast::<u8>() as usize
    }

    #[test]
    fn memory_of_a_class_is_reused() {
        let first = PooledBox::new([1u8; 100]);
        let place = address(&first);
        drop(first);
        let second = PooledBox::new([2u64; 16]);
        assert_eq!((address(&second), second[15]), (place, 2));
        let third = PooledBox::new([3u8; 128]);
        assert_ne!(address(&third), place);
        assert_eq!(third.into_inner(), [3; 128]);
    }

    #[test]
    fn classes() {
        let table =
            [(0, 1, Some(0)), (64, 16, Some(0)), (65, 8, Some(1)), (8192, 16, Some(7)), (8193, 1, None)];
        for (size, align, expected) in table {
            assert_eq!(class_of(Layout::from_size_align(size, align).unwrap()), expected, "{size}");
        }
        assert_eq!(class_of(Layout::from_size_align(64, 32).unwrap()), None);
    }

    #[test]
    fn odd_layouts_go_to_the_allocator() {
        #[repr(align(64))]
        struct Aligned([u8; 3]);
        #[repr(align(4096))]
        struct Nothing;
        let aligned = PooledBox::new(Aligned([1, 2, 3]));
        assert_eq!((address(&aligned) % 64, aligned.0[2]), (0, 3));
        assert_eq!(address(&PooledBox::new(Nothing)) % 4096, 0);
        assert_eq!(PooledBox::new([7u8; 100_000])[99_999], 7);
        let unit = PooledBox::new(());
        assert_eq!(unit.into_inner(), ());
    }

    #[test]
    fn values_are_dropped_once() {
        let witness = Rc::new(());
        drop(PooledBox::new(Rc::clone(&witness)));
        assert_eq!(Rc::strong_count(&witness), 1);
        let any = PooledBox::new(Rc::clone(&witness)).into_any();
        let any = any.downcast::<u8>().unwrap_err();
        assert_eq!(Rc::strong_count(&witness), 2);
        let back: Rc<()> = any.downcast::<Rc<()>>().unwrap().into_inner();
        drop(back);
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn futures_run_pinned_and_type_erased() {
        let number = PooledBox::new(20);
        let mut future = PooledBox::new(async move {
            std::future::ready(()).await;
            *number + 22
        })
        .into_dyn_future();
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(42));
        let mut plain = PooledBox::pin(async { 1 });
        // The second way of polling needs the box to be `Unpin` although its future is not.
        assert_eq!(Pin::new(&mut plain).poll(&mut context), Poll::Ready(1));
    }

    #[test]
    fn a_panicking_drop_gives_the_block_back() {
        /// Of a size class that no other test uses.
        struct Bomb([u8; 3000]);
        impl Drop for Bomb {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new(self.0[0]));
            }
        }
        let bomb = PooledBox::new(Bomb([0; 3000]));
        let place = address(&bomb);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(bomb))).is_err());
        assert_eq!(address(&PooledBox::new([0u8; 3000])), place);
    }
}
