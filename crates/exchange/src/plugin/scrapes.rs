//! The metrics of the instance for plugins that serve them. A scrape sums up the counters of all workers,
//! which may take milliseconds, so that it runs on a thread of its own. It knows no metric.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use model::report::MetricsText;
use stdx::open_metrics;
use tokio::sync::oneshot;

/// Scrapes that run at the same time; further ones are refused. Two scrapers, and one that did not wait for
/// its response.
const SCRAPES_MAX: usize = 3;

/// See the module.
#[derive(Default)]
pub struct Scrapes {
    metrics: OnceLock<Weak<dyn MetricsText>>,
    running: AtomicUsize,
}

/// There is no text of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMetrics {
    /// The instance has none, because it starts or ends.
    Absent,
    /// Too many scrapes run, or no thread could be started.
    Busy,
}

impl Scrapes {
    /// Makes `metrics` the source of all scrapes. Later calls have no effect. It is not kept alive.
    pub fn serve(&self, metrics: &Arc<dyn MetricsText>) {
        let _ = self.metrics.set(Arc::downgrade(metrics));
    }

    /// The metrics in the Prometheus text format, or in OpenMetrics if `is_open`.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn text(self: &Arc<Self>, is_open: bool) -> Result<String, NoMetrics> {
        let metrics = self.metrics.get().and_then(Weak::upgrade).ok_or(NoMetrics::Absent)?;
        if self.running.fetch_add(1, Ordering::Relaxed) >= SCRAPES_MAX {
            self.running.fetch_sub(1, Ordering::Relaxed);
            return Err(NoMetrics::Busy);
        }
        let (sender, text) = oneshot::channel();
        let running = ScrapeGuard(self.clone());
        let scrape = move || {
            let _running = running;
            let mut text = String::new();
            metrics.write_metrics(&mut text);
            // The client may have gone away.
            let _ = sender.send(if is_open { open_metrics::from_text(&text) } else { text });
        };
        let thread = std::thread::Builder::new().name("scrape".to_owned());
        // If the thread cannot be started, the closure is dropped, and with it the count and the sender.
        let _ = thread.spawn(scrape);
        text.await.map_err(|_| NoMetrics::Busy)
    }
}

/// A running scrape.
struct ScrapeGuard(Arc<Scrapes>);

impl Drop for ScrapeGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl MetricsText for Two {
        fn write_metrics(&self, text: &mut String) {
            text.push_str("two 2\n");
        }
    }

    #[test]
    fn scrapes_end_with_their_source() {
        let run = |scrapes: &Arc<Scrapes>| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(scrapes.text(false))
        };
        let scrapes = Arc::new(Scrapes::default());
        assert_eq!(run(&scrapes), Err(NoMetrics::Absent));
        let source: Arc<dyn MetricsText> = Arc::new(Two);
        scrapes.serve(&source);
        for _ in 0..=SCRAPES_MAX {
            assert_eq!(run(&scrapes).as_deref(), Ok("two 2\n"));
            while scrapes.running.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
        }
        scrapes.running.store(SCRAPES_MAX, Ordering::Relaxed);
        assert_eq!(run(&scrapes), Err(NoMetrics::Busy));
        assert_eq!(scrapes.running.load(Ordering::Relaxed), SCRAPES_MAX, "a refused scrape does not count");
        drop(source);
        assert_eq!(run(&scrapes), Err(NoMetrics::Absent));
    }
}
