//! The one task of an HTTP/3 connection: it takes the streams that the client opens, polls the exchanges that
//! have something to do, and looks after the connection's own streams. The transport's task sends what they
//! write. It decides nothing about requests.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use http3::Event;
use stdx::pooled::PooledBox;

use super::connection::H3Connection;
use super::duties;
use super::lifecycle::H3Lifecycle;
use super::link::{H3Link, RequestStream, number};
use super::served;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::downstream::stream_counts::{Http3, StreamCounts};
use crate::downstream::streams::Streams;
use net::env;

/// Rounds of reading and serving in one poll of the task. Other connections of the worker have their turn
/// then.
const ROUNDS_MAX: usize = 8;
/// Polls of exchanges in one poll of the task. To begin one takes some 10 µs.
const POLLS_MAX: usize = 64;
/// Polls of the connection's own streams in one round.
const DUTIES_MAX: usize = 16;
/// Turns of the event loop in which the transport sends its last packet before the connection's task ends.
const LAST_TURNS: usize = 2;

/// Serves a connection until it ends.
pub(super) async fn serve_h3_connection(connection: Box<H3Connection>, timer: ConnectionTimer) {
    let mut serving = PooledBox::make(|| Serving::new(connection, timer));
    poll_fn(|cx| serving.poll(cx)).await;
    for _ in 0..LAST_TURNS {
        env::yield_to_events().await;
    }
}

/// The state of the task.
struct Serving {
    // First, so that exchanges end while there is a connection.
    streams: Streams,
    duties: Streams,
    link: Rc<H3Link>,
    lifecycle: H3Lifecycle,
    connection: Box<H3Connection>,
    timer: ConnectionTimer,
    counts: StreamCounts<Http3>,
    /// Bytes for the control stream at the last look.
    control_bytes: usize,
    /// The loss was made known to the exchanges.
    is_loss_reported: bool,
}

/// The duty that writes the control stream.
const CONTROL_SLOT: usize = 1;

impl Serving {
    fn new(connection: Box<H3Connection>, timer: ConnectionTimer) -> Serving {
        let link = H3Link::new(connection.quic.duplicate(), &timer.context);
        let mut duties = Streams::default();
        duties.begin(0, PooledBox::new(duties::accept_client_streams(link.clone())).into_dyn_future());
        duties.begin(CONTROL_SLOT, PooledBox::new(duties::write_control(link.clone())).into_dyn_future());
        Serving {
            streams: Streams::default(),
            duties,
            link,
            lifecycle: H3Lifecycle::new(timer.context.local.now_ms()),
            connection,
            counts: StreamCounts::begin(&timer.context.status, Http3),
            timer,
            control_bytes: 0,
            is_loss_reported: false,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.streams.set_task(cx.waker());
        self.duties.set_task(cx.waker());
        self.tick();
        let mut polled = 0;
        for round in 1.. {
            let mut has_moved = self.duties.poll_ready(DUTIES_MAX) > 0;
            has_moved |= self.begin_arrived();
            self.take_events();
            self.tell_loss();
            let count = self.streams.poll_ready(POLLS_MAX - polled);
            polled += count;
            has_moved |= count > 0;
            has_moved |= self.note_control();
            if !has_moved && !self.streams.has_ready() && !self.duties.has_ready() {
                break;
            }
            if round == ROUNDS_MAX || polled == POLLS_MAX {
                env::wake_after_events(cx);
                break;
            }
        }
        self.counts.set_streams(self.streams.in_flight());
        let ended = self.settle(cx);
        if ended.is_pending() && (self.note_control() || self.link.is_lost() && !self.is_loss_reported) {
            // Frames about the end of the connection, or exchanges that have to learn of it.
            env::wake_after_events(cx);
        }
        ended
    }

    fn settle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let in_flight = self.streams.in_flight();
        if in_flight == 0 {
            self.streams.rest();
        }
        self.lifecycle.poll(cx, &self.connection, &self.timer, &self.link, in_flight)
    }

    /// Tells the engine the time, and the exchanges too.
    fn tick(&mut self) {
        let now_ms = self.timer.context.local.clock_ns() / 1_000_000;
        let late = self.link.engine().tick(now_ms);
        if let Err(error) = late {
            self.link.fail(error);
        }
    }

    /// Begins what the client has opened; whether there was anything.
    fn begin_arrived(&mut self) -> bool {
        let mut has_any = false;
        loop {
            let stream = self.link.unidirectional.borrow_mut().pop_front();
            let Some(stream) = stream else { break };
            has_any = true;
            let reading = PooledBox::new(duties::read_unidirectional(self.link.clone(), stream));
            self.duties.begin_anywhere(reading.into_dyn_future());
        }
        loop {
            let stream = self.link.requests.borrow_mut().pop_front();
            let Some(stream) = stream else { return has_any };
            has_any = true;
            self.begin(stream);
        }
    }

    fn begin(&mut self, mut stream: RequestStream) {
        let Some(id) = stream.0.call_ref(quinn::SendStream::id) else { return };
        let reader = self.link.engine().open_request(id.into());
        let reader = match reader {
            Ok(reader) => reader,
            Err(error) => {
                let code = number(error.code);
                stream.0.call(|send| send.reset(code));
                stream.1.call(|receive| receive.stop(code));
                return;
            }
        };
        self.lifecycle.begin_stream(&self.timer);
        self.connection.requests = self.connection.requests.saturating_add(1);
        let (link, context) = (self.link.clone(), self.connection.context());
        let future = PooledBox::make(|| served::serve_h3_request(link, stream, reader, context));
        self.streams.begin_anywhere(future.into_dyn_future());
    }

    /// Takes the events of the engine. The priority of a response is settled when its request arrives.
    fn take_events(&mut self) {
        loop {
            let event = self.link.engine().next_event();
            match event {
                None => return,
                Some(Event::SettingsArrived | Event::GoAway(_) | Event::PriorityChanged(..)) => {}
            }
        }
    }

    /// Lets exchanges learn that the connection is lost.
    fn tell_loss(&mut self) {
        if self.link.is_lost() && !std::mem::replace(&mut self.is_loss_reported, true) {
            self.streams.mark_all();
        }
    }

    /// Marks the duty that writes the control stream if there is more for it; whether there is.
    fn note_control(&mut self) -> bool {
        let bytes = self.link.engine().control_output().len();
        let has_more = bytes > self.control_bytes;
        self.control_bytes = bytes;
        if has_more {
            self.duties.mark(CONTROL_SLOT);
        }
        has_more
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use super::*;

    #[test]
    fn idle_connection_takes_at_most_4_kib() {
        fn size_of_future<F: Future>(_make: impl FnOnce(Box<H3Connection>, ConnectionTimer) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = size_of_future(serve_h3_connection)
            + size_of::<Serving>().next_power_of_two()
            + size_of::<H3Connection>()
            + size_of::<H3Link>();
        assert!(bytes <= 4 * 1024, "{bytes} bytes besides the transport's");
    }
}
