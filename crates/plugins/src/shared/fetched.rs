//! A value that is fetched from a server once for all workers: it is kept for a time, one request fetches it
//! while the others wait for the result, and a failure is not repeated at once. It knows no server.

use std::future::Future;
use std::sync::Arc;

use net::env;
use parking_lot::Mutex;

/// Milliseconds after a failure in which no new try is made: a server that is down is not asked by every
/// request.
const FAILURE_KEPT_MS: u64 = 1_000;
/// The same where an older value is at hand, which makes the next try less urgent.
const RENEWAL_PAUSE_MS: u64 = 10_000;

/// See the module.
pub(crate) struct Fetched<T> {
    kept: Mutex<FetchedState<T>>,
    /// Held by the request that fetches. A lock of tokio's, because the others wait without blocking their
    /// workers.
    turn: tokio::sync::Mutex<()>,
}

struct FetchedState<T> {
    value: Option<(Arc<T>, u64)>,
    failure: Option<(Arc<str>, u64)>,
}

impl<T> Default for Fetched<T> {
    fn default() -> Fetched<T> {
        Fetched {
            kept: Mutex::new(FetchedState { value: None, failure: None }),
            turn: tokio::sync::Mutex::new(()),
        }
    }
}

impl<T> Fetched<T> {
    /// The value, if it is younger than `max_age_ms`; otherwise the one that `fetch` gets.
    ///
    /// # Errors
    /// The error of `fetch`, or of another request that has just failed.
    pub(crate) async fn get(
        &self,
        max_age_ms: u64,
        fetch: impl Future<Output = Result<T, String>>,
    ) -> Result<Arc<T>, Arc<str>> {
        if let Some(kept) = self.younger_than(max_age_ms) {
            return Ok(kept);
        }
        let _turn = self.turn.lock().await;
        if let Some(kept) = self.younger_than(max_age_ms) {
            return Ok(kept);
        }
        self.fetch(fetch).await
    }

    /// As [`Fetched::get`], with an older value where there is one: it is returned at once, and a task of
    /// this worker fetches a new one, so that requests do not wait for a slow server.
    ///
    /// # Errors
    /// As [`Fetched::get`], if no value was ever fetched.
    pub(crate) async fn get_or_stale<F>(
        self: &Arc<Fetched<T>>,
        max_age_ms: u64,
        fetch: impl FnOnce() -> F,
    ) -> Result<Arc<T>, Arc<str>>
    where
        F: Future<Output = Result<T, String>> + 'static,
        T: 'static,
    {
        if let Some(kept) = self.younger_than(max_age_ms) {
            return Ok(kept);
        }
        let Some(old) = self.younger_than(u64::MAX) else {
            return self.get(max_age_ms, fetch()).await;
        };
        if self.failure_within(RENEWAL_PAUSE_MS).is_none() && self.turn.try_lock().is_ok() {
            let (this, fetch) = (self.clone(), fetch());
            env::spawn(async move { this.renew_aside(max_age_ms, fetch).await });
        }
        Ok(old)
    }

    /// Fetches a new value, unless another task does so.
    async fn renew_aside(&self, max_age_ms: u64, fetch: impl Future<Output = Result<T, String>>) {
        let Ok(_turn) = self.turn.try_lock() else { return };
        if self.younger_than(max_age_ms).is_some() || self.failure_within(RENEWAL_PAUSE_MS).is_some() {
            return;
        }
        if let Err(reason) = self.fetch(fetch).await {
            tracing::warn!(%reason, "an older value stays in force, because a new one could not be fetched");
        }
    }

    /// A newer value than `known`: one that another request has fetched, or else the one that `fetch` gets.
    /// Nothing while `known` is younger than `min_age_ms`, so that requests cannot make the gateway call the
    /// server all the time.
    ///
    /// # Errors
    /// As [`Fetched::get`].
    pub(crate) async fn renew(
        &self,
        known: &Arc<T>,
        min_age_ms: u64,
        fetch: impl Future<Output = Result<T, String>>,
    ) -> Result<Option<Arc<T>>, Arc<str>> {
        let _turn = self.turn.lock().await;
        match self.younger_than(u64::MAX) {
            Some(kept) if !Arc::ptr_eq(&kept, known) => Ok(Some(kept)),
            _ if self.younger_than(min_age_ms).is_some() => Ok(None),
            _ => self.fetch(fetch).await.map(Some),
        }
    }

    fn younger_than(&self, age_ms: u64) -> Option<Arc<T>> {
        let kept = self.kept.lock();
        let (value, since_ms) = kept.value.as_ref()?;
        (now_ms().saturating_sub(*since_ms) < age_ms).then(|| value.clone())
    }

    fn failure_within(&self, age_ms: u64) -> Option<Arc<str>> {
        let kept = self.kept.lock();
        let (reason, since_ms) = kept.failure.as_ref()?;
        (now_ms().saturating_sub(*since_ms) < age_ms).then(|| reason.clone())
    }

