//! How short memory is: the resident set, read by a thread of its own, as one number that workers look at.
//! Buffers, tables and what the allocator keeps are all in it. What is done about it is the workers'
//! business.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::priority::Priority;

/// How often the resident set is read: a read takes some 20 microseconds, a thousandth of this, and in this
/// time even a flood over loopback takes less than the distance between two steps.
const PERIOD: Duration = Duration::from_millis(20);
/// Shares of the limit, in percent, from which each step holds. Between the first and the last lies what
/// exchanges under way may still take until they end.
const STEPS_PERCENT: [u64; STEPS] = [80, 85, 90, 95, 98];
const STEPS: usize = 5;
/// A step is left when so many percent of the limit below where it was entered: no flutter.
const RELIEF_PERCENT: u64 = 3;

/// See the module. Each step includes those before it.
#[derive(Debug)]
pub struct MemoryLevel {
    step: AtomicU8,
    /// Bytes that may still be held until the resident set is read again; [`NO_LIMIT`] without one.
    room_bytes: AtomicI64,
    /// Readings of the resident set; it wraps.
    readings: AtomicU32,
}

const NO_LIMIT: i64 = i64::MAX;

/// Connections end with their exchange, and idle ones at once; memory kept for reuse is freed.
const LETS_NOTHING_IDLE: u8 = 1;
/// Sheddable requests are refused; default ones with the next step, critical ones with the one after.
const REFUSES_SHEDDABLE: u8 = 2;
/// Nothing more is held from here on, by share of the limit: as default requests are refused.
const HELD_PERCENT: u64 = STEPS_PERCENT[REFUSES_SHEDDABLE as usize + Priority::Default as usize - 1];
/// New connections are refused: even to say 503 takes memory.
const REFUSES_CONNECTIONS: u8 = 5;

impl Default for MemoryLevel {
    fn default() -> MemoryLevel {
        MemoryLevel {
            step: AtomicU8::new(0),
            room_bytes: AtomicI64::new(NO_LIMIT),
            readings: AtomicU32::new(0),
        }
    }
}

impl MemoryLevel {
    /// Whether connections are to end when their exchange does.
    #[inline]
    pub fn sheds_idle(&self) -> bool {
        self.step.load(Ordering::Relaxed) >= LETS_NOTHING_IDLE
    }

    /// Whether requests of that priority are refused.
    #[inline]
    pub fn refuses(&self, priority: Priority) -> bool {
        self.step.load(Ordering::Relaxed) >= REFUSES_SHEDDABLE + priority as u8
    }

    /// Whether new connections are refused.
    #[inline]
    pub fn refuses_connections(&self) -> bool {
        self.step.load(Ordering::Relaxed) >= REFUSES_CONNECTIONS
    }

