//! The response of an operation that is mocked: its status, media type, body and headers.

use std::hash::{BuildHasher, Hasher, RandomState};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::accept::{accepts_everything, best_media_type};
use super::body_text::body_bytes;
use super::generate::ExampleMaker;
use super::prefer::{MockChoice, MockFault};

/// References that lead to each other before something else is found.
const HOPS_MAX: usize = 16;
/// The type of a body for which the contract allows any type, as Prism has it.
const ANY_TYPE: &str = "text/plain";
/// The preferences of a request without `Accept`.
const ACCEPT_DEFAULT: &str = "application/json, */*";

/// A response that the contract describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockResponse {
    /// The status.
    pub status: u16,
    /// The media type of the body; empty where the response has no body.
    pub media_type: String,
    /// Names and values of further fields; they hold no line breaks.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// The response of an operation that a request asks for, as Prism chooses it: the wanted status, its range
/// (`4XX`) or `default`; without a wish the lowest 2xx, `default`, or the first response. If the response of
/// the wanted status has no such example or media type, the usual response is tried.
///
/// # Errors
/// The status, the example or the media type is unknown, or no value was found for the schema.
pub fn mock_response(
    document: &Value,
    operation: &Value,
    wanted: &MockChoice<'_>,
) -> Result<MockResponse, MockFault> {
    let none = Map::new();
    let responses = operation.get("responses").and_then(Value::as_object).unwrap_or(&none);
    let mock = MockedOperation { document, operation, wanted };
    let usual = usual_response(responses);
    let Some(code) = wanted.code else {
        let (status, response) = usual.ok_or(MockFault::NoResponse)?;
        return mock.respond(status, response);
    };
    let response = response_of_code(responses, code).ok_or(MockFault::UnknownCode(code))?;
    mock.respond(code, response).or_else(|fault| {
        let usual = usual.map(|(status, response)| mock.respond(status, response));
        // The first fault says more about the request than that of the second try.
        usual.and_then(Result::ok).ok_or(fault)
    })
}

/// The response with the code, with its range, or the default one.
fn response_of_code(responses: &Map<String, Value>, code: u16) -> Option<&Value> {
    let range = format!("{}XX", code / 100);
    responses
        .get(&code.to_string())
        .or_else(|| {
            responses.iter().find(|(name, _)| name.eq_ignore_ascii_case(&range)).map(|(_, value)| value)
        })
        .or_else(|| responses.get("default"))
}

/// The lowest 2xx, the default response, or the first one, with its status.
fn usual_response(responses: &Map<String, Value>) -> Option<(u16, &Value)> {
    let coded = responses.iter().filter_map(|(name, value)| Some((status_of(name)?, value)));
    let success = coded.clone().filter(|(status, _)| (200..300).contains(status));
    success
        .min_by_key(|(status, _)| *status)
        .or_else(|| responses.get("default").map(|response| (200, response)))
        .or_else(|| coded.clone().next())
}

/// The status of a name of a response; a range stands for its first status.
fn status_of(name: &str) -> Option<u16> {
    let digits = name.to_ascii_uppercase().replace("XX", "00");
    digits.parse().ok().filter(|status| digits.len() == 3 && (100..600).contains(status))
}

struct MockedOperation<'d> {
    document: &'d Value,
    operation: &'d Value,
    wanted: &'d MockChoice<'d>,
}

