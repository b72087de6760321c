//! Sends a response that a plugin has stored. It runs the response phases like any other response, and a body
//! in memory that no plugin edits is written from where it lies.

use exchange::failure::ExchangeFailure;
use exchange::plugin::{BodyNeed, PluginPhase, StoredBody, StoredReply};
use message::{FieldId, Headers};

use super::download::{body_need, has_no_body};
use super::encode;
use super::journey::Journey;
use super::min_rate::MinRateGuard;
use super::phases;
use super::respond;
use super::run::refuse_undecided;
use super::stream_reply;
use super::wait::Wait;
use crate::body::{BodyLength, DownstreamStream};

/// Sends `reply`, of which the head is in the exchange.
///
/// # Errors
/// When the body cannot be read, a plugin of the response fails, or the client is too slow.
pub(super) async fn send_stored_reply<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    reply: StoredReply,
) -> Result<(), ExchangeFailure> {
    journey.exchange.stats.answered_locally = true;
    journey.exchange.stats.is_stored = true;
    respond::respond_head(journey).await?;
    refuse_undecided(journey.exchange)?;
    if has_no_body(journey.exchange.response.status) {
        journey.exchange.response.headers.remove_known(FieldId::ContentLength);
        journey.downstream.start_response(journey.exchange, BodyLength::None);
        respond::send_whole_body(journey, &[]).await;
        return Ok(());
    }
    if journey.exchange.request.method == message::Method::Head {
        let is_edited = journey.exchange.response_is_coded
            || journey.chains.has(PluginPhase::ResponseBody)
                && phases::edits_response_body(journey.run.context, journey.exchange, &journey.chains);
        if !is_edited {
            let mut digits = itoa::Buffer::new();
            let length = digits.format(reply.length).as_bytes();
            // Digits are valid in a field; without room for one more the length is left out.
            let _ = journey.exchange.response.headers.set_known(FieldId::ContentLength, length);
        }
        journey.downstream.start_response(journey.exchange, BodyLength::None);
        respond::send_whole_body(journey, &[]).await;
        return Ok(());
    }
    let need = body_need(journey.run, journey.exchange, &journey.chains);
    match reply.body {
        StoredBody::Whole(body) if matches!(need, BodyNeed::None | BodyNeed::Copy { .. }) => {
            journey.exchange.note_response(&body);
            let coded = encode::encode_whole_body(journey.run, journey.exchange, &body).await?;
            let body = coded.as_deref().unwrap_or(&body);
            journey.downstream.start_response(journey.exchange, BodyLength::Known(body.len() as u64));
            respond::send_whole_body(journey, body).await;
        }
        StoredBody::Whole(body) => {
            journey.run.local().shared.check_room(body.len())?;
            let mut edited = body.to_vec();
            let mut trailers = Headers::new();
            phases::whole_response_body(journey, &mut edited, &mut trailers).await?;
            refuse_undecided(journey.exchange)?;
            journey.exchange.note_response(&edited);
            if let Some(coded) = encode::encode_whole_body(journey.run, journey.exchange, &edited).await? {
                edited = coded;
            }
            journey.downstream.start_response(journey.exchange, phases::length_before(&trailers, &edited));
            respond::send_with_trailers(journey, &edited, &trailers).await;
        }
        StoredBody::Stream(mut body) => {
            let mut wait =
                Wait::new(journey.run, MinRateGuard::for_response(&journey.run.local().options.limits));
            let length = match need {
                BodyNeed::Buffer { limit_bytes } => {
                    let limit = limit_bytes;
                    return stream_reply::send_whole(journey, &mut wait, &mut *body, limit).await;
                }
                _ if journey.exchange.encoder.is_some() => BodyLength::Unknown,
                BodyNeed::Stream => BodyLength::Unknown,
                BodyNeed::None | BodyNeed::Copy { .. } => BodyLength::Known(reply.length),
            };
            journey.downstream.start_response(journey.exchange, length);
            let sent = stream_reply::pass_on_pieces(journey, &mut wait, &mut *body).await;
            journey.exchange.stats.response_bytes = journey.downstream.progress().sent_bytes;
            return sent;
        }
    }
    Ok(())
}
