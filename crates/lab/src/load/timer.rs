//! A timer for an epoll instance: finer than the milliseconds of `epoll_wait`, and without the slack that the
//! kernel adds there.

use std::os::fd::OwnedFd;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use rustix::time::{timerfd_create, timerfd_settime};

/// A timerfd.
#[derive(Debug)]
pub(super) struct Timer {
    timer: OwnedFd,
    set_for_ns: Option<u64>,
}

impl Timer {
    /// A timer that `epoll` reports under `number`.
    pub(super) fn new(epoll: &OwnedFd, number: u64) -> Result<Timer, Errno> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered, so that the number of expirations need not be read.
        epoll::add(epoll, &timer, EventData::new_u64(number), EventFlags::IN | EventFlags::ET)?;
        Ok(Timer { timer, set_for_ns: None })
    }

    /// Sets the timer to `at_ns`; it is `now_ns`. Setting the same time again costs nothing.
    pub(super) fn set(&mut self, at_ns: u64, now_ns: u64) {
        if self.set_for_ns == Some(at_ns) {
            return;
        }
        self.set_for_ns = Some(at_ns);
        // Zero would disarm it.
        let wait_ns = at_ns.saturating_sub(now_ns).max(1);
        let value =
            Timespec { tv_sec: (wait_ns / NANOSECONDS) as i64, tv_nsec: (wait_ns % NANOSECONDS) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)
            .expect("a timer of our own, and a time with less than a second of nanoseconds");
    }
}

const NANOSECONDS: u64 = 1_000_000_000;