impl MockedOperation<'_> {
    fn respond(&self, status: u16, response: &Value) -> Result<MockResponse, MockFault> {
        let response = self.resolve(response).ok_or(MockFault::NoResponse)?;
        let none = Map::new();
        let content = response.get("content").and_then(Value::as_object).unwrap_or(&none);
        let headers = self.headers(response.get("headers"))?;
        let mut mocked = MockResponse { status, media_type: String::new(), headers, body: Vec::new() };
        let Some((media_type, entry)) = self.negotiate(status, content)? else { return Ok(mocked) };
        let Some(value) = self.body(media_type, entry)? else { return Ok(mocked) };
        mocked.media_type = if media_type.contains('*') { ANY_TYPE } else { media_type }.to_owned();
        mocked.body = body_bytes(&value, &mocked.media_type);
        Ok(mocked)
    }

    /// The media type that the client prefers; nothing for a response without a body.
    fn negotiate<'c>(
        &self,
        status: u16,
        content: &'c Map<String, Value>,
    ) -> Result<Option<(&'c str, &'c Value)>, MockFault> {
        let available: Vec<&str> = content.keys().map(|name| &**name).collect();
        let accept = self.wanted.accept.filter(|accept| !accept.trim().is_empty());
        let found = match accept {
            None if content.contains_key("*/*") => available.iter().position(|name| *name == "*/*"),
            accept => best_media_type(accept.unwrap_or(ACCEPT_DEFAULT), &available),
        };
        let is_empty_allowed = status == 204 || accept.is_none_or(accepts_everything);
        match found.and_then(|index| content.iter().nth(index)) {
            Some((media_type, entry)) => Ok(Some((media_type, entry))),
            None if content.is_empty() || is_empty_allowed => Ok(None),
            None => Err(MockFault::NotAcceptable {
                available: available.iter().map(ToString::to_string).collect(),
            }),
        }
    }

    /// The value of the body: the example by name, a random value, the first example, or one of the schema.
    fn body(&self, media_type: &str, entry: &Value) -> Result<Option<Value>, MockFault> {
        let schema = entry.get("schema");
        if let Some(name) = self.wanted.example {
            let unknown =
                || MockFault::UnknownExample { name: name.to_owned(), media_type: media_type.to_owned() };
            let examples = self.examples(entry);
            let (_, value) = examples.into_iter().find(|(key, _)| *key == name).ok_or_else(unknown)?;
            return Ok(Some(value.clone()));
        }
        if self.wanted.dynamic {
            let schema = schema.ok_or_else(|| MockFault::NoSchema(media_type.to_owned()))?;
            return self.generated(schema, "the body").map(Some);
        }
        match (self.examples(entry).first(), schema) {
            (Some((_, value)), _) => Ok(Some((*value).clone())),
            (None, Some(schema)) => self.generated(schema, "the body").map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The examples of a media type or header; the one in `example` has the name `default`.
    fn examples<'v>(&'v self, entry: &'v Value) -> Vec<(&'v str, &'v Value)> {
        let single = entry.get("example").map(|value| ("default", value));
        let named = entry.get("examples").and_then(Value::as_object).into_iter().flatten();
        let named = named.filter_map(|(name, example)| Some((&**name, self.resolve(example)?.get("value")?)));
        single.into_iter().chain(named).collect()
    }

    fn generated(&self, schema: &Value, part: &str) -> Result<Value, MockFault> {
        let seed = self.wanted.dynamic.then(|| RandomState::new().build_hasher().finish());
        let made = ExampleMaker::new(self.document, seed).make_whole(schema);
        made.ok_or_else(|| MockFault::NoExample(part.to_owned()))
    }

    /// The fields of the response with their values. Objects, and values that no field can have, are left
    /// out.
    fn headers(&self, headers: Option<&Value>) -> Result<Vec<(String, String)>, MockFault> {
        let mut written = Vec::new();
        for (name, header) in headers.and_then(Value::as_object).into_iter().flatten() {
            let Some(header) = self.resolve(header) else { continue };
            let value = match (self.examples(header).first(), header.get("schema")) {
                (Some((_, value)), _) if !self.wanted.dynamic => (*value).clone(),
                (_, Some(schema)) => self.generated(schema, &format!("the header {name}"))?,
                _ => continue,
            };
            let is_of_body = ["content-type", "content-length", "transfer-encoding"];
            if let Some(value) = field_text(&value)
                && is_token(name)
                && !is_of_body.contains(&&*name.to_ascii_lowercase())
            {
                written.push((name.clone(), value));
            }
        }
        if self.operation.get("deprecated") == Some(&Value::Bool(true)) {
            written.push(("Deprecation".to_owned(), "true".to_owned()));
        }
        Ok(written)
    }

    /// Follows the references of a response, an example or a header.
    fn resolve<'v>(&'v self, value: &'v Value) -> Option<&'v Value> {
        let mut target = value;
        for _ in 0..HOPS_MAX {
            let Some(reference) = target.get("$ref").and_then(Value::as_str) else { return Some(target) };
            let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
            target = self.document.pointer(&pointer)?;
        }
        None
    }
}

/// The text of a value in a field of a response; lists are joined by commas.
fn field_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().filter(|item| !item.is_array()).filter_map(field_text).collect();
            items.join(",")
        }
        Value::Null | Value::Object(_) => return None,
    };
    let is_safe = text.chars().all(|character| !character.is_control());
    is_safe.then(|| text.trim().to_owned())
}

/// Whether the text can be the name of a field (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}
