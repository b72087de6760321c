//! The beginning of a session: its first datagram finds the route, plugins decide, and it goes to a node. A
//! plugin that waits gets a task; datagrams that arrive meanwhile wait with the session, up to a limit.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use exchange::plugin::stream::chain::Preread;
use exchange::plugin::stream::{PREREAD_MAX_BYTES, SessionEnd, StreamSession, StreamTransport};
use net::env;
use net::sniff::{self, FirstProtocol, Look};

use super::port::{Port, count_of};
use super::session::DatagramSession;
use super::table::SessionKey;
use super::{DECIDING_MAX, DatagramWorker};
use crate::context::WorkerContext;
use crate::downstream::stream::open::{fail_session, query};
use crate::downstream::stream::record::SessionRecord;
use crate::observe::datagram_counts::DropReason;
use crate::runtime::stream_route::StreamRoute;

/// The record of a session, and whether it goes on.
type Decided = (SessionRecord, Result<(), SessionEnd>);

impl DatagramWorker {
    /// Begins a session with its first datagram, or several that arrived together.
    pub(super) fn begin(
        self: &Rc<Self>,
        port: &Rc<Port>,
        key: SessionKey,
        bytes: &[u8],
        segment_bytes: u16,
        now_ms: u64,
    ) {
        let count = count_of(bytes, segment_bytes);
        let first = if segment_bytes == 0 { bytes } else { &bytes[..usize::from(segment_bytes)] };
        let local = (key.local, port.socket.address().port()).into();
        let mut session = StreamSession::new(key.client, local, self.context.local.clock_ns());
        session.transport = StreamTransport::Udp;
        session.first_bytes = first[..first.len().min(PREREAD_MAX_BYTES)].to_vec();
        let mut record = SessionRecord::begin(&self.context, session);
        let route = match find_route(&self.context, &mut record) {
            Ok(route) => route,
            Err(end) => {
                self.dropped(DropReason::Refused, count);
                return record.end_with(end);
            }
        };
        if !route.plugins.reads_nothing() {
            let timeout_ms = self.context.local.options.limits.head_timeout_ms;
            let mut decision: Pin<Box<dyn Future<Output = Decided>>> =
                Box::pin(decide(route.clone(), record, timeout_ms));
            // Most plugins decide at once. The waker of a task takes the place of this one if not.
            match decision.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready((decided, Ok(()))) => record = decided,
                Poll::Ready((mut decided, Err(end))) => {
                    self.dropped(DropReason::Refused, count);
                    return decided.end_with(end);
                }
                Poll::Pending if self.deciding.get() >= DECIDING_MAX => {
                    return self.dropped(DropReason::Waiting, count);
                }
                Poll::Pending => {
                    return self.wait_for(port, key, route, decision, (bytes, segment_bytes), now_ms);
                }
            }
        }
        let token = self.put(key, now_ms, |_| DatagramSession::new(port, &key, route, Some(record), now_ms));
        self.pass_in(token, bytes, segment_bytes, now_ms);
    }

    /// Keeps the session until its plugins have decided.
    fn wait_for(
        self: &Rc<Self>,
        port: &Rc<Port>,
        key: SessionKey,
        route: Arc<StreamRoute>,
        decision: Pin<Box<dyn Future<Output = Decided>>>,
        datagram: (&[u8], u16),
        now_ms: u64,
    ) {
        let token = self.put(key, now_ms, |_| DatagramSession::new(port, &key, route, None, now_ms));
        self.pass_in(token, datagram.0, datagram.1, now_ms);
        let place = DecidingPlace::new(self);
        env::spawn(async move {
            let (record, decided) = decision.await;
            place.0.decided(token, record, decided);
        });
    }

    /// Puts a session into the table; the one that was idle longest gives way to it if there is no room.
    fn put(&self, key: SessionKey, now_ms: u64, make: impl FnOnce(u64) -> DatagramSession) -> u64 {
        let mut sessions = self.sessions.borrow_mut();
        if let Some(session) = sessions.gives_way().and_then(|token| sessions.remove(token)) {
            session.finish(&self.context, SessionEnd::Evicted);
        }
        sessions.insert(key, now_ms, make)
    }

    /// The plugins of a session have decided.
    fn decided(&self, token: u64, mut record: SessionRecord, decided: Result<(), SessionEnd>) {
        let now_ms = self.now_ms();
        let waiting = {
            let mut sessions = self.sessions.borrow_mut();
            let Some(session) = sessions.used(token, now_ms) else {
                return record.end_with(SessionEnd::Evicted);
            };
            let waiting = session.take_waiting();
            match decided {
                Ok(()) => session.go_on(record),
                Err(end) => {
                    self.dropped(
                        DropReason::Refused,
                        waiting.iter().map(|one| count_of(&one.0, one.1)).sum(),
                    );
                    drop(sessions.remove(token));
                    return record.end_with(end);
                }
            }
            waiting
        };
        for (bytes, segment_bytes) in waiting {
            self.pass_in(token, &bytes, segment_bytes, now_ms);
        }
    }
}

/// A place among the sessions that wait for a decision.
struct DecidingPlace(Rc<DatagramWorker>);

impl DecidingPlace {
    fn new(worker: &Rc<DatagramWorker>) -> DecidingPlace {
        worker.deciding.set(worker.deciding.get() + 1);
        DecidingPlace(worker.clone())
    }
}

impl Drop for DecidingPlace {
    fn drop(&mut self) {
        self.0.deciding.set(self.0.deciding.get() - 1);
    }
}

/// Finds the route of a session by its addresses and its first datagram, in which no name of a TLS handshake
/// is looked for.
fn find_route(context: &WorkerContext, record: &mut SessionRecord) -> Result<Arc<StreamRoute>, SessionEnd> {
    let generation = context.generation();
    let asks = generation.stream_table.asks(&query(&record.session, None));
    let sniffed = (!asks.protocols.is_empty()).then(|| match sniff::protocol(&record.session.first_bytes) {
        Look::Found(protocol) => protocol,
        Look::More | Look::No => FirstProtocol::Unknown,
    });
    let found = generation.stream_table.find(&query(&record.session, sniffed)).cloned();
    let route = found.ok_or(SessionEnd::NoRoute)?;
    let session = &mut record.session;
    session.route_id = Some(route.id.clone());
    (session.route_name, session.service_id) = (route.name.clone(), route.service_id.clone());
    if route.uses_worker() {
        session.held.push(context.local.clone());
    }
    record.route = Some(route.clone());
    if let Some(missing) = &route.missing {
        return Err(fail_session(record, missing.failure()));
    }
    Ok(route)
}

/// Runs the plugins for `timeout_ms` at most. A datagram is whole, so that one that asks for more bytes
/// refuses it.
async fn decide(route: Arc<StreamRoute>, mut record: SessionRecord, timeout_ms: u64) -> Decided {
    let mut position = 0;
    let session = &mut record.session;
    let outcome = tokio::select! {
        biased;
        outcome = route.plugins.preread(session, &mut position) => Some(outcome),
        () = env::sleep_ms(timeout_ms) => None,
    };
    let decided = match outcome {
        Some(Preread::Done) => Ok(()),
        Some(Preread::More) => Err(SessionEnd::PrereadFault),
        Some(Preread::Rejected(plugin)) => {
            let session = &record.session;
            tracing::debug!(plugin, client = %session.client_address, reason = ?session.reason, "a session was refused");
            Err(record.session.end.unwrap_or(SessionEnd::Rejected))
        }
        None => Err(SessionEnd::PrereadTimeout),
    };
    (record, decided)
}
