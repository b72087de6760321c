//! The expected response, and the comparison of each response with it: status, length, every byte. It reads
//! no socket and counts nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The expected response.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Its status.
    pub status: u16,
    /// The length of its body, without framing; that of the first good response if absent.
    pub bytes: Option<u64>,
    /// One response in so many may be a 500, of an origin that fails on purpose; 0 for none.
    pub failing_one_in: u32,
    /// How much of an answer is compared.
    pub check: ResponseCheck,
    /// The body to compare with; that of the first good response if absent.
    pub body: Option<Vec<u8>>,
}

/// How much of an answer is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ResponseCheck {
    /// Its status alone, for answers that differ each time
    Status,
    /// Status and length of the body
    Length,
    /// Status, length and every byte of the body
    #[default]
    Bytes,
}

/// The verdict on a complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ComparisonResult {
    /// As expected.
    Good,
    /// A 500 of an origin that fails on purpose; how many of them are allowed is known at the end.
    Failing,
    /// Another status.
    Status(u16),
    /// Another length than this one.
    Length { wanted: u64, had: u64 },
    /// The right length, other bytes.
    Bytes,
}

/// The reference that responses are compared with: the first good one of any thread. One response at a time
/// is kept to become it. Of responses that arrive meanwhile a digest is stored and compared later, so that
/// large responses on many connections are not all in memory.
#[derive(Debug)]
pub(super) struct Measure {
    expectation: Expectation,
    first: OnceLock<First>,
    /// Whether a response is being kept.
    claimed: AtomicBool,
    /// Digests of good responses that ended before the reference existed.
    early: Mutex<Vec<Digest>>,
}

/// The first good response: its digest, and its body unless only lengths are compared or it is too large to
/// keep.
#[derive(Debug)]
struct First {
    digest: Digest,
    body: Option<Vec<u8>>,
}

/// Length and FNV-1a of a body; the latter is 0 if bytes are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest {
    bytes: u64,
    hash: u64,
}

/// The body of one response during its comparison.
#[derive(Debug, Default)]
pub(super) struct BodyComparison {
    bytes: u64,
    manner: Manner,
    differs: bool,
    hash: u64,
    kept: Vec<u8>,
}

/// How a body's bytes are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Manner {
    #[default]
    Count,
    Compare,
    /// Kept to become the reference; digested as well.
    Keep,
    Digest,
}

impl Measure {
    pub(super) fn new(expectation: Expectation) -> Measure {
        let first = OnceLock::new();
        if let (ResponseCheck::Bytes, Some(body)) = (expectation.check, &expectation.body) {
            let digest = Digest { bytes: body.len() as u64, hash: fnv(FNV_START, body) };
            let _ = first.set(First { digest, body: Some(body.clone()) });
        }
        Measure { expectation, first, claimed: AtomicBool::new(false), early: Mutex::new(Vec::new()) }
    }

    /// How many of the responses that were judged good before the reference existed differ from it, or from
    /// each other if it never existed.
    pub(super) fn differing_early_ones(&self) -> u64 {
        let early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(measure) = self.first.get().map(|first| first.digest).or_else(|| early.first().copied())
        else {
            return 0;
        };
        early.iter().filter(|digest| **digest != measure).count() as u64
    }
}

impl BodyComparison {
    /// Prepares for the first byte of a response.
    pub(super) fn begin(&mut self, measure: &Measure) {
        if self.manner == Manner::Keep {
            self.kept.clear();
            measure.claimed.store(false, Ordering::Relaxed);
        }
        (self.bytes, self.differs, self.hash, self.manner) = (0, false, FNV_START, Manner::Count);
    }

    /// Takes a piece of the body of a response with this status. Bodies of unexpected statuses are not
    /// compared.
    pub(super) fn take(&mut self, measure: &Measure, status: u16, piece: &[u8]) {
        if self.bytes == 0 {
            self.manner = manner(measure, status);
        }
        let at = self.bytes;
        self.bytes += piece.len() as u64;
        match self.manner {
            Manner::Count => {}
            Manner::Compare => {
                let body = measure.first.get().and_then(|first| first.body.as_deref()).unwrap_or_default();
                let wanted = usize::try_from(at).ok().and_then(|at| body.get(at..)?.get(..piece.len()));
                self.differs |= wanted != Some(piece);
            }
            Manner::Keep | Manner::Digest => {
                self.hash = fnv(self.hash, piece);
                if self.manner == Manner::Keep && self.bytes <= LARGEST_KEPT_BYTES {
                    self.kept.extend_from_slice(piece);
                }
            }
        }
    }

