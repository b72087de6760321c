//! A stand-in for services that take logs over HTTP and cannot be installed: it checks each request as the
//! published interface of the service describes it, decodes the entries, and fails on demand.

mod checks;
mod protobuf;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::origin::{Origin, Reply, Request};
use crate::signal::Signal;
use crate::wait::wait_for;

/// A service that a stand-in behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogApi {
    /// The push API of Grafana Loki.
    Loki,
    /// The bulk API of Elasticsearch, version 6.
    Elasticsearch6,
    /// Splunk's HTTP Event Collector.
    Splunk,
    /// The HTTP interface of Apache SkyWalking for logs.
    Skywalking,
    /// Google Cloud Logging, and its endpoint for tokens.
    Google,
    /// The bulk endpoint of Loggly.
    Loggly,
    /// Tencent Cloud Log Service.
    TencentCls,
    /// The batch endpoint of Lago.
    Lago,
}

/// A failure in place of the next response.
#[derive(Clone, Debug)]
pub enum LogFault {
    /// This status and body.
    Status(u16, String),
    /// The connection is closed without a byte.
    Close,
    /// Bytes that are no HTTP.
    Garbage,
    /// Nothing until the signal is set, and then a close.
    Stuck(Signal),
}

/// A running stand-in.
#[derive(Debug)]
pub struct LogService {
    origin: Origin,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    faults: VecDeque<LogFault>,
    entries: Vec<Value>,
    refusals: Vec<String>,
}

impl LogService {
    /// Starts a stand-in for `api`.
    pub fn start(api: LogApi) -> LogService {
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        let origin = Origin::start(move |request| answer(api, request, &shared));
        LogService { origin, state }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.origin.address()
    }

    /// Its URL without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Fails the next requests with entries, one with each fault.
    pub fn fail(&self, faults: impl IntoIterator<Item = LogFault>) {
        self.state().faults.extend(faults);
    }

    /// Waits for at least `count` entries and returns all that came, in order; panics if a request was
    /// refused.
    pub fn wait_for_entries(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("the service has {count} entries"), || {
            let state = self.state();
            assert!(state.refusals.is_empty(), "{:?}", state.refusals);
            (state.entries.len() >= count).then(|| state.entries.clone())
        })
    }

    /// The requests so far, those that failed included.
    pub fn requests(&self) -> Vec<Request> {
        self.origin.requests()
    }

    /// Waits for at least `count` requests, and returns them.
    pub fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        self.origin.wait_for_requests(count)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(api: LogApi, request: &Request, state: &Mutex<State>) -> Reply {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reply) = checks::other_endpoint(api, request) {
        return reply;
    }
    match state.faults.pop_front() {
        Some(LogFault::Status(status, body)) => return Reply::status(status, &body),
        Some(LogFault::Close) => return Reply::new().close(),
        Some(LogFault::Garbage) => return Reply::raw(b"\x00\x01 this is no HTTP\r\n\r\n").close(),
        Some(LogFault::Stuck(signal)) => return Reply::new().wait(&signal).close(),
        None => {}
    }
    match checks::entries(api, request) {
        Ok(entries) => {
            state.entries.extend(entries);
            let (status, body) = checks::success(api);
            Reply::status(status, body)
        }
        Err(reason) => {
            state.refusals.push(format!("{api:?} refuses {}: {reason}", request.target));
            Reply::status(400, &reason)
        }
    }
}
