//! The side of the nodes: sockets with answers are found by one look, read into the batch of the worker, and
//! the batch is sent to the clients at once.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use exchange::observe::histogram::bump;
use exchange::plugin::stream::SessionEnd;
use net::env;
use net::env::udp::{DatagramSendFault, fault_of};

use super::DatagramWorker;
use crate::observe::datagram_counts::DropReason;

/// Slots that the first read of a node's socket may fill, because most have one datagram and each slot costs.
/// A read that fills fewer has emptied its socket.
const FIRST_SLOTS: usize = 2;
/// Slots that each further read may fill.
const SLOTS_AT_ONCE: usize = 8;
/// Reads of one socket before others have their turn.
const READS_AT_ONCE: usize = 4;
/// The wait after an error of the kernel.
const ERROR_WAIT_MS: u64 = 100;

impl DatagramWorker {
    /// Passes the answers of all nodes on, for as long as the worker runs.
    pub(crate) async fn serve_nodes(self: Rc<Self>) {
        loop {
            let error = poll_fn(|cx| self.poll_nodes(cx)).await;
            tracing::warn!(%error, "answers of nodes cannot be waited for");
            env::sleep_ms(ERROR_WAIT_MS).await;
        }
    }

    /// Reads the sockets with answers; ready with an error alone.
    fn poll_nodes(&self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let unread = std::mem::take(&mut *self.unread.borrow_mut());
        let mut found = self.ready.borrow_mut();
        found.clear();
        let look = self.nodes.poll_ready(cx, &mut found);
        if let Poll::Ready(Err(error)) = look {
            *self.unread.borrow_mut() = unread;
            return Poll::Ready(error);
        }
        if look.is_pending() && unread.is_empty() {
            return Poll::Pending;
        }
        let now_ms = self.now_ms();
        for token in unread.into_iter().chain(found.tokens()) {
            self.take_answers(token, now_ms);
        }
        self.send_answers();
        if look.is_ready() || !self.unread.borrow().is_empty() {
            env::wake_after_events(cx);
        }
        Poll::Pending
    }

    /// Reads the socket of a session, which may have ended since the look.
    fn take_answers(&self, token: u64, now_ms: u64) {
        let mut sessions = self.sessions.borrow_mut();
        for read in 0..READS_AT_ONCE {
            let most = if read == 0 { FIRST_SLOTS } else { SLOTS_AT_ONCE };
            let Some(session) = sessions.used(token, now_ms) else { return };
            let is_other =
                self.answering.borrow().as_ref().is_none_or(|port| !Rc::ptr_eq(port, session.port()));
            if is_other || self.batch.borrow().free() < most {
                self.send_answers();
                *self.answering.borrow_mut() = Some(session.port().clone());
            }
            let end = match session.take_answers(&mut self.batch.borrow_mut(), most) {
                Ok(answers) => {
                    bump(&self.context.status.datagrams.answered, answers.datagrams);
                    if session.is_answered() {
                        SessionEnd::Closed
                    } else if answers.slots < most {
                        return;
                    } else {
                        continue;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => match session.node_failed(&self.context, &error) {
                    Ok(()) => return,
                    Err(end) => end,
                },
            };
            if let Some(session) = sessions.remove(token) {
                session.finish(&self.context, end);
            }
            return;
        }
        self.unread.borrow_mut().push(token);
    }

    /// Sends the answers of the batch to their clients.
    fn send_answers(&self) {
        let port = self.answering.borrow_mut().take();
        let mut batch = self.batch.borrow_mut();
        let Some(port) = port else { return };
        if batch.is_empty() {
            return batch.clear();
        }
        port.socket.send(&mut batch, |error| {
            let reason = match fault_of(error) {
                DatagramSendFault::TooLarge => DropReason::TooLarge,
                DatagramSendFault::Busy => DropReason::ClientBusy,
                DatagramSendFault::Peer => DropReason::ClientFailed,
            };
            self.dropped(reason, 1);
        });
    }
}
