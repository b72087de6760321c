//! The API of Tencent Cloud Log Service: sends the entries of a batch in as many requests as their size
//! needs. It knows no requests of clients.

use std::net::ToSocketAddrs;
use std::ops::Range;
use std::sync::{Once, OnceLock};

use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::services::Services;
use message::Method;
use net::env;

use super::TencentCloudClsConfig;
use super::message::encode_log_group_list;
use super::signature::sign_cls_request;
use crate::shared::log_entry::hostname;
use crate::shared::logger::collector::{Calling, LogCollector};

/// Seconds until the service has to have answered, as in the contract's data plane.
const TIMEOUT_S: u64 = 10;
/// The most bytes of entries in one request; the service takes no more.
const REQUEST_MAX_BYTES: usize = 5 * 1024 * 1024;
/// Statuses after which the same entries would be refused again.
const FINAL_STATUSES: [u16; 4] = [401, 403, 404, 413];

/// The service, as one plugin instance reaches it.
pub(crate) struct LogService {
    collector: LogCollector,
    secret_id: Box<str>,
    secret_key: Box<str>,
}

/// The first address of this machine's name, or the name.
static SOURCE: OnceLock<String> = OnceLock::new();
/// Milliseconds between two looks whether it is known.
const SOURCE_POLL_MS: u64 = 20;

/// Looks [`SOURCE`] up once, on a thread of its own: the query of the C library blocks, which would hold up
/// the compilation of configurations and all batches.
fn look_source_up() {
    static LOOKUP: Once = Once::new();
    LOOKUP.call_once(|| {
        let lookup = || {
            let address = (hostname(), 0).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
            SOURCE.get_or_init(|| {
                address.map_or_else(|| hostname().to_owned(), |address| address.ip().to_string())
            });
        };
        // Without a thread batches have the name.
        if std::thread::Builder::new().name("source".to_owned()).spawn(lookup).is_err() {
            SOURCE.get_or_init(|| hostname().to_owned());
        }
    });
}

/// [`SOURCE`], or the name if the address is not known in time.
async fn source() -> &'static str {
    let mut waited_ms = 0;
    while SOURCE.get().is_none() && waited_ms < TIMEOUT_S * 1_000 {
        env::sleep_ms(SOURCE_POLL_MS).await;
        waited_ms += SOURCE_POLL_MS;
    }
    SOURCE.get().map_or(hostname(), String::as_str)
}

impl LogService {
    /// The service as `config` describes it.
    ///
    /// # Errors
    /// Why it cannot be reached, or which text cannot be sent as a field.
    pub(super) fn new(services: &Services, config: &TencentCloudClsConfig) -> Result<LogService, String> {
        look_source_up();
        let calling = Calling::within_s(TIMEOUT_S, config.ssl_verify);
        let mut collector = LogCollector::new(services, [&*config.uri()], calling)?;
        collector.set("cls_host", "Content-Type", "application/x-protobuf")?;
        // Set for each request; here it shows that the identifier can stand in a field.
        collector.set(
            "secret_id",
            "Authorization",
            &sign_cls_request(&config.secret_id, &config.secret_key, 0),
        )?;
        Ok(LogService {
            collector,
            secret_id: (&*config.secret_id).into(),
            secret_key: (&*config.secret_key).into(),
        })
    }

    async fn send(&self, client: &HttpClient, entries: &[BatchEntry]) -> Result<(), DeliveryFailure> {
        let source = source().await;
        let now_s = stdx::clock::unix_time();
        let signed = sign_cls_request(&self.secret_id, &self.secret_key, now_s.as_secs());
        let mut headers = self.collector.headers().clone();
        headers.set("Authorization", signed.as_bytes()).map_err(|error| error.to_string())?;
        let body = encode_log_group_list(entries.iter().map(|entry| entry.to_vec()).collect(), source);
        let endpoint = self.collector.endpoint();
        let request = (Method::Post, endpoint.target());
        let answer = self.collector.send(client, endpoint, request, headers, body).await?;
        let status = answer.status();
        if status == 200 {
            return Ok(());
        }
        let reason = format!("got wrong status: {status}, body: {}", answer.body_excerpt());
        if FINAL_STATUSES.contains(&status) { Err(DeliveryFailure::last(reason)) } else { Err(reason.into()) }
    }
}

/// The requests of a batch: ranges of entries that fit into one each. An entry that fits into none is in no
/// range.
fn requests(sizes: &[usize]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (index, size) in sizes.iter().copied().enumerate() {
        if size > REQUEST_MAX_BYTES {
            continue;
        }
        bytes += size;
        match ranges.last_mut() {
            Some(last) if last.end == index && bytes <= REQUEST_MAX_BYTES => last.end = index + 1,
            _ => {
                ranges.push(index..index + 1);
                bytes = size;
            }
        }
    }
    ranges
}

impl Sink for LogService {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let sizes: Vec<usize> = batch.iter().map(|entry| entry.len()).collect();
            let ranges = requests(&sizes);
            let fitting: usize = ranges.iter().map(ExactSizeIterator::len).sum();
            let mut refused = batch.len() - fitting;
            let mut reason = format!("{refused} entries are longer than {REQUEST_MAX_BYTES} bytes");
            for range in ranges {
                match self.send(client, &batch[range.clone()]).await {
                    Ok(()) => {}
                    Err(failure) if failure.is_final => {
                        refused += range.len();
                        reason = failure.reason;
                    }
                    // The requests before this one are done with, also those that were refused for good.
                    Err(failure) => return Err(DeliveryFailure::after(range.start, failure.reason)),
                }
            }
            if refused == 0 {
                return Ok(());
            }
            Err(DeliveryFailure::last_after(batch.len() - refused, reason))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_hold_what_fits() {
        let mib = 1024 * 1024;
        let check = |sizes: &[usize], expected: &[(usize, usize)]| {
            let got: Vec<(usize, usize)> =
                requests(sizes).iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(got, expected, "{sizes:?}");
        };
        check(&[], &[]);
        check(&[1, 2, 3], &[(0, 3)]);
        check(&[3 * mib, 2 * mib, 1], &[(0, 2), (2, 3)]);
        check(&[3 * mib, 3 * mib, 2 * mib], &[(0, 1), (1, 3)]);
        check(&[5 * mib + 1], &[]);
        check(&[1, 5 * mib + 1, 1], &[(0, 1), (2, 3)]);
    }
}