    /// Whether so many bytes more may be held. They count from now on: what a flood brings between two
    /// readings of the resident set, or while the thread that reads waits for a core, must not pass the limit
    /// either. Refused bytes do not count, because they are not held.
    pub fn try_reserve(&self, bytes: usize) -> bool {
        if self.room_bytes.load(Ordering::Relaxed) == NO_LIMIT {
            return true;
        }
        let bytes = i64::try_from(bytes).unwrap_or(NO_LIMIT);
        let less = |room_bytes: i64| (room_bytes >= bytes).then(|| room_bytes - bytes);
        !self.refuses(Priority::Default)
            && self.room_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// The number of the last reading of the resident set.
    pub(super) fn reading(&self) -> u32 {
        self.readings.load(Ordering::Relaxed)
    }

    /// Frees `bytes` that were reserved after the reading with this number. After a later reading nothing is
    /// done, because that reading is the room already, and the next one shows what was freed.
    pub(super) fn give_back(&self, bytes: usize, reading: u32) {
        if self.reading() == reading && self.room_bytes.load(Ordering::Relaxed) != NO_LIMIT {
            self.room_bytes.fetch_add(i64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// Takes note of `resident_bytes` under a limit of `limit_bytes`.
    pub fn update(&self, resident_bytes: u64, limit_bytes: u64) {
        let room_bytes =
            i128::from(limit_bytes) * i128::from(HELD_PERCENT) / 100 - i128::from(resident_bytes);
        self.readings.fetch_add(1, Ordering::Relaxed);
        // Half of the range leaves space for bytes that are given back.
        self.room_bytes.store(i64::try_from(room_bytes).unwrap_or(NO_LIMIT / 2), Ordering::Relaxed);
        let before = self.step.load(Ordering::Relaxed);
        let now = step(resident_bytes, limit_bytes, before);
        if now == before {
            return;
        }
        self.step.store(now, Ordering::Relaxed);
        let percent = resident_bytes * 100 / limit_bytes;
        match (before, now) {
            (0, _) => {
                tracing::warn!(resident_bytes, limit_bytes, "memory is short, {percent} % of the limit")
            }
            (_, 0) => tracing::info!(resident_bytes, limit_bytes, "memory is no longer short"),
            _ => tracing::debug!(resident_bytes, step = now, "memory is short, {percent} % of the limit"),
        }
    }
}

/// The step that holds with so much resident, if `before` held until now.
fn step(resident_bytes: u64, limit_bytes: u64, before: u8) -> u8 {
    let reached = |percent: u64| resident_bytes.saturating_mul(100) >= limit_bytes.saturating_mul(percent);
    let entered = STEPS_PERCENT.iter().take_while(|percent| reached(**percent)).count();
    let kept = STEPS_PERCENT.iter().take_while(|percent| reached(**percent - RELIEF_PERCENT)).count();
    (entered.max(kept.min(usize::from(before)))) as u8
}

/// Starts the thread that keeps the `level` of `shared` up to date, until the last holder of `shared` drops
/// it.
///
/// # Errors
/// When the resident set cannot be read, or no thread be made.
pub fn watch<T: Send + Sync + 'static>(
    shared: &Arc<T>,
    level: fn(&T) -> &MemoryLevel,
    limit_bytes: u64,
) -> io::Result<()> {
    let resident = ResidentSet::open()?;
    resident.bytes()?;
    let shared: Weak<T> = Arc::downgrade(shared);
    let watch = move || {
        while let Some(shared) = shared.upgrade() {
            // It was readable at the start; without it the last word stays.
            if let Ok(bytes) = resident.bytes() {
                level(&shared).update(bytes, limit_bytes);
            }
            drop(shared);
            std::thread::sleep(PERIOD);
        }
    };
    std::thread::Builder::new().name("memory".to_owned()).spawn(watch).map(drop)
}

/// The resident set of this process (proc(5), the second number of `statm`). The file stays open, so that the
/// watch works without a free descriptor.
#[derive(Debug)]
pub struct ResidentSet(File);

impl ResidentSet {
    /// Room for the seven numbers of `statm` at their longest, 20 digits each.
    const STATM_BYTES: usize = 160;

    /// Opens the file.
    ///
    /// # Errors
    /// There is no such file, or no free descriptor.
    pub fn open() -> io::Result<ResidentSet> {
        File::open("/proc/self/statm").map(ResidentSet)
    }

    /// The bytes that are resident now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn bytes(&self) -> io::Result<u64> {
        let mut statm = [0; Self::STATM_BYTES];
        // A read from the beginning has the kernel write it anew.
        let length = self.0.read_at(&mut statm, 0)?;
        let numbers = std::str::from_utf8(&statm[..length]).unwrap_or_default();
        let pages = numbers.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages
            .map(|pages| pages * rustix::param::page_size() as u64)
            .ok_or_else(|| io::Error::other("/proc/self/statm has no resident set"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheddable_requests_go_first_and_critical_ones_last() {
        let level = MemoryLevel::default();
        let mut seen = Vec::new();
        for percent in [79, 80, 85, 90, 95, 98, 96, 94, 87, 81, 76] {
            level.update(percent, 100);
            let refused = [Priority::Sheddable, Priority::Default, Priority::Critical]
                .map(|priority| level.refuses(priority));
            seen.push((percent, level.sheds_idle(), refused, level.refuses_connections()));
        }
        let (yes, no) = (true, false);
        assert_eq!(
            seen,
            [
                (79, no, [no, no, no], no),
                (80, yes, [no, no, no], no),
                (85, yes, [yes, no, no], no),
                (90, yes, [yes, yes, no], no),
                (95, yes, [yes, yes, yes], no),
                (98, yes, [yes, yes, yes], yes),
                // A step is left three percent below where it began.
                (96, yes, [yes, yes, yes], yes),
                (94, yes, [yes, yes, yes], no),
                (87, yes, [yes, yes, no], no),
                (81, yes, [no, no, no], no),
                (76, no, [no, no, no], no),
            ]
        );
    }

    #[test]
    fn held_bytes_count_before_memory_is_read_again() {
        let level = MemoryLevel::default();
        assert!(level.try_reserve(usize::MAX) && level.try_reserve(usize::MAX), "without a limit");
        level.update(60, 100);
        assert_eq!([20, 10, 1].map(|bytes| level.try_reserve(bytes)), [true, true, false], "30 up to 90 %");
        level.update(85, 100);
        assert_eq!(
            [6, 1, 4, 1].map(|bytes| level.try_reserve(bytes)),
            [false, true, true, false],
            "refused bytes do not count"
        );
        level.update(91, 100);
        assert!(!level.try_reserve(0));
        level.update(88, 100);
        assert!(!level.try_reserve(1), "the step is left three percent below");
        level.update(86, 100);
        assert_eq!([4, 1].map(|bytes| level.try_reserve(bytes)), [true, false]);
        level.update(0, u64::MAX);
        assert!(level.try_reserve(1 << 40));
    }

    #[test]
    fn the_resident_set_is_read() {
        let resident = ResidentSet::open().unwrap();
        let before = resident.bytes().unwrap();
        let taken = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident.bytes().unwrap();
        assert!(after >= before + (taken.len() as u64) / 2, "{before} {after}");
    }
}
