//! Flow-control windows of both directions (RFC 9113 section 5.2 and 6.9); it does not know streams and
//! frames.

/// The window of streams and connection before any SETTINGS or WINDOW_UPDATE.
pub(crate) const DEFAULT_WINDOW: u32 = 65_535;

/// How much may be sent. Below zero after the peer lowered the initial window (RFC 9113 section 6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendWindow(i32);

impl SendWindow {
    /// A window of `size` bytes, at most 2^31-1.
    pub(crate) fn new(size: u32) -> Self {
        Self(i32::try_from(size).unwrap_or(i32::MAX))
    }

    /// Bytes that may be sent now.
    #[inline]
    pub(crate) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes `count` bytes, which are available.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) {
        debug_assert!(count <= self.available(), "more was sent than the window allows");
        self.0 -= count as i32;
    }

    /// Adds a change of either sign; false when the window would exceed 2^31-1.
    #[must_use]
    pub(crate) fn change(&mut self, change: i64) -> bool {
        match i32::try_from(i64::from(self.0) + change) {
            Ok(size) => {
                self.0 = size;
                true
            }
            Err(_) => false,
        }
    }
}

/// How much the peer may send, and how much of it was consumed without the peer knowing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveWindow {
    available: i64,
    unreported: u32,
    /// Bytes by which the window is to shrink: so many of the next consumed ones are not given back.
    withheld: u32,
}

impl ReceiveWindow {
    pub(crate) fn new(size: u32) -> Self {
        Self { available: i64::from(size), unreported: 0, withheld: 0 }
    }

    /// Takes `count` received bytes; false when the peer exceeded the window.
    #[inline]
    #[must_use]
    pub(crate) fn receive(&mut self, count: u32) -> bool {
        self.available -= i64::from(count);
        self.available >= 0
    }

    /// Gives back `count` consumed bytes. Returns the increment for a WINDOW_UPDATE once half of `size` was
    /// consumed, so that the peer is neither blocked nor told of every byte.
    #[inline]
    pub(crate) fn consume(&mut self, count: u32, size: u32) -> Option<u32> {
        let withheld = count.min(self.withheld);
        self.withheld -= withheld;
        self.unreported = self.unreported.saturating_add(count - withheld);
        if self.unreported == 0 || self.unreported < size / 2 {
            return None;
        }
        let increment = std::mem::take(&mut self.unreported);
        self.available += i64::from(increment);
        Some(increment)
    }

    /// Lets the window shrink by `count` bytes, as what was received is consumed.
    pub(crate) fn withhold(&mut self, count: u32) {
        self.withheld = self.withheld.saturating_add(count);
    }

    /// Takes back up to `count` bytes of what is withheld; returns the rest of `count`, by which the peer has
    /// to be told.
    pub(crate) fn release(&mut self, count: u32) -> u32 {
        let released = count.min(self.withheld);
        self.withheld -= released;
        count - released
    }

    /// Adds a change of either sign, of which the peer learns by SETTINGS or by a WINDOW_UPDATE that the
    /// caller sends.
    pub(crate) fn change(&mut self, change: i64) {
        self.available += change;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_window_goes_below_zero_and_not_above_31_bits() {
        let mut window = SendWindow::new(DEFAULT_WINDOW);
        window.take(65_000);
        assert_eq!(window.available(), 535);
        assert!(window.change(-1000));
        assert_eq!(window.available(), 0);
        assert!(window.change(465));
        assert_eq!(window.available(), 0);
        assert!(window.change(1));
        assert_eq!(window.available(), 1);
        assert!(!window.change(i64::from(i32::MAX)));
        assert_eq!(window.available(), 1, "a refused change changes nothing");
        assert!(window.change(i64::from(i32::MAX) - 1));
        assert_eq!(SendWindow::new(u32::MAX).available(), i32::MAX as usize);
    }

    #[test]
    fn receive_window_shrinks_as_bytes_are_consumed() {
        let mut window = ReceiveWindow::new(100);
        window.withhold(70);
        assert!(window.receive(100));
        assert_eq!(window.consume(60, 30), None);
        assert_eq!(window.consume(40, 30), Some(30));
        assert!(window.receive(30) && !window.receive(1));
        window.withhold(10);
        assert_eq!(window.release(4), 0);
        assert_eq!(window.release(10), 4);
    }

    #[test]
    fn receive_window_is_given_back_in_halves() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(60));
        assert_eq!(window.consume(49, 100), None);
        assert_eq!(window.consume(1, 100), Some(50));
        assert_eq!(window.consume(0, 100), None);
        assert!(window.receive(90));
        assert!(!window.receive(1));
        assert_eq!(ReceiveWindow::new(0).consume(0, 0), None);
    }
}
