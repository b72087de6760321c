//! The processor time and the memory of this process, as the kernel counts them.

use exchange::overload::memory::ResidentSet;
use rustix::time::{ClockId, clock_gettime};

/// Reads both; a value that cannot be read is 0.
#[derive(Debug)]
pub(crate) struct ProcessUsage {
    resident: Option<ResidentSet>,
}

impl ProcessUsage {
    /// Opens what is read later, so that it works without a free descriptor.
    pub(crate) fn open() -> ProcessUsage {
        ProcessUsage { resident: ResidentSet::open().ok() }
    }

    /// Nanoseconds of processor time that all threads have used.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0))
    }

    /// Bytes of the resident set.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident.as_ref().and_then(|resident| resident.bytes().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_this_process_is_read() {
        let usage = ProcessUsage::open();
        let before = usage.cpu_ns();
        let mut sum = 0_u64;
        while usage.cpu_ns() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(usage.resident_bytes() > 100_000);
    }
}
