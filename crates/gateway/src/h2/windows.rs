//! The windows of received data that a connection of HTTP/2 grants, on either side: as the settings have
//! them, bounded by a share of the memory limit, and small while memory is short. It holds no connection.

/// One connection may make the gateway hold this part of the memory limit.
const PART_OF_MEMORY: u64 = 16;
/// A stream's window while memory is short: one DATA frame of the usual size.
const SMALL_STREAM_BYTES: u32 = 16 * 1024;
/// The smallest window of a connection: before any WINDOW_UPDATE (RFC 9113 section 6.9.2).
const LEAST_CONNECTION_BYTES: u32 = 65_535;
/// Windows grow again when memory has not been short for so long, because peers count SETTINGS frames as a
/// flood.
const GROWS_AFTER_MS: u64 = 5_000;

/// The windows of a connection, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Of each stream.
    pub(crate) stream_bytes: u32,
    /// Of all streams together.
    pub(crate) connection_bytes: u32,
}

impl Windows {
    /// The windows under a memory limit of `limit_bytes` (0 is none) where the windows of `streams` streams
    /// have to fit into that of the connection.
    fn within(self, limit_bytes: u64, streams: u32) -> Windows {
        let share = match limit_bytes {
            0 => self.connection_bytes,
            limit => u32::try_from(limit / PART_OF_MEMORY).unwrap_or(u32::MAX),
        };
        let least = Windows::small(streams).connection_bytes;
        let connection_bytes = self.connection_bytes.min(share.max(least));
        let stream_bytes = self.stream_bytes.min((connection_bytes / streams.max(1)).max(SMALL_STREAM_BYTES));
        Windows { stream_bytes, connection_bytes }
    }

    fn small(streams: u32) -> Windows {
        let connection_bytes = streams.saturating_mul(SMALL_STREAM_BYTES).max(LEAST_CONNECTION_BYTES);
        Windows { stream_bytes: SMALL_STREAM_BYTES, connection_bytes }
    }
}

/// The windows of one connection over its life.
#[derive(Debug)]
pub(crate) struct WindowSizer {
    usual: Windows,
    small: Windows,
    is_small: bool,
    /// When memory was last seen to be short, in milliseconds of the worker's clock.
    short_at_ms: u64,
}

impl WindowSizer {
    /// The sizer of a connection with these settings; see [`Windows::within`] for the limit and the streams.
    pub(crate) fn new(settings: Windows, limit_bytes: u64, streams: u32, is_short: bool) -> WindowSizer {
        let usual = settings.within(limit_bytes, streams);
        let small = Windows::small(streams);
        let small = Windows {
            stream_bytes: small.stream_bytes.min(usual.stream_bytes),
            connection_bytes: small.connection_bytes.min(usual.connection_bytes),
        };
        WindowSizer { usual, small, is_small: is_short, short_at_ms: 0 }
    }

    /// The windows to grant now.
    pub(crate) fn windows(&self) -> Windows {
        if self.is_small { self.small } else { self.usual }
    }

    /// Notes whether memory is short; new windows if they are to change.
    #[inline]
    pub(crate) fn note(&mut self, is_short: bool, now_ms: u64) -> Option<Windows> {
        if is_short {
            self.short_at_ms = now_ms;
        }
        let stays_small = is_short || (self.is_small && now_ms < self.short_at_ms + GROWS_AFTER_MS);
        if stays_small == self.is_small {
            return None;
        }
        self.is_small = stays_small;
        Some(self.windows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Windows = Windows { stream_bytes: 128 << 10, connection_bytes: 1 << 20 };

    #[test]
    fn memory_limit_bounds_the_windows() {
        // The limit, the streams with windows that have to fit, and the windows.
        for (limit, streams, stream, connection) in [
            (0, 1, 128 << 10, 1 << 20),
            (64 << 20, 1, 128 << 10, 1 << 20),
            (8 << 20, 1, 128 << 10, 512 << 10),
            (1 << 20, 1, 64 << 10, 64 << 10),
            (1, 1, 65_535, 65_535),
            (8 << 20, 16, 32 << 10, 512 << 10),
            (1, 16, 16 << 10, 256 << 10),
            (1, 1_000, 16 << 10, 1 << 20),
        ] {
            let found = SETTINGS.within(limit, streams);
            let expected = Windows { stream_bytes: stream, connection_bytes: connection };
            assert_eq!(found, expected, "{limit} {streams}");
        }
    }

    #[test]
    fn windows_shrink_at_once_and_grow_later() {
        let mut sizer = WindowSizer::new(SETTINGS, 0, 1, false);
        assert_eq!((sizer.windows(), sizer.note(false, 0)), (SETTINGS, None));
        let small = Windows { stream_bytes: 16 << 10, connection_bytes: 65_535 };
        assert_eq!(sizer.note(true, 1_000), Some(small));
        assert_eq!(sizer.note(true, 2_000), None);
        assert_eq!(sizer.note(false, 2_000 + GROWS_AFTER_MS - 1), None);
        assert_eq!(sizer.note(false, 2_000 + GROWS_AFTER_MS), Some(SETTINGS));
        assert_eq!(sizer.note(true, 2_000 + GROWS_AFTER_MS), Some(small));
        let begun = WindowSizer::new(SETTINGS, 0, 1, true);
        assert_eq!(begun.windows(), small, "a connection that begins while memory is short");
    }
}