    async fn fetch(&self, fetch: impl Future<Output = Result<T, String>>) -> Result<Arc<T>, Arc<str>> {
        if let Some(reason) = self.failure_within(FAILURE_KEPT_MS) {
            return Err(reason);
        }
        let fetched = fetch.await;
        let mut kept = self.kept.lock();
        match fetched {
            Ok(value) => {
                let value = Arc::new(value);
                *kept = FetchedState { value: Some((value.clone(), now_ms())), failure: None };
                Ok(value)
            }
            Err(reason) => {
                let reason: Arc<str> = reason.into();
                kept.failure = Some((reason.clone(), now_ms()));
                Err(reason)
            }
        }
    }
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The output of a future that has nothing to wait for.
    fn ready<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn value_is_fetched_once_until_it_is_old() {
        let (fetched, calls) = (Fetched::default(), Cell::new(0));
        let get = |age_ms| {
            let fetch = async {
                calls.set(calls.get() + 1);
                Ok(calls.get())
            };
            *ready(fetched.get(age_ms, fetch)).unwrap()
        };
        assert_eq!((get(60_000), get(60_000), calls.get()), (1, 1, 1));
        assert_eq!((get(0), calls.get()), (2, 2));
    }

    #[test]
    fn old_value_is_there_while_a_new_one_is_fetched() {
        let run = async {
            let fetched = Arc::new(Fetched::default());
            assert_eq!(fetched.get_or_stale(0, || async { Ok(1) }).await.map(|value| *value), Ok(1));
            let (sender, answer) = tokio::sync::oneshot::channel();
            let slow = || async { answer.await.map_err(|_| "gone".to_owned()) };
            assert_eq!(fetched.get_or_stale(0, slow).await.map(|value| *value), Ok(1));
            env::yield_to_events().await;
            let second = || async { Err("a second fetch".to_owned()) };
            assert_eq!(fetched.get_or_stale(0, second).await.map(|value| *value), Ok(1));
            sender.send(2).unwrap();
            // Waits for the task, which holds the turn.
            drop(fetched.turn.lock().await);
            assert_eq!(fetched.get_or_stale(60_000, second).await.map(|value| *value), Ok(2));
        };
        env::block_on(run).unwrap();
    }

    #[test]
    fn old_value_outlives_a_failure() {
        let run = async {
            let (fetched, calls) = (Arc::new(Fetched::default()), std::rc::Rc::new(Cell::new(0)));
            assert_eq!(fetched.get_or_stale(0, || async { Ok(1) }).await.map(|value| *value), Ok(1));
            for _ in 0..3 {
                let calls = calls.clone();
                let failing = || async move {
                    calls.set(calls.get() + 1);
                    Err("down".to_owned())
                };
                assert_eq!(fetched.get_or_stale(0, failing).await.map(|value| *value), Ok(1));
                env::yield_to_events().await;
            }
            assert_eq!(calls.get(), 1, "no further try for a while");
            let empty = Arc::new(Fetched::<u8>::default());
            assert!(empty.get_or_stale(0, || async { Err("down".to_owned()) }).await.is_err());
        };
        env::block_on(run).unwrap();
    }

    #[test]
    fn failure_is_shared_for_a_moment() {
        let (fetched, calls) = (Fetched::<u8>::default(), Cell::new(0));
        let get = || {
            let fetch = async {
                calls.set(calls.get() + 1);
                Err(format!("failure {}", calls.get()))
            };
            ready(fetched.get(60_000, fetch)).unwrap_err()
        };
        assert_eq!((&*get(), &*get(), calls.get()), ("failure 1", "failure 1", 1));
    }

    #[test]
    fn renewal_waits_for_the_least_age() {
        let fetched = Fetched::default();
        let first = ready(fetched.get(60_000, async { Ok(1) })).unwrap();
        let renew =
            |known: &Arc<i32>, min_age_ms| ready(fetched.renew(known, min_age_ms, async { Ok(2) })).unwrap();
        assert_eq!(renew(&first, 60_000), None);
        let second = renew(&first, 0).unwrap();
        assert_eq!(*second, 2);
        // Another request that still has the first value receives the second one without a call.
        assert_eq!(renew(&first, 60_000), Some(second));
    }

    #[test]
    fn waiting_requests_share_one_fetch() {
        let fetched = Fetched::default();
        let (mut go, gate) = (None, Cell::new(false));
        let slow = async {
            std::future::poll_fn(|_| if gate.get() { Poll::Ready(()) } else { Poll::Pending }).await;
            Ok(1)
        };
        let mut first = pin!(fetched.get(60_000, slow));
        let mut second = pin!(fetched.get(60_000, async { Err("a second fetch".to_owned()) }));
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        gate.set(true);
        if let Poll::Ready(value) = first.as_mut().poll(&mut context) {
            go = Some(value);
        }
        assert_eq!(go.map(|value| *value.unwrap()), Some(1));
        match second.as_mut().poll(&mut context) {
            Poll::Ready(value) => assert_eq!(*value.unwrap(), 1),
            Poll::Pending => panic!("the second request still waits"),
        }
    }
}
