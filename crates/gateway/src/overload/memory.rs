//! How short memory is: the resident set, read by a thread of its own, as one number that workers look at. Buffers,
//! tables and what the allocator keeps are all in it. What is done about it is the workers' business.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Priority, Shared};

/// How often the resident set is read: a read takes some 20 microseconds, a thousandth of this, and in this time even a
/// flood over loopback takes less than the distance between two steps.
const PERIOD: Duration = Duration::from_millis(20);
/// Shares of the limit, in percent, from which each step holds. Between the first and the last lies what exchanges under
/// way may still take until they end.
const STEPS_PERCENT: [u64; STEPS] = [80, 85, 90, 95, 98];
const STEPS: usize = 5;
/// A step is left when so many percent of the limit below where it was entered: no flutter.
const RELIEF_PERCENT: u64 = 3;

/// See the module. Each step includes those before it.
#[derive(Debug, Default)]
pub(crate) struct MemoryLevel(AtomicU8);

/// Connections end with their exchange, and idle ones at once; memory kept for reuse is freed.
const LETS_NOTHING_IDLE: u8 = 1;
/// Sheddable requests are refused; default ones with the next step, critical ones with the one after.
const REFUSES_SHEDDABLE: u8 = 2;
/// New connections are refused: even to say 503 takes memory.
const REFUSES_CONNECTIONS: u8 = 5;

impl MemoryLevel {
    /// Whether connections are to end when their exchange does.
    #[inline]
    pub(crate) fn lets_nothing_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= LETS_NOTHING_IDLE
    }

    /// Whether requests of that priority are refused.
    #[inline]
    pub(crate) fn refuses(&self, priority: Priority) -> bool {
        self.0.load(Ordering::Relaxed) >= REFUSES_SHEDDABLE + priority as u8
    }

    /// Whether new connections are refused.
    #[inline]
    pub(crate) fn refuses_connections(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= REFUSES_CONNECTIONS
    }

    /// Takes note of `resident_bytes` under a limit of `limit_bytes`.
    fn update(&self, resident_bytes: u64, limit_bytes: u64) {
        let before = self.0.load(Ordering::Relaxed);
        let now = step(resident_bytes, limit_bytes, before);
        if now == before {
            return;
        }
        self.0.store(now, Ordering::Relaxed);
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

/// Starts the thread that watches for `shared`, until nobody holds that any more.
///
/// # Errors
/// When the resident set cannot be read, or no thread be made.
pub(crate) fn watch(shared: &Arc<Shared>, limit_bytes: u64) -> io::Result<()> {
    resident_bytes()?;
    let shared: Weak<Shared> = Arc::downgrade(shared);
    let watch = move || {
        while let Some(shared) = shared.upgrade() {
            // It was readable at the start; without it the last word stays.
            if let Ok(bytes) = resident_bytes() {
                shared.memory.update(bytes, limit_bytes);
            }
            drop(shared);
            std::thread::sleep(PERIOD);
        }
    };
    std::thread::Builder::new().name("memory".to_owned()).spawn(watch).map(drop)
}

/// What this process holds of the machine's memory (proc(5), `VmRSS`).
fn resident_bytes() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
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
            seen.push((percent, level.lets_nothing_idle(), refused, level.refuses_connections()));
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
    fn the_resident_set_is_read() {
        let before = resident_bytes().unwrap();
        let taken = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes().unwrap();
        assert!(after >= before + (taken.len() as u64) / 2, "{before} {after}");
    }
}
