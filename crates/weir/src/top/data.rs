//! The answers of the Admin API that the live view and `weir status` show: `weir/overview` and `weir/top`.

use serde::Deserialize;

/// The answer of `weir/overview`, as far as commands show it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Overview {
    #[serde(default)]
    pub(crate) instance: String,
    pub(crate) revision: u64,
    pub(crate) end_ms: u64,
    pub(crate) now: Now,
    pub(crate) workers: Vec<Worker>,
    pub(crate) attention: Vec<Attention>,
}

/// The figures of the last [`NOW_S`] seconds; none where one is not known.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Now {
    pub(crate) requests: Option<f64>,
    pub(crate) req_5xx: Option<f64>,
    pub(crate) p50_us: Option<u64>,
    pub(crate) p99_us: Option<u64>,
    pub(crate) cpu: Option<f64>,
    pub(crate) cores: Option<u64>,
    pub(crate) rss: Option<u64>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) in_flight: Option<f64>,
}

/// Seconds that the figures of [`Now`] are over.
pub(crate) const NOW_S: u64 = 10;

impl Now {
    /// The share of responses of 5xx, in percent; none without requests.
    pub(crate) fn failing(&self) -> Option<f64> {
        let requests = self.requests.filter(|requests| *requests > 0.0)?;
        Some(self.req_5xx? * 100.0 / requests)
    }
}

/// The revision that one worker runs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Worker {
    pub(crate) revision: u64,
}

/// A line about what needs attention.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Attention {
    pub(crate) severity: String,
    pub(crate) what: String,
    pub(crate) title: String,
    pub(crate) detail: String,
    pub(crate) link: String,
}

impl Overview {
    /// The workers that run the revision in force, and all.
    pub(crate) fn workers_at_revision(&self) -> (usize, usize) {
        let there = self.workers.iter().filter(|worker| worker.revision >= self.revision).count();
        (there, self.workers.len())
    }
}

/// The answer of `weir/top`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Top {
    pub(crate) list: Vec<TopRow>,
    pub(crate) other: Other,
    /// The seconds that the rates are over: fewer than asked for after a start.
    #[serde(default)]
    pub(crate) window_s: f64,
}

/// The traffic that no row has.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Other {
    pub(crate) rps: f64,
    pub(crate) count: u64,
}

/// One row; fields that its kind does not have are empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TopRow {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    #[serde(rename = "match")]
    pub(crate) matched: Option<String>,
    pub(crate) rps: f64,
    pub(crate) share: f64,
    pub(crate) p4xx: f64,
    pub(crate) p5xx: f64,
    pub(crate) mean_us: u64,
    pub(crate) p99_us: Option<u64>,
    pub(crate) bytes: f64,
    pub(crate) upstream: Option<String>,
    pub(crate) service: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) last_failure: Option<LastFailure>,
}

/// The last failed attempt at an endpoint.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LastFailure {
    pub(crate) cause: String,
    pub(crate) at_ms: u64,
}

impl TopRow {
    /// The name, or the identifier where there is none.
    pub(crate) fn shown_name(&self) -> &str {
        self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.id)
    }
}
