//! The services of one worker thread that a request may use: clock, timers, buffers, options, outbound
//! calls, and a store of per-thread resources. It knows no request, no connection and no configuration.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use message::Headers;
use stdx::clock::HttpDate;
use stdx::timers::Timers;

use crate::options::Options;
use crate::overload::OverloadState;
use crate::plugin::outbound::HttpClient;
use net::env;

/// Byte buffers kept for reuse: two for each exchange that is commonly in flight at once on one core.
const BYTES_KEPT_MAX: usize = 512;
/// A buffer that has grown beyond this is freed, so that one large head does not hold its memory for ever.
const BYTES_KEPT_CAPACITY_MAX: usize = 32 * 1024;
/// Field lists kept for reuse: one for each response that is commonly on its way at once on one core.
const HEADERS_KEPT_MAX: usize = 256;

/// The services of one worker thread. Tasks of the thread share it by `Rc`; no cell stays borrowed across an
/// await.
pub struct WorkerLocal {
    /// The worker's number.
    pub index: usize,
    /// The options that the engine was started with.
    pub options: Arc<Options>,
    /// Outbound HTTP calls of plugins.
    pub http: HttpClient,
    /// The timer wheel.
    pub timers: RefCell<Timers>,
    /// State that the workers of the process share.
    pub shared: Arc<OverloadState>,
    bytes: RefCell<Vec<Vec<u8>>>,
    headers: RefCell<Vec<Headers>>,
    date: RefCell<HttpDate>,
    last_ns: Cell<u64>,
    wall_offset: Cell<(u64, u64)>,
    resources: RefCell<Vec<Rc<dyn Any>>>,
}

impl WorkerLocal {
    /// The services of the worker with number `index`.
    pub fn new(index: usize, options: Arc<Options>, shared: Arc<OverloadState>) -> Rc<WorkerLocal> {
        let now_ns = env::monotonic_ns();
        Rc::new(WorkerLocal {
            index,
            options,
            http: HttpClient::default(),
            timers: RefCell::new(Timers::new(now_ns / 1_000_000)),
            shared,
            bytes: RefCell::default(),
            headers: RefCell::default(),
            date: RefCell::new(HttpDate::new()),
            last_ns: Cell::new(now_ns),
            wall_offset: Cell::new(wall_offset()),
            resources: RefCell::default(),
        })
    }

    /// Reads the monotonic clock, in nanoseconds.
    #[inline]
    pub fn clock_ns(&self) -> u64 {
        let now = env::monotonic_ns();
        self.last_ns.set(now);
        now
    }

    /// Nanoseconds of the monotonic clock when this thread last read it: at most one turn of the slow loop
    /// ago, and a few microseconds ago while requests pass. Use it for deadlines, dates and idle times,
    /// because it costs no system call.
    #[inline]
    pub fn recent_ns(&self) -> u64 {
        self.last_ns.get()
    }

    /// [`WorkerLocal::recent_ns`] in milliseconds.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.recent_ns() / 1_000_000
    }

    /// Seconds and nanoseconds since the Unix epoch at `monotonic_ns`. The offset of the wall clock is read
    /// once a second.
    pub fn wall_at(&self, monotonic_ns: u64) -> (u64, u32) {
        let (seconds, nanoseconds) = self.wall_offset.get();
        let total = nanoseconds + monotonic_ns;
        (seconds + total / 1_000_000_000, (total % 1_000_000_000) as u32)
    }

    /// Reads the offset of the wall clock again, because the wall clock may have been set.
    pub fn read_wall_offset(&self) {
        self.wall_offset.set(wall_offset());
    }

    /// The value of the Date field now (RFC 9110 section 5.6.7).
    pub fn http_date(&self) -> [u8; 29] {
        let (seconds, _) = self.wall_at(self.recent_ns());
        *self.date.borrow_mut().at(seconds)
    }

    /// An empty byte buffer.
    pub fn take_bytes(&self) -> Vec<u8> {
        self.bytes.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns a byte buffer for reuse.
    pub fn give_bytes(&self, mut bytes: Vec<u8>) {
        let mut kept = self.bytes.borrow_mut();
        if kept.len() < BYTES_KEPT_MAX && (1..=BYTES_KEPT_CAPACITY_MAX).contains(&bytes.capacity()) {
            bytes.clear();
            kept.push(bytes);
        }
    }

    /// An empty field list, with memory where one is kept. The last one that was returned comes first: it is
    /// still in the caches.
    pub fn take_headers(&self) -> Headers {
        self.headers.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns a field list for reuse.
    pub fn give_headers(&self, mut headers: Headers) {
        let mut kept = self.headers.borrow_mut();
        if kept.len() < HEADERS_KEPT_MAX && (1..=BYTES_KEPT_CAPACITY_MAX).contains(&headers.memory()) {
            headers.clear();
            kept.push(headers);
        }
    }

    /// Frees the buffers and field lists kept for reuse.
    pub fn free_buffers(&self) {
        self.bytes.borrow_mut().clear();
        self.headers.borrow_mut().clear();
    }

    /// This thread's resource of type `T`, made by `make` on first use: a pool of connections, an
    /// interpreter, a table of counters. It lives as long as the worker. Found by a scan over the few
    /// resources there are, without an allocation.
    pub fn resource<T: Any>(&self, make: impl FnOnce() -> T) -> Rc<T> {
        if let Some(found) = self.find_resource() {
            return found;
        }
        // `make` runs without a borrow, so that it may ask for other resources.
        let made = Rc::new(make());
        self.resources.borrow_mut().push(made.clone());
        made
    }

    fn find_resource<T: Any>(&self) -> Option<Rc<T>> {
        let resources = self.resources.borrow();
        let found = resources.iter().find(|resource| resource.is::<T>())?;
        found.clone().downcast().ok()
    }
}

/// Wall clock less monotonic clock, as seconds and nanoseconds.
fn wall_offset() -> (u64, u64) {
    let monotonic = std::time::Duration::from_nanos(env::monotonic_ns());
    let offset = env::wall_clock().saturating_sub(monotonic);
    (offset.as_secs(), u64::from(offset.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_is_made_once_per_type() {
        let local = WorkerLocal::new(0, Arc::new(crate::testing::options()), Arc::default());
        let first = local.resource(|| Cell::new(1_u8));
        first.set(2);
        assert_eq!(local.resource(|| Cell::new(3_u8)).get(), 2);
        assert_eq!(local.resource(|| Cell::new(4_u16)).get(), 4);
    }
}
