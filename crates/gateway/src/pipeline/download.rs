//! The response on its way from the node to the client: at full speed where no plugin wants to see the body, piece by
//! piece or as a whole where one does. An upload still under way goes on beside it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use message::Headers;
use stdx::pooled::PooledBox;

use super::attempt::HALF_CLOSE_GRACE_MS;
use super::min_rate::MinRateGuard;
use super::phases::{self, Chains};
use super::respond;
use super::turn::Turn;
use super::upload::Upload;
use super::{Outcome, Run, refuse_undecided};
use crate::body::{BodyEvent, BodyLength, Capacity, DownstreamStream, UpstreamStream};
use exchange::Exchange;
use exchange::failure::{Cause, Failure};
use exchange::options::Timeouts;
use exchange::plugin::{BodyNeed, Phase, Portion};

/// What passing a response on needs besides the two streams.
pub(super) struct Download<'r, 'w> {
    run: &'r Run<'w>,
    timeouts: Timeouts,
    guard: MinRateGuard,
    waiting: Option<WaitsFor>,
}

/// Whom a response that cannot go on waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    Node,
    Client,
    /// For the node, and the client has closed its sending side: perhaps nobody is left to read.
    NodeAlone,
}

impl<'r, 'w> Download<'r, 'w> {
    pub(super) fn new(run: &'r Run<'w>, timeouts: Timeouts) -> Self {
        let guard = MinRateGuard::for_response(&run.local().options.limits);
        Download { run, timeouts, guard, waiting: None }
    }

    /// What to do when both sides wait: arm the deadline after progress, fail when it expired without any.
    fn wait<S: DownstreamStream>(
        &mut self,
        cx: &Context<'_>,
        waits: WaitsFor,
        moved: bool,
        server: &S,
    ) -> Poll<Result<(), Failure>> {
        let deadline = self.run.deadline;
        let changed = self.waiting.replace(waits) != Some(waits);
        let timeout_ms = match waits {
            WaitsFor::Client => {
                return match self.guard.wait(self.run, cx, moved, || server.delivered_bytes()) {
                    Ok(()) => Poll::Pending,
                    Err(lost) => Poll::Ready(Err(respond::slow(lost))),
                };
            }
            WaitsFor::Node => self.timeouts.read_ms,
            WaitsFor::NodeAlone => HALF_CLOSE_GRACE_MS,
        };
        self.guard.pause();
        if moved || changed {
            // A response that goes on in small steps never lets the deadline ring without progress.
            if deadline.expired() && deadline.is_overdue() {
                return Poll::Ready(Err(overdue()));
            }
            deadline.set(cx, timeout_ms);
        } else if deadline.expired() {
            return Poll::Ready(Err(match waits {
                WaitsFor::NodeAlone => Failure::new(Cause::ClientGone, "it closed inside the response"),
                _ => Failure::new(Cause::BodyStalled, "the response body stopped arriving"),
            }));
        }
        Poll::Pending
    }
}

/// Passes the response whose head is in the exchange on to the client.
pub(super) async fn pass_on<S: DownstreamStream, O: UpstreamStream>(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &Chains<'_>,
    origin: &mut O,
    upload: &mut Upload,
) -> Result<(), Failure> {
    if exchange.response.status >= 500 || exchange.local().options.forward.show_upstream_status {
        respond::name_tried_statuses(exchange);
    }
    respond::respond_head(download.run, exchange, chains);
    refuse_undecided(exchange)?;
    // A plugin may have changed the status to or from one whose responses have no body (RFC 9110 section 6.4.1).
    let may_have_body =
        exchange.request.method != message::Method::Head && !has_no_body(exchange.response.status);
    let length = match origin.body_length() {
        BodyLength::None if may_have_body => BodyLength::Known(0),
        BodyLength::Known(_) | BodyLength::Unknown if has_no_body(exchange.response.status) => {
            server.start_response(exchange, BodyLength::None);
            origin.release()?;
            PooledBox::pin(respond::send(download.run, exchange, server, &[])).await;
            return Ok(());
        }
        length => length,
    };
    let need = if may_have_body { body_need(download.run, exchange, chains) } else { BodyNeed::None };
    match need {
        BodyNeed::None | BodyNeed::Copy { .. } => {
            server.start_response(exchange, length);
            let result = stream(download, exchange, server, origin, upload, chains, Passing::Untouched).await;
            exchange.stats.response_bytes = server.sent_bytes();
            result
        }
        BodyNeed::Stream => {
            server.start_response(exchange, BodyLength::Unknown);
            let result = stream(download, exchange, server, origin, upload, chains, Passing::Edited).await;
            exchange.stats.response_bytes = server.sent_bytes();
            result
        }
        // In memory of its own: few responses are held back.
        BodyNeed::Buffer { limit_bytes } => {
            PooledBox::pin(hold_back(download, exchange, server, chains, origin, upload, limit_bytes)).await
        }
    }
}

