//! The metrics of sessions on stream routes with `prometheus`: APISIX's names, and those of Weir with causes,
//! bytes and durations. Sessions are few beside requests, so that all workers share one table.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use exchange::plugin::Build;
use exchange::plugin::stream::{SessionEnd, StreamFlow, StreamPlugin, StreamSession};
use model::report::MetricsText;
use parking_lot::Mutex;
use serde_json::Value;
use stdx::prometheus_text::{header, sample};

use super::PrometheusConfig;
use crate::shared::config;

/// Most routes, most listeners, and most statuses by listener and node, so that neither memory nor a scrape
/// grows with the addresses that clients of transparent listeners choose. Further ones are counted under
/// [`OTHER`].
const SERIES_MAX: usize = 2_000;
/// The label of sessions that have no series of their own.
const OTHER: &str = "other";
/// Upper bounds of durations in seconds: sessions live for milliseconds to days.
const BOUNDS_S: [f64; 9] = [0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0];

/// The compiled plugin.
struct StreamPrometheus {
    prefers_name: bool,
    metrics: Arc<StreamMetrics>,
}

/// See the module.
#[derive(Default)]
struct StreamMetrics(Mutex<StreamMetricTable>);

#[derive(Default)]
struct StreamMetricTable {
    routes: BTreeMap<Box<str>, RouteSeries>,
    listeners: BTreeMap<Box<str>, ListenerSeries>,
    /// By listener, node and code.
    statuses: BTreeMap<(Box<str>, Box<str>, u16), u64>,
}

#[derive(Default)]
struct RouteSeries {
    ends: BTreeMap<&'static str, u64>,
    received_bytes: u64,
    sent_bytes: u64,
    /// Not cumulated; the last one is above all bounds.
    durations: [u64; BOUNDS_S.len() + 1],
    sum_s: f64,
}

#[derive(Default)]
struct ListenerSeries {
    active: u64,
    received_bytes: u64,
    sent_bytes: u64,
    to_nodes_bytes: u64,
    from_nodes_bytes: u64,
}

/// A session that counts as active at a listener until it is dropped.
struct ActiveSession {
    metrics: Arc<StreamMetrics>,
    listener: Box<str>,
}

/// Compiles a configuration of a stream route.
///
/// # Errors
/// The configuration is malformed.
pub(super) fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
    let config: PrometheusConfig = config::parse_config(config)?;
    // The services keep the table, so that the counters outlive the last instance.
    let metrics = build.states.keep("prometheus/streams", StreamMetrics::default);
    build.services.add_metrics(metrics.clone());
    Ok(Arc::new(StreamPrometheus { prefers_name: config.prefer_name, metrics }))
}

impl StreamPlugin for StreamPrometheus {
    fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
        let listener = self.metrics.0.lock().enter(session.local);
        session.hold(ActiveSession { metrics: self.metrics.clone(), listener });
        StreamFlow::Continue
    }

    fn log(&self, session: &StreamSession) {
        let name = session.route_name.as_deref().filter(|_| self.prefers_name);
        let route = name.or(session.route_id.as_deref()).unwrap_or_default();
        self.metrics.0.lock().count(route, session);
    }
}

impl Drop for ActiveSession {
    fn drop(&mut self) {
        if let Some(series) = self.metrics.0.lock().listeners.get_mut(&self.listener) {
            series.active = series.active.saturating_sub(1);
        }
    }
}

impl StreamMetricTable {
    /// Counts an active session; gives the label of its listener.
    fn enter(&mut self, listener: SocketAddr) -> Box<str> {
        let label = place(&self.listeners, listener.to_string().into());
        self.listeners.entry(label.clone()).or_default().active += 1;
        label
    }

    /// Counts a session that has ended.
    fn count(&mut self, route: &str, session: &StreamSession) {
        let (received_bytes, sent_bytes) = (session.received_bytes, session.sent_bytes);
        let label = place(&self.routes, route.into());
        let series = self.routes.entry(label).or_default();
        *series.ends.entry(session.end.map_or("", SessionEnd::code)).or_default() += 1;
        series.received_bytes += received_bytes;
        series.sent_bytes += sent_bytes;
        let duration_s = session.duration_ns() as f64 / 1e9;
        let bucket = BOUNDS_S.iter().position(|bound| duration_s <= *bound).unwrap_or(BOUNDS_S.len());
        series.durations[bucket] += 1;
        series.sum_s += duration_s;

        let listener = place(&self.listeners, session.local.to_string().into());
        let series = self.listeners.entry(listener.clone()).or_default();
        series.received_bytes += received_bytes;
        series.sent_bytes += sent_bytes;
        // A session without a node has passed nothing on.
        if session.node.is_some() {
            series.to_nodes_bytes += received_bytes;
            series.from_nodes_bytes += sent_bytes;
        }

        let node = session.node.map(|node| node.to_string()).unwrap_or_default();
        let key = (listener, node.into(), code(session));
        let key = if self.statuses.len() < SERIES_MAX || self.statuses.contains_key(&key) {
            key
        } else {
            (OTHER.into(), OTHER.into(), key.2)
        };
        *self.statuses.entry(key).or_default() += 1;
    }
}

