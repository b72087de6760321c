//! The calls of the owner of an end: reading, writing, shutting down, closing. Arrival is decided elsewhere.

use std::io;
use std::task::{Context, Poll};

use super::{Flight, LAG_NS_MAX, MemoryConnection};
use crate::env::PeerEnd;

impl MemoryConnection {
    pub(in super::super) fn poll_read_ready(&mut self, end: usize, cx: &Context<'_>) -> Poll<()> {
        let this = &mut self.ends[end];
        if this.readable {
            return Poll::Ready(());
        }
        this.read_waker = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(in super::super) fn is_readable(&self, end: usize) -> bool {
        self.ends[end].readable
    }

    pub(in super::super) fn peer_end(&self, end: usize) -> PeerEnd {
        let this = &self.ends[end];
        match (this.reset, this.finished) {
            (true, _) => PeerEnd::Reset,
            (false, true) => PeerEnd::Closed,
            (false, false) => PeerEnd::Open,
        }
    }

    pub(in super::super) fn poll_read(
        &mut self,
        end: usize,
        cx: &Context<'_>,
        room: &mut [u8],
        now_ns: u64,
    ) -> Poll<io::Result<usize>> {
        assert!(!room.is_empty(), "a read without room looks like the end of the stream");
        if self.poll_read_ready(end, cx).is_pending() {
            return Poll::Pending;
        }
        if let Some(outcome) = self.outcome_without_data(end, cx) {
            return outcome;
        }
        let mut most = room.len();
        if self.random.chance(self.link.pieces_percent) {
            most = 1 + self.random.below(most as u64) as usize;
        }
        let room = &mut room[..most];
        let count = self.take(end, room, now_ns);
        if count < room.len() {
            self.note_drained(end);
        }
        Poll::Ready(Ok(count))
    }

    /// An event loop with edge-triggered readiness does this after a read that did not fill its buffer.
    fn note_drained(&mut self, end: usize) {
        let this = &mut self.ends[end];
        if this.received.is_empty() {
            this.readable = this.at_end() && this.notice_ns.is_none();
        }
    }

    /// The result of a read where nothing has arrived.
    fn outcome_without_data(&mut self, end: usize, cx: &Context<'_>) -> Option<Poll<io::Result<usize>>> {
        let this = &mut self.ends[end];
        if !this.received.is_empty() {
            return None;
        }
        if this.reset && !std::mem::replace(&mut this.reset_reported, true) {
            return Some(Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())));
        }
        if this.at_end() {
            return Some(Poll::Ready(Ok(0)));
        }
        this.readable = false;
        this.read_waker = Some(cx.waker().clone());
        Some(Poll::Pending)
    }

    fn take(&mut self, end: usize, room: &mut [u8], now_ns: u64) -> usize {
        let latency_ns = self.random.between(self.link.latency_ns.0, self.link.latency_ns.1);
        let this = &mut self.ends[end];
        let count = room.len().min(this.received.len());
        for (place, byte) in room.iter_mut().zip(this.received.drain(..count)) {
            *place = byte;
        }
        let sender = &mut self.ends[1 - end];
        if count > 0 && sender.write_waker.is_some() && sender.writable_ns.is_none() {
            sender.writable_ns = Some(now_ns + latency_ns);
        }
        count
    }

    pub(in super::super) fn read_arrived(&mut self, end: usize, room: &mut [u8], now_ns: u64) -> usize {
        self.take(end, room, now_ns)
    }

    pub(in super::super) fn drop_seen(
        &mut self,
        end: usize,
        room: &mut [u8],
        is_all: bool,
        now_ns: u64,
    ) -> usize {
        let count = self.take(end, room, now_ns);
        if is_all {
            // The event loop would be told that nothing is left, and not tell of this again.
            assert!(self.ends[end].received.is_empty(), "bytes came between a look and what it said");
            self.note_drained(end);
        }
        count
    }

    pub(in super::super) fn poll_peek(
        &mut self,
        end: usize,
        cx: &Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.poll_read_ready(end, cx).is_pending() {
            return Poll::Pending;
        }
        if let Some(outcome) = self.outcome_without_data(end, cx) {
            return outcome;
        }
        // All of it, because a reader that gets fewer bytes than fit concludes that nothing is behind them.
        let received = &self.ends[end].received;
        for (place, byte) in room.iter_mut().zip(received) {
            *place = *byte;
        }
        Poll::Ready(Ok(room.len().min(received.len())))
    }

    pub(in super::super) fn poll_peek_more(
        &mut self,
        end: usize,
        cx: &Context<'_>,
        room: &mut [u8],
        seen: usize,
    ) -> Poll<io::Result<usize>> {
        let polled = self.poll_peek(end, cx, room);
        let this = &mut self.ends[end];
        if matches!(polled, Poll::Ready(Ok(count)) if count > 0 && count <= seen && !this.finished && !this.reset)
        {
            this.readable = false;
            this.read_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        polled
    }

    pub(in super::super) fn poll_write(
        &mut self,
        end: usize,
        cx: &Context<'_>,
        data: &[u8],
        now_ns: u64,
    ) -> Poll<io::Result<usize>> {
        if self.ends[end].shut || self.ends[end].reset {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = self.ends[1 - end].room();
        let pauses = self.random.chance(self.link.lag_percent);
        let this = &mut self.ends[end];
        if room == 0 || this.writable_ns.is_some() || (pauses && !data.is_empty()) {
            this.write_waker = Some(cx.waker().clone());
            if room > 0 && this.writable_ns.is_none() {
                this.writable_ns = Some(now_ns + 1 + self.random.below(LAG_NS_MAX));
            }
            return Poll::Pending;
        }
        let mut count = room.min(data.len());
        if count > 1 && self.random.chance(self.link.pieces_percent) {
            count = 1 + self.random.below(count as u64 - 1) as usize;
        }
        self.send(1 - end, Flight::Bytes(data[..count].to_vec()), now_ns);
        Poll::Ready(Ok(count))
    }

    pub(in super::super) fn room_bytes(&self, end: usize) -> usize {
        self.ends[end].room_bytes
    }

    pub(in super::super) fn poll_third_free(&mut self, end: usize, cx: &Context<'_>) -> Poll<()> {
        let (peer, this) = (&self.ends[1 - end], &self.ends[end]);
        // A write finds out that it is over.
        if 3 * peer.room() >= peer.room_bytes || this.shut || this.reset {
            return Poll::Ready(());
        }
        self.ends[end].write_waker = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(in super::super) fn shut(&mut self, end: usize, now_ns: u64) -> io::Result<()> {
        if self.ends[end].reset {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if !std::mem::replace(&mut self.ends[end].shut, true) {
            self.send(1 - end, Flight::Fin, now_ns);
        }
        Ok(())
    }

    pub(in super::super) fn set_resets_on_close(&mut self, end: usize, resets: bool) {
        self.ends[end].resets_on_close = resets;
    }

    pub(in super::super) fn close(&mut self, end: usize, now_ns: u64) {
        let this = &mut self.ends[end];
        this.closed = true;
        (this.read_waker, this.write_waker) = (None, None);
        let resets = this.resets_on_close || !this.received.is_empty() || self.link.hardens_closes;
        this.received.clear();
        if this.reset {
            return;
        }
        if resets {
            // Unsent bytes are lost; only the kernel knows how many.
            let flying = &mut self.ends[1 - end].flying;
            let kept = self.random.below(flying.len() as u64 + 1) as usize;
            flying.truncate(kept);
            let bytes =
                |(_, flight): &(u64, Flight)| if let Flight::Bytes(bytes) = flight { bytes.len() } else { 0 };
            let flying_bytes = flying.iter().map(bytes).sum();
            self.ends[1 - end].flying_bytes = flying_bytes;
            self.send(1 - end, Flight::Reset, now_ns);
        } else if !self.ends[end].shut {
            self.send(1 - end, Flight::Fin, now_ns);
        }
    }
}
