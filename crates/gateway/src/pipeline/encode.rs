//! The coding of response bodies: chooses the plugin that codes a body, and passes pieces and whole bodies
//! through its encoder, behind the plugins that edit them and behind the copy for loggers.

use std::future::poll_fn;
use std::task::Poll;

use super::phases::{self, Chains};
use super::run::PipelineRun;
use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::plugin::{EncoderFailed, PluginPhase, Portion};
use message::Method;
use net::env;

/// Bytes of a whole body that are coded before other tasks of the worker run: about a millisecond of gzip at
/// level 1.
const TURN_BYTES: usize = 64 * 1024;

/// Chooses the encoder of the response: the client's most wanted coding, of equal ones the plugin with the
/// highest priority.
pub(super) fn choose(run: &PipelineRun<'_>, exchange: &mut Exchange, chains: &Chains<'_>) {
    exchange.encoder = None;
    exchange.response_is_coded = false;
    let mut best = (0, i64::MIN, 0);
    phases::each(run.context, chains, PluginPhase::Encode, exchange, |instance, exchange| {
        let weight = instance.plugin.coding_weight(exchange);
        if weight > 0 && (weight, instance.priority) > (best.0, best.1) {
            best = (weight, instance.priority, instance.number);
        }
    });
    if best.0 == 0 {
        return;
    }
    phases::each(run.context, chains, PluginPhase::Encode, exchange, |instance, exchange| {
        if instance.number == best.2 {
            exchange.encoder = instance.plugin.encoder(exchange);
            exchange.response_is_coded = exchange.encoder.is_some();
        }
    });
    if exchange.request.method == Method::Head {
        // The fields are those of a GET, and no body follows (RFC 9110 section 9.3.2).
        exchange.encoder = None;
    }
}

/// Gives `data` to the plugins that edit it, if there are `editors`, and to the encoder; `sent` becomes the
/// bytes to send.
///
/// # Errors
/// When a plugin waits, or the body cannot be coded.
pub(super) fn piece(
    run: &PipelineRun<'_>,
    exchange: &mut Exchange,
    editors: Option<&Chains<'_>>,
    data: &[u8],
    portion: Portion,
    sent: &mut Vec<u8>,
) -> Result<(), ExchangeFailure> {
    sent.clear();
    if let Some(chains) = editors {
        sent.extend_from_slice(data);
        phases::piece_of_response_body(run, exchange, chains, sent, portion)?;
        exchange.note_response(sent);
        return in_place(exchange, sent, portion);
    }
    exchange.note_response(data);
    code(exchange, data, portion, sent)
}

/// Replaces `body`, a piece that plugins have edited, by its coded form; without an encoder it stays.
///
/// # Errors
/// When it cannot be coded.
pub(super) fn in_place(
    exchange: &mut Exchange,
    body: &mut Vec<u8>,
    portion: Portion,
) -> Result<(), ExchangeFailure> {
    if exchange.encoder.is_none() {
        return Ok(());
    }
    let mut coded = std::mem::take(&mut exchange.scratch);
    coded.clear();
    let result = code(exchange, body, portion, &mut coded);
    std::mem::swap(body, &mut coded);
    exchange.scratch = coded;
    result
}

/// Gives in `sent` what the encoder holds back; true if that is anything. The upstream has nothing more at
/// hand.
///
/// # Errors
/// When it cannot be coded.
pub(super) fn flush(exchange: &mut Exchange, sent: &mut Vec<u8>) -> Result<bool, ExchangeFailure> {
    let Some(encoder) = &mut exchange.encoder else { return Ok(false) };
    sent.clear();
    encoder.flush(sent).map_err(failed)?;
    Ok(!sent.is_empty())
}

/// The coded form of a whole body; none without an encoder. Other tasks of the worker run in between.
///
/// # Errors
/// When it cannot be coded, or memory is short.
pub(super) async fn encode_whole_body(
    run: &PipelineRun<'_>,
    exchange: &mut Exchange,
    body: &[u8],
) -> Result<Option<Vec<u8>>, ExchangeFailure> {
    if exchange.encoder.is_none() {
        return Ok(None);
    }
    // The coded body exists beside this one for a moment.
    run.local().shared.check_room(body.len())?;
    let mut coded = Vec::new();
    let mut rest = body;
    while rest.len() > TURN_BYTES {
        let (piece, behind) = rest.split_at(TURN_BYTES);
        rest = behind;
        code(exchange, piece, Portion::Piece, &mut coded)?;
        let mut has_yielded = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut has_yielded, true) {
                return Poll::Ready(());
            }
            env::wake_after_events(cx);
            Poll::Pending
        })
        .await;
    }
    code(exchange, rest, Portion::Last, &mut coded)?;
    Ok(Some(coded))
}

/// Appends the coded form of `piece` to `coded`. The encoder is dropped at the end, so that another response
/// can use its state while the client still reads this one.
fn code(
    exchange: &mut Exchange,
    piece: &[u8],
    portion: Portion,
    coded: &mut Vec<u8>,
) -> Result<(), ExchangeFailure> {
    let Some(encoder) = &mut exchange.encoder else { return Ok(()) };
    if !piece.is_empty() {
        encoder.piece(piece, coded).map_err(failed)?;
    }
    if portion == Portion::Last {
        encoder.end(coded).map_err(failed)?;
        exchange.encoder = None;
    }
    Ok(())
}

#[cold]
fn failed(EncoderFailed(reason): EncoderFailed) -> ExchangeFailure {
    ExchangeFailure::new(Cause::PluginFailed, format!("the response body cannot be coded: {reason}"))
}
