//! Payloads that were handed over with their memory, and where they stand between the frames of an output. It
//! does not know frames.

use std::collections::VecDeque;
use std::io::IoSlice;

use stdx::segment::ByteSegment;

/// See the module. Positions are those of the buffer of frames.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    runs: VecDeque<PayloadRun>,
    /// The memory of the runs, in their order: each is the content of one run or of several that follow each
    /// other.
    segments: VecDeque<ByteSegment>,
    /// Bytes of all runs.
    waiting_bytes: usize,
}

/// Bytes of a segment that stand in one piece between frames.
#[derive(Debug)]
struct PayloadRun {
    /// The position in front of which all frames come first.
    at: usize,
    count: usize,
}

impl Payloads {
    /// Number of payload bytes that wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether no payload waits.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a segment of which `count` bytes stand at the position `at`; the others have to follow.
    pub(super) fn push(&mut self, at: usize, segment: ByteSegment, count: usize) {
        self.segments.push_back(segment);
        self.push_rest(at, count);
    }

    /// Has the next `count` bytes of the last segment stand at the position `at`.
    pub(super) fn push_rest(&mut self, at: usize, count: usize) {
        self.runs.push_back(PayloadRun { at, count });
        self.waiting_bytes += count;
    }

    /// The bytes that come next behind `start`, as far as they lie in one piece.
    pub(super) fn next_slice<'a>(&'a self, frames: &'a [u8], start: usize) -> &'a [u8] {
        match (self.runs.front(), self.segments.front()) {
            (Some(run), Some(segment)) if run.at == start => &segment.bytes()[..run.count],
            (Some(run), _) => &frames[start..run.at],
            _ => &frames[start..],
        }
    }

    /// Puts the bytes that come next behind `start` into `slices`; how many slices they fill.
    pub(super) fn slices<'a>(
        &'a self,
        frames: &'a [u8],
        mut start: usize,
        slices: &mut [IoSlice<'a>],
    ) -> usize {
        let mut filled = 0;
        let mut put = |bytes: &'a [u8]| match slices.get_mut(filled) {
            Some(slice) if !bytes.is_empty() => {
                *slice = IoSlice::new(bytes);
                filled += 1;
                true
            }
            slice => slice.is_some(),
        };
        let (mut segments, mut segment) = (self.segments.iter(), &[][..]);
        for run in &self.runs {
            if segment.is_empty() {
                segment = segments.next().map_or(&[], ByteSegment::bytes);
            }
            let (payload, behind) = segment.split_at(run.count);
            if !put(&frames[start..run.at]) || !put(payload) {
                return filled;
            }
            (start, segment) = (run.at, behind);
        }
        put(&frames[start..]);
        filled
    }

    /// Drops the next `count` bytes behind `start`, as far as they are payloads and frames in front of them;
    /// the new start, behind the bytes that are frames.
    pub(super) fn advance(&mut self, start: usize, count: usize) -> usize {
        let (mut start, mut left) = (start, count);
        while let (Some(run), Some(segment)) = (self.runs.front_mut(), self.segments.front_mut()) {
            let frame_bytes = left.min(run.at - start);
            (start, left) = (start + frame_bytes, left - frame_bytes);
            let payload_bytes = left.min(run.count);
            segment.consume(payload_bytes);
            run.count -= payload_bytes;
            left -= payload_bytes;
            self.waiting_bytes -= payload_bytes;
            if run.count > 0 {
                return start;
            }
            if segment.is_empty() {
                self.segments.pop_front();
            }
            self.runs.pop_front();
        }
        start + left
    }

    /// Follows the frames, of which `count` bytes at the front are gone.
    pub(super) fn move_back(&mut self, count: usize) {
        self.runs.iter_mut().for_each(|run| run.at -= count);
    }

    /// Bytes of heap memory.
    pub(super) fn memory(&self) -> usize {
        let segments: usize = self.segments.iter().map(ByteSegment::capacity).sum();
        size_of::<Self>()
            + segments
            + self.runs.capacity() * size_of::<PayloadRun>()
            + self.segments.capacity() * size_of::<ByteSegment>()
    }
}
