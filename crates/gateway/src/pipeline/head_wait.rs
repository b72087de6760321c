//! The wait of an attempt for its response head: sends the request meanwhile, forwards interim responses, and
//! watches the client and the timeouts. It decides nothing about the response.

use std::future::poll_fn;
use std::task::Poll;

use super::attempt_limit::AttemptLimit;
use super::collect;
use super::forwarding::Forwarding;
use super::journey::Journey;
use super::phases;
use super::request_failure;
use super::upload::Progress;
use super::wait::{HALF_CLOSE_GRACE_MS, Wait, WaitsFor, client_gone_failure};
use crate::body::{DownstreamStream, UpstreamStream};
use crate::forward::upgrade;
use crate::upstream::interim_rate::{InterimRate, TOO_MANY_INTERIM};
use crate::upstream::stream::PooledStream;
use exchange::deadline::Expired;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::plugin::PluginPhase;

/// Sends the request and waits for the head of the final response; forwards interim ones.
pub(super) async fn wait_for_final_head<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    forwarding: &mut Forwarding<'_>,
    upstream_stream: &mut PooledStream,
    limit: &mut AttemptLimit,
) -> Result<(), ExchangeFailure> {
    let mut interim = InterimRate::default();
    loop {
        wait_for_head(journey, forwarding, upstream_stream, limit).await?;
        if journey.exchange.response.is_interim() && !interim.admits(journey.run.local().now_ms()) {
            return Err(ExchangeFailure::new(Cause::BadResponse, TOO_MANY_INTERIM));
        }
        match journey.exchange.response.status {
            101 if journey.exchange.decision.is_upgrade
                && upstream_stream.is_exclusive()
                && upgrade::is_agreed(journey.exchange) =>
            {
                return Ok(());
            }
            101 => return Err(ExchangeFailure::new(Cause::BadResponse, "it switched protocols unasked")),
            // The gateway sends 100 (Continue) to the client itself, when it begins to read the body.
            100 => {}
            102..200 => {
                if journey.chains.has(PluginPhase::Informational) {
                    let mut head = std::mem::take(&mut journey.exchange.response);
                    let (context, chains) = (journey.run.context, &journey.chains);
                    phases::each(
                        context,
                        chains,
                        PluginPhase::Informational,
                        journey.exchange,
                        |instance, exchange| {
                            instance.plugin.informational(exchange, &mut head);
                        },
                    );
                    journey.exchange.response = head;
                }
                journey.downstream.send_informational(&journey.exchange.response);
            }
            _ => return Ok(()),
        }
    }
}

async fn wait_for_head<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    forwarding: &mut Forwarding<'_>,
    upstream_stream: &mut PooledStream,
    limit: &mut AttemptLimit,
) -> Result<(), ExchangeFailure> {
    let run = journey.run;
    let Forwarding { timeouts, upload, .. } = forwarding;
    let begun = run.body_guard.take();
    let guard = begun.map_or_else(|| collect::body_guard(run, timeouts.read_ms), |begun| *begun);
    let mut wait = Wait::new(run, guard);
    let mut leaving = false;
    let waited = poll_fn(|cx| {
        upstream_stream.prefetch();
        let mut moved = false;
        let progress = match upload.poll(cx, journey, upstream_stream, &mut moved) {
            Ok(progress) => progress,
            Err(failure) => return Poll::Ready(Err(failure)),
        };
        journey.exchange.take_response_memory();
        match upstream_stream.poll_head(
            cx,
            &mut journey.exchange.response,
            journey.downstream.head_capacity(),
        ) {
            Poll::Ready(Err(failure)) if upload.is_broken() && failure.cause == Cause::NoResponse => {
                return Poll::Ready(Err(failure.because(Cause::SendFailed)));
            }
            Poll::Ready(result) => return Poll::Ready(result),
            Poll::Pending => journey.exchange.give_response_memory(),
        }
        // Interim responses and 100 (Continue) must not wait for the final response.
        if let Poll::Ready(Err(_)) = journey.downstream.poll_flush(cx) {
            return Poll::Ready(Err(ExchangeFailure::new(Cause::ClientGone, "it went away while waiting")));
        }
        if progress == Progress::NextTurn {
            return if run.deadline.is_overdue() {
                Poll::Ready(Err(request_failure::overdue_request()))
            } else {
                Poll::Pending
            };
        }
        if leaving {
            return if run.deadline.expired() {
                Poll::Ready(Err(client_gone_failure()))
            } else {
                Poll::Pending
            };
        }
        // The event loop reports the end once per exchange, possibly while the connection was opened.
        if progress != Progress::AwaitsClient
            && (run.is_client_leaving.get() || journey.downstream.poll_closed(cx).is_ready())
        {
            leaving = true;
            run.is_client_leaving.set(true);
            run.deadline.set(cx, HALF_CLOSE_GRACE_MS);
            return Poll::Pending;
        }
        let waited = match progress {
            Progress::AwaitsClient => {
                limit.begin(run.local().now_ms());
                wait.for_client(cx, moved, || upload.taken_bytes()).map_err(request_failure::lost)
            }
            Progress::AwaitsEndpoint => limit
                .shorten(timeouts.send_ms, run.local().now_ms())
                .and_then(|timeout_ms| wait.for_endpoint(cx, WaitsFor::Send, timeout_ms, moved))
                .map_err(|expired| late(expired, Cause::SendTimeout, "it did not take the request in time")),
            Progress::Ended | Progress::NextTurn => limit
                .shorten(timeouts.read_ms, run.local().now_ms())
                .and_then(|timeout_ms| wait.for_endpoint(cx, WaitsFor::Answer, timeout_ms, moved))
                .map_err(|expired| late(expired, Cause::ReadTimeout, "it did not answer in time")),
        };
        match waited {
            Ok(()) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        }
    })
    .await;
    // A head with a malformed beginning is a bad response even if the wait for its rest timed out, as if all
    // of it had arrived at once.
    waited.map_err(|failure| upstream_stream.fault_in_head(&mut journey.exchange.response).unwrap_or(failure))
}

/// The failure of an attempt after the timeout of its step or of its exchange.
#[cold]
fn late(expired: Expired, cause: Cause, detail: &'static str) -> ExchangeFailure {
    match expired {
        Expired::Step => ExchangeFailure::new(cause, detail),
        Expired::Cap => request_failure::overdue_request(),
    }
}
