//! Writes the counters in the Prometheus text format (0.0.4), under the contract's names (section 2.6). It
//! runs on the scraper's thread, sums the workers' series and never stops a worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::datagram_counts::{DatagramCounts, DropReason};
use super::failures::ConnectionRefusal;
use super::server_errors;
use super::session_counts::SessionCounts;
use super::status::WorkerStatus;
use crate::observe::idle_counts::IdleState;
use exchange::failure::Cause;
use exchange::observe::upstream_tls;
use exchange::overload::capacity::Shortage;
use exchange::overload::retry_reason::RetryReason;
use model::instance::ConnectionCounts;
use net::tls::server::SiteTable;
use stdx::prometheus_text::{header, sample, scalar};
use stdx::threads::ThreadLife;

/// Appends the counters that every worker keeps, whether or not the `prometheus` plugin is used.
pub fn write_worker_metrics<'a>(workers: impl Iterator<Item = &'a WorkerStatus> + Clone, text: &mut String) {
    write_failures(workers.clone(), text);
    server_errors::write_server_errors(workers.clone().map(|worker| &worker.server_errors), text);
    write_grpc(workers.clone(), text);
    write_retries(workers.clone(), text);
    write_stalls(workers.clone(), text);
    write_handshakes(workers.clone(), text);
    upstream_tls::write(workers.clone().map(|worker| &*worker.upstream_tls), text);
    write_http2(workers.clone(), text);
    write_http3(workers.clone(), text);
    write_sessions(workers.clone(), text);
    let idle: usize = workers.clone().map(|worker| worker.idle_upstream.load(Ordering::Relaxed)).sum();
    let counts = connection_counts(workers);
    scalar(text, "apisix_http_requests_total", "gauge", "Requests served since the start.", counts.requests);
    header(text, "apisix_nginx_http_current_connections", "gauge", "Client connections.");
    let states = [
        ("accepted", counts.accepted),
        ("active", counts.active),
        ("handled", counts.handled),
        ("reading", counts.reading),
        ("waiting", counts.waiting),
        ("writing", counts.writing),
    ];
    for (state, count) in states {
        sample(text, "apisix_nginx_http_current_connections", &[("state", &state)], count);
    }
    let help = "Kept connections to nodes that wait for a request.";
    scalar(text, "weir_upstream_idle_connections", "gauge", help, idle);
}

/// The client connections of all workers, counted as in nginx (`ngx_http_stub_status_module`): an active
/// connection reads a request head, waits for one, or does anything else, which is called writing. The
/// counters of a worker are not read at one moment.
pub(crate) fn connection_counts<'a>(workers: impl Iterator<Item = &'a WorkerStatus>) -> ConnectionCounts {
    let mut counts = ConnectionCounts::default();
    for worker in workers {
        counts.accepted += worker.accepted.load(Ordering::Relaxed);
        counts.requests += worker.requests.load(Ordering::Relaxed);
        if !worker.takes_part() {
            continue;
        }
        let silent = |silence| u64::from(worker.idle.count(silence));
        counts.active += worker.connections.load(Ordering::Relaxed) as u64;
        counts.reading += silent(IdleState::Head);
        counts.waiting += silent(IdleState::Unspoken) + silent(IdleState::Idle);
    }
    counts.handled = counts.accepted;
    counts.writing = counts.active.saturating_sub(counts.reading + counts.waiting);
    counts
}

