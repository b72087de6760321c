//! Sends a response that a plugin has stored. It runs the response phases like any other response, and a body in memory that
//! no plugin edits is written from where it lies.

use exchange::Exchange;
use exchange::failure::Failure;
use exchange::plugin::{BodyNeed, Phase, StoredBody, StoredReply};
use message::{FieldId, Headers};

use super::download::{body_need, has_no_body};
use super::encode;
use super::min_rate::MinRateGuard;
use super::phases::{self, Chains};
use super::respond;
use super::run::{Run, refuse_undecided};
use super::stream_reply;
use super::wait::Wait;
use crate::body::{BodyLength, DownstreamStream};

/// Sends `reply`, of which the head is in the exchange.
///
/// # Errors
/// When the body cannot be read, a plugin of the response fails, or the client is too slow.
pub(super) async fn send<S: DownstreamStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    downstream: &mut S,
    chains: &Chains<'_>,
    reply: StoredReply,
) -> Result<(), Failure> {
    exchange.stats.answered_locally = true;
    exchange.stats.is_stored = true;
    respond::respond_head(run, exchange, downstream, chains).await?;
    refuse_undecided(exchange)?;
    if has_no_body(exchange.response.status) {
        exchange.response.headers.remove_known(FieldId::ContentLength);
        downstream.start_response(exchange, BodyLength::None);
        respond::send(run, exchange, downstream, &[]).await;
        return Ok(());
    }
    if exchange.request.method == message::Method::Head {
        let is_edited = exchange.response_is_coded
            || chains.has(Phase::ResponseBody) && phases::edits_response_body(run.context, exchange, chains);
        if !is_edited {
            let mut digits = itoa::Buffer::new();
            let length = digits.format(reply.length).as_bytes();
            // Digits are valid in a field; without room for one more the length is left out.
            let _ = exchange.response.headers.set_known(FieldId::ContentLength, length);
        }
        downstream.start_response(exchange, BodyLength::None);
        respond::send(run, exchange, downstream, &[]).await;
        return Ok(());
    }
    let need = body_need(run, exchange, chains);
    match reply.body {
        StoredBody::Whole(body) if matches!(need, BodyNeed::None | BodyNeed::Copy { .. }) => {
            exchange.note_response(&body);
            let coded = encode::whole(run, exchange, &body).await?;
            let body = coded.as_deref().unwrap_or(&body);
            downstream.start_response(exchange, BodyLength::Known(body.len() as u64));
            respond::send(run, exchange, downstream, body).await;
        }
        StoredBody::Whole(body) => {
            run.local().shared.check_room(body.len())?;
            let mut edited = body.to_vec();
            let mut trailers = Headers::new();
            phases::whole_response_body(run, exchange, downstream, chains, &mut edited, &mut trailers)
                .await?;
            refuse_undecided(exchange)?;
            exchange.note_response(&edited);
            if let Some(coded) = encode::whole(run, exchange, &edited).await? {
                edited = coded;
            }
            downstream.start_response(exchange, phases::length_before(&trailers, &edited));
            respond::send_with_trailers(run, exchange, downstream, &edited, &trailers).await;
        }
        StoredBody::Stream(mut body) => {
            let mut wait = Wait::new(run, MinRateGuard::for_response(&run.local().options.limits));
            let length = match need {
                BodyNeed::Buffer { limit_bytes } => {
                    let limit = limit_bytes;
                    return stream_reply::send_whole(
                        run, &mut wait, exchange, downstream, chains, &mut *body, limit,
                    )
                    .await;
                }
                _ if exchange.encoder.is_some() => BodyLength::Unknown,
                BodyNeed::Stream => BodyLength::Unknown,
                BodyNeed::None | BodyNeed::Copy { .. } => BodyLength::Known(reply.length),
            };
            downstream.start_response(exchange, length);
            let sent = stream_reply::pass_on(run, &mut wait, exchange, downstream, chains, &mut *body).await;
            exchange.stats.response_bytes = downstream.progress().sent_bytes;
            return sent;
        }
    }
    Ok(())
}
