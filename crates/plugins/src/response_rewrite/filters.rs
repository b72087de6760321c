//! The filters of response bodies: substitutions in a whole body, or in each event of an event stream. They
//! know neither the condition of the plugin nor fields, beyond what describes a body.

use exchange::Exchange;
use exchange::failure::Cause;
use exchange::observe::pace::Pace;
use exchange::plugin::{BodyNeed, Portion, ResponseStep};
use message::{FieldId, Headers};

use super::{FilterScope, WrittenFilter};
use crate::shared::encoding::decode;
use crate::shared::event_stream::{EventBuffer, is_event_stream};
use crate::shared::substitution::{PatternOptions, Substitution};

/// Longest time of the filters of one response or one event, in nanoseconds: half a second, in which their
/// worker serves no other request.
const FILTERED_MAX_NS: u64 = 500_000_000;
/// Longest event of a stream that is filtered, in bytes. An instance may allow less.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Bodies that cannot be decoded. Upstreams may cause them at any pace.
static UNDECODED: Pace = Pace::every_ms(10_000);

/// Compiled filters.
pub(super) struct Filters {
    substitutions: Box<[(FilterScope, Substitution)]>,
    pub(super) limit_bytes: usize,
}

/// The work of the filters on one response, decided at its head.
#[derive(Default)]
pub(super) enum Filtering {
    /// They leave it alone.
    #[default]
    Off,
    /// They read the whole body, in these codings.
    Whole { codings: Vec<u8> },
    /// They read the events of a stream.
    Events(EventBuffer),
}

impl Filters {
    /// Compiles the filters.
    ///
    /// # Errors
    /// The first faulty one.
    pub(super) fn compile(written: &[WrittenFilter], limit_bytes: usize) -> Result<Filters, String> {
        let compile = |filter: &WrittenFilter| {
            PatternOptions::parse(&filter.options)
                .and_then(|options| Substitution::compile(&filter.regex, &filter.replace, options))
                .and_then(|substitution| {
                    substitution.matcher.require_linear().map(|()| (filter.scope, substitution))
                })
                .map_err(|reason| format!("regex \"{}\" validation failed: {reason}", filter.regex))
        };
        let substitutions = written.iter().map(compile).collect::<Result<_, _>>()?;
        Ok(Filters { substitutions, limit_bytes })
    }

    /// Decides about the response in `exchange`, and removes the coding of a body that will be decoded.
    pub(super) fn begin(&self, exchange: &mut Exchange) -> Filtering {
        // The gateway's own error says what has failed; a filter for the body of an upstream would only
        // garble it.
        if exchange.stats.answered_locally && exchange.failure.is_some() {
            return Filtering::Off;
        }
        let headers = &mut exchange.response.headers;
        let codings = decode::codings(headers).into_owned();
        let is_stream = is_event_stream(headers);
        if !decode::is_known(&codings) || (is_stream && !codings.is_empty()) {
            return Filtering::Off;
        }
        if is_stream {
            return Filtering::Events(EventBuffer::new(EVENT_BYTES_MAX.min(self.limit_bytes)));
        }
        if !decode::is_deflate(&codings) {
            headers.remove_known(FieldId::ContentEncoding);
        }
        Filtering::Whole { codings }
    }

    /// The need of the body.
    pub(super) fn need(&self, filtering: Option<&Filtering>) -> BodyNeed {
        match filtering {
            None | Some(Filtering::Off) => BodyNeed::None,
            Some(Filtering::Whole { .. }) => BodyNeed::Buffer { limit_bytes: self.limit_bytes },
            Some(Filtering::Events(_)) => BodyNeed::Stream,
        }
    }

    /// Filters a whole body, or the events that are complete with this piece of it.
    pub(super) fn apply(
        &self,
        exchange: &mut Exchange,
        filtering: &mut Filtering,
        body: &mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'static> {
        match filtering {
            Filtering::Off => ResponseStep::Done,
            Filtering::Whole { codings } => self.apply_to_whole(exchange, codings, body),
            Filtering::Events(buffer) => {
                buffer.add(body);
                body.clear();
                loop {
                    let mut event = match buffer.next(portion) {
                        Ok(Some(event)) => event,
                        Ok(None) => return ResponseStep::Done,
                        Err(reason) => return ResponseStep::FailedBecause(Cause::BufferLimit, reason),
                    };
                    match self.substitute(exchange, &mut event) {
                        ResponseStep::Done => body.extend_from_slice(&event),
                        failed => return failed,
                    }
                }
            }
        }
    }

    fn apply_to_whole(
        &self,
        exchange: &mut Exchange,
        codings: &[u8],
        body: &mut Vec<u8>,
    ) -> ResponseStep<'static> {
        if !codings.is_empty() {
            match decode::decode_content(codings, body, self.limit_bytes) {
                Ok(decoded) => *body = decoded,
                // Its head still has the coding.
                Err(decode::DecodeError::Malformed) if decode::is_deflate(codings) => {
                    return ResponseStep::Done;
                }
                // The response fails, because text that a filter would have removed must not be sent.
                Err(reason) => {
                    if let Some(count) = UNDECODED.add(1, exchange.local().now_ms()) {
                        tracing::warn!(%reason, count, "response-rewrite cannot decode a response body");
                    }
                    let detail = format!("response-rewrite has to decode the body, and {reason}");
                    return ResponseStep::FailedBecause(Cause::BodyUndecodable, detail);
                }
            }
            if decode::is_deflate(codings) {
                exchange.response.headers.remove_known(FieldId::ContentEncoding);
            }
        }
        self.substitute(exchange, body)
    }

    /// Done, or failed because of the time, because text that a filter would have removed must not be sent.
    fn substitute(&self, exchange: &Exchange, body: &mut Vec<u8>) -> ResponseStep<'static> {
        let worker = exchange.local();
        let until_ns = worker.clock_ns() + FILTERED_MAX_NS;
        for (scope, substitution) in &self.substitutions {
            let edited = match scope {
                FilterScope::Once => substitution.once(body).map(|found| found.map(|(edited, _)| edited)),
                FilterScope::Global => substitution.all(body, || worker.clock_ns() > until_ns),
            };
            match edited {
                Ok(Some(edited)) => *body = edited,
                Ok(None) => {}
                Err(_) => {
                    let detail = "the filters of response-rewrite take too long".to_owned();
                    return ResponseStep::FailedBecause(Cause::BufferLimit, detail);
                }
            }
        }
        ResponseStep::Done
    }
}

/// Removes what described the old body beside its coding.
pub(super) fn forget_validators(headers: &mut Headers) {
    headers.remove_known(FieldId::Etag);
    headers.remove("Last-Modified");
}
