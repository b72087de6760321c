//! The side of the clients: datagrams of a listener's socket are received in batches, and each is given to
//! the session of its client, or begins one. A listener that closes begins no session, and serves those that
//! it has until they are idle.

use std::future::poll_fn;
use std::net::UdpSocket;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use exchange::observe::histogram::bump;
use net::env;
use net::env::udp::{ClientSocket, DatagramBatch};

use super::port::Port;
use super::table::SessionKey;
use super::{DatagramWorker, SWEEP_MS};
use crate::command::AcceptQueuePolicy;
use crate::downstream::listener_state::OpenListener;
use crate::observe::datagram_counts::DropReason;

/// Batches that are received before other tasks have their turn.
const BATCHES_AT_ONCE: usize = 4;
/// The wait after an error of the kernel, which has short memory then.
const ERROR_WAIT_MS: u64 = 100;

impl DatagramWorker {
    /// Serves the clients of one socket until its listener has closed and its sessions have ended.
    pub(crate) async fn serve_clients(self: Rc<Self>, open: Rc<OpenListener>, socket: UdpSocket) {
        let address = open.listener.address();
        let number = self.ports.get();
        self.ports.set(number.wrapping_add(1));
        let port = match ClientSocket::attach(socket) {
            Ok(socket) => Rc::new(Port { number, socket, open: open.clone() }),
            Err(error) => {
                let worker = self.context.local.index;
                return tracing::error!(%error, %address, worker, "a worker cannot receive datagrams");
            }
        };
        if open.queue().is_none() {
            tokio::select! {
                biased;
                () = self.receive(&port) => {}
                () = open.closing() => {}
            }
        }
        // Another process receives what clients send from now on, if there is one; nodes may answer here
        // until then.
        if open.queue() == Some(AcceptQueuePolicy::Leave) {
            return;
        }
        while Rc::strong_count(&port) > 1 {
            tokio::select! {
                biased;
                () = self.receive(&port) => {}
                () = env::sleep_ms(SWEEP_MS) => {}
            }
        }
    }

    async fn receive(self: &Rc<Self>, port: &Rc<Port>) {
        loop {
            let error = poll_fn(|cx| self.poll_clients(cx, port)).await;
            let address = port.socket.address();
            tracing::warn!(%error, %address, "datagrams cannot be received");
            env::sleep_ms(ERROR_WAIT_MS).await;
        }
    }

    /// Receives and passes on until nothing more has arrived; ready with an error alone.
    fn poll_clients(self: &Rc<Self>, cx: &mut Context<'_>, port: &Rc<Port>) -> Poll<std::io::Error> {
        for _ in 0..BATCHES_AT_ONCE {
            let mut batch = self.batch.borrow_mut();
            batch.clear();
            if let Err(error) = ready!(port.socket.poll_receive(cx, &mut batch)) {
                return Poll::Ready(error);
            }
            self.take_in(port, &batch);
            batch.clear();
        }
        env::wake_after_events(cx);
        Poll::Pending
    }

    fn take_in(self: &Rc<Self>, port: &Rc<Port>, batch: &DatagramBatch) {
        let now_ms = self.now_ms();
        let address = port.socket.address();
        let mut received = 0;
        for datagram in batch.datagrams() {
            received += datagram.count();
            let local = datagram.local.unwrap_or(address.ip());
            let key = SessionKey { port: port.number, client: datagram.client, local };
            let (bytes, segment_bytes) = (batch.bytes(datagram), datagram.segment_bytes);
            let found = self.sessions.borrow().find(&key);
            match found {
                Some(token) => self.pass_in(token, bytes, segment_bytes, now_ms),
                None if port.open.queue().is_some() => self.dropped(DropReason::Closing, datagram.count()),
                None => self.begin(port, key, bytes, segment_bytes, now_ms),
            }
        }
        bump(&self.context.status.datagrams.received, received);
    }

    /// Gives a datagram, or several, to its session.
    pub(super) fn pass_in(&self, token: u64, bytes: &[u8], segment_bytes: u16, now_ms: u64) {
        let mut sessions = self.sessions.borrow_mut();
        let Some(session) = sessions.used(token, now_ms) else { return };
        let passed = session.pass_in(self.seam(), token, bytes, segment_bytes);
        let (is_proven, is_full) = (session.has_answers(), session.is_full());
        if let Err(end) = passed {
            if let Some(session) = sessions.remove(token) {
                session.finish(&self.context, end);
            }
            return;
        }
        if is_proven {
            sessions.prove(token);
        }
        if is_full {
            sessions.unbind(token);
        }
    }
}
