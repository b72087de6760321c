//! The state of one stream (RFC 9113 section 5.1); it does not know the connection around it.

use multiplex::StoredHead;

use crate::connection::Reset;
use crate::flow::{ReceiveWindow, SendWindow};
use crate::{ErrorCode, Limits, Priority, pool};

/// How far one direction of a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// No final head yet.
    Head,
    /// The head is through, data may follow.
    Body,
    /// END_STREAM is through.
    Ended,
}

/// Why a stream does not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It does not ask for capacity.
    No,
    /// Its own window is empty.
    Window,
    /// It is in the connection's queue.
    Queue,
}

/// A stream in its slot, from its first head until the gateway releases it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) receiving: Side,
    pub(crate) sending: Side,
    pub(crate) waiting: Waiting,
    /// Whether it counts against the limit of streams.
    pub(crate) is_counted: bool,
    /// Whether the gateway knows it: its head event was taken, or it started the stream.
    pub(crate) is_known: bool,
    /// Whether a head event is queued.
    pub(crate) head_queued: bool,
    /// Whether a data event is queued.
    pub(crate) data_queued: bool,
    /// Whether content of the message is refused: an answer to HEAD, or one without content by its status.
    pub(crate) no_content: bool,
    /// The request was HEAD (client side).
    pub(crate) asked_head: bool,
    /// Interim heads received.
    pub(crate) interim_heads: u32,
    pub(crate) send_window: SendWindow,
    pub(crate) receive_window: ReceiveWindow,
    /// Received bytes that the gateway has not consumed.
    pub(crate) held_bytes: u32,
    /// Received bytes that the gateway has not taken.
    pub(crate) data: Vec<u8>,
    /// The request is larger than the limits: its head has only texts for a log.
    pub(crate) is_too_large: bool,
    /// A head that the gateway has not taken.
    pub(crate) head: Option<Box<StoredHead>>,
    /// Heads of the same response that came behind it, which is interim then.
    // Boxes, because a head is moved by its pointer.
    #[allow(clippy::vec_box)]
    pub(crate) later_heads: Vec<Box<StoredHead>>,
    /// Trailers that the gateway has not taken.
    pub(crate) trailers: Option<Box<StoredHead>>,
    /// Announced length of the content.
    pub(crate) content_length: Option<u64>,
    /// Content received.
    pub(crate) received_bytes: u64,
    /// DATA frames without data in a row, in the interval of the account that began at `empty_since_ms`.
    pub(crate) empty_frames: u32,
    pub(crate) empty_since_ms: u64,
    pub(crate) priority: Priority,
    /// Bytes reserved for it in the output, in the turn `grant_turn`.
    pub(crate) grant: usize,
    pub(crate) grant_turn: u32,
    pub(crate) reset: Option<Reset>,
}

impl Stream {
    /// A stream in its first state.
    pub(crate) fn new(id: u32, send_window: u32, receive_window: u32) -> Self {
        Self {
            id,
            receiving: Side::Head,
            sending: Side::Head,
            waiting: Waiting::No,
            is_counted: true,
            is_known: false,
            head_queued: false,
            data_queued: false,
            no_content: false,
            asked_head: false,
            is_too_large: false,
            interim_heads: 0,
            send_window: SendWindow::new(send_window),
            receive_window: ReceiveWindow::new(receive_window),
            held_bytes: 0,
            data: Vec::new(),
            head: None,
            later_heads: Vec::new(),
            trailers: None,
            content_length: None,
            received_bytes: 0,
            empty_frames: 0,
            empty_since_ms: 0,
            priority: Priority::default(),
            grant: 0,
            grant_turn: 0,
            reset: None,
        }
    }

    /// Whether both sides have ended without a reset.
    pub(crate) fn is_complete(&self) -> bool {
        self.receiving == Side::Ended && self.sending == Side::Ended
    }

    /// Whether the received message can still be taken. A peer that resets with NO_ERROR after its whole
    /// message declines the other direction only (RFC 9113 section 8.1).
    pub(crate) fn is_readable(&self) -> bool {
        self.reset.is_none_or(|reset| reset.code == ErrorCode::NO_ERROR && self.receiving == Side::Ended)
    }

    /// Whether the peer's message has ended without content and trailers.
    pub(crate) fn is_ended_by_head(&self) -> bool {
        self.receiving == Side::Ended && self.received_bytes == 0 && self.trailers.is_none()
    }

    /// Counts a DATA frame without data and returns how many came in a row, in the interval that began at
    /// `since_ms`.
    pub(crate) fn count_empty(&mut self, since_ms: u64) -> u32 {
        if std::mem::replace(&mut self.empty_since_ms, since_ms) != since_ms {
            self.empty_frames = 0;
        }
        self.empty_frames += 1;
        self.empty_frames
    }

    /// Appends received content.
    pub(crate) fn store(&mut self, bytes: &[u8]) {
        if self.data.capacity() == 0 {
            self.data = pool::take_bytes();
        }
        self.data.extend_from_slice(bytes);
    }

    /// Keeps a head of a response behind those that were not taken. An interim head beyond the limit is
    /// dropped.
    pub(crate) fn store_head(&mut self, head: Box<StoredHead>) {
        if self.head.is_none() {
            self.head = Some(head);
        } else if head.status < 200 && self.later_heads.len() >= Limits::WAITING_INTERIM_HEADS {
            pool::give_head(head);
        } else {
            self.later_heads.push(head);
        }
    }

    /// Takes the first head of a response that was not taken.
    pub(crate) fn take_head(&mut self) -> Option<Box<StoredHead>> {
        let head = self.head.take()?;
        if !self.later_heads.is_empty() {
            self.head = Some(self.later_heads.remove(0));
        }
        Some(head)
    }

    /// Gives the memory of content, heads and trailers back to the pool.
    pub(crate) fn drop_content(&mut self) {
        pool::give_bytes(std::mem::take(&mut self.data));
        let heads = self.head.take().into_iter().chain(self.trailers.take());
        heads.chain(std::mem::take(&mut self.later_heads)).for_each(pool::give_head);
    }
}