fn write_sessions<'a>(workers: impl Iterator<Item = &'a WorkerStatus> + Clone, text: &mut String) {
    let total = |counter: fn(&SessionCounts) -> &AtomicU64| -> u64 {
        workers.clone().map(|worker| counter(&worker.sessions).load(Ordering::Relaxed)).sum()
    };
    let open = |counter: fn(&SessionCounts) -> &AtomicUsize| -> usize {
        workers.clone().map(|worker| counter(&worker.sessions).load(Ordering::Relaxed)).sum()
    };
    let name = "weir_stream_sessions_total";
    header(text, name, "counter", "Sessions of layer 4 that have begun.");
    sample(text, name, &[("protocol", &"tcp")], total(|sessions| &sessions.tcp));
    sample(text, name, &[("protocol", &"udp")], total(|sessions| &sessions.udp));
    let name = "weir_stream_sessions_open";
    header(text, name, "gauge", "Open sessions of layer 4.");
    sample(text, name, &[("protocol", &"tcp")], open(|sessions| &sessions.tcp_open));
    sample(text, name, &[("protocol", &"udp")], open(|sessions| &sessions.udp_open));
    let name = "weir_stream_bytes_total";
    header(
        text,
        name,
        "counter",
        "Bytes of ended sessions of layer 4, by the side that the gateway received them from.",
    );
    sample(text, name, &[("from", &"client")], total(|sessions| &sessions.received_bytes));
    sample(text, name, &[("from", &"node")], total(|sessions| &sessions.sent_bytes));
    let mut ends: Vec<(&'static str, u64)> = Vec::new();
    for (code, count) in workers.clone().flat_map(|worker| worker.sessions.ends()) {
        match ends.iter_mut().find(|(known, _)| *known == code) {
            Some((_, total)) => *total += count,
            None => ends.push((code, count)),
        }
    }
    type Counter = fn(&DatagramCounts) -> &AtomicU64;
    let datagrams: [(&str, Counter); 2] =
        [("client", |counts| &counts.received), ("node", |counts| &counts.answered)];
    let name = "weir_stream_datagrams_total";
    header(text, name, "counter", "Datagrams of layer 4, by the side that the gateway received them from.");
    for (from, counter) in datagrams {
        let count: u64 =
            workers.clone().map(|worker| counter(&worker.datagrams).load(Ordering::Relaxed)).sum();
        sample(text, name, &[("from", &from)], count);
    }
    let name = "weir_stream_datagrams_dropped_total";
    header(text, name, "counter", "Datagrams of layer 4 that were dropped, by reason.");
    for reason in DropReason::ALL {
        let count: u64 = workers.clone().map(|worker| worker.datagrams.drops(reason)).sum();
        sample(text, name, &[("reason", &reason.as_str())], count);
    }
    let name = "weir_stream_session_ends_total";
    header(text, name, "counter", "Sessions of layer 4 that have ended, by cause.");
    for (code, count) in &ends {
        sample(text, name, &[("cause", code)], count);
    }
}

fn write_http2<'a>(workers: impl Iterator<Item = &'a WorkerStatus> + Clone, text: &mut String) {
    let sum = |counter: fn(&WorkerStatus) -> &AtomicUsize| -> usize {
        workers.clone().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    };
    let help = "Client connections that speak HTTP/2.";
    scalar(text, "weir_http2_connections", "gauge", help, sum(|status| &status.http2_connections));
    let help = "Requests in flight on HTTP/2 connections of clients.";
    scalar(text, "weir_http2_streams", "gauge", help, sum(|status| &status.http2_streams));
}

fn write_http3<'a>(workers: impl Iterator<Item = &'a WorkerStatus> + Clone, text: &mut String) {
    let gauge = |counter: fn(&WorkerStatus) -> &AtomicUsize| -> usize {
        workers.clone().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    };
    let help = "Client connections that speak HTTP/3.";
    scalar(text, "weir_http3_connections", "gauge", help, gauge(|status| &status.http3_connections));
    let help = "Requests in flight on HTTP/3 connections of clients.";
    scalar(text, "weir_http3_streams", "gauge", help, gauge(|status| &status.http3_streams));
    let help = "QUIC handshakes in progress.";
    scalar(text, "weir_http3_handshakes", "gauge", help, gauge(|status| &status.http3_handshakes));
    let total = |counter: fn(&WorkerStatus) -> &AtomicU64| -> u64 {
        workers.clone().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    };
    let help = "Clients of QUIC that were told to prove their address first.";
    scalar(text, "weir_http3_retries_total", "counter", help, total(|status| &status.http3_retries));
    let help = "QUIC endpoints that were made anew after a panic.";
    scalar(text, "weir_http3_restarts_total", "counter", help, total(|status| &status.http3_restarts));
    let help = "System calls that sent several datagrams at once.";
    scalar(text, "weir_http3_batches_sent_total", "counter", help, total(|status| &status.quic.batches_sent));
    let help = "Datagrams passed to the worker of their connection.";
    scalar(
        text,
        "weir_http3_datagrams_passed_total",
        "counter",
        help,
        total(|status| &status.quic.passed_on),
    );
    let help = "Datagrams of unknown connections, or without room at their worker.";
    scalar(text, "weir_http3_datagrams_dropped_total", "counter", help, total(|status| &status.quic.dropped));
}

