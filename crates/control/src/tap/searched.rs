//! The record of a request as filters see it: the fields of [`model::search::TRAFFIC_FIELDS`].

use model::report::RequestRecord;
use model::search::Searchable;

/// See the module.
pub(super) struct Searched<'r> {
    pub(super) record: &'r RequestRecord,
    /// Whether queries are not looked at, because the reader could find a hidden one by guessing.
    pub(super) hides_queries: bool,
}

impl Searched<'_> {
    fn path(&self) -> &str {
        if self.hides_queries { self.plain_path() } else { &self.record.path }
    }

    fn plain_path(&self) -> &str {
        self.record.path.split('?').next().unwrap_or_default()
    }
}

impl Searchable for Searched<'_> {
    fn any_word(&self, test: &mut dyn FnMut(&str) -> bool) -> bool {
        let record = self.record;
        let names = [record.route.as_deref(), record.route_name.as_deref(), Some(&*record.id)];
        test(self.path()) || test(&record.host) || names.into_iter().flatten().any(test)
    }

    fn any_text(&self, field: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
        let record = self.record;
        let mut optional = |text: Option<&str>| text.is_some_and(&mut *test);
        match field {
            "method" => test(&record.method),
            "host" => test(&record.host),
            // A path is meant without its query too.
            "path" => test(self.path()) || test(self.plain_path()),
            "route" => optional(record.route.as_deref()) || optional(record.route_name.as_deref()),
            "service" => optional(record.service.as_deref()),
            "consumer" => optional(record.consumer.as_deref()),
            "upstream" => optional(record.upstream.as_deref()),
            "endpoint" => record
                .endpoint
                .is_some_and(|endpoint| test(&endpoint.to_string()) || test(&endpoint.ip().to_string())),
            "cause" => optional(record.cause),
            "client" => test(&record.client.to_string()),
            "protocol" => test(record.protocol) || test(record.protocol.trim_start_matches("HTTP/")),
            _ => false,
        }
    }

    fn number(&self, field: &str) -> Option<f64> {
        let record = self.record;
        Some(match field {
            "status" => f64::from(record.status),
            "took" | "total" => record.total_us as f64,
            "bytes" => record.bytes_out as f64,
            "worker" => record.worker as f64,
            _ => return None,
        })
    }
}
