//! How much traffic passes, as pages and commands show it.

use std::sync::Arc;

/// The traffic of the instance: rates by route, consumer, endpoint and cause, and figures of the last hour.
pub trait Traffic: Send + Sync {
    /// The rates of the last minute, the busiest first. The gateway keeps the answer for a second, so that
    /// asking often is cheap.
    fn rates(&self, by: Breakdown) -> Arc<[TrafficRate]>;

    /// The figures of the last ten seconds; none in the first second of an instance, and where they are not
    /// measured.
    fn now(&self) -> Option<TrafficNow> {
        None
    }

    /// The points after number `since`, the newest `most` of them, oldest first.
    fn points(&self, step: TrafficInterval, since: u64, most: usize) -> Vec<TrafficPoint> {
        let _ = (step, since, most);
        Vec::new()
    }

    /// The busiest `limit` rows over the last `window_s` seconds, of which the gateway keeps 60.
    fn top(&self, by: Breakdown, window_s: u64, limit: usize) -> Top {
        let _ = (by, window_s, limit);
        Top::default()
    }
}

/// The property by which traffic is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakdown {
    /// The route's identifier.
    Routes,
    /// The consumer's name.
    Consumers,
    /// The endpoint's address.
    Endpoints,
    /// The cause of a failure.
    Causes,
}

/// The traffic of one route, consumer, endpoint or cause.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficRate {
    /// The route's identifier, the consumer's name, the address, or the name of the cause.
    pub id: Arc<str>,
    /// Requests a second.
    pub requests: f64,
    /// Their share with a status of 400 to 499, in percent.
    pub client_errors: f64,
    /// Their share with a status of 500 to 599, in percent.
    pub server_errors: f64,
    /// The 99th percentile of their time, in microseconds; none where it is not measured.
    pub p99_us: Option<u64>,
    /// Bytes of responses a second.
    pub bytes: f64,
}

impl TrafficRate {
    /// Adds the traffic of `other`. The percentile becomes the higher one, because that of both cannot be
    /// known.
    pub fn join(&mut self, other: &TrafficRate) {
        let requests = self.requests + other.requests;
        let share = |own: f64, others: f64| {
            if requests > 0.0 { (own * self.requests + others * other.requests) / requests } else { 0.0 }
        };
        self.client_errors = share(self.client_errors, other.client_errors);
        self.server_errors = share(self.server_errors, other.server_errors);
        self.requests = requests;
        self.p99_us = self.p99_us.max(other.p99_us);
        self.bytes += other.bytes;
    }
}

/// The busiest routes, consumers, endpoints or causes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Top {
    /// The time that the rates are over, in seconds: near to the one that was asked for, shorter after the
    /// start.
    pub seconds: f64,
    /// Requests a second, listed or not; attempts for endpoints, failures for causes.
    pub total: f64,
    /// The busiest first.
    pub rows: Vec<TrafficRow>,
    /// Requests a second that no row has.
    pub other: f64,
    /// The number of rows that were left out.
    pub other_count: usize,
}

/// The traffic of one route, consumer, endpoint of an upstream, or cause.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficRow {
    /// See [`TrafficRate::id`].
    pub id: Arc<str>,
    /// The upstream of an endpoint, as a path below the prefix (`/upstreams/1`); none for others.
    pub upstream: Option<Arc<str>>,
    /// Requests a second; attempts for endpoints.
    pub requests: f64,
    /// Their share with a status of 400 to 499, in percent.
    pub client_errors: f64,
    /// Their share with a status of 500 to 599, or without a response of an endpoint, in percent.
    pub server_errors: f64,
    /// The mean of their time, in microseconds.
    pub mean_us: u64,
    /// The 99th percentile of their time over the last 30 to 60 s, in microseconds; none where it is not
    /// measured.
    pub p99_us: Option<u64>,
    /// Bytes of responses a second.
    pub bytes: f64,
    /// The cause of the last failed attempt at an endpoint, and its time in milliseconds since 1970.
    pub last_failure: Option<(&'static str, u64)>,
}

/// The distance of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficInterval {
    /// A second, over the last five minutes.
    Second,
    /// Ten seconds, over the last hour.
    TenSeconds,
}

/// The figures of one second or of ten.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficPoint {
    /// Its number; it grows by one each second.
    pub seq: u64,
    /// The end of its time, in milliseconds since 1970.
    pub end_ms: u64,
    /// The figures.
    pub figures: Figures,
}

/// The figures over a time. Rates are per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Requests without a response, or with an informational one such as 101.
    pub other: f64,
    /// Requests with a status of 200 to 299.
    pub successes: f64,
    /// Requests with a status of 300 to 399.
    pub redirections: f64,
    /// Requests with a status of 400 to 499.
    pub client_errors: f64,
    /// Requests with a status of 500 to 599.
    pub server_errors: f64,
    /// The median of their time in microseconds; none without a request.
    pub p50_us: Option<u64>,
    /// The 90th percentile.
    pub p90_us: Option<u64>,
    /// The 99th percentile.
    pub p99_us: Option<u64>,
    /// Bytes of responses.
    pub bytes: f64,
    /// Cores that the process used.
    pub cpu: f64,
    /// The resident set at the end, in bytes.
    pub resident_bytes: u64,
    /// Requests in flight, the mean.
    pub in_flight: f64,
    /// Client connections, the mean.
    pub connections: f64,
}

impl Figures {
    /// All requests, per second.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.other + self.successes + self.redirections + self.client_errors + self.server_errors
    }
}

/// The figures of the last ten seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficNow {
    /// The figures; the number is that of the newest second.
    pub point: TrafficPoint,
    /// Requests since the start.
    pub requests_total: u64,
    /// Cores of the machine that the process may use.
    pub cores: usize,
    /// The memory limit in bytes, if there is one.
    pub memory_limit_bytes: Option<u64>,
    /// Lines of the access log and of the error log that were lost since the start.
    pub log_lines_lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_rates_weigh_their_shares() {
        let rate = |requests, server_errors, p99_us| TrafficRate {
            id: "a".into(),
            requests,
            client_errors: 0.0,
            server_errors,
            p99_us,
            bytes: 10.0,
        };
        let mut sum = rate(30.0, 0.0, Some(5));
        sum.join(&rate(10.0, 100.0, None));
        assert_eq!((sum.requests, sum.server_errors, sum.p99_us, sum.bytes), (40.0, 25.0, Some(5), 20.0));
        let mut idle = rate(0.0, 0.0, None);
        idle.join(&rate(0.0, 0.0, None));
        assert_eq!(idle.server_errors, 0.0);
    }
}