fn write_handshakes<'a>(workers: impl Iterator<Item = &'a WorkerStatus> + Clone, text: &mut String) {
    let name = "weir_tls_handshakes_total";
    header(text, name, "counter", "TLS handshakes of clients: with a new session, resumed, and failed ones.");
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (mut full, mut resumed, mut failed) = (0, 0, 0);
    for worker in workers {
        full += read(&worker.tls_full);
        resumed += read(&worker.tls_resumed);
        failed += read(&worker.tls_failed);
    }
    for (result, count) in [("full", full), ("resumed", resumed), ("failed", failed)] {
        sample(text, name, &[("result", &result)], count);
    }
}

/// Appends the end of the validity of every site's certificates.
pub fn write_certificates(sites: &SiteTable, text: &mut String) {
    let name = "weir_ssl_certificate_expiry_seconds";
    header(text, name, "gauge", "The end of a certificate's validity, in seconds since the Unix epoch.");
    let mut sorted: Vec<_> = sites.iter().collect();
    sorted.sort_by(|left, right| left.id.cmp(&right.id));
    for site in sorted.into_iter().take(MAX_CERTIFICATES) {
        for (index, certificate) in site.certificates().iter().enumerate() {
            let (id, sni) = (&site.id, site.names.first().map_or("", |name| &**name));
            sample(text, name, &[("ssl", id), ("sni", &sni), ("index", &index)], certificate.not_after_s);
        }
    }
}

/// The most sites in the metrics; a scrape of more would be megabytes.
const MAX_CERTIFICATES: usize = 10_000;

fn write_grpc<'a>(workers: impl Iterator<Item = &'a WorkerStatus>, text: &mut String) {
    let mut totals: Vec<(String, u64)> = Vec::new();
    for worker in workers {
        if totals.is_empty() {
            totals = worker.grpc.counts().collect();
        } else {
            totals.iter_mut().zip(worker.grpc.counts()).for_each(|(total, (_, count))| total.1 += count);
        }
    }
    let name = "weir_grpc_calls_total";
    header(
        text,
        name,
        "counter",
        "gRPC calls by the status that the client got; none for a call that was cut.",
    );
    for (status, count) in &totals {
        sample(text, name, &[("grpc_status", status)], count);
    }
}

fn write_retries<'a>(workers: impl Iterator<Item = &'a WorkerStatus> + Clone, text: &mut String) {
    let name = "weir_upstream_retries_total";
    header(text, name, "counter", "Attempts at nodes after a first one, by the reason for them.");
    for reason in RetryReason::ALL {
        let count: u64 = workers.clone().map(|worker| worker.retries.retries(reason)).sum();
        sample(text, name, &[("reason", &reason.code())], count);
    }
    let (mut sent, mut won) = (0, 0);
    for worker in workers.clone() {
        let (hedges, hedges_won) = worker.retries.hedges();
        (sent, won) = (sent + hedges, won + hedges_won);
    }
    let help = "Second attempts that were begun because the first one was slow.";
    scalar(text, "weir_upstream_hedges_total", "counter", help, sent);
    let help = "Second attempts with the first response head.";
    scalar(text, "weir_upstream_hedges_won_total", "counter", help, won);
    let refused: u64 = workers.map(|worker| worker.retries.refusals()).sum();
    let help = "Retries that were not made because the budget of the upstream was used up.";
    scalar(text, "weir_upstream_retries_refused_total", "counter", help, refused);
}

