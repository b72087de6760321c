//! One try at a chosen node: get a stream to it, send, wait for the head, pass the response on. It is told which node and
//! decides nothing about another try.

use std::future::poll_fn;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::connect::connect;
use super::download::{self, Download};
use super::patience::Patience;
use super::phases::{self, Chains};
use super::retry::Facts;
use super::upload::{self, Upload, WaitsFor};
use super::{Outcome, Run, respond};
use crate::body::{BodyLength, ClientStream, ServerStream};
use crate::exchange::{Attempt, Exchange};
use crate::failure::{Blame, Cause, Failure, Sent};
use crate::plugin::Phase;
use crate::upstream::state::Picked;
use crate::upstream::stream::NodeStream;
use crate::upstream::{PassHost, Timeouts, Upstream};
use crate::worker::{Lent, LentNode, Worker};

/// Interim responses a node may send before its final one; more is a flood, not a hint.
const INTERIM_MAX: u32 = 32;
/// How long a client may have closed its sending side before it counts as gone: some close it right after the request
/// and still want the answer.
pub(super) const HALF_CLOSE_GRACE_MS: u64 = 1_000;

/// A try under way.
struct Try {
    origin: NodeStream,
    started_ns: u64,
    connect_us: u64,
}

/// Makes a try at `picked`, on a `fresh` connection or one that is open. A failure comes with what is known of how far the
/// try had come.
#[expect(
    clippy::too_many_arguments,
    reason = "a try needs all of an exchange; a struct would only rename them"
)]
pub(super) async fn one_try<S: ServerStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &Chains<'_>,
    upstream: &Upstream,
    timeouts: Timeouts,
    picked: Picked,
    fresh: bool,
) -> Result<Outcome, (Failure, Facts)> {
    // The choice of the node read the clock just now, or a failed try did.
    let started_ns = run.worker.recent_ns();
    let under_way = UnderWay { worker: run.worker, upstream, picked, started_ns, is_over: false };
    let LentNode { address, endpoint_id, host, lent } = run.worker.lend(upstream, picked, fresh);
    set_host(exchange, upstream, host);
    let method = exchange.request.method;
    let before = Facts { sent: Sent::Nothing, reused: false, method, body_is_whole: true, repeated: false };
    exchange.attempts.push(Attempt {
        address,
        endpoint_id,
        status: 0,
        failed: None,
        connect_us: 0,
        head_us: 0,
        total_us: 0,
    });
    let (origin, connect_us) = match lent {
        Lent::Stream(stream) => (stream, 0),
        Lent::None(endpoint) => {
            // In memory of its own: nearly every try finds an open connection.
            match PooledBox::pin(connect(run, &endpoint, timeouts.connect_ms, server)).await {
                Ok(stream) => (stream, micros(started_ns, run.worker.clock_ns())),
                Err(failure) => {
                    finish_try(exchange, under_way, Some(&failure));
                    return Err((failure.at(address), before));
                }
            }
        }
    };
    let mut one = Try { origin, started_ns, connect_us };
    match exchange_with(run, exchange, server, chains, timeouts, &mut one).await {
        Ok(Ended::Whole { request_done }) => {
            run.worker.give_back(one.origin, request_done);
            finish_try(exchange, under_way, None);
            Ok(Outcome::Done)
        }
        Ok(Ended::Tunnel) => {
            finish_try(exchange, under_way, None);
            let Some((tunnel, bytes)) = one.origin.into_tunnel(timeouts.tunnel_idle_ms) else {
                let failure =
                    Failure::new(Cause::BadResponse, "it switched protocols on a shared connection");
                return Err((failure.at(address), before));
            };
            run.worker.give_bytes(bytes);
            Ok(Outcome::Tunnel(Box::new(tunnel)))
        }
        Err(failure) => {
            let facts = Facts { sent: one.origin.sent(), reused: one.origin.reused(), ..before };
            finish_try(exchange, under_way, Some(&failure));
            run.worker.give_back(one.origin, false);
            Err((failure.at(address), facts))
        }
    }
}

fn finish_try(exchange: &mut Exchange, under_way: UnderWay<'_>, failure: Option<&Failure>) {
    // A whole response read the clock at its end.
    let worker = under_way.worker;
    let ended_ns = if failure.is_none() { worker.recent_ns() } else { worker.clock_ns() };
    let total_us = micros(under_way.started_ns, ended_ns);
    let last = exchange.attempts.last_mut().expect("pushed when the try began");
    last.total_us = total_us;
    last.failed = failure.map(|failure| failure.cause);
    // A client that went away says nothing about the node.
    let failed = failure.is_some_and(|failure| failure.cause.blame() == Blame::Origin);
    under_way.finish(if last.head_us > 0 { last.head_us } else { total_us }, failed);
}

