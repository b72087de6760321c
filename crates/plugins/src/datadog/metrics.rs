//! The metrics of one request in the format of DogStatsD. It sends nothing.

use std::fmt::Write as _;

use exchange::Exchange;

use super::{DatadogConfig, DatadogMetadata};

/// The parts that an instance decides.
pub(super) struct DatadogMetrics {
    prefers_names: bool,
    includes_path: bool,
    includes_method: bool,
    /// The namespace and its dot.
    prefix: Box<str>,
    constant_tags: Vec<String>,
}

impl DatadogMetrics {
    pub(super) fn new(config: &DatadogConfig, metadata: &DatadogMetadata) -> DatadogMetrics {
        let namespace = &metadata.namespace;
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}.") };
        let constant_tags = metadata.constant_tags.iter().chain(&config.constant_tags);
        DatadogMetrics {
            prefers_names: config.prefer_name,
            includes_path: config.include_path,
            includes_method: config.include_method,
            prefix: prefix.into(),
            constant_tags: constant_tags.cloned().collect(),
        }
    }

    /// The metrics of an exchange that has ended, a line each.
    pub(super) fn of(&self, exchange: &Exchange) -> Vec<u8> {
        let tags = self.tags(exchange);
        let mut lines = String::new();
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut add = |name: &str, value: f64, kind: &str| {
            let line_break = if lines.is_empty() { "" } else { "\n" };
            // Writing to a String cannot fail.
            let _ = write!(lines, "{line_break}{}{name}:{value}|{kind}{tags}", self.prefix);
        };
        add("request.counter", 1.0, "c");
        add("request.latency", ms(exchange.times.total_ns()), "h");
        if !exchange.attempts.is_empty() {
            add("upstream.latency", ms(exchange.times.upstream_ns()), "h");
        }
        add("apisix.latency", ms(exchange.times.gateway_ns()), "h");
        add("ingress.size", exchange.stats.request_bytes as f64, "ms");
        add("egress.size", exchange.stats.response_bytes as f64, "ms");
        lines.into_bytes()
    }

    fn tags(&self, exchange: &Exchange) -> String {
        let mut tags = Tags(String::new());
        self.constant_tags.iter().for_each(|tag| tags.push(tag));
        let name = |name: &Option<std::sync::Arc<str>>, id: &str| {
            let name = name.as_deref().filter(|name| self.prefers_names && !name.is_empty());
            name.unwrap_or(id).to_owned()
        };
        let host = || String::from_utf8_lossy(exchange.host()).into_owned();
        let route = exchange.route();
        if let Some(route) = route {
            tags.add("route_name", &name(&route.name, &route.id));
        }
        if let Some(path) = exchange.matched_uri().filter(|_| self.includes_path) {
            tags.add("path", path);
        }
        if self.includes_method {
            tags.add("method", &String::from_utf8_lossy(exchange.request.method_text()));
        }
        match route.map(|route| route.service.as_ref()) {
            Some(Some(service)) => tags.add("service_name", &name(&service.name, &service.id)),
            Some(None) => {}
            // Without a route, the contract's data plane puts the requested host here.
            None => tags.add("service_name", &host()),
        }
        if let Some(consumer) = exchange.consumer() {
            tags.add("consumer", &consumer.username);
        }
        let last = exchange.attempts.last();
        if let Some(attempt) = last {
            tags.add("balancer_ip", &attempt.address.ip().to_string());
        }
        let status = exchange.status();
        tags.add("response_status", &status.to_string());
        tags.add("response_status_class", &format!("{}xx", status / 100));
        if let Some(attempt) = last {
            tags.add("scheme", attempt.scheme);
        }
        tags.0
    }
}

/// Tags as they stand behind a metric.
struct Tags(String);

impl Tags {
    fn push(&mut self, tag: &str) {
        self.0.push_str(if self.0.is_empty() { "|#" } else { "," });
        self.0.push_str(tag);
    }

    fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        // A client chooses the method and the host: neither may begin another tag, part or metric.
        let value: String = value
            .chars()
            .map(|c| if c.is_control() || matches!(c, '|' | ',' | '#') { '_' } else { c })
            .collect();
        self.push(&format!("{name}:{value}"));
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, respond, route};
    use serde_json::{Value, json};

    use super::*;
    use crate::shared::attributes::Attribute;

    fn metrics(config: Value, metadata: Value) -> DatadogMetrics {
        DatadogMetrics::new(&DatadogConfig::read(config).unwrap(), &DatadogMetadata::read(metadata).unwrap())
    }

    fn lines(metrics: &DatadogMetrics, head: &str, change: impl FnOnce(&mut Exchange)) -> Vec<String> {
        let mut named = route("r1");
        named.name = Some("shop".into());
        let mut scene = Scene::new().with_route(named);
        let mut exchange = scene.exchange(head.as_bytes());
        respond(&mut exchange, 404, &[]);
        exchange.times.ended_ns = exchange.times.started_ns + 2_500_000;
        change(&mut exchange);
        String::from_utf8(metrics.of(&exchange)).unwrap().lines().map(str::to_owned).collect()
    }

    const HEAD: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn metrics_have_values_and_tags() {
        let tags = "|#source:apisix,route_name:shop,response_status:404,response_status_class:4xx";
        let expected = [
            format!("apisix.request.counter:1|c{tags}"),
            format!("apisix.request.latency:2.5|h{tags}"),
            format!("apisix.apisix.latency:2.5|h{tags}"),
            format!("apisix.ingress.size:{}|ms{tags}", HEAD.len()),
            format!("apisix.egress.size:0|ms{tags}"),
        ];
        assert_eq!(lines(&metrics(json!({}), json!({})), HEAD, |_| {}), expected);
    }

    #[test]
    fn tags_follow_the_configuration() {
        let check = |config: Value, metadata: Value, head: &str, expected: &str| {
            let first = lines(&metrics(config.clone(), metadata), head, |_| {}).remove(0);
            assert_eq!(
                first,
                format!("{expected},response_status:404,response_status_class:4xx"),
                "{config}"
            );
        };
        check(
            json!({"prefer_name": false}),
            json!({}),
            HEAD,
            "apisix.request.counter:1|c|#source:apisix,route_name:r1",
        );
        check(
            json!({"include_path": true, "include_method": true, "constant_tags": ["t:1"]}),
            json!({"namespace": "", "constant_tags": ["m"]}),
            HEAD,
            "request.counter:1|c|#m,t:1,route_name:shop,path:/*,method:GET",
        );
        check(
            json!({"include_method": true}),
            json!({"namespace": "my", "constant_tags": []}),
            "A|#B HTTP HTTP/1.1\r\nHost: a\r\n\r\n".replace(" HTTP ", " /a ").as_str(),
            "my.request.counter:1|c|#route_name:shop,method:A__B",
        );
    }

    #[test]
    fn request_without_route_is_tagged_with_its_host() {
        let metrics = metrics(json!({}), json!({}));
        let first = lines(&metrics, HEAD, |exchange| exchange.decision.route = None).remove(0);
        let tags = "source:apisix,service_name:a,response_status:404,response_status_class:4xx";
        assert_eq!(first, format!("apisix.request.counter:1|c|#{tags}"));
    }
}
