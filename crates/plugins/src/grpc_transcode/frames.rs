//! The frames of messages in bodies of gRPC, and their JSON. It knows no exchange.

use std::sync::Arc;

use message::Method;
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use super::request;
use super::response::{self, JsonOptions};

/// The part that a side thread needs.
pub(super) struct Converter {
    pub(super) input: MessageDescriptor,
    pub(super) output: MessageDescriptor,
    pub(super) form: JsonOptions,
    pub(super) response_max_bytes: usize,
    /// Kept, so that other instances with the same definition share it.
    pub(super) _definition: Arc<Result<DescriptorPool, String>>,
}

impl Converter {
    /// The frame of the message of a request.
    pub(super) fn frame(
        &self,
        method: Method,
        content_type: &[u8],
        query: &[u8],
        body: &[u8],
    ) -> Result<Vec<u8>, String> {
        let fields = request::collect_request_fields(&self.input, method, content_type, query, body)?;
        let message = request::build_request_message(&self.input, &fields)?;
        encode_message_frame(&message).ok_or_else(|| "the message is too long".to_owned())
    }

    /// The JSON of a whole response.
    pub(super) fn json(&self, body: &[u8]) -> Result<Vec<u8>, &'static str> {
        transcode_unary_body(body, &self.output, self.form, self.response_max_bytes)
    }
}

/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The frame of a message; none if its length has more than 32 bits.
pub(super) fn encode_message_frame(message: &DynamicMessage) -> Option<Vec<u8>> {
    let length = message.encoded_len();
    let mut frame = Vec::with_capacity(PREFIX_BYTES + length);
    frame.push(0);
    frame.extend_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
    // A vector has space for every message.
    message.encode_raw(&mut frame);
    Some(frame)
}

/// The bytes of a message and those behind it.
type Split<'b> = (&'b [u8], &'b [u8]);

/// The message that `bytes` begin with and the bytes behind it; none if it is not whole.
///
/// # Errors
/// It is compressed, which was not asked for, or longer than `limit_bytes`.
pub(super) fn split_message_frame(
    bytes: &[u8],
    limit_bytes: usize,
) -> Result<Option<Split<'_>>, &'static str> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err("a message is compressed, which was not asked for");
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > limit_bytes {
        return Err("a message is longer than max_resp_body_size");
    }
    Ok(rest.split_at_checked(length))
}

/// The JSON of the one message of a body; of the default message if there is none.
///
/// # Errors
/// The body is something else, or the message has no JSON.
pub(super) fn transcode_unary_body(
    body: &[u8],
    output: &MessageDescriptor,
    form: JsonOptions,
    limit_bytes: usize,
) -> Result<Vec<u8>, &'static str> {
    let message = match split_message_frame(body, limit_bytes)? {
        Some((message, [])) => message,
        None if body.is_empty() => &[],
        None => return Err("the message is cut"),
        Some(_) => return Err("bytes follow the message"),
    };
    let mut out = Vec::with_capacity(2 * message.len());
    transcode_message(&mut out, message, output, form)?;
    Ok(out)
}

/// Appends the JSON of a message.
///
/// # Errors
/// The bytes are no such message, or it has no JSON.
pub(super) fn transcode_message(
    out: &mut Vec<u8>,
    message: &[u8],
    output: &MessageDescriptor,
    form: JsonOptions,
) -> Result<(), &'static str> {
    let message = DynamicMessage::decode(output.clone(), message)
        .map_err(|_| "the message is not of the type in the definition")?;
    response::write_message_json(out, &message, form).map_err(|none| match none {
        response::NoJson::Number => "the message has a number that JSON does not have",
        response::NoJson::Length => "the JSON of the message is too long",
    })
}