    /// The verdict on a complete response.
    pub(super) fn end(&mut self, measure: &Measure, status: u16) -> ComparisonResult {
        let wanted = &measure.expectation;
        if status != wanted.status {
            let allowed = status == FAILING && wanted.failing_one_in > 0;
            return if allowed { ComparisonResult::Failing } else { ComparisonResult::Status(status) };
        }
        let had = self.bytes;
        if wanted.check == ResponseCheck::Status {
            return ComparisonResult::Good;
        }
        if let Some(wanted) = wanted.bytes.filter(|wanted| *wanted != had) {
            return ComparisonResult::Length { wanted, had };
        }
        let digest =
            Digest { bytes: had, hash: if wanted.check == ResponseCheck::Bytes { self.hash } else { 0 } };
        // An empty body had no piece that could have claimed the reference.
        if self.manner == Manner::Keep || wanted.check == ResponseCheck::Length || had == 0 {
            let whole = wanted.check == ResponseCheck::Bytes && self.kept.len() as u64 == had;
            let _ = measure.first.get_or_init(|| {
                self.manner = Manner::Count;
                First { digest, body: whole.then(|| std::mem::take(&mut self.kept)) }
            });
        }
        let Some(first) = measure.first.get() else {
            measure.early.lock().unwrap_or_else(PoisonError::into_inner).push(digest);
            return ComparisonResult::Good;
        };
        if first.digest.bytes != had {
            return ComparisonResult::Length { wanted: first.digest.bytes, had };
        }
        let digested = matches!(self.manner, Manner::Keep | Manner::Digest);
        if self.differs || (digested && digest != first.digest) {
            ComparisonResult::Bytes
        } else {
            ComparisonResult::Good
        }
    }
}

/// How to handle the body that begins.
fn manner(measure: &Measure, status: u16) -> Manner {
    if measure.expectation.check != ResponseCheck::Bytes || status != measure.expectation.status {
        return Manner::Count;
    }
    match measure.first.get() {
        Some(First { body: Some(_), .. }) => Manner::Compare,
        Some(First { body: None, .. }) => Manner::Digest,
        None if measure.claimed.swap(true, Ordering::Relaxed) => Manner::Digest,
        None => Manner::Keep,
    }
}

/// FNV-1a of 64 bits: the same however the bytes are cut.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How many of `answers` may be a 500 if one in `one_in` is intended. Other clients may use the same origin,
/// so the number is random, and three standard deviations are allowed.
pub(super) fn allowed_failing(answers: u64, one_in: u32) -> u64 {
    if one_in == 0 {
        return 0;
    }
    let share = answers as f64 / f64::from(one_in);
    (share + 3.0 * share.sqrt()).ceil() as u64 + 1
}