/// The label itself, or [`OTHER`] if there is no place for another one.
fn place<T>(known: &BTreeMap<Box<str>, T>, label: Box<str>) -> Box<str> {
    if known.len() < SERIES_MAX || known.contains_key(&label) { label } else { OTHER.into() }
}

/// The code of APISIX: that of nginx, and for a session that a side has cut, which nginx calls 200, the
/// side's.
fn code(session: &StreamSession) -> u16 {
    match session.end {
        Some(SessionEnd::ClientReset) => 400,
        Some(SessionEnd::NodeReset | SessionEnd::IdleTimeout) => 502,
        _ => session.status(),
    }
}

impl MetricsText for StreamMetrics {
    fn write_metrics(&self, text: &mut String) {
        let table = self.0.lock();
        let mut all = |name: &str, kind: &str, help: &str, write: &dyn Fn(&mut String, &str)| {
            header(text, name, kind, help);
            write(text, name);
        };
        all("apisix_stream_connection_total", "counter", "Sessions by stream route.", &|text, name| {
            for (route, series) in &table.routes {
                sample(text, name, &[("route", route)], series.ends.values().sum::<u64>());
            }
        });
        all("apisix_stream_active_connections", "gauge", "Open sessions by listener.", &|text, name| {
            for (listener, series) in &table.listeners {
                sample(text, name, &[("listen_addr", listener)], series.active);
            }
        });
        all("apisix_stream_status", "counter", "Ended sessions by status.", &|text, name| {
            for ((listener, node, code), count) in &table.statuses {
                sample(text, name, &[("code", code), ("listen_addr", listener), ("node", node)], count);
            }
        });
        all("apisix_stream_bandwidth", "counter", "Bytes of ended sessions by listener.", &|text, name| {
            for (listener, series) in &table.listeners {
                let counts = [
                    ("ingress", "downstream", series.received_bytes),
                    ("egress", "downstream", series.sent_bytes),
                    ("egress", "upstream", series.to_nodes_bytes),
                    ("ingress", "upstream", series.from_nodes_bytes),
                ];
                for (kind, side, count) in &counts {
                    sample(text, name, &[("listen_addr", listener), ("type", kind), ("side", side)], count);
                }
            }
        });
        all("weir_stream_route_sessions_total", "counter", "Ended sessions by cause.", &|text, name| {
            for (route, series) in &table.routes {
                for (end, count) in &series.ends {
                    sample(text, name, &[("route", route), ("end", end)], count);
                }
            }
        });
        all("weir_stream_route_bytes_total", "counter", "Bytes from and to clients.", &|text, name| {
            for (route, series) in &table.routes {
                sample(text, name, &[("route", route), ("direction", &"received")], series.received_bytes);
                sample(text, name, &[("route", route), ("direction", &"sent")], series.sent_bytes);
            }
        });
        all("weir_stream_route_session_seconds", "histogram", "Durations of sessions.", &|text, name| {
            table.routes.iter().for_each(|(route, series)| series.write_durations(text, name, route));
        });
    }
}

impl RouteSeries {
    fn write_durations(&self, text: &mut String, name: &str, route: &str) {
        let mut total = 0;
        for (bound, count) in BOUNDS_S.iter().zip(&self.durations) {
            total += count;
            sample(text, &format!("{name}_bucket"), &[("route", &route), ("le", bound)], total);
        }
        total += self.durations[BOUNDS_S.len()];
        sample(text, &format!("{name}_bucket"), &[("route", &route), ("le", &"+Inf")], total);
        sample(text, &format!("{name}_sum"), &[("route", &route)], self.sum_s);
        sample(text, &format!("{name}_count"), &[("route", &route)], total);
    }
}

#[cfg(test)]
mod tests {
    use exchange::plugin::state::StateRegistry;
    use serde_json::json;

    use super::*;
    use crate::prometheus::KIND;

    fn session(port: u16, end: SessionEnd) -> StreamSession {
        let local = SocketAddr::from(([127, 0, 0, 1], port));
        let mut session = StreamSession::new("10.0.0.1:4000".parse().unwrap(), local, 0);
        (session.route_id, session.route_name) = (Some("1".into()), Some("database".into()));
        (session.received_bytes, session.sent_bytes) = (10, 20);
        session.node = Some("127.0.0.1:5432".parse().unwrap());
        (session.ended_ns, session.end) = (250_000_000, Some(end));
        session
    }

