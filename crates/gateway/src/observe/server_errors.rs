//! Counters of errors of the server: responses with a status of 500 and more, and responses that were cut for
//! such a reason, by status, cause, phase and endpoint. A worker counts its own; a scrape adds them up.
//! Requests without an error cost one comparison.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use parking_lot::Mutex;
use stdx::hash::FastMap;
use stdx::prometheus_text::{header, sample};

use exchange::Exchange;
use exchange::failure::Blame;

/// Series that a worker keeps with an endpoint of their own; further ones count under `endpoint="other"`,
/// because addresses come and go, and a scrape must not grow with them.
const SERIES_MAX: usize = 1_000;
/// Series that a worker keeps in all; then statuses and causes count under `other` as well. Plugins and
/// upstreams may choose any status.
const ALL_SERIES_MAX: usize = 2 * SERIES_MAX;
/// A series without an error for so long gives its place up when places are short.
const IDLE_MS: u64 = 3_600_000;
/// How often such series are looked for.
const SWEEP_MS: u64 = 60_000;

/// The labels of one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ServerErrorLabels {
    status: u16,
    cause: &'static str,
    blame: &'static str,
    phase: &'static str,
    endpoint: EndpointLabel,
}

/// The value of the label `endpoint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum EndpointLabel {
    None,
    At(SocketAddr),
    Other,
}

impl fmt::Display for EndpointLabel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointLabel::None => Ok(()),
            EndpointLabel::At(address) => address.fmt(formatter),
            EndpointLabel::Other => formatter.write_str("other"),
        }
    }
}

#[derive(Debug, Default)]
struct ServerErrorTable {
    series: FastMap<ServerErrorLabels, Count>,
    swept_ms: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    errors: u64,
    last_ms: u64,
}

/// The counters of one worker. The lock is held by a scrape for a copy of at most `ALL_SERIES_MAX` numbers.
#[derive(Debug, Default)]
pub struct ServerErrors(Mutex<ServerErrorTable>);

impl ServerErrors {
    /// Counts an ended exchange, if it ended with an error of the server.
    #[inline]
    pub(crate) fn ended(&self, exchange: &Exchange) {
        if exchange.response.status >= 500 || exchange.failure.is_some() {
            self.count(exchange);
        }
    }

    #[cold]
    fn count(&self, exchange: &Exchange) {
        let status = exchange.response.status;
        let is_error = status >= 500
            || exchange.failure.as_ref().is_some_and(|failure| {
                failure.cause.blame() != Blame::Client && failure.cause.status() >= 500
            });
        let Some(reason) = exchange.reason().filter(|_| is_error) else { return };
        let labels = ServerErrorLabels {
            status,
            cause: reason.cause,
            blame: reason.blame.as_str(),
            phase: reason.phase,
            endpoint: reason.endpoint.map_or(EndpointLabel::None, EndpointLabel::At),
        };
        self.0.lock().count(labels, exchange.local().now_ms());
    }
}

impl ServerErrorTable {
    fn count(&mut self, labels: ServerErrorLabels, now_ms: u64) {
        let place = self.place_for(labels, now_ms);
        let count = self.series.entry(place).or_default();
        count.errors += 1;
        count.last_ms = now_ms;
    }

    /// The labels to count under.
    fn place_for(&mut self, labels: ServerErrorLabels, now_ms: u64) -> ServerErrorLabels {
        if self.series.contains_key(&labels) {
            return labels;
        }
        if self.series.len() >= SERIES_MAX && now_ms.saturating_sub(self.swept_ms) >= SWEEP_MS {
            self.swept_ms = now_ms;
            self.series.retain(|_, count| now_ms.saturating_sub(count.last_ms) < IDLE_MS);
        }
        if self.series.len() < SERIES_MAX {
            return labels;
        }
        let without_endpoint = ServerErrorLabels { endpoint: EndpointLabel::Other, ..labels };
        if self.series.len() < ALL_SERIES_MAX || self.series.contains_key(&without_endpoint) {
            return without_endpoint;
        }
        ServerErrorLabels {
            status: 0,
            cause: "other",
            blame: "other",
            phase: "other",
            endpoint: EndpointLabel::Other,
        }
    }
}