/// A try as its node's balancer counts it, over at the latest when it is dropped: a plugin's panic must not leave a node
/// loaded for ever.
struct UnderWay<'t> {
    worker: &'t Worker,
    upstream: &'t Upstream,
    picked: Picked,
    started_ns: u64,
    is_over: bool,
}

impl UnderWay<'_> {
    #[cold]
    fn abandon(&self) {
        let latency_us = micros(self.started_ns, self.worker.clock_ns());
        self.worker.finished(self.upstream, self.picked, latency_us, false);
    }

    fn finish(mut self, latency_us: u64, failed: bool) {
        self.is_over = true;
        self.worker.finished(self.upstream, self.picked, latency_us, failed);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.abandon();
        }
    }
}

enum Ended {
    /// The response was passed on whole.
    Whole {
        /// Whether the request was sent whole as well, so that the connection is clean.
        request_done: bool,
    },
    /// The node switched protocols.
    Tunnel,
}

/// Sends the request and passes the response on, over one stream.
async fn exchange_with<S: ServerStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &Chains<'_>,
    timeouts: Timeouts,
    one: &mut Try,
) -> Result<Ended, Failure> {
    let length = server.body_length();
    one.origin.start_request(exchange, length);
    let mut upload = Upload::new(run, &mut one.origin, length, exchange.request_copy.clone());
    loop_interim(run, exchange, server, chains, timeouts, one, &mut upload).await?;

    let head_us = micros(one.started_ns, run.worker.clock_ns());
    let attempt = exchange.attempts.last_mut().expect("pushed when the try began");
    (attempt.status, attempt.connect_us, attempt.head_us) =
        (exchange.response.status, one.connect_us, head_us);
    exchange.times.upstream_head_ns = one.started_ns + head_us * 1_000;
    if let Some(permit) = exchange.permit.take() {
        permit.answered(run.worker.recent_ns() / 1_000);
    }

    if exchange.response.status == 101 {
        return PooledBox::pin(switch_protocols(run, exchange, server, chains)).await;
    }
    let mut download = Download::new(run, timeouts);
    download::pass_on(&mut download, exchange, server, chains, &mut one.origin, &mut upload).await?;
    exchange.times.upstream_ended_ns = run.worker.clock_ns();
    Ok(Ended::Whole { request_done: upload.is_done() })
}

/// Tells the client that the node has switched protocols.
async fn switch_protocols<S: ServerStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &Chains<'_>,
) -> Result<Ended, Failure> {
    if poll_fn(|cx| Poll::Ready(server.has_sent_ahead(cx))).await {
        return Err(Failure::new(Cause::BadRequest, "bytes were sent before the protocol was switched"));
    }
    respond::respond_head(exchange, chains);
    server.start_response(exchange, BodyLength::None);
    match respond::send(run, exchange, server, &[]).await {
        Outcome::Done => Ok(Ended::Tunnel),
        tunnel @ Outcome::Tunnel(_) => unreachable_tunnel(&tunnel),
    }
}

fn unreachable_tunnel(_: &Outcome) -> Result<Ended, Failure> {
    Err(Failure::new(Cause::BadResponse, "a tunnel inside a tunnel"))
}

fn set_host(exchange: &mut Exchange, upstream: &Upstream, node: Option<std::sync::Arc<str>>) {
    // A plugin's word counts more than the upstream's.
    if exchange.host_is_rewritten {
        return;
    }
    match &upstream.pass_host {
        PassHost::Pass => {}
        PassHost::Rewrite(host) => exchange.forward_host = Some(host.as_bytes().to_vec()),
        PassHost::Node => exchange.forward_host = node.map(|host| host.as_bytes().to_vec()),
    }
}

