//! Copies of the lines of this process's error log, for a plugin that reports them to a server. There is one
//! reader at most, and none costs an atomic load for each line. Lines that the report itself causes are not
//! copied, because each would cause the next.

use std::borrow::Cow;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;

use parking_lot::RwLock;

/// How severe a line is; a smaller one is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Severity {
    /// Something was lost or failed.
    Error = 1,
    /// Something may fail.
    Warning = 2,
    /// Something happened.
    Info = 3,
    /// Details.
    Debug = 4,
    /// All details.
    Trace = 5,
}

/// Takes a line, without waiting and without logging.
pub type TakeLine = Box<dyn Fn(&[u8]) + Send + Sync>;

struct Tap {
    /// The object that the reader belongs to.
    owner: Box<str>,
    take: TakeLine,
}

static TAP: RwLock<Option<Arc<Tap>>> = RwLock::new(None);
/// The least severe line that the reader takes; 0 without one.
static LEVEL: AtomicU8 = AtomicU8::new(0);

thread_local! {
    static IS_MUTED: Cell<bool> = const { Cell::new(false) };
}

/// A reader of the lines, until it is dropped or another one takes its place.
pub struct ErrorTapReader(Arc<Tap>);

impl ErrorTapReader {
    /// Gives `take` each line from now on that is as severe as `level`, or worse. `owner` is the object that
    /// the reader belongs to, such as `/plugin_metadata/x`.
    pub fn open(owner: &str, level: Severity, take: TakeLine) -> ErrorTapReader {
        let tap = Arc::new(Tap { owner: owner.into(), take });
        *TAP.write() = Some(tap.clone());
        LEVEL.store(level as u8, Ordering::Relaxed);
        ErrorTapReader(tap)
    }
}

impl Drop for ErrorTapReader {
    fn drop(&mut self) {
        let mut tap = TAP.write();
        if tap.as_ref().is_some_and(|tap| Arc::ptr_eq(tap, &self.0)) {
            *tap = None;
            LEVEL.store(0, Ordering::Relaxed);
        }
    }
}

/// Offers a line of the error log to the reader.
pub fn offer(severity: Severity, line: &[u8]) {
    if severity as u8 > LEVEL.load(Ordering::Relaxed) || IS_MUTED.get() {
        return;
    }
    let tap = TAP.read().clone();
    if let Some(tap) = tap {
        (tap.take)(&without_colours(line));
    }
}

/// Keeps lines of this thread from the reader until it is dropped.
pub struct Muted {
    before: bool,
}

/// See [`Muted`].
pub fn mute() -> Muted {
    Muted { before: IS_MUTED.replace(true) }
}

/// [`mute`] if `owner` is the object that the reader belongs to.
pub fn mute_reports_of(owner: &str) -> Option<Muted> {
    let is_reader =
        LEVEL.load(Ordering::Relaxed) > 0 && TAP.read().as_ref().is_some_and(|tap| *tap.owner == *owner);
    is_reader.then(mute)
}

impl Drop for Muted {
    fn drop(&mut self) {
        IS_MUTED.set(self.before);
    }
}

/// Runs `future` with the lines that it causes kept from the reader.
pub async fn muted<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| -> Poll<T> {
        let _muted = mute();
        future.as_mut().poll(cx)
    })
    .await
}

/// A line without the escape sequences that colour it on a terminal.
fn without_colours(line: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    if !line.contains(&ESCAPE) {
        return line.into();
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            &ESCAPE => {
                bytes.find(|byte| byte.is_ascii_alphabetic());
            }
            byte => plain.push(*byte),
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// One test, because the reader is that of the process.
    #[test]
    fn reader_gets_severe_lines_of_others() {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let reader = |prefix: &'static str| {
            let lines = lines.clone();
            let take = move |line: &[u8]| {
                lines.lock().push(format!("{prefix}{}", String::from_utf8_lossy(line)));
                // As a queue that is full would.
                offer(Severity::Error, b"about itself");
            };
            let take = move |line: &[u8]| {
                let _muted = mute();
                take(line);
            };
            ErrorTapReader::open("/plugin_metadata/x", Severity::Warning, Box::new(take))
        };
        offer(Severity::Error, b"before");
        let first = reader("1 ");
        offer(Severity::Error, b"\x1b[31mERROR\x1b[0m red");
        offer(Severity::Warning, b"warning");
        offer(Severity::Info, b"too little");
        {
            let _muted = mute_reports_of("/plugin_metadata/x").unwrap();
            offer(Severity::Error, b"of the report");
        }
        assert!(mute_reports_of("/routes/1").is_none());
        let second = reader("2 ");
        drop(first);
        offer(Severity::Error, b"to the second");
        let waiting = muted(async {
            offer(Severity::Error, b"while it sends");
            7
        });
        assert_eq!(net::env::block_on(waiting).unwrap(), 7);
        offer(Severity::Error, b"afterwards");
        drop(second);
        offer(Severity::Error, b"after all");
        let expected = ["1 ERROR red", "1 warning", "2 to the second", "2 afterwards"];
        assert_eq!(*lines.lock(), expected);
    }
}