/// Appends the sums of all workers to a scrape.
pub(super) fn write_server_errors<'a>(workers: impl Iterator<Item = &'a ServerErrors>, text: &mut String) {
    let mut sums: BTreeMap<ServerErrorLabels, u64> = BTreeMap::new();
    for worker in workers {
        let copy: Vec<(ServerErrorLabels, u64)> =
            worker.0.lock().series.iter().map(|(labels, count)| (*labels, count.errors)).collect();
        copy.into_iter().for_each(|(labels, errors)| *sums.entry(labels).or_default() += errors);
    }
    let name = "weir_server_errors_total";
    let help =
        "Responses with a status from 500 on and responses that were cut, by cause, phase and endpoint.";
    header(text, name, "counter", help);
    for (labels, errors) in &sums {
        let ServerErrorLabels { status, cause, blame, phase, endpoint } = labels;
        let fields: [(&str, &dyn fmt::Display); 5] =
            [("code", status), ("cause", cause), ("blame", blame), ("phase", phase), ("endpoint", endpoint)];
        sample(text, name, &fields, errors);
    }
}

#[cfg(test)]
mod tests {
    use exchange::failure::{Cause, ExchangeFailure};
    use exchange::testing::{Scene, respond};

    use super::*;

    fn at(port: u16, status: u16) -> ServerErrorLabels {
        let endpoint = EndpointLabel::At(SocketAddr::from(([10, 0, 0, 1], port)));
        ServerErrorLabels { status, cause: "connect_failed", blame: "origin", phase: "connect", endpoint }
    }

    #[test]
    fn series_are_bounded() {
        let mut table = ServerErrorTable::default();
        (0..3 * SERIES_MAX as u16).for_each(|port| table.count(at(port, 502), 1));
        assert_eq!(table.series.len(), SERIES_MAX + 1);
        let other = ServerErrorLabels { endpoint: EndpointLabel::Other, ..at(0, 502) };
        assert_eq!(table.series[&other].errors, 2 * SERIES_MAX as u64);
        (1..2 * SERIES_MAX as u16).for_each(|status| table.count(at(u16::MAX, status), 1));
        assert_eq!(table.series.len(), ALL_SERIES_MAX + 1);
        let all: u64 = table.series.values().map(|count| count.errors).sum();
        assert_eq!(all, 5 * SERIES_MAX as u64 - 1, "no error is lost");
    }

    #[test]
    fn idle_series_give_their_place_up() {
        let mut table = ServerErrorTable::default();
        (0..SERIES_MAX as u16).for_each(|port| table.count(at(port, 502), 1));
        let later_ms = IDLE_MS + 2;
        table.count(at(5, 502), later_ms - 1);
        table.count(at(60_000, 502), later_ms);
        assert_eq!(table.series.len(), 2);
        assert_eq!(table.series[&at(60_000, 502)].errors, 1);
    }

    #[test]
    fn only_errors_of_the_server_are_counted() {
        let (errors, mut scene) = (ServerErrors::default(), Scene::new());
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        for (status, failed) in [
            (200, None),
            (404, Some(Cause::NoRoute)),
            (502, Some(Cause::ConnectFailed)),
            (200, Some(Cause::BodyCut)),
            (200, Some(Cause::ClientGone)),
        ] {
            respond(&mut exchange, status, &[]);
            exchange.failure = failed.map(|cause| ExchangeFailure::new(cause, "a test"));
            errors.ended(&exchange);
        }
        let mut text = String::new();
        write_server_errors([&errors].into_iter(), &mut text);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let sample = |code: u16, cause: &str, phase: &str| {
            format!(
                "weir_server_errors_total{{code=\"{code}\",cause=\"{cause}\",blame=\"origin\",phase=\"{phase}\",endpoint=\"\"}} 1"
            )
        };
        assert_eq!(
            samples,
            [sample(200, "origin_body_cut", "response"), sample(502, "connect_failed", "connect")]
        );
    }
}
