//! The order in which streams may write: capacity, the queue of streams without it, and priorities (RFC
//! 9218). It refuses to know what they write.

use super::{Connection, Event};
use crate::Limits;
use crate::frame::HEADER_BYTES;
use crate::stream::{Side, Stream, Waiting};
use crate::streams::StreamKey;

impl Connection {
    /// Bytes of data that the stream may write now: limited by its window, the connection's window, and the
    /// output. Zero means that the stream waits: [`Event::Writable`] follows when it is its turn, unless it
    /// cannot write any more.
    pub fn capacity(&mut self, key: StreamKey) -> usize {
        let connection_window = self.send_window.available();
        let free = self.free_capacity();
        let turn = self.turn;
        let Some(stream) = self.streams.get_mut(key) else { return 0 };
        if stream.reset.is_some() || stream.sending == Side::Ended {
            return 0;
        }
        let window = stream.send_window.available();
        if window == 0 {
            self.wait_for_window(key);
            return 0;
        }
        let granted = stream.granted(turn);
        // Streams in the queue were there before this one.
        let usable = if self.waiting.is_empty() { granted + free } else { granted };
        let capacity = usable.min(window).min(connection_window);
        if capacity == 0 && stream.waiting != Waiting::Queue {
            self.enqueue(key);
        }
        capacity
    }

    /// Bytes of data that the windows of the stream and of the connection allow. The stream does not begin to
    /// wait.
    pub fn window(&self, key: StreamKey) -> usize {
        let window = self.streams.get(key).map_or(0, |stream| stream.send_window.available());
        window.min(self.send_window.available())
    }

    /// Puts a stream into the queue.
    pub(super) fn enqueue(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key)
            && stream.waiting != Waiting::Queue
        {
            stream.waiting = Waiting::Queue;
            self.waiting.push(key);
        }
    }

    /// Removes a stream from the queue.
    pub(super) fn stop_waiting(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if std::mem::replace(&mut stream.waiting, Waiting::No) == Waiting::Queue {
            self.waiting.retain(|other| *other != key);
        }
    }

    /// Takes written bytes out of the reservation of their stream.
    pub(super) fn use_grant(&mut self, key: StreamKey, count: usize) {
        let turn = self.turn;
        let Some(stream) = self.streams.get_mut(key) else { return };
        let used = stream.granted(turn).min(count);
        if used > 0 {
            stream.grant -= used;
            self.reserved -= used;
        }
    }

    /// Grants capacity to the next stream of the queue. Reservations of the turn before are void.
    pub(super) fn next_grant(&mut self) -> Option<Event> {
        if self.is_turn_over {
            self.turn = self.turn.wrapping_add(1);
            self.reserved = 0;
        }
        while !self.waiting.is_empty() {
            let free = self.free_capacity();
            if free == 0 {
                return None;
            }
            let key = self.waiting.remove(self.next_in_queue());
            let turn = self.turn;
            let Some(stream) = self.streams.get_mut(key) else { continue };
            stream.waiting = Waiting::No;
            let window = stream.send_window.available();
            if window == 0 {
                stream.waiting = Waiting::Window;
                continue;
            }
            let share = if stream.priority.is_incremental { Limits::QUANTUM_BYTES } else { usize::MAX };
            let grant = free.min(window).min(share);
            (stream.grant, stream.grant_turn) = (stream.granted(turn) + grant, turn);
            self.reserved += grant;
            return Some(Event::Writable(key));
        }
        if self.waiting.capacity() > KEPT_QUEUE {
            self.waiting = Vec::new();
        }
        None
    }

    /// The place in the queue of the stream that comes next: of the lowest urgency value the one that waits
    /// longest. If that one is not incremental, the one that was started first goes before it, so that such
    /// responses come one by one.
    fn next_in_queue(&self) -> usize {
        let priority = |place: usize| {
            let stream = self.waiting.get(place).and_then(|key| self.streams.get(*key));
            stream.map_or((u8::MAX, true, 0), |stream| {
                (stream.priority.urgency, stream.priority.is_incremental, stream.id)
            })
        };
        let mut best = 0;
        let mut found = priority(0);
        for place in 1..self.waiting.len() {
            let other = priority(place);
            let is_more_urgent = other.0 < found.0;
            let is_earlier = other.0 == found.0 && !found.1 && !other.1 && other.2 < found.2;
            if is_more_urgent || is_earlier {
                (best, found) = (place, other);
            }
        }
        best
    }

    fn wait_for_window(&mut self, key: StreamKey) {
        self.stop_waiting(key);
        if let Some(stream) = self.streams.get_mut(key) {
            stream.waiting = Waiting::Window;
        }
    }

    /// Bytes that are not reserved. An output that is nearly full counts as full, because small frames cost
    /// more than they carry.
    fn free_capacity(&self) -> usize {
        let space = self.config.output_bytes.saturating_sub(self.output.len());
        if space < self.config.output_bytes.div_ceil(MINIMUM_SPACE_PART) {
            return 0;
        }
        // The headers of the frames are a part of the output: an output that data fills up is written at
        // once, and ends where a record of TLS ends.
        let header_bytes = HEADER_BYTES * space.div_ceil(Limits::FRAME_BYTES as usize);
        let space = space.saturating_sub(header_bytes).max(1);
        space.min(self.send_window.available()).saturating_sub(self.reserved)
    }
}

impl Stream {
    /// Bytes reserved for the stream in this turn.
    fn granted(&self, turn: u32) -> usize {
        if self.grant_turn == turn { self.grant } else { 0 }
    }
}

/// The part of the output that has to be free before streams write again.
const MINIMUM_SPACE_PART: usize = 8;
/// Places of the queue that a connection without waiting streams keeps.
const KEPT_QUEUE: usize = 16;
