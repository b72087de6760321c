//! One reader of the tap: which requests it gets, how many a second, and the counts that it is told once a
//! second.

use std::time::{Duration, Instant};

use bytes::Bytes;
use model::report::{RequestRecord, TapCounts};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::searched::Searched;
use super::{TapQuery, json};

/// Longest time of one reader, so that a forgotten page does not keep the tap open. The page asks again.
const OPEN_MAX: Duration = Duration::from_secs(600);
/// Interval of the counts.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct TapReader {
    wanted: TapQuery,
    sender: mpsc::Sender<Bytes>,
    opened: Instant,
    counted: Instant,
    tokens: Tokens,
    counts: TapReaderCounts,
}

/// Counts since the last ones that were sent. `seen` is `dropped` and those that the filter was asked about;
/// of these `matched` passed, and of these `sent` were sent.
#[derive(Clone, Copy, Default)]
struct TapReaderCounts {
    seen: u64,
    matched: u64,
    sent: u64,
    dropped: u64,
}

/// A bucket of tokens: `rate` a second, and at most `rate` saved.
struct Tokens {
    rate: f64,
    left: f64,
    filled: Instant,
}

impl TapReader {
    pub(super) fn new(wanted: TapQuery, sender: mpsc::Sender<Bytes>) -> TapReader {
        let now = Instant::now();
        let rate = f64::from(wanted.rate);
        let tokens = Tokens { rate, left: rate, filled: now };
        TapReader { wanted, sender, opened: now, counted: now, tokens, counts: TapReaderCounts::default() }
    }

    /// Whether its receiver is still there.
    pub(super) fn is_there(&self) -> bool {
        !self.sender.is_closed()
    }

    pub(super) fn wants_timelines(&self) -> bool {
        self.wanted.timeline
    }

    /// Sends what it wants of `records`; false when it is gone or its time is over.
    pub(super) fn offer(&mut self, records: &[RequestRecord], counts: TapCounts) -> bool {
        let now = Instant::now();
        self.counts.seen += counts.seen;
        self.counts.dropped += counts.dropped;
        self.tokens.fill(now);
        let hides_queries = self.wanted.hides_queries;
        for record in records {
            if !self.wanted.filter.matches(&Searched { record, hides_queries }) {
                continue;
            }
            self.counts.matched += 1;
            if !self.tokens.take() {
                continue;
            }
            let shown = json::describe_record(record, hides_queries, self.wanted.timeline);
            if self.send("request", &shown) {
                self.counts.sent += 1;
            }
        }
        if now.duration_since(self.counted) >= COUNT_EVERY {
            self.counted = now;
            if self.send("count", &self.counts.json()) {
                self.counts = TapReaderCounts::default();
            }
        }
        if now.duration_since(self.opened) >= OPEN_MAX {
            self.send("end", &json!({ "reason": "renew" }));
            return false;
        }
        self.is_there()
    }

    /// False if the queue is full or the receiver is gone.
    fn send(&self, event: &str, data: &Value) -> bool {
        let piece = Bytes::from(format!("event: {event}\ndata: {data}\n\n"));
        !matches!(self.sender.try_send(piece), Err(TrySendError::Full(_) | TrySendError::Closed(_)))
    }
}

impl TapReaderCounts {
    fn json(self) -> Value {
        let sampled = self.matched.div_ceil(self.sent.max(1)).max(1);
        json!({
            "seen": self.seen,
            "matched": self.matched,
            "sent": self.sent,
            "dropped": self.dropped,
            "sampled": sampled,
        })
    }
}

impl Tokens {
    fn fill(&mut self, now: Instant) {
        let gained = now.duration_since(self.filled).as_secs_f64() * self.rate;
        self.left = (self.left + gained).min(self.rate.max(1.0));
        self.filled = now;
    }

    fn take(&mut self) -> bool {
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_gives_its_rate() {
        let begin = Instant::now();
        let mut tokens = Tokens { rate: 10.0, left: 10.0, filled: begin };
        let taken = |tokens: &mut Tokens| (0..100).filter(|_| tokens.take()).count();
        assert_eq!(taken(&mut tokens), 10);
        tokens.fill(begin + Duration::from_millis(500));
        assert_eq!(taken(&mut tokens), 5);
        tokens.fill(begin + Duration::from_secs(60));
        assert_eq!(taken(&mut tokens), 10);
    }

    #[test]
    fn sampled_says_one_of_how_many() {
        let sampled = |matched, sent| {
            TapReaderCounts { matched, sent, ..TapReaderCounts::default() }.json()["sampled"].clone()
        };
        assert_eq!([sampled(0, 0), sampled(5, 5), sampled(600, 50), sampled(7, 0)], [1, 1, 12, 7]);
    }
}
