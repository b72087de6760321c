//! Loggly over UDP or over HTTP. It knows no requests.

use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, Sink};
use exchange::plugin::outbound::{DATAGRAM_MAX_BYTES, HttpClient, check_place};
use exchange::plugin::services::Services;
use net::endpoint::KeepAlive;

use super::{LogglyConfig, LogglyMetadata, LogglyProtocol};
use crate::shared::logger::collector::{self, Calling, LogCollector};
use crate::shared::logger::datagrams::Datagrams;
use crate::shared::redis::settings::format_host_port;

/// Loggly, as one plugin instance reaches it.
pub(crate) enum Loggly {
    /// A datagram for each entry.
    Syslog(Datagrams),
    /// A request for each batch.
    Bulk(LogCollector),
}

impl Loggly {
    /// The server of the metadata, with the token and tags of an instance.
    ///
    /// # Errors
    /// Why it cannot be reached, or which text cannot be sent as a field.
    pub(super) fn new(
        services: &Services,
        config: &LogglyConfig,
        metadata: &LogglyMetadata,
    ) -> Result<Loggly, String> {
        if metadata.protocol == LogglyProtocol::Syslog {
            let LogglyMetadata { host, port, timeout, .. } = metadata;
            return Ok(Loggly::Syslog(Datagrams::new(services, host, *port, *timeout)?));
        }
        let calling = Calling {
            timeout_ms: metadata.timeout,
            verifies: config.ssl_verify,
            keep_alive: KeepAlive::default(),
        };
        let uri = uri(metadata, &config.customer_token);
        let mut collector = LogCollector::new(services, [&*uri], calling)?;
        collector.set("host", "Content-Type", "application/json")?;
        for tag in &config.tags {
            collector.append("tags", "X-LOGGLY-TAG", tag)?;
        }
        Ok(Loggly::Bulk(collector))
    }
}

/// Checks the server of the metadata.
///
/// # Errors
/// Why it cannot be reached, with the field.
pub(super) fn check(metadata: &LogglyMetadata) -> Result<(), String> {
    match metadata.protocol {
        LogglyProtocol::Syslog => check_place(&format_host_port(&metadata.host, metadata.port))
            .map_err(|reason| format!("host: {reason}")),
        LogglyProtocol::Http | LogglyProtocol::Https => collector::check("host", &uri(metadata, "token")),
    }
}

/// The bulk endpoint; the host may have a scheme.
fn uri(metadata: &LogglyMetadata, token: &str) -> String {
    let host = metadata.host.trim_end_matches('/');
    let scheme = match metadata.protocol {
        _ if host.starts_with("http") && host.contains("://") => "",
        LogglyProtocol::Http => "http://",
        _ => "https://",
    };
    format!("{scheme}{host}/bulk/{token}/tag/bulk")
}

impl Sink for Loggly {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            match self {
                Loggly::Syslog(datagrams) => send_datagrams(datagrams, batch).await,
                Loggly::Bulk(collector) => post(collector, client, batch).await,
            }
        })
    }
}

async fn send_datagrams(datagrams: &Datagrams, batch: &[BatchEntry]) -> Result<(), DeliveryFailure> {
    let mut too_long = 0;
    for (index, entry) in batch.iter().enumerate() {
        // The kernel would refuse it each time, and the entries behind it would never be sent.
        if entry.len() > DATAGRAM_MAX_BYTES {
            too_long += 1;
            continue;
        }
        if let Err(reason) = datagrams.send(entry).await {
            let left = (index..batch.len()).collect();
            return Err(DeliveryFailure::with_left(index - too_long, left, reason));
        }
    }
    if too_long == 0 {
        return Ok(());
    }
    let reason = format!("{too_long} entries are longer than a datagram ({DATAGRAM_MAX_BYTES} bytes)");
    Err(DeliveryFailure::last_after(batch.len() - too_long, reason))
}

async fn post(
    collector: &LogCollector,
    client: &HttpClient,
    batch: &[BatchEntry],
) -> Result<(), DeliveryFailure> {
    let answer = collector.post(client, batch.join(&b'\n')).await;
    let answer = answer.map_err(|reason| format!("failed to write log to loggly, {reason}"))?;
    if answer.status() == 200 {
        return Ok(());
    }
    let (status, excerpt) = (answer.status(), answer.body_excerpt());
    let body = if excerpt.is_empty() { String::new() } else { format!(" response body: {excerpt}") };
    Err(format!("failed to send log to loggly, http status code: {status}{body}").into())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn metadata(written: Value) -> LogglyMetadata {
        crate::shared::config::fields_of::<LogglyMetadata>(Some(&written)).unwrap()
    }

    #[test]
    fn bulk_endpoints_hold_the_token() {
        let check = |written: Value, expected: &str| assert_eq!(uri(&metadata(written), "tok"), expected);
        check(json!({"protocol": "https"}), "https://logs-01.loggly.com/bulk/tok/tag/bulk");
        check(json!({"protocol": "http", "host": "a:1/loggly/"}), "http://a:1/loggly/bulk/tok/tag/bulk");
        check(json!({"protocol": "https", "host": "http://a"}), "http://a/bulk/tok/tag/bulk");
        check(json!({"protocol": "http", "host": "httpd"}), "http://httpd/bulk/tok/tag/bulk");
    }

    #[test]
    fn long_entry_does_not_hold_up_others() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let services = exchange::testing::services();
        let port = server.local_addr().unwrap().port();
        let datagrams = Datagrams::new(&services, "127.0.0.1", port, 60_000).unwrap();
        let batch: [BatchEntry; 3] =
            [b"a".to_vec().into(), vec![b'x'; DATAGRAM_MAX_BYTES + 1].into(), b"b".to_vec().into()];
        let failure = net::env::block_on(send_datagrams(&datagrams, &batch)).unwrap().unwrap_err();
        assert_eq!((failure.delivered, failure.is_final), (2, true));
        let mut room = [0; 100];
        for expected in ["a", "b"] {
            let count = server.recv(&mut room).unwrap();
            assert_eq!(&room[..count], expected.as_bytes());
        }
    }
}
