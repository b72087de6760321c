//! Contains panics of the QUIC library. Its locks are poisoned by a panic, and its destructors panic on a
//! poisoned lock, which would end the process while a task unwinds. So the first panic marks the endpoint as
//! failed, and everything of a failed endpoint is leaked and not dropped; the endpoint is made anew. It knows
//! no packet.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tokio::sync::Notify;

/// Whether an endpoint has failed.
#[derive(Clone, Debug, Default)]
pub struct QuicHealth(Arc<QuicHealthState>);

#[derive(Debug, Default)]
struct QuicHealthState {
    has_failed: AtomicBool,
    failed: Notify,
}

impl QuicHealth {
    /// Whether the library has panicked.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.0.has_failed.load(Ordering::Relaxed)
    }

    /// Ready when the library has panicked.
    pub async fn failed(&self) {
        let mut failed = std::pin::pin!(self.0.failed.notified());
        // Registered before the look, so that a failure in between is not missed.
        failed.as_mut().enable();
        if !self.has_failed() {
            failed.await;
        }
    }

    fn fail(&self) {
        self.0.has_failed.store(true, Ordering::Relaxed);
        self.0.failed.notify_waiters();
    }

    /// Calls into the library.
    fn call<R>(&self, call: impl FnOnce() -> R) -> R {
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            self.fail();
            resume_unwind(panic)
        })
    }
}

/// A value of the library, which is leaked if its endpoint has failed.
#[derive(Debug)]
pub struct Guarded<T> {
    value: Option<T>,
    health: QuicHealth,
}

impl<T> Guarded<T> {
    /// Guards a value of the endpoint with this health.
    pub fn new(value: T, health: &QuicHealth) -> Guarded<T> {
        Guarded { value: Some(value), health: health.clone() }
    }

    /// Another value of the same endpoint.
    pub fn another<U>(&self, value: U) -> Guarded<U> {
        Guarded::new(value, &self.health)
    }

    /// A clone of the value; calls on it do nothing if the endpoint has failed.
    pub fn duplicate(&self) -> Guarded<T>
    where
        T: Clone,
    {
        Guarded { value: self.call_ref(T::clone), health: self.health.clone() }
    }

    /// Its endpoint's health.
    pub fn health(&self) -> &QuicHealth {
        &self.health
    }

    /// Calls the library; none if its endpoint has failed.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut T) -> R) -> Option<R> {
        let value = self.value.as_mut().filter(|_| !self.health.has_failed())?;
        Some(self.health.call(|| call(value)))
    }

    /// Gives the value to a call of the library; none if its endpoint has failed.
    pub fn give<R>(mut self, call: impl FnOnce(T) -> R) -> Option<R> {
        if self.health.has_failed() {
            return None;
        }
        let value = self.value.take()?;
        Some(self.health.call(|| call(value)))
    }

    /// The same through a shared reference.
    pub fn call_ref<R>(&self, call: impl FnOnce(&T) -> R) -> Option<R> {
        let value = self.value.as_ref().filter(|_| !self.health.has_failed())?;
        Some(self.health.call(|| call(value)))
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.health.has_failed() {
            std::mem::forget(value);
        } else {
            // Not raised again: this may run while a task unwinds, where a second panic would end the
            // process.
            if catch_unwind(AssertUnwindSafe(|| drop(value))).is_err() {
                self.health.fail();
            }
        }
    }
}

/// Runs the library's tasks on the worker.
#[derive(Debug)]
pub(super) struct WorkerRuntime(pub(super) QuicHealth);

impl Runtime for WorkerRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        crate::env::spawn(Watched { future: Some(future), health: self.0.clone() });
    }

    fn wrap_udp_socket(&self, _socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        // Endpoints get their sockets wrapped.
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A task of the library.
struct Watched {
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    health: QuicHealth,
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Watched { future, health } = &mut *self;
        let Some(running) = future.as_mut().filter(|_| !health.has_failed()) else { return Poll::Ready(()) };
        match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(_) => {
                // The message of the panic is in the log by the hook.
                health.fail();
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.health.has_failed() {
            std::mem::forget(self.future.take());
        }
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;

    struct PanicsInDrop;

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn panic_of_the_library_marks_its_endpoint() {
        let health = QuicHealth::default();
        let mut guarded = Guarded::new(PanicsInDrop, &health);
        assert_eq!(guarded.call(|_| 1), Some(1));
        let caught = catch_unwind(AssertUnwindSafe(|| guarded.call(|_| panic!("a fault"))));
        assert!(caught.is_err() && health.has_failed());
        assert_eq!(guarded.call(|_| 1), None);
        drop(guarded);
    }

    #[test]
    fn panic_of_a_task_fails_the_endpoint_only() {
        let health = QuicHealth::default();
        let seen = health.clone();
        crate::env::block_on(async move {
            let value = Guarded::new(PanicsInDrop, &seen);
            let task = async move {
                let _value = value;
                panic!("a fault");
            };
            // The value is dropped while its task unwinds.
            crate::env::spawn(task);
            let runtime = WorkerRuntime(seen.clone());
            runtime.spawn(Box::pin(async { panic!("another") }));
            seen.failed().await;
        })
        .unwrap();
        assert!(health.has_failed());
    }
}
