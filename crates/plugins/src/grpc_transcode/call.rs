//! The response of a call on its way to the client: its head, its trailers, and its body whole or message by
//! message.

use exchange::Exchange;
use exchange::grpc::is_call;
use exchange::plugin::{Portion, ResponseStep};
use message::{FieldId, Headers};

use super::{AT_ONCE_BYTES, GrpcTranscode, STREAMED_MAX_BYTES, frames, status};
use crate::shared::side_thread;

/// A call that is translated.
#[derive(Default)]
pub(super) struct TranscodeCall {
    pub(super) stage: TranscodeStage,
    /// The details of a failed call, in base64.
    details: Option<Vec<u8>>,
    /// Bytes of a stream that are no whole message yet.
    held: Vec<u8>,
    /// The last line of a stream that has failed.
    end: Vec<u8>,
    /// A line says that the messages of the stream cannot be converted.
    is_reported: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TranscodeStage {
    /// The request is no call, or its response is one of HTTP.
    #[default]
    Nothing,
    /// The request was sent as a call.
    Asked,
    /// Messages are expected.
    Messages,
    /// The call has failed, and the head says so.
    Failed,
    /// The response cannot be converted.
    Broken(&'static str),
}

impl GrpcTranscode {
    /// Decides how the response is converted, and changes its head.
    pub(super) fn begin_response(&self, exchange: &mut Exchange) {
        if exchange.peek_state::<TranscodeCall>().is_none_or(|call| call.stage == TranscodeStage::Nothing) {
            return;
        }
        let is_of_upstream = !exchange.stats.answered_locally && exchange.failure.is_none();
        let head = &exchange.response;
        let status = head.headers.get("grpc-status").map(<[u8]>::to_vec);
        let stage = if !is_of_upstream || head.status >= 300 {
            TranscodeStage::Nothing
        } else if !head.headers.get_known(FieldId::ContentType).is_some_and(is_call) {
            TranscodeStage::Broken("the response is not gRPC")
        } else if status.as_ref().is_some_and(|status| status != b"0") {
            TranscodeStage::Failed
        } else {
            TranscodeStage::Messages
        };
        let details = head.headers.get(status::DETAILS).map(<[u8]>::to_vec);
        let call = exchange.state::<TranscodeCall>();
        (call.stage, call.details) = (stage, details);
        if stage != TranscodeStage::Nothing {
            self.change_head(exchange, stage, status.as_deref());
        }
    }

    /// Takes the status of the call from its trailers, before the last piece of the body.
    pub(super) fn end_call(&self, exchange: &mut Exchange, trailers: &mut Headers) {
        let has_status = exchange.response.headers.contains("grpc-status");
        let call = exchange.state::<TranscodeCall>();
        if call.stage != TranscodeStage::Messages || has_status {
            return;
        }
        match trailers.get("grpc-status") {
            Some(b"0") => {}
            None => call.stage = TranscodeStage::Broken("the call has no status"),
            Some(status) if self.streams => {
                let line =
                    status::render_error_line(status, trailers.get("grpc-message").unwrap_or_default());
                (call.stage, call.end) = (TranscodeStage::Failed, line);
            }
            Some(status) => {
                call.stage = TranscodeStage::Failed;
                call.details = trailers.get(status::DETAILS).map(<[u8]>::to_vec);
                // The head was not sent yet, so that it can say that the call has failed, as it does for a
                // call that fails before it has any message.
                exchange.response.status = status::http_status(status);
                for name in ["grpc-status", "grpc-message", status::DETAILS] {
                    if let Some(value) = trailers.get(name) {
                        let _ = exchange.response.headers.set(name, value);
                    }
                }
                exchange.response.headers.remove("trailer");
                trailers.clear();
            }
        }
    }

    /// Converts the body of a response with one message.
    pub(super) fn convert_whole<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
    ) -> ResponseStep<'a> {
        let call = exchange.state::<TranscodeCall>();
        match call.stage {
            TranscodeStage::Nothing | TranscodeStage::Asked => return ResponseStep::Done,
            TranscodeStage::Failed => {
                *body = self.details(call);
                return ResponseStep::Done;
            }
            TranscodeStage::Broken(reason) => self.replace(exchange, body, reason),
            TranscodeStage::Messages if body.len() <= AT_ONCE_BYTES => match self.converter.json(body) {
                Ok(json) => *body = json,
                Err(reason) => self.replace(exchange, body, reason),
            },
            TranscodeStage::Messages => {
                let (converter, bytes) = (self.converter.clone(), std::mem::take(body));
                return ResponseStep::Wait(Box::pin(async move {
                    // The body is moved and not copied, so that it needs no room of its own.
                    let convert = move || converter.json(&bytes);
                    match side_thread::run_for_response(convert).await.and_then(|converted| converted) {
                        Ok(json) => *body = json,
                        Err(reason) => self.replace(exchange, body, reason),
                    }
                }));
            }
        }
        ResponseStep::Done
    }

