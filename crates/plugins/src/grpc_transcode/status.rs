//! Statuses of gRPC as those of HTTP, and the details of a failed call as JSON. It knows no response.

use data_encoding::{BASE64, BASE64_NOPAD};
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};

use super::response::{self, JsonOptions, write_json_bytes, write_json_text};

/// The field with the details: a `google.rpc.Status` in base64.
pub(super) const DETAILS: &str = "grpc-status-details-bin";

/// The status of HTTP for a failed call: Google's table for errors of APIs, and 599 for a status that it does
/// not have.
pub(super) fn http_status(grpc_status: &[u8]) -> u16 {
    match grpc_status {
        b"1" => 499,
        b"2" | b"13" | b"15" => 500,
        b"3" | b"9" | b"11" => 400,
        b"4" => 504,
        b"5" => 404,
        b"6" | b"10" => 409,
        b"7" => 403,
        b"8" => 429,
        b"12" => 501,
        b"14" => 503,
        b"16" => 401,
        _ => 599,
    }
}

/// How the messages inside the details are shown.
pub(super) enum DetailType {
    /// As they are, with the name of their type.
    Any,
    /// As messages of this type.
    Known(MessageDescriptor),
    /// The configured type is not in the definition.
    Unknown,
}

/// The fields of `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

/// The fields of `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Detail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// The body for a failed call with these details.
///
/// # Errors
/// The text that the contract gives in place of the body.
pub(super) fn render_error_body(
    encoded: &[u8],
    shown: &DetailType,
    form: JsonOptions,
) -> Result<Vec<u8>, &'static str> {
    // Most servers send it without padding.
    let bytes = BASE64.decode(encoded).or_else(|_| BASE64_NOPAD.decode(encoded));
    let bytes = bytes.map_err(|_| "grpc-status-details-bin is not base64 format")?;
    let status = RpcStatus::decode(&*bytes)
        .map_err(|_| "failed to call pb.decode to decode grpc-status-details-bin")?;
    let mut out = Vec::with_capacity(64 + 2 * bytes.len());
    out.extend_from_slice(format!("{{\"error\":{{\"code\":{},\"message\":", status.code).as_bytes());
    write_json_text(&mut out, &status.message);
    out.extend_from_slice(b",\"details\":[");
    for (index, detail) in status.details.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_detail(&mut out, detail, shown, form)
            .ok_or("failed to call pb.decode to decode details in grpc-status-details-bin")?;
    }
    out.extend_from_slice(b"]}}");
    Ok(out)
}

fn write_detail(out: &mut Vec<u8>, detail: &Detail, shown: &DetailType, form: JsonOptions) -> Option<()> {
    match shown {
        DetailType::Unknown => None,
        DetailType::Known(descriptor) => {
            let message = DynamicMessage::decode(descriptor.clone(), &*detail.value).ok()?;
            response::write_message_json(out, &message, form).ok()
        }
        DetailType::Any => {
            out.extend_from_slice(b"{\"type_url\":");
            write_json_text(out, &detail.type_url);
            out.extend_from_slice(b",\"value\":");
            write_json_bytes(out, &detail.value);
            out.push(b'}');
            Some(())
        }
    }
}

/// The last line of a stream that failed: the status, and the message as text.
pub(super) fn render_error_line(grpc_status: &[u8], grpc_message: &[u8]) -> Vec<u8> {
    let code = message::syntax::decimal(grpc_status).unwrap_or(2);
    let message: Vec<u8> = percent_encoding::percent_decode(grpc_message).collect();
    let mut out = format!("{{\"error\":{{\"code\":{code},\"message\":").into_bytes();
    write_json_text(&mut out, &String::from_utf8_lossy(&message));
    out.extend_from_slice(b"}}\n");
    out
}
