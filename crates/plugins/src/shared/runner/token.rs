//! The token of one configuration: the runner gives it for the configuration, and requests name it. It is
//! asked for once, when the first request needs it, and again after a time, after a restart of the runner,
//! and where the runner has forgotten it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::Mutex;

/// How long a runner keeps a configuration at least, in seconds, as APISIX tells it:
/// `APISIX_CONF_EXPIRE_TIME`.
pub const EXPIRE_SECONDS: u64 = 3_600;
/// A token is used for nine tenths of that time, so that the runner does not forget it first.
const USED_MS: u64 = EXPIRE_SECONDS * 900;

/// See the module. Workers share it.
#[derive(Default)]
pub(super) struct RunnerToken {
    /// The process that gave the token, and the token, in one word so that they always belong together.
    given: AtomicU64,
    /// The time of the monotonic clock until which it is used, in milliseconds; 0: there is none.
    until_ms: AtomicU64,
    /// How often the runner had forgotten it. It is part of the key, because a runner may answer a known key
    /// with the token that it has forgotten.
    forgotten: AtomicU32,
    /// Held while a token is asked for, so that requests which come meanwhile do not ask too.
    pub(super) renewing: Mutex<()>,
}

impl RunnerToken {
    /// The token that the process `process` has given, if it is still used.
    pub(super) fn known(&self, process: u32, now_ms: u64) -> Option<u32> {
        if now_ms >= self.until_ms.load(Ordering::Acquire) {
            return None;
        }
        let given = self.given.load(Ordering::Acquire);
        ((given >> 32) as u32 == process).then_some(given as u32)
    }

    /// Keeps a token of the process `process`.
    pub(super) fn keep(&self, process: u32, token: u32, now_ms: u64) {
        self.given.store((u64::from(process) << 32) | u64::from(token), Ordering::Release);
        self.until_ms.store(now_ms.saturating_add(USED_MS), Ordering::Release);
    }

    /// Forgets `token`, which the process does not know any more, unless there is another one already.
    pub(super) fn forget(&self, process: u32, token: u32) {
        if self.given.load(Ordering::Acquire) == (u64::from(process) << 32) | u64::from(token) {
            self.until_ms.store(0, Ordering::Release);
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often it was forgotten.
    pub(super) fn times_forgotten(&self) -> u32 {
        self.forgotten.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_counts_for_its_process_and_time() {
        let token = RunnerToken::default();
        assert_eq!(token.known(1, 0), None);
        token.keep(1, 7, 1_000);
        assert_eq!(token.known(1, 1_000), Some(7));
        assert_eq!(token.known(2, 1_000), None, "another process gave it");
        assert_eq!(token.known(1, 1_000 + USED_MS), None, "its time is over");
        token.forget(1, 6);
        assert_eq!(token.known(1, 1_000), Some(7), "another token was forgotten");
        token.forget(1, 7);
        assert_eq!((token.known(1, 1_000), token.times_forgotten()), (None, 1));
    }
}
