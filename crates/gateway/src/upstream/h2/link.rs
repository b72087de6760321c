//! An HTTP/2 connection to an endpoint, as its streams, its task and the pool share it: the engine, the
//! transport, the wakers of the streams, and the reason of its end. It decides nothing about requests and
//! sets no timer.

pub(super) mod bytes;
mod settings;

use std::borrow::Cow;
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use http2::{Connection, Event, Limits, Reset, ResetBy, StartError, StreamKey};

use super::config;
use crate::h2::reset_text;
use crate::h2::windows::WindowSizer;
use crate::upstream::counted::CountedTransport;
use exchange::WorkerLocal;
use exchange::failure::{Cause, ExchangeFailure};
use net::endpoint::Endpoint;

/// After the endpoint refused a stream, for so long no request is sent here that was refused before.
const REFUSAL_MS: u64 = 1_000;
/// The largest identifier of a stream is 2^31-1, and a client uses every other one.
const STREAMS_OF_CONNECTION_MAX: u32 = (1 << 30) - 1;

/// How far the end of a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkStage {
    Open,
    /// It takes no further stream and ends with its last one.
    Closing,
    /// It has ended.
    Lost,
}

/// See the module. No borrow of a cell outlasts one call.
pub(crate) struct H2Link {
    engine: RefCell<Connection>,
    windows: RefCell<WindowSizer>,
    transport: RefCell<Option<CountedTransport>>,
    endpoint: Arc<Endpoint>,
    /// The server name that TLS was opened with: the connection serves requests for this name only.
    server_name: Option<Box<str>>,
    local: Rc<WorkerLocal>,
    /// The wakers of the streams that wait, by slot.
    wakers: RefCell<Vec<Waker>>,
    /// The wakers of requests that wait for the SETTINGS of the endpoint.
    settings_waiters: RefCell<Vec<Waker>>,
    task: RefCell<Waker>,
    is_task_woken: Cell<bool>,
    /// Bytes of the output that the transport took.
    written_bytes: Cell<u64>,
    /// Streams that are checked out.
    active: Cell<u32>,
    /// Streams that were checked out so far.
    started: Cell<u32>,
    /// When the last stream ended, in milliseconds of the worker's clock.
    idle_from_ms: Cell<u64>,
    /// When the endpoint last refused a stream.
    refused_at_ms: Cell<Option<u64>>,
    /// No byte of the endpoint has arrived.
    is_unspoken: Cell<bool>,
    /// Streams that the endpoint is assumed to allow before its SETTINGS arrive.
    assumed_streams: u32,
    stage: Cell<LinkStage>,
    /// Why it ended.
    fault: RefCell<Option<(Cause, Cow<'static, str>)>>,
}

impl H2Link {
    /// A connection over `transport`, which was just opened. The endpoint is assumed to allow
    /// `assumed_streams`.
    pub(crate) fn new(
        transport: CountedTransport,
        assumed_streams: u32,
        endpoint: Arc<Endpoint>,
        server_name: Option<Box<str>>,
        local: Rc<WorkerLocal>,
    ) -> Rc<H2Link> {
        let windows = config::upstream_window_sizer(&local);
        Rc::new(H2Link {
            engine: RefCell::new(Connection::client(config::limits(&local, windows.windows()))),
            windows: RefCell::new(windows),
            transport: RefCell::new(Some(transport)),
            endpoint,
            server_name,
            idle_from_ms: Cell::new(local.now_ms()),
            local,
            wakers: RefCell::default(),
            settings_waiters: RefCell::default(),
            task: RefCell::new(Waker::noop().clone()),
            is_task_woken: Cell::new(false),
            written_bytes: Cell::new(0),
            active: Cell::new(0),
            started: Cell::new(0),
            refused_at_ms: Cell::new(None),
            is_unspoken: Cell::new(true),
            assumed_streams,
            stage: Cell::new(LinkStage::Open),
            fault: RefCell::new(None),
        })
    }

    /// The engine, for one call.
    #[inline]
    pub(super) fn engine(&self) -> RefMut<'_, Connection> {
        self.engine.borrow_mut()
    }