fn write_stalls<'a>(workers: impl Iterator<Item = &'a WorkerStatus> + Clone, text: &mut String) {
    // A spare place has no worker, unless one was given up there.
    let places = workers.enumerate().filter(|(_, worker)| {
        !worker.is_spare.load(Ordering::Acquire) || worker.replaced.load(Ordering::Relaxed) > 0
    });
    header(
        text,
        "weir_worker_stalled",
        "gauge",
        "1 while a worker has not turned its event loop for a second.",
    );
    for (index, worker) in places.clone() {
        let is_stalled = u8::from(worker.is_stalled.load(Ordering::Relaxed));
        sample(text, "weir_worker_stalled", &[("worker", &index)], is_stalled);
    }
    let help = "How often a worker was seen not to have turned its event loop for a second.";
    header(text, "weir_worker_stalls_total", "counter", help);
    for (index, worker) in places.clone() {
        let stalls = worker.stalls.load(Ordering::Relaxed);
        sample(text, "weir_worker_stalls_total", &[("worker", &index)], stalls);
    }
    let help = "How often a worker was started again after a panic or a failed start.";
    header(text, "weir_worker_restarts_total", "counter", help);
    for (index, worker) in places.clone() {
        let restarts = worker.restarts.load(Ordering::Relaxed);
        sample(text, "weir_worker_restarts_total", &[("worker", &index)], restarts);
    }
    let help =
        "How often a worker was given up because it had stood for too long; another one took its place.";
    header(text, "weir_worker_replaced_total", "counter", help);
    for (index, worker) in places {
        let replaced = worker.replaced.load(Ordering::Relaxed);
        sample(text, "weir_worker_replaced_total", &[("worker", &index)], replaced);
    }
}

/// Every cause has its line from the start, so that a rate over it is right from the first failure on.
/// Appends how often each thread beside the workers has panicked.
pub fn write_threads(lives: &[Arc<ThreadLife>], text: &mut String) {
    let mut panics: BTreeMap<&str, u64> = BTreeMap::new();
    for life in lives {
        *panics.entry(life.name()).or_default() += life.panics();
    }
    let help = "How often a thread beside the workers has panicked and was started again.";
    header(text, "weir_thread_panics_total", "counter", help);
    for (name, count) in panics {
        sample(text, "weir_thread_panics_total", &[("thread", &name)], count);
    }
}

fn write_failures<'a>(workers: impl Iterator<Item = &'a WorkerStatus> + Clone, text: &mut String) {
    header(text, "weir_failures_total", "counter", "Requests that failed or were refused, by cause.");
    for cause in Cause::ALL {
        let count: u64 = workers.clone().map(|worker| worker.failures.failures(*cause)).sum();
        let (code, blame) = (cause.code(), cause.blame().as_str());
        sample(text, "weir_failures_total", &[("cause", &code), ("blame", &blame)], count);
    }
    let name = "weir_connections_refused_total";
    header(
        text,
        name,
        "counter",
        "Connections closed before a byte of the client was read, by the limit or setting they met.",
    );
    for refusal in ConnectionRefusal::ALL {
        let count: u64 = workers.clone().map(|worker| worker.failures.refusals(*refusal)).sum();
        sample(text, name, &[("limit", &refusal.code())], count);
    }
    let name = "weir_connections_evicted_total";
    let help = "Silent connections closed so that others could be served, by the limit that was reached.";
    header(text, name, "counter", help);
    for shortage in Shortage::ALL {
        for silence in IdleState::ALL {
            let count: u64 =
                workers.clone().map(|worker| worker.failures.evictions(*shortage, *silence)).sum();
            let (limit, state) = (shortage.code(), silence.code());
            sample(text, name, &[("limit", &limit), ("state", &state)], count);
        }
    }
}
