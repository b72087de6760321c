//! Messages of Nacos over gRPC: one envelope with the name of a type and JSON inside (field numbers from
//! Nacos's public `nacos_grpc_service.proto`). It does not know the meaning of the types.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use prost::Message;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::parts::read_message;

/// The envelope.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NacosPayload {
    #[prost(message, optional, tag = "2")]
    metadata: Option<PayloadMetadata>,
    #[prost(message, optional, tag = "3")]
    body: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct PayloadMetadata {
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(map = "string, string", tag = "7")]
    headers: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl NacosPayload {
    /// A message of that type, with a token if there is one.
    pub(super) fn new(kind: &str, body: &Value, token: Option<&str>) -> NacosPayload {
        let token = token.map(|token| ("accessToken".to_owned(), token.to_owned()));
        let metadata = PayloadMetadata { kind: kind.to_owned(), headers: token.into_iter().collect() };
        let body = Any { value: body.to_string().into_bytes() };
        NacosPayload { metadata: Some(metadata), body: Some(body) }
    }

    /// The type and the body.
    ///
    /// # Errors
    /// The body is no JSON.
    pub(super) fn read(&self) -> Result<(&str, Value), String> {
        let kind = self.metadata.as_ref().map_or("", |metadata| metadata.kind.as_str());
        let bytes = self.body.as_ref().map_or(&b"null"[..], |body| &body.value);
        let body = read_message(bytes).map_err(|error| format!("a message is no JSON: {error}"))?;
        Ok((kind, body))
    }
}

/// Messages to the server, as a stream that is open as long as the sender lives.
pub(super) struct OutgoingPayloads(pub(super) mpsc::Receiver<NacosPayload>);

impl tokio_stream::Stream for OutgoingPayloads {
    type Item = NacosPayload;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<NacosPayload>> {
        self.0.poll_recv(cx)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let sent = NacosPayload::new("AskRequest", &json!({"a": 1}), Some("t"));
        let read = NacosPayload::decode(&*sent.encode_to_vec()).unwrap();
        assert_eq!(read.read(), Ok(("AskRequest", json!({"a": 1}))));
        assert_eq!(read.metadata.unwrap().headers["accessToken"], "t");
        assert_eq!(NacosPayload::default().read(), Ok(("", Value::Null)));
        let broken = NacosPayload { body: Some(Any { value: b"x".to_vec() }), ..NacosPayload::default() };
        assert!(broken.read().is_err());
    }
}