    pub(super) fn local(&self) -> &Rc<WorkerLocal> {
        &self.local
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Streams that are checked out.
    pub(super) fn active(&self) -> u32 {
        self.active.get()
    }

    /// Whether it may serve a request for that server name; none is a request without TLS.
    #[inline]
    pub(super) fn is_for(&self, server_name: Option<&str>) -> bool {
        match (&self.server_name, server_name) {
            (None, None) => true,
            (Some(own), Some(wanted)) => own.eq_ignore_ascii_case(wanted),
            _ => false,
        }
    }

    /// Whether it can take one more stream. A request that an endpoint `was_refused` goes to no connection
    /// that refused one just now.
    pub(super) fn can_take(&self, was_refused: bool) -> bool {
        if self.stage.get() != LinkStage::Open || self.is_spent() {
            return false;
        }
        if self.active.get() == 0 && !self.look() {
            return false;
        }
        let now_ms = self.local.now_ms();
        let has_refused = |at_ms: u64| was_refused && now_ms < at_ms.saturating_add(REFUSAL_MS);
        if self.refused_at_ms.get().is_some_and(has_refused) {
            return false;
        }
        let engine = self.engine();
        engine.can_start().is_ok()
            && self.active.get() < self.streams_max(&engine)
            && engine.output_bytes() < Limits::OUTPUT_BYTES
    }

    /// Streams that the endpoint allows, if the connection is open and the endpoint has told.
    pub(super) fn allowed_streams(&self) -> Option<u32> {
        let engine = self.engine();
        let settings = engine.peer_settings();
        (self.stage.get() == LinkStage::Open && settings.has_arrived)
            .then_some(settings.max_concurrent_streams)
    }

    /// Whether the connection will take no further stream.
    pub(super) fn has_ended(&self) -> bool {
        self.stage.get() != LinkStage::Open
            || self.is_spent()
            || matches!(
                self.engine().can_start(),
                Err(StartError::GoAway | StartError::IdsExhausted | StartError::Closed)
            )
    }

    /// Since when no stream is checked out; none if one is.
    pub(super) fn idle_from_ms(&self) -> Option<u64> {
        (self.active.get() == 0).then(|| self.idle_from_ms.get())
    }

    /// Whether an earlier exchange used the connection.
    pub(super) fn is_reused(&self) -> bool {
        self.started.get() > 1
    }

    /// Counts a stream that is checked out.
    pub(super) fn begin_stream(&self) {
        self.active.set(self.active.get() + 1);
        self.started.set(self.started.get().saturating_add(1));
    }

    /// Gives a stream back, with its slot in the engine if it was started.
    pub(super) fn end_stream(&self, key: Option<StreamKey>) {
        if let Some(key) = key {
            self.engine().release(key);
            if let Some(waker) = self.wakers.borrow_mut().get_mut(key.index()) {
                *waker = Waker::noop().clone();
            }
        }
        self.active.set(self.active.get() - 1);
        if self.active.get() == 0 {
            self.idle_from_ms.set(self.local.now_ms());
        }
        self.wake_task_for_output();
        if self.active.get() == 0 && self.has_ended() {
            self.wake_task();
        }
    }

    /// The stream waits: the task of `cx` is woken at the next event of it.
    #[inline]
    pub(super) fn park(&self, key: StreamKey, cx: &Context<'_>) {
        let mut wakers = self.wakers.borrow_mut();
        let index = key.index();
        if index >= wakers.len() {
            wakers.resize(index + 1, Waker::noop().clone());
        }
        wakers[index].clone_from(cx.waker());
    }

    /// Has the connection's task write the output in this turn of the event loop.
    #[inline]
    pub(super) fn wake_task_for_output(&self) {
        if self.engine.borrow().output_bytes() > 0 {
            self.wake_task();
        }
    }

    fn wake_task(&self) {
        if !self.is_task_woken.replace(true) {
            self.task.borrow().wake_by_ref();
        }
    }

    /// Names the task, which runs now.
    pub(super) fn begin_turn(&self, cx: &Context<'_>) {
        self.task.borrow_mut().clone_from(cx.waker());
        self.is_task_woken.set(false);
    }

    /// Bytes of all output up to now: the place of the next frame in the connection.
    pub(super) fn output_place(&self) -> u64 {
        self.written_bytes.get() + self.engine.borrow().output_bytes() as u64
    }

    /// Whether a byte behind `place` may have reached the endpoint.
    pub(super) fn has_sent_beyond(&self, place: u64) -> bool {
        let transport = self.transport.borrow();
        self.written_bytes.get() > place
            || transport.as_ref().is_some_and(|transport| transport.holds_unconfirmed())
    }

    /// Notes why the connection ends, unless there is an earlier reason.
    fn blame(&self, cause: Cause, detail: impl Into<Cow<'static, str>>) {
        self.fault.borrow_mut().get_or_insert((cause, detail.into()));
    }

    /// The transport has ended, for the reason that was noted.
    pub(super) fn fail(&self) {
        self.lose(Cause::NoResponse, "the connection ended");
    }

    /// Wakes the streams that something has happened to; whether the endpoint made progress with one.
    pub(super) fn deliver(&self) -> bool {
        let mut has_progress = false;
        loop {
            let Some(event) = self.engine().next_event() else { return has_progress };
            has_progress |= matches!(event, Event::Head(_) | Event::Data(_) | Event::End(_));
            if matches!(event, Event::SettingsChanged | Event::GoAway(_)) {
                self.wake_settings_waiters();
            }
            if let Some(key) = event.stream()
                && let Some(waker) = self.wakers.borrow().get(key.index())
            {
                waker.wake_by_ref();
            }
        }
    }

    /// Lets it end with its last stream.
    pub(super) fn close(&self) {
        if self.stage.get() == LinkStage::Open {
            self.stage.set(LinkStage::Closing);
            self.wake_settings_waiters();
            self.wake_task();
        }
    }

    /// Whether the task is done: the connection has ended, or it is to end and has no stream.
    pub(super) fn is_done(&self) -> bool {
        self.stage.get() == LinkStage::Lost
            || self.engine.borrow().failure().is_some()
            || (self.active.get() == 0 && self.has_ended())
    }

    /// The connection has ended: its streams fail, with `cause` unless there is an earlier one.
    pub(super) fn lose(&self, cause: Cause, detail: impl Into<Cow<'static, str>>) {
        if self.stage.replace(LinkStage::Lost) == LinkStage::Lost {
            return;
        }
        self.blame(cause, detail);
        self.engine().connection_lost();
        if self.transport.borrow_mut().take().is_some_and(|transport| transport.holds_unconfirmed()) {
            // Records of every request that waited may have reached the endpoint.
            self.written_bytes.set(u64::MAX);
        }
        self.deliver();
        self.wake_settings_waiters();
        self.wake_task();
    }

    /// The failure of a stream that ended before its time; `cause` is for one that the endpoint reset.
    #[cold]
    pub(super) fn failure_of(&self, reset: Reset, cause: Cause) -> ExchangeFailure {
        if reset.is_unprocessed && reset.by == ResetBy::Peer {
            self.refused_at_ms.set(Some(self.local.now_ms()));
        }
        let fault = self.fault.borrow();
        let (cause, detail) = match (&*fault, reset.by) {
            // Inside a body the client only learns that it was cut, for whatever reason.
            (Some((ended, detail)), ResetBy::Connection) if cause == Cause::NoResponse => {
                (*ended, detail.clone())
            }
            (Some((_, detail)), ResetBy::Connection) => (cause, detail.clone()),
            (_, ResetBy::Fault) if cause == Cause::NoResponse => {
                (Cause::BadResponse, reset_text(reset).into())
            }
            _ => (cause, reset_text(reset).into()),
        };
        ExchangeFailure::new(cause, detail).at(self.endpoint.address)
    }

    /// The failure of a request that could not be started.
    #[cold]
    pub(super) fn unstarted(&self, error: StartError) -> ExchangeFailure {
        ExchangeFailure::new(Cause::NoResponse, error.to_string()).at(self.endpoint.address)
    }

    /// Whether it has served as many requests as it may.
    fn is_spent(&self) -> bool {
        let limit = match self.endpoint.keep_alive.requests {
            0 => STREAMS_OF_CONNECTION_MAX,
            requests => requests,
        };
        self.started.get() >= limit
    }

    fn streams_max(&self, engine: &Connection) -> u32 {
        let theirs = match engine.peer_settings() {
            settings if settings.has_arrived => settings.max_concurrent_streams,
            _ => self.assumed_streams,
        };
        theirs.min(self.local.options.limits.upstream_http2.max_streams)
    }
}
