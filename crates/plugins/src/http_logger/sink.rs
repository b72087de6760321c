//! The log server: joins entries into batches and posts them. It knows neither requests nor formats.

use exchange::plugin::batch::{BatchEntry, Delivery, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::services::Services;

use super::{ConcatMethod, HttpLoggerConfig};
use crate::shared::logger::collector::{Calling, LogCollector, json_list};

/// The log server of one plugin instance.
pub(super) struct HttpLogServer {
    collector: LogCollector,
    concat_method: ConcatMethod,
    /// A batch is one entry, sent without a list around it.
    is_single: bool,
}

impl HttpLogServer {
    /// The server of `config`.
    ///
    /// # Errors
    /// Why it cannot be reached, or why `auth_header` is not valid in `Authorization`.
    pub(super) fn new(
        services: &Services,
        config: &HttpLoggerConfig,
        is_single: bool,
    ) -> Result<HttpLogServer, String> {
        let calling = Calling::within_s(config.timeout, config.ssl_verify);
        let mut collector = LogCollector::new(services, [&*config.uri], calling)?;
        let content_type = match config.concat_method {
            ConcatMethod::Json => "application/json",
            ConcatMethod::NewLine => "text/plain",
        };
        collector.set("concat_method", "Content-Type", content_type)?;
        if let Some(value) = config.auth_header.as_deref().filter(|value| !value.is_empty()) {
            collector.set("auth_header", "Authorization", value)?;
        }
        Ok(HttpLogServer { collector, concat_method: config.concat_method, is_single })
    }

    fn body(&self, batch: &[BatchEntry]) -> Vec<u8> {
        match (self.concat_method, batch) {
            (_, [entry]) if self.is_single => entry.to_vec(),
            (ConcatMethod::NewLine, _) => batch.join(&b'\n'),
            (ConcatMethod::Json, _) => json_list(batch),
        }
    }
}

impl Sink for HttpLogServer {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let answer = self.collector.post(client, self.body(batch)).await?;
            Ok(answer.below_400()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shared::config;

    fn server(concat_method: &str, auth_header: &str, is_single: bool) -> Result<HttpLogServer, String> {
        let written = json!({
            "uri": "http://127.0.0.1:1/", "auth_header": auth_header, "concat_method": concat_method,
        });
        HttpLogServer::new(
            &exchange::testing::services(),
            &config::parse_config(&written).unwrap(),
            is_single,
        )
    }

    #[test]
    fn batches_are_put_together_as_configured() {
        let check = |method: &str, is_single, entries: &[&str], expected: &str, content_type: &str| {
            let server = server(method, "Basic 123", is_single).unwrap();
            let batch: Vec<BatchEntry> = entries.iter().map(|entry| entry.as_bytes().into()).collect();
            assert_eq!(String::from_utf8_lossy(&server.body(&batch)), expected);
            let headers = server.collector.headers();
            assert_eq!(headers.get("content-type"), Some(content_type.as_bytes()));
            assert_eq!(headers.get("authorization"), Some(&b"Basic 123"[..]));
        };
        check("json", false, &["{}", "{\"a\":1}"], "[{},{\"a\":1}]", "application/json");
        check("json", false, &["{}"], "[{}]", "application/json");
        check("json", true, &["{}"], "{}", "application/json");
        check("new_line", false, &["{}", "{}"], "{}\n{}", "text/plain");
        check("new_line", true, &["{}"], "{}", "text/plain");
        let none = server("json", "", true).unwrap();
        assert!(!none.collector.headers().contains("authorization"));
        assert!(server("json", "a\nb", true).is_err_and(|reason| reason.contains("auth_header")));
    }
}