    /// The samples after `run`, without the lines of buckets.
    fn samples(config: Value, run: impl FnOnce(&dyn StreamPlugin)) -> Vec<String> {
        let (states, services) = (StateRegistry::default(), exchange::testing::services());
        let build = exchange::testing::build("/stream_routes/1", None, &states, &services);
        let plugin = (KIND.stream.as_ref().unwrap().build)(&build, &config).unwrap();
        run(&*plugin);
        let mut text = String::new();
        services.write_metrics(&mut text);
        let lines = text.lines().filter(|line| line.contains("stream_") && !line.starts_with('#'));
        lines.filter(|line| !line.contains("_bucket")).map(str::to_owned).collect()
    }

    #[test]
    fn sessions_are_counted_by_route_end_and_listener() {
        let got = samples(json!({}), |plugin| {
            let mut open = session(9100, SessionEnd::Closed);
            assert!(matches!(plugin.preread(&mut open), StreamFlow::Continue));
            for end in [SessionEnd::Closed, SessionEnd::Closed, SessionEnd::NodeReset] {
                let mut session = session(9100, end);
                assert!(matches!(plugin.preread(&mut session), StreamFlow::Continue));
                plugin.log(&session);
            }
            let mut refused = session(9101, SessionEnd::Rejected);
            refused.node = None;
            plugin.log(&refused);
            std::mem::forget(open);
        });
        let expected = [
            "apisix_stream_connection_total{route=\"1\"} 4",
            "apisix_stream_active_connections{listen_addr=\"127.0.0.1:9100\"} 1",
            "apisix_stream_active_connections{listen_addr=\"127.0.0.1:9101\"} 0",
            "apisix_stream_status{code=\"200\",listen_addr=\"127.0.0.1:9100\",node=\"127.0.0.1:5432\"} 2",
            "apisix_stream_status{code=\"502\",listen_addr=\"127.0.0.1:9100\",node=\"127.0.0.1:5432\"} 1",
            "apisix_stream_status{code=\"403\",listen_addr=\"127.0.0.1:9101\",node=\"\"} 1",
            "apisix_stream_bandwidth{listen_addr=\"127.0.0.1:9100\",type=\"ingress\",side=\"downstream\"} 30",
            "apisix_stream_bandwidth{listen_addr=\"127.0.0.1:9100\",type=\"egress\",side=\"downstream\"} 60",
            "apisix_stream_bandwidth{listen_addr=\"127.0.0.1:9100\",type=\"egress\",side=\"upstream\"} 30",
            "apisix_stream_bandwidth{listen_addr=\"127.0.0.1:9100\",type=\"ingress\",side=\"upstream\"} 60",
            "apisix_stream_bandwidth{listen_addr=\"127.0.0.1:9101\",type=\"ingress\",side=\"downstream\"} 10",
            "apisix_stream_bandwidth{listen_addr=\"127.0.0.1:9101\",type=\"egress\",side=\"downstream\"} 20",
            "apisix_stream_bandwidth{listen_addr=\"127.0.0.1:9101\",type=\"egress\",side=\"upstream\"} 0",
            "apisix_stream_bandwidth{listen_addr=\"127.0.0.1:9101\",type=\"ingress\",side=\"upstream\"} 0",
            "weir_stream_route_sessions_total{route=\"1\",end=\"closed\"} 2",
            "weir_stream_route_sessions_total{route=\"1\",end=\"node_reset\"} 1",
            "weir_stream_route_sessions_total{route=\"1\",end=\"rejected\"} 1",
            "weir_stream_route_bytes_total{route=\"1\",direction=\"received\"} 40",
            "weir_stream_route_bytes_total{route=\"1\",direction=\"sent\"} 80",
            "weir_stream_route_session_seconds_sum{route=\"1\"} 1",
            "weir_stream_route_session_seconds_count{route=\"1\"} 4",
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn route_is_labelled_by_name_where_wanted() {
        let got = samples(json!({"prefer_name": true}), |plugin| {
            plugin.log(&session(9100, SessionEnd::Closed));
            let mut nameless = session(9100, SessionEnd::Closed);
            nameless.route_name = None;
            plugin.log(&nameless);
        });
        assert_eq!(got[0], "apisix_stream_connection_total{route=\"1\"} 1");
        assert_eq!(got[1], "apisix_stream_connection_total{route=\"database\"} 1");
    }

    #[test]
    fn series_beyond_the_limit_are_counted_as_other() {
        let mut table = StreamMetricTable::default();
        for number in 0..SERIES_MAX + 5 {
            let mut session = session(9100, SessionEnd::Closed);
            session.local.set_port(u16::try_from(number).unwrap());
            table.count(&number.to_string(), &session);
        }
        assert_eq!(table.routes.len(), SERIES_MAX + 1);
        assert_eq!(table.listeners.len(), SERIES_MAX + 1);
        assert_eq!(table.statuses.len(), SERIES_MAX + 1);
        assert_eq!(table.routes[OTHER].ends["closed"], 5);
    }
}