/// Sends the request and waits for the final response's head; interim ones are passed on.
async fn loop_interim<S: ServerStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &Chains<'_>,
    timeouts: Timeouts,
    one: &mut Try,
    upload: &mut Upload,
) -> Result<(), Failure> {
    for _ in 0..INTERIM_MAX {
        wait_for_head(run, exchange, server, timeouts, one, upload).await?;
        match exchange.response.status {
            101 if exchange.upgrading && one.origin.is_exclusive() && is_switching(exchange) => return Ok(()),
            101 => return Err(Failure::new(Cause::BadResponse, "it switched protocols unasked")),
            // The gateway answers the client's 100-continue itself, when it begins to read the body.
            100 => {}
            102..200 => {
                if chains.has(Phase::Informational) {
                    let mut head = std::mem::take(&mut exchange.response);
                    phases::each(chains, Phase::Informational, exchange, |instance, exchange| {
                        instance.plugin.informational(exchange, &mut head);
                    });
                    exchange.response = head;
                }
                server.send_informational(&exchange.response);
            }
            _ => return Ok(()),
        }
    }
    Err(Failure::new(Cause::BadResponse, "it sent too many interim responses"))
}

fn is_switching(exchange: &Exchange) -> bool {
    exchange.response.upgrade_text().is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

async fn wait_for_head<S: ServerStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    timeouts: Timeouts,
    one: &mut Try,
    upload: &mut Upload,
) -> Result<(), Failure> {
    let head = &mut exchange.response;
    let begun = run.body_patience.take();
    let mut patience = begun.map_or_else(|| Patience::for_body(&run.worker.options.limits), |begun| *begun);
    let mut waiting: Option<WaitsFor> = None;
    let mut leaving = false;
    let waited = poll_fn(|cx| {
        let mut moved = false;
        let waits = match upload.poll(cx, server, &mut one.origin, &mut moved) {
            Ok(waits) => waits,
            Err(failure) => return Poll::Ready(Err(failure)),
        };
        match one.origin.poll_head(cx, head, server.head_room()) {
            Poll::Ready(Err(failure)) if upload.is_broken() && failure.cause == Cause::NoResponse => {
                return Poll::Ready(Err(failure.because(Cause::SendFailed)));
            }
            Poll::Ready(result) => return Poll::Ready(result),
            Poll::Pending => {}
        }
        // Interim responses and 100 (Continue) must not wait for the final one.
        if let Poll::Ready(Err(_)) = server.poll_flush(cx) {
            return Poll::Ready(Err(Failure::new(Cause::ClientGone, "it went away while waiting")));
        }
        if waits == WaitsFor::Turn {
            return if run.alarm.is_overdue() { Poll::Ready(Err(upload::overdue())) } else { Poll::Pending };
        }
        let rang = run.alarm.rang();
        if leaving {
            return if rang { Poll::Ready(Err(gone())) } else { Poll::Pending };
        }
        // It is told of once in an exchange, perhaps while the connection was opened.
        if waits != WaitsFor::Client && (run.is_client_leaving.get() || server.poll_gone(cx).is_ready()) {
            leaving = true;
            run.is_client_leaving.set(true);
            run.alarm.set(cx, HALF_CLOSE_GRACE_MS);
            return Poll::Pending;
        }
        let changed = waiting.replace(waits) != Some(waits);
        let timeout_ms = match waits {
            WaitsFor::Client => {
                let waited = patience.wait(run, cx, moved, || upload.taken_bytes());
                return match waited {
                    Ok(()) => Poll::Pending,
                    Err(lost) => Poll::Ready(Err(upload::lost(lost))),
                };
            }
            WaitsFor::Node => timeouts.send_ms,
            WaitsFor::Nobody | WaitsFor::Turn => timeouts.read_ms,
        };
        patience.pause();
        if moved || changed {
            // An upload that goes on in small steps never lets the alarm ring without progress.
            if rang && run.alarm.is_overdue() {
                return Poll::Ready(Err(upload::overdue()));
            }
            run.alarm.set(cx, timeout_ms);
        } else if rang {
            return Poll::Ready(Err(match waits {
                WaitsFor::Nobody => Failure::new(Cause::ReadTimeout, "it did not answer in time"),
                _ => Failure::new(Cause::SendTimeout, "it did not take the request in time"),
            }));
        }
        Poll::Pending
    })
    .await;
    // Whatever ended the wait, a head that had begun wrong comes before it, as if all of it had come at once.
    waited.map_err(|failure| one.origin.fault_in_head(head).unwrap_or(failure))
}

pub(super) fn gone() -> Failure {
    Failure::new(Cause::ClientGone, "it went away while waiting for the response")
}

/// Microseconds between two readings of the clock.
pub(super) fn micros(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns) / 1_000
}