/// Collects the body, shows it to the plugins whole, and passes on what they make of it.
async fn hold_back<S: DownstreamStream, O: UpstreamStream>(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &Chains<'_>,
    origin: &mut O,
    upload: &mut Upload,
    limit_bytes: usize,
) -> Result<(), Failure> {
    let mut body = collect(download, server, origin, upload, limit_bytes).await?;
    origin.release()?;
    // What the plugins make of it stands beside it for a moment.
    download.run.local().shared.check_room(body.len())?;
    edit(download.run, exchange, chains, &mut body, Portion::Last);
    if exchange.gave_up.get().is_some() {
        return Err(Failure::new(Cause::BufferLimit, "a plugin takes too long to edit the body"));
    }
    exchange.note_response(&body);
    server.start_response(exchange, BodyLength::Known(body.len() as u64));
    match respond::send(download.run, exchange, server, &body).await {
        Outcome::Done | Outcome::Tunnel(_) => Ok(()),
    }
}

fn has_no_body(status: u16) -> bool {
    matches!(status, 100..200 | 204 | 304)
}

fn body_need(run: &Run<'_>, exchange: &mut Exchange, chains: &Chains<'_>) -> BodyNeed {
    let mut need = BodyNeed::None;
    if chains.has(Phase::ResponseBody) {
        phases::each(run.context, chains, Phase::ResponseBody, exchange, |instance, exchange| {
            let wanted = instance.plugin.wants_response_body(exchange);
            if let BodyNeed::Copy { limit_bytes } = wanted {
                return exchange.copy_response(limit_bytes);
            }
            need = match (need, wanted) {
                (BodyNeed::Buffer { limit_bytes: a }, BodyNeed::Buffer { limit_bytes: b }) => {
                    BodyNeed::Buffer { limit_bytes: a.min(b) }
                }
                (buffer @ BodyNeed::Buffer { .. }, _) | (_, buffer @ BodyNeed::Buffer { .. }) => buffer,
                (BodyNeed::Stream, _) | (_, BodyNeed::Stream) => BodyNeed::Stream,
                (need, _) => need,
            };
        });
    }
    need
}

fn edit(run: &Run<'_>, exchange: &mut Exchange, chains: &Chains<'_>, body: &mut Vec<u8>, portion: Portion) {
    phases::each(run.context, chains, Phase::ResponseBody, exchange, |instance, exchange| {
        let wanted = instance.plugin.wants_response_body(exchange);
        if matches!(wanted, BodyNeed::Stream | BodyNeed::Buffer { .. }) {
            instance.plugin.response_body(exchange, body, portion);
        }
    });
}

/// Shows the trailers to the plugins of the body phase, where there are both.
fn edit_trailers(
    run: &Run<'_>,
    exchange: &mut Exchange,
    chains: &Chains<'_>,
    trailers: Option<&Headers>,
) -> Option<Headers> {
    let mut trailers = trailers.filter(|_| chains.has(Phase::ResponseBody))?.clone();
    phases::each(run.context, chains, Phase::ResponseBody, exchange, |instance, exchange| {
        instance.plugin.response_trailers(exchange, &mut trailers);
    });
    Some(trailers)
}

/// Whether plugins see the body on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    Untouched,
    Edited,
}

