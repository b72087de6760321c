//! Requests as pages and commands show them one by one: the record of an ended request, and the trait by
//! which control reads the records that workers keep. Knows neither their way to a reader nor their text
//! form.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The longest timeline of one request: more spans can be neither drawn nor read.
pub const SPANS_MAX: usize = 60;

/// The requests that workers record. While it is closed, workers record failures only.
pub trait Tap: Send + Sync {
    /// Records every request from here on; `timed` asks for timelines of some. Replaces an earlier call.
    fn open(&self, timed: bool);

    /// Records failures only, and forgets other records.
    fn close(&self);

    /// Moves the records kept since the last call to the end of `records`, in no particular order of workers.
    fn take(&self, records: &mut Vec<RequestRecord>) -> TapCounts;

    /// The failures kept, the newest first, and the number of failures that were not kept because there were
    /// too many in a second.
    fn failures(&self) -> (Vec<RequestRecord>, u64);
}

/// The counts of an open tap since the last [`Tap::take`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// Requests that ended, recorded or not.
    pub seen: u64,
    /// Requests that ended and were not recorded, because their worker's ring was full.
    pub dropped: u64,
}

/// An ended request. Texts of clients are cut to a limit by the gateway and are otherwise as they were
/// received.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// The id of the request, which its plugins and logs show too.
    pub id: Box<str>,
    /// When it began, in milliseconds since the Unix epoch.
    pub t_ms: u64,
    /// The number of its worker.
    pub worker: usize,
    /// The revision that it was served by.
    pub revision: u64,
    /// The client's address.
    pub client: IpAddr,
    /// `HTTP/1.1`, `HTTP/2`, `HTTP/3`.
    pub protocol: &'static str,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The method.
    pub method: Box<str>,
    /// The host that the client asked for.
    pub host: Box<str>,
    /// The path with its query.
    pub path: Box<str>,
    /// The id of its route.
    pub route: Option<Arc<str>>,
    /// The name of its route.
    pub route_name: Option<Arc<str>>,
    /// The id of the route's service.
    pub service: Option<Arc<str>>,
    /// The authenticated consumer.
    pub consumer: Option<Arc<str>>,
    /// The upstream: the id of an upstream object, or the object that the upstream is written in
    /// (`routes/1`).
    pub upstream: Option<Box<str>>,
    /// The endpoint that was tried last.
    pub endpoint: Option<SocketAddr>,
    /// The status that was sent; 0 if none was.
    pub status: u16,
    /// Why it got an error: the code of a failure, the plugin that refused it, or `upstream_status`.
    pub cause: Option<&'static str>,
    /// The side at fault: `client`, `gateway` or `upstream`.
    pub blame: Option<&'static str>,
    /// The phase of the error.
    pub phase: Option<&'static str>,
    /// Details of the failure, for a person.
    pub detail: Option<Box<str>>,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// Bytes sent to the client.
    pub bytes_out: u64,
    /// From the first byte of the request to the last of the response, in microseconds.
    pub total_us: u64,
    /// The gateway's own part of it.
    pub gateway_us: u64,
    /// The part spent with upstreams.
    pub upstream_us: u64,
    /// How many attempts at endpoints were made.
    pub attempts: usize,
    /// Its timeline, ordered by begin; empty if it was not timed. At most [`SPANS_MAX`].
    pub spans: Vec<TimelineSpan>,
}

/// One step of a request's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineSpan {
    /// The step: a plugin, or a word such as `connect`.
    pub name: Cow<'static, str>,
    /// The part of the request that it belongs to.
    pub group: SpanGroup,
    /// Its begin, in microseconds since the begin of the request.
    pub at_us: u64,
    /// Its time in microseconds.
    pub us: u64,
    /// Whether it failed.
    pub failed: bool,
    /// More about it, such as the phase of a plugin or the cause of a failure.
    pub detail: Option<Cow<'static, str>>,
}

/// The part of a request that a span belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanGroup {
    /// Waiting for the client.
    Client,
    /// Matching, and plugins of the request.
    Gateway,
    /// The attempt with this number, from 1, at this endpoint.
    Attempt(usize, SocketAddr),
    /// Sending the response, and its plugins.
    Response,
    /// Plugins that log.
    Log,
}

impl fmt::Display for SpanGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpanGroup::Client => formatter.write_str("client"),
            SpanGroup::Gateway => formatter.write_str("gateway"),
            SpanGroup::Attempt(number, address) => write!(formatter, "attempt {number} {address}"),
            SpanGroup::Response => formatter.write_str("response"),
            SpanGroup::Log => formatter.write_str("log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempt_group_names_number_and_endpoint() {
        let group = SpanGroup::Attempt(2, SocketAddr::from(([10, 0, 4, 18], 8080)));
        assert_eq!(group.to_string(), "attempt 2 10.0.4.18:8080");
        assert_eq!(SpanGroup::Gateway.to_string(), "gateway");
    }
}
