//! Connections that were refused while an endpoint's port was closed. No program sees them there, so that the
//! kernel's counter of failed attempts (`AttemptFails`, RFC 4022 tcpAttemptFails) stands in: it counts all
//! programs of this network namespace. It judges nothing.

use std::fs;
use std::time::{Duration, Instant};

/// The counter at some times.
#[derive(Debug, Default)]
pub(super) struct RefusalCounter {
    /// When each sample was taken, and the counter there; ascending.
    samples: Vec<(Instant, u64)>,
}

impl RefusalCounter {
    /// Takes a sample. A system that does not show the counter has no samples.
    pub(super) fn sample(&mut self) {
        let text = fs::read_to_string("/proc/self/net/snmp").unwrap_or_default();
        if let Some(count) = attempt_fails(&text) {
            self.samples.push((Instant::now(), count));
        }
    }

    /// The refused connections of each window from `from` on, each counted at the sample that showed it.
    pub(super) fn windows(&self, from: Instant, window: Duration, count: usize) -> Vec<u64> {
        let mut windows = vec![0; count];
        for [(_, before), (at, after)] in self.samples.array_windows() {
            let Some(since) = at.checked_duration_since(from) else { continue };
            let index = (since.as_nanos() / window.as_nanos()) as usize;
            if let Some(sum) = windows.get_mut(index) {
                *sum += after.saturating_sub(*before);
            }
        }
        windows
    }
}

/// The counter in the text of `/proc/net/snmp`: a line of names, then a line of values.
fn attempt_fails(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let index = names.split_whitespace().position(|name| name == "AttemptFails")?;
    values.split_whitespace().nth(index)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_is_found_by_its_name() {
        let text = "Ip: A\nIp: 1\nTcp: RtoMin ActiveOpens AttemptFails EstabResets\nTcp: 200 1057 38 23\n";
        assert_eq!(attempt_fails(text), Some(38));
        assert_eq!(attempt_fails("Tcp: RtoMin\nTcp: 200\n"), None);
        assert_eq!(attempt_fails(""), None);
    }

    #[test]
    fn refused_connections_are_counted_by_window() {
        let from = Instant::now();
        let at = |ms: u64| from + Duration::from_millis(ms);
        let refused = RefusalCounter {
            samples: vec![(at(0), 10), (at(50), 12), (at(99), 12), (at(150), 15), (at(950), 99)],
        };
        assert_eq!(refused.windows(from, Duration::from_millis(100), 3), [2, 3, 0]);
        assert_eq!(refused.windows(at(60), Duration::from_millis(100), 2), [3, 0]);
    }

    #[test]
    fn kernel_counts_a_refused_connection() {
        let mut refused = RefusalCounter::default();
        refused.sample();
        // A port that was bound and is closed again; the address is not used otherwise.
        let address = std::net::TcpListener::bind("127.0.2.1:0").unwrap().local_addr().unwrap();
        assert!(std::net::TcpStream::connect(address).is_err());
        refused.sample();
        let [(_, before), (_, after)] = refused.samples[..] else { return };
        assert!(after > before, "{before} {after}");
    }
}