/// Streams the body; an edited one through the plugins that want it.
async fn stream<S: DownstreamStream, O: UpstreamStream>(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange,
    server: &mut S,
    origin: &mut O,
    upload: &mut Upload,
    chains: &Chains<'_>,
    passing: Passing,
) -> Result<(), Failure> {
    let editors = (passing == Passing::Edited).then_some(chains);
    let mut edited: Vec<u8> = Vec::new();
    let mut edited_sent = 0;
    let mut ended = false;
    let mut finished = false;
    let mut half_closed = false;
    let mut has_moved = false;
    poll_fn(|cx| {
        let mut moved = std::mem::take(&mut has_moved);
        let mut turn = Turn::default();
        // The client's fault while uploading shows as its going away soon enough; the response is what matters now.
        let upload_failed = upload.poll(cx, server, origin, &mut moved).is_err();
        if upload_failed {
            server.close_afterwards();
            upload.give_up();
        }
        loop {
            // Edited bytes first.
            if edited_sent < edited.len() {
                match server.poll_data(cx, &edited[edited_sent..]) {
                    Poll::Ready(Ok(count)) => {
                        edited_sent += count;
                        exchange.stats.response_body_bytes += count as u64;
                        moved = true;
                        continue;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(gone(&error))),
                    Poll::Pending => {
                        origin.release()?;
                        return download.wait(cx, WaitsFor::Client, moved, server);
                    }
                }
            }
            if finished {
                return match server.poll_flush(cx) {
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                    Poll::Ready(Err(error)) => Poll::Ready(Err(gone(&error))),
                    Poll::Pending => {
                        origin.release()?;
                        download.wait(cx, WaitsFor::Client, moved, server)
                    }
                };
            }
            // Nothing is read for a client that takes nothing.
            let mut takes_nothing = false;
            let mut room = |cx: &mut Context<'_>| {
                let room = server.poll_capacity(cx).map_err(|error| gone(&error));
                takes_nothing = room.is_pending();
                room
            };
            match origin.poll_body(cx, &mut room) {
                Poll::Ready(BodyEvent::Data(data)) => {
                    let count = match editors {
                        Some(chains) => {
                            edited.clear();
                            edited_sent = 0;
                            edited.extend_from_slice(data);
                            edit(download.run, exchange, chains, &mut edited, Portion::Piece);
                            exchange.note_response(&edited);
                            data.len()
                        }
                        None => match server.poll_data(cx, data) {
                            Poll::Ready(Ok(count)) => {
                                exchange.stats.response_body_bytes += count as u64;
                                exchange.note_response(&data[..count]);
                                count
                            }
                            Poll::Ready(Err(error)) => return Poll::Ready(Err(gone(&error))),
                            Poll::Pending => {
                                origin.release()?;
                                return download.wait(cx, WaitsFor::Client, moved, server);
                            }
                        },
                    };
                    origin.consume(count);
                    moved = true;
                    if turn.is_over(cx, count) {
                        if download.run.deadline.is_overdue() {
                            return Poll::Ready(Err(overdue()));
                        }
                        has_moved = true;
                        return Poll::Pending;
                    }
                }
                Poll::Ready(BodyEvent::End(trailers)) => {
                    if let (Some(chains), false) = (editors, ended) {
                        ended = true;
                        edited.clear();
                        edited_sent = 0;
                        edit(download.run, exchange, chains, &mut edited, Portion::Last);
                        exchange.note_response(&edited);
                        continue;
                    }
                    let edited_trailers = edit_trailers(download.run, exchange, chains, trailers);
                    server.finish(edited_trailers.as_ref().or(trailers));
                    finished = true;
                }
                Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending if takes_nothing => return download.wait(cx, WaitsFor::Client, moved, server),
                Poll::Pending => {
                    // What has arrived must not wait for what has not: server-sent events live from this.
                    match server.poll_flush(cx) {
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(gone(&error))),
                        Poll::Pending => return download.wait(cx, WaitsFor::Client, moved, server),
                        Poll::Ready(Ok(())) => {}
                    }
                    if server.poll_closed(cx).is_ready() {
                        // A client that has closed one side may still read; writing to one that is gone fails soon.
                        server.close_afterwards();
                        half_closed = true;
                    }
                    let waits = if half_closed { WaitsFor::NodeAlone } else { WaitsFor::Node };
                    return download.wait(cx, waits, moved, server);
                }
            }
        }
    })
    .await
}

async fn collect<S: DownstreamStream, O: UpstreamStream>(
    download: &mut Download<'_, '_>,
    server: &mut S,
    origin: &mut O,
    upload: &mut Upload,
    limit_bytes: usize,
) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let mut has_moved = false;
    poll_fn(|cx| {
        let mut moved = std::mem::take(&mut has_moved);
        let mut turn = Turn::default();
        upload.poll(cx, server, origin, &mut moved)?;
        loop {
            // Room is limited by the body's own limit, above which it is given up.
            let count = match origin.poll_body(cx, &mut |_| Poll::Ready(Ok(Capacity::WHOLE))) {
                Poll::Ready(BodyEvent::Data(data)) => {
                    if body.len() + data.len() > limit_bytes {
                        let detail = format!("a plugin reads the body whole, up to {limit_bytes} bytes");
                        return Poll::Ready(Err(Failure::new(Cause::BufferLimit, detail)));
                    }
                    download.run.local().shared.append_limited(&mut body, data, limit_bytes)?;
                    data.len()
                }
                Poll::Ready(BodyEvent::End(_)) => return Poll::Ready(Ok(())),
                Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return download.wait(cx, WaitsFor::Node, moved, server),
            };
            moved = true;
            origin.consume(count);
            if turn.is_over(cx, count) {
                if download.run.deadline.is_overdue() {
                    return Poll::Ready(Err(overdue()));
                }
                has_moved = true;
                return Poll::Pending;
            }
        }
    })
    .await?;
    Ok(body)
}

/// The failure of a request whose time is over while its response still arrives.
#[cold]
fn overdue() -> Failure {
    Failure::new(Cause::RequestTimeout, "the response body was still arriving")
}

fn gone(error: &std::io::Error) -> Failure {
    Failure::new(Cause::ClientGone, error.to_string())
}
