//! Metrics of this process under the names that Prometheus's own clients use, and the limits of this instance
//! that alerts compare them with.

use std::fs;

use exchange::options::EngineLimits;
use exchange::overload::memory::ResidentSet;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use stdx::prometheus_text::scalar;

/// Appends them. A value that the kernel does not tell is left out, because a zero would be a wrong figure.
pub(super) fn write_process_metrics(limits: &EngineLimits, start_time_s: u64, text: &mut String) {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let help = "Processor time that all threads of the process have used, in seconds.";
    let cpu_seconds = format!("{}.{:09}", time.tv_sec, time.tv_nsec);
    scalar(text, "process_cpu_seconds_total", "counter", help, cpu_seconds);
    if let Ok(bytes) = ResidentSet::open().and_then(|resident| resident.bytes()) {
        let help = "Memory of the process that is resident, in bytes.";
        scalar(text, "process_resident_memory_bytes", "gauge", help, bytes);
    }
    if let Some(count) = open_files() {
        scalar(text, "process_open_fds", "gauge", "Open file descriptors.", count);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        scalar(text, "process_max_fds", "gauge", "The limit on open file descriptors.", most);
    }
    let help = "The start of the process, in seconds since the Unix epoch.";
    scalar(text, "process_start_time_seconds", "gauge", help, start_time_s);
    if limits.memory_limit_bytes != 0 {
        let help = "The memory limit of the process in bytes; missing where there is none.";
        scalar(text, "weir_memory_limit_bytes", "gauge", help, limits.memory_limit_bytes);
    }
    let help = "The most client connections of the process.";
    scalar(text, "weir_connections_limit", "gauge", help, limits.max_connections);
}

/// The number of open descriptors. From Linux 6.2 on it is the size of the folder; before, the size is 0 and
/// the entries are counted, with the one that is open for counting.
fn open_files() -> Option<u64> {
    let bytes = fs::metadata(DESCRIPTORS).ok()?.len();
    if bytes > 0 {
        return Some(bytes);
    }
    Some((fs::read_dir(DESCRIPTORS).ok()?.count() as u64).saturating_sub(1))
}

/// The folder in which the kernel shows the descriptors of this process.
const DESCRIPTORS: &str = "/proc/self/fd";

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a metric without labels.
    fn value(text: &str, name: &str) -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.parse().ok()
    }

    #[test]
    fn process_shows_usage_and_limits() {
        let mut text = String::new();
        let limits =
            EngineLimits { memory_limit_bytes: 1 << 40, max_connections: 77, ..EngineLimits::default() };
        write_process_metrics(&limits, 1_700_000_000, &mut text);
        let (resident, limit) =
            (value(&text, "process_resident_memory_bytes"), value(&text, "weir_memory_limit_bytes"));
        assert!(resident > Some(100_000.0) && resident < limit, "{text}");
        let (open, most) = (value(&text, "process_open_fds"), value(&text, "process_max_fds"));
        assert!(open >= Some(3.0) && open <= most, "{text}");
        assert!(value(&text, "process_cpu_seconds_total") > Some(0.0), "{text}");
        assert_eq!(value(&text, "process_start_time_seconds"), Some(1_700_000_000.0));
        assert_eq!(value(&text, "weir_connections_limit"), Some(77.0));
    }

    #[test]
    fn missing_memory_limit_is_left_out() {
        let mut text = String::new();
        write_process_metrics(
            &EngineLimits { memory_limit_bytes: 0, ..EngineLimits::default() },
            0,
            &mut text,
        );
        assert!(!text.contains("weir_memory_limit_bytes"), "{text}");
    }

    #[test]
    fn open_file_is_counted() {
        let before = open_files().unwrap();
        let held: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        // Other tests of this process open and close files meanwhile.
        assert!(open_files().unwrap() >= before + 20, "{before}");
        drop(held);
    }
}
