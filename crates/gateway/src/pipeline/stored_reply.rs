//! Sends a response that a plugin has stored. It runs the response phases like any other response, and a body in memory that
//! no plugin edits is written from where it lies.

use exchange::Exchange;
use exchange::failure::Failure;
use exchange::plugin::{BodyNeed, StoredBody, StoredReply};
use message::FieldId;

use super::download::{body_need, has_no_body};
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
    server: &mut S,
    chains: &Chains<'_>,
    reply: StoredReply,
) -> Result<(), Failure> {
    exchange.stats.answered_locally = true;
    exchange.stats.is_stored = true;
    respond::respond_head(run, exchange, server, chains).await?;
    refuse_undecided(exchange)?;
    if has_no_body(exchange.response.status) {
        exchange.response.headers.remove_known(FieldId::ContentLength);
        server.start_response(exchange, BodyLength::None);
        respond::send(run, exchange, server, &[]).await;
        return Ok(());
    }
    if exchange.request.method == message::Method::Head {
        let mut digits = itoa::Buffer::new();
        let length = digits.format(reply.length).as_bytes();
        // Digits are valid in a field; without room for one more the length is left out.
        let _ = exchange.response.headers.set_known(FieldId::ContentLength, length);
        server.start_response(exchange, BodyLength::None);
        respond::send(run, exchange, server, &[]).await;
        return Ok(());
    }
    let need = body_need(run, exchange, chains);
    match reply.body {
        StoredBody::Whole(body) if matches!(need, BodyNeed::None | BodyNeed::Copy { .. }) => {
            exchange.note_response(&body);
            server.start_response(exchange, BodyLength::Known(body.len() as u64));
            respond::send(run, exchange, server, &body).await;
        }
        StoredBody::Whole(body) => {
            run.local().shared.check_room(body.len())?;
            let mut edited = body.to_vec();
            phases::whole_response_body(run, exchange, server, chains, &mut edited).await?;
            refuse_undecided(exchange)?;
            exchange.note_response(&edited);
            server.start_response(exchange, BodyLength::Known(edited.len() as u64));
            respond::send(run, exchange, server, &edited).await;
        }
        StoredBody::Stream(mut body) => {
            let mut wait = Wait::new(run, MinRateGuard::for_response(&run.local().options.limits));
            let length = match need {
                BodyNeed::Buffer { limit_bytes } => {
                    let limit = limit_bytes;
                    return stream_reply::send_whole(
                        run, &mut wait, exchange, server, chains, &mut *body, limit,
                    )
                    .await;
                }
                BodyNeed::Stream => BodyLength::Unknown,
                BodyNeed::None | BodyNeed::Copy { .. } => BodyLength::Known(reply.length),
            };
            server.start_response(exchange, length);
            let sent = stream_reply::pass_on(run, &mut wait, exchange, server, chains, &mut *body).await;
            exchange.stats.response_bytes = server.progress().sent_bytes;
            return sent;
        }
    }
    Ok(())
}
