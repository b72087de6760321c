//! The one task of an HTTP/2 connection: it reads, lets the engine make events of the bytes, polls the
//! exchanges that have something to do, and writes the output of all of them at once. It decides nothing
//! about requests.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use http2::{Event, Limits, StreamKey};
use stdx::pooled::PooledBox;

use super::lifecycle::{ConnectionLoad, H2CloseMode, H2Lifecycle};
use super::link::DownstreamH2Link;
use super::served::{self, HeadArrival};
use crate::downstream::h1::connection::H1Connection;
use crate::downstream::h1::linger::linger;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::downstream::stream_counts::{Http2, StreamCounts};
use crate::downstream::streams::Streams;
use crate::h2::output::poll_write_output;
use net::env;

/// Most bytes read at once: four frames of the largest size.
const READ_BYTES: usize = 64 * 1024;
/// Rounds of reading, serving and writing in one poll of the task: about 512 KiB each way, some 200 µs. Other
/// connections of the worker have their turn then.
const ROUNDS_MAX: usize = 8;
/// Polls of exchanges in one poll of the task. To begin one takes some 10 µs.
const POLLS_MAX: usize = 64;

thread_local! {
    /// Where bytes are read into, shared by all connections of a thread: the engine takes all of them at
    /// once.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Serves a connection until it ends. Bytes that were read from it already are in its input.
pub(crate) async fn serve_h2_connection(connection: Box<H1Connection>, timer: ConnectionTimer) {
    let mut serving = PooledBox::make(|| Serving::new(connection, timer));
    let ended = poll_fn(|cx| serving.poll(cx)).await;
    let Serving { mut connection, timer, .. } = serving.into_inner();
    match ended {
        H2CloseMode::InOrder => PooledBox::pin(linger(&mut connection, &timer)).await,
        H2CloseMode::AtOnce => {}
        H2CloseMode::Cut => connection.stream.reset_on_close(),
    }
}

/// The state of the task.
struct Serving {
    // First, so that exchanges end while there is a connection.
    streams: Streams,
    link: Rc<DownstreamH2Link>,
    lifecycle: H2Lifecycle,
    connection: Box<H1Connection>,
    timer: ConnectionTimer,
    counts: StreamCounts<Http2>,
}

impl Serving {
    fn new(mut connection: Box<H1Connection>, timer: ConnectionTimer) -> Serving {
        let link = DownstreamH2Link::new(&timer.context);
        let input = connection.input.take();
        let mut serving = Serving {
            streams: Streams::default(),
            link,
            lifecycle: H2Lifecycle::new(timer.context.local.now_ms()),
            connection,
            counts: StreamCounts::begin(&timer.context.status, Http2),
            timer,
        };
        if let Some(input) = input {
            serving.receive(input.filled());
        }
        serving
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<H2CloseMode> {
        self.streams.set_task(cx.waker());
        self.link.adapt_windows();
        let mut polled = 0;
        for round in 1.. {
            let mut has_moved = self.read(cx);
            has_moved |= self.take_events();
            let count = self.streams.poll_ready(POLLS_MAX - polled);
            polled += count;
            has_moved |= count > 0;
            has_moved |= self.flush(cx);
            if !has_moved && !self.streams.has_ready() && !self.read_before_leaving() {
                break;
            }
            if round == ROUNDS_MAX || polled == POLLS_MAX {
                env::wake_after_events(cx);
                break;
            }
        }
        let ended = self.settle(cx);
        if ended.is_pending() && self.flush(cx) {
            // Frames about the end of the connection: it may be over now.
            return self.settle(cx);
        }
        ended
    }

    /// Reads once; whether anything came of it.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        // A client that does not read is not read from, so that the output stays as large as it is.
        if !self.lifecycle.reads() || self.link.engine().output_bytes() >= Limits::OUTPUT_BYTES {
            return false;
        }
        SCRATCH.with_borrow_mut(|room| match self.connection.stream.poll_read(cx, room) {
            Poll::Pending => false,
            Poll::Ready(Ok(0) | Err(_)) => {
                self.lose();
                true
            }
            Poll::Ready(Ok(count)) => {
                self.receive(&room[..count]);
                true
            }
        })
    }

    /// Reads what has arrived, if the connection is about to give way to another client: a request is
    /// answered then. Whether anything had.
    fn read_before_leaving(&mut self) -> bool {
        if self.streams.in_flight() > 0 || !self.timer.gives_way() || !self.lifecycle.reads() {
            return false;
        }
        SCRATCH.with_borrow_mut(|room| {
            let count = self.connection.stream.read_arrived(room);
            self.receive(&room[..count]);
            count > 0
        })
    }

    fn receive(&mut self, bytes: &[u8]) {
        let now_ms = self.timer.context.local.clock_ns() / 1_000_000;
        if self.link.engine().receive(bytes, now_ms).is_err() {
            // GOAWAY is in the output, and all streams have got their events.
            self.lifecycle.fail();
        }
    }

    /// The transport is gone: exchanges learn of it at once.
    fn lose(&mut self) {
        self.lifecycle.lose();
        self.link.engine().connection_lost();
        self.streams.mark_all();
    }

    /// Takes the events of the engine; whether there were any.
    fn take_events(&mut self) -> bool {
        let mut has_any = false;
        loop {
            let event = self.link.engine().next_event();
            let Some(event) = event else {
                if self.link.engine().has_refused() {
                    served::log_malformed_requests(&self.link, &self.connection.context());
                }
                return has_any;
            };
            has_any = true;
            match event {
                Event::Head(key) => self.begin(key, HeadArrival::Whole),
                Event::HeadTooLarge(key) => self.begin(key, HeadArrival::TooLarge),
                Event::Data(key) | Event::End(key) | Event::Reset(key, _) | Event::Writable(key) => {
                    self.streams.mark(key.index());
                }
                Event::SettingsChanged | Event::GoAway(_) | Event::Pong(_) | Event::Drained => {}
            }
        }
    }

    fn begin(&mut self, key: StreamKey, arrival: HeadArrival) {
        self.lifecycle.begin_stream(&self.timer);
        self.connection.requests = self.connection.requests.saturating_add(1);
        let (link, context) = (self.link.clone(), self.connection.context());
        let future = PooledBox::make(|| served::serve_h2_request(link, key, context, arrival));
        self.streams.begin(key.index(), future.into_dyn_future());
    }

    /// Writes the output; whether any of it was taken.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        while self.lifecycle.writes() {
            let mut engine = self.link.engine();
            if engine.output_bytes() == 0 {
                break;
            }
            match poll_write_output(&engine, cx, &mut self.connection.stream) {
                Poll::Ready(Ok(count @ 1..)) => {
                    engine.advance(count);
                    has_moved = true;
                }
                Poll::Ready(Ok(_) | Err(_)) => {
                    drop(engine);
                    self.lose();
                    return true;
                }
                Poll::Pending => break,
            }
        }
        self.lifecycle.note_output(has_moved);
        has_moved
    }

    /// Looks after deadlines and the end.
    fn settle(&mut self, cx: &mut Context<'_>) -> Poll<H2CloseMode> {
        self.counts.set_streams(self.streams.in_flight());
        if self.lifecycle.rests(self.timer.context.local.now_ms()) {
            self.streams.rest();
        }
        let load =
            ConnectionLoad { in_flight: self.streams.in_flight(), holds_slots: self.streams.holds_slots() };
        self.lifecycle.poll(cx, &mut self.connection, &self.timer, &self.link, load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connection_takes_at_most_3_kib() {
        fn size_of_future<F: Future>(_make: impl FnOnce(Box<H1Connection>, ConnectionTimer) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = size_of_future(serve_h2_connection)
            + size_of::<Serving>().next_power_of_two()
            + size_of::<H1Connection>()
            + size_of::<DownstreamH2Link>();
        assert!(bytes <= 2 * 1024, "{bytes} bytes besides HPACK tables and slots");
    }
}