/// The status of an origin that fails on purpose.
const FAILING: u16 = 500;
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
/// Larger bodies are compared by their digest, which is slower and keeps nothing.
const LARGEST_KEPT_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation() -> Expectation {
        Expectation { status: 200, bytes: None, failing_one_in: 0, check: ResponseCheck::Bytes, body: None }
    }

    fn verdict(measure: &Measure, status: u16, pieces: &[&str]) -> ComparisonResult {
        let mut comparison = BodyComparison::default();
        comparison.begin(measure);
        for piece in pieces {
            comparison.take(measure, status, piece.as_bytes());
        }
        comparison.end(measure, status)
    }

    #[test]
    fn every_response_is_compared_with_first_good() {
        let measure = Measure::new(expectation());
        let check = |status, pieces: &[&str], wanted: ComparisonResult| {
            assert_eq!(verdict(&measure, status, pieces), wanted, "{status} {pieces:?}");
        };
        check(502, &["bad gateway"], ComparisonResult::Status(502));
        check(200, &["hel", "lo"], ComparisonResult::Good);
        check(200, &["hello"], ComparisonResult::Good);
        check(200, &["h", "e", "l", "l", "o"], ComparisonResult::Good);
        check(200, &["hel", "la"], ComparisonResult::Bytes);
        check(200, &["Hello"], ComparisonResult::Bytes);
        check(200, &["hell"], ComparisonResult::Length { wanted: 5, had: 4 });
        check(200, &["hello", "!"], ComparisonResult::Length { wanted: 5, had: 6 });
        check(200, &[], ComparisonResult::Length { wanted: 5, had: 0 });
        check(500, &["hello"], ComparisonResult::Status(500));
    }

    #[test]
    fn amount_of_comparison_is_a_choice() {
        let check = |expectation: Expectation, second: &str, wanted: ComparisonResult| {
            let measure = Measure::new(expectation);
            assert_eq!(verdict(&measure, 200, &["hello"]), ComparisonResult::Good);
            assert_eq!(verdict(&measure, 200, &[second]), wanted, "{measure:?}");
        };
        check(Expectation { check: ResponseCheck::Length, ..expectation() }, "Hello", ComparisonResult::Good);
        let longer = ComparisonResult::Length { wanted: 5, had: 6 };
        check(Expectation { check: ResponseCheck::Length, ..expectation() }, "hello!", longer.clone());
        check(
            Expectation { check: ResponseCheck::Status, ..expectation() },
            "hello!",
            ComparisonResult::Good,
        );
        check(Expectation { bytes: Some(5), ..expectation() }, "hello!", longer);
        check(
            Expectation { body: Some(b"hello".to_vec()), ..expectation() },
            "hallo",
            ComparisonResult::Bytes,
        );
    }

    #[test]
    fn known_length_or_body_judges_first_response() {
        let measure = Measure::new(Expectation { bytes: Some(4), ..expectation() });
        assert_eq!(verdict(&measure, 200, &["hello"]), ComparisonResult::Length { wanted: 4, had: 5 });
        assert_eq!(verdict(&measure, 200, &["four"]), ComparisonResult::Good);
        let measure = Measure::new(Expectation { body: Some(b"known".to_vec()), ..expectation() });
        assert_eq!(verdict(&measure, 200, &["wrong"]), ComparisonResult::Bytes);
        assert_eq!(verdict(&measure, 200, &["known"]), ComparisonResult::Good);
    }

    #[test]
    fn concurrent_responses_are_compared_at_the_end() {
        // The second begins while the first is kept, and ends after or before it.
        let check = |second: &str, first_ends_first: bool, wanted: ComparisonResult, early: u64| {
            let measure = Measure::new(expectation());
            let (mut one, mut two) = (BodyComparison::default(), BodyComparison::default());
            one.take(&measure, 200, b"hel");
            two.take(&measure, 200, second.as_bytes());
            one.take(&measure, 200, b"lo");
            if first_ends_first {
                assert_eq!(one.end(&measure, 200), ComparisonResult::Good);
            }
            assert_eq!(two.end(&measure, 200), wanted, "{second}");
            assert_eq!(one.end(&measure, 200), ComparisonResult::Good);
            assert_eq!(measure.differing_early_ones(), early, "{second}");
        };
        check("hello", true, ComparisonResult::Good, 0);
        check("hallo", true, ComparisonResult::Bytes, 0);
        check("hello!", true, ComparisonResult::Length { wanted: 5, had: 6 }, 0);
        check("hello", false, ComparisonResult::Good, 0);
        check("hallo", false, ComparisonResult::Good, 1);
        check("hello!", false, ComparisonResult::Good, 1);
    }

    #[test]
    fn cut_response_frees_its_slot() {
        let measure = Measure::new(expectation());
        let mut broken = BodyComparison::default();
        broken.take(&measure, 200, b"hel");
        broken.begin(&measure);
        assert_eq!(verdict(&measure, 200, &["hello"]), ComparisonResult::Good);
        assert_eq!(verdict(&measure, 200, &["hallo"]), ComparisonResult::Bytes);
    }

    #[test]
    fn an_origin_that_fails_on_purpose() {
        let measure = Measure::new(Expectation { failing_one_in: 100, ..expectation() });
        assert_eq!(verdict(&measure, 500, &["failed"]), ComparisonResult::Failing);
        assert_eq!(verdict(&measure, 502, &["failed"]), ComparisonResult::Status(502));
        let check = |answers, one_in, wanted| assert_eq!(allowed_failing(answers, one_in), wanted);
        check(1000, 0, 0);
        check(0, 100, 1);
        check(10_000, 100, 131);
        check(1_000_000, 100, 10_301);
    }
}