    fn change_head(&self, exchange: &mut Exchange, stage: TranscodeStage, status: Option<&[u8]>) {
        let head = &mut exchange.response;
        head.headers.remove("content-length");
        // Each fails only if the head has no space for it, and the body is readable without it.
        let content_type: &[u8] = match stage {
            TranscodeStage::Messages if self.streams => b"application/x-ndjson",
            _ => b"application/json",
        };
        let _ = head.headers.set("Content-Type", content_type);
        match (stage, status) {
            (TranscodeStage::Failed, Some(status)) => head.status = status::http_status(status),
            (TranscodeStage::Broken(_), _) => head.status = 502,
            (TranscodeStage::Messages, None) => {
                let _ = head.headers.set("Trailer", b"grpc-status, grpc-message");
            }
            _ => {}
        }
    }

    /// The body of a failed call.
    fn details(&self, call: &TranscodeCall) -> Vec<u8> {
        match &call.details {
            Some(details) if self.shows_details => {
                status::render_error_body(details, &self.detail_type, self.converter.form)
                    .unwrap_or_else(|text| text.as_bytes().to_vec())
            }
            _ => Vec::new(),
        }
    }

    /// Replaces a response that cannot be converted, of which nothing was sent.
    fn replace(&self, exchange: &mut Exchange, body: &mut Vec<u8>, reason: &str) {
        self.note(exchange, reason);
        exchange.response.status = 502;
        let _ = exchange.response.headers.set("Content-Type", b"text/plain");
        exchange.response.headers.remove("trailer");
        *body = b"failed to decode response data by protobuf".to_vec();
    }

    fn note(&self, exchange: &Exchange, reason: &str) {
        if let Some(responses) = self.outages.add(exchange.local().now_ms()) {
            tracing::warn!(reason, responses, path = &*self.path, "grpc-transcode cannot convert a response");
        }
    }

    /// Converts the messages that have arrived whole; the rest waits for the next piece.
    pub(super) fn convert_piece(&self, exchange: &mut Exchange, body: &mut Vec<u8>, portion: Portion) {
        let call = exchange.state::<TranscodeCall>();
        if matches!(call.stage, TranscodeStage::Nothing | TranscodeStage::Asked) {
            return;
        }
        let is_last = portion == Portion::Last;
        call.held.append(body);
        let converted = match call.stage {
            TranscodeStage::Broken(reason) => Err(reason),
            _ => self.lines(&mut call.held, body),
        };
        match converted {
            Ok(()) if is_last && !call.held.is_empty() => {
                self.end_broken(exchange, body, "the last message is cut")
            }
            Ok(()) if is_last && call.stage == TranscodeStage::Failed && call.end.is_empty() => {
                *body = self.details(call)
            }
            Ok(()) if is_last => body.extend_from_slice(&call.end),
            Ok(()) => {}
            Err(reason) => self.end_broken(exchange, body, reason),
        }
    }

    /// Ends a stream with a message that cannot be converted: later messages are dropped.
    fn end_broken(&self, exchange: &mut Exchange, body: &mut Vec<u8>, reason: &'static str) {
        let call = exchange.state::<TranscodeCall>();
        (call.held, call.stage) = (Vec::new(), TranscodeStage::Broken(reason));
        if !std::mem::replace(&mut call.is_reported, true) {
            body.extend_from_slice(&status::render_error_line(
                b"13",
                b"failed to decode response data by protobuf",
            ));
            self.note(exchange, reason);
        }
    }

    /// Appends a line for each whole message and takes those out of `held`.
    fn lines(&self, held: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let limit_bytes = self.converter.response_max_bytes.min(STREAMED_MAX_BYTES);
        let mut rest = &**held;
        while let Some((message, later)) = frames::split_message_frame(rest, limit_bytes)? {
            let begin = out.len();
            if let Err(reason) =
                frames::transcode_message(out, message, &self.converter.output, self.converter.form)
            {
                // No part of a line is sent.
                out.truncate(begin);
                return Err(reason);
            }
            out.push(b'\n');
            rest = later;
        }
        let done = held.len() - rest.len();
        held.drain(..done);
        Ok(())
    }
}
