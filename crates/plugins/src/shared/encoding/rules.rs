//! Which responses are coded: the part of the configuration that every coding has, with the meaning of
//! nginx's gzip module. It knows no coding.

use exchange::Exchange;
use message::{FieldId, Headers, Version};
use serde_json::{Value, json};

use super::{accept, fields};
use crate::shared::attributes::Attribute;

/// The media types that a user lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MediaTypes {
    /// `*`
    All,
    Listed(Box<[Box<str>]>),
}

impl MediaTypes {
    /// The default.
    pub(crate) fn html() -> MediaTypes {
        MediaTypes::Listed(Box::new(["text/html".into()]))
    }

    fn contain(&self, content_type: &[u8]) -> bool {
        match self {
            MediaTypes::All => true,
            MediaTypes::Listed(types) => {
                types.iter().any(|own| content_type.eq_ignore_ascii_case(own.as_bytes()))
            }
        }
    }
}

impl Attribute for MediaTypes {
    fn schema() -> Value {
        json!({
            "anyOf": [
                { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } },
                { "enum": ["*"] },
            ],
        })
    }

    fn read(written: Value) -> Result<Self, String> {
        if written == "*" {
            return Ok(MediaTypes::All);
        }
        Vec::<Box<str>>::read(written).map(|types| MediaTypes::Listed(types.into()))
    }

    fn write(&self) -> Value {
        match self {
            MediaTypes::All => json!("*"),
            MediaTypes::Listed(types) => json!(types),
        }
    }
}

/// The lowest HTTP version of requests that are answered coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    Http10,
    Http11,
}

impl Attribute for HttpVersion {
    fn schema() -> Value {
        json!({ "enum": [1.1, 1.0] })
    }

    fn read(written: Value) -> Result<Self, String> {
        match written.as_f64() {
            Some(1.0) => Ok(HttpVersion::Http10),
            Some(1.1) => Ok(HttpVersion::Http11),
            _ => Err(format!("{written} is none of 1.1, 1.0")),
        }
    }

    fn write(&self) -> Value {
        match self {
            HttpVersion::Http10 => json!(1.0),
            HttpVersion::Http11 => json!(1.1),
        }
    }
}

/// See the module.
pub(crate) struct EncodingRules {
    /// The media types of bodies that are coded.
    pub(crate) types: MediaTypes,
    /// The shortest body that is coded, in bytes, where the response tells its length.
    pub(crate) min_length: u64,
    /// Requests of lower versions are answered as they are.
    pub(crate) http_version: HttpVersion,
    /// Says in `Vary` that the response depends on `Accept-Encoding`.
    pub(crate) vary: bool,
}

impl EncodingRules {
    /// How much the response is to be sent in `coding`: the client's weight in thousandths, 0 for not at all.
    /// `Vary` is written to every response that another client would get coded.
    pub(super) fn weigh(&self, exchange: &mut Exchange, coding: &str) -> u16 {
        if !self.apply_to(exchange) {
            return 0;
        }
        if self.vary {
            fields::vary(&mut exchange.response.headers);
        }
        accept::weight(&exchange.request.headers, coding)
    }

    fn apply_to(&self, exchange: &Exchange) -> bool {
        let headers = &exchange.response.headers;
        let has_whole_body = !matches!(exchange.response.status, ..200 | 204 | 205 | 206 | 304);
        let is_old = exchange.request.version == Version::Http10 && self.http_version != HttpVersion::Http10;
        let Some(content_type) = headers.get_known(FieldId::ContentType) else { return false };
        let content_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        has_whole_body
            && !is_old
            && self.types.contain(content_type)
            && content_length(headers).is_none_or(|length| length >= self.min_length)
            && !headers.contains_known(FieldId::ContentEncoding)
            && !headers.contains_token(FieldId::CacheControl, "no-transform")
            // A call compresses its messages itself, and its clients do not decode bodies.
            && exchange.grpc.is_none()
            // The plugin that made the request reads the body; its own response may be coded.
            && exchange.inner_client.is_none()
            && !is_grpc(content_type)
    }
}

/// The length that the response tells of its body.
pub(super) fn content_length(response: &Headers) -> Option<u64> {
    std::str::from_utf8(response.get_known(FieldId::ContentLength)?).ok()?.parse().ok()
}

/// `application/grpc` and `application/grpc+proto`, and not `application/grpc-web`.
fn is_grpc(content_type: &[u8]) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let is_grpc = content_type.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC));
    is_grpc && matches!(content_type.get(GRPC.len()), None | Some(b'+'))
}
