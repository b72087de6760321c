//! Responses made by the gateway itself.

use std::borrow::Cow;
use std::task::{Context, Poll};

use serde_json::Value;

/// The status of a reply that is not sent: the connection is closed, or the stream reset, without an answer.
/// The number is nginx's, for which plugins and functions of users are written.
pub const NO_ANSWER: u16 = 444;

/// An answer made by the gateway itself.
#[derive(Clone, Debug, Default)]
pub struct BufferedReply {
    /// The status code.
    pub status: u16,
    /// Fields besides Content-Length, Date and Server, which are added when it is sent.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// The body.
    pub body: Cow<'static, [u8]>,
    /// Whether a plugin that tries several others in turn, such as `multi-auth`, sends this reply instead of
    /// trying the next one: the request is ambiguous, so that no method may accept it.
    pub is_final: bool,
}

impl BufferedReply {
    /// A status with no body.
    pub fn status(status: u16) -> BufferedReply {
        BufferedReply { status, ..BufferedReply::default() }
    }

    /// A JSON body, closed by a newline as the contract's answers are (contract section 2.1).
    pub fn json(status: u16, body: &Value) -> BufferedReply {
        BufferedReply::status(status)
            .with_header("Content-Type", "application/json")
            .with_body(format!("{body}\n").into_bytes())
    }

    /// `{"message": text}`, the shape of the stock plugins' refusals (contract section 2.5).
    pub fn message(status: u16, text: &str) -> BufferedReply {
        BufferedReply::json(status, &serde_json::json!({ "message": text }))
    }

    /// Adds a field.
    #[must_use]
    pub fn with_header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> BufferedReply {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Makes the reply final, see [`BufferedReply::is_final`].
    #[must_use]
    pub fn into_final(mut self) -> BufferedReply {
        self.is_final = true;
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Cow<'static, [u8]>>) -> BufferedReply {
        self.body = body.into();
        self
    }
}

/// A reply with a body that comes piece by piece, at the pace of the client.
pub struct StreamedReply {
    /// Status and fields. A body in it is not sent.
    pub head: BufferedReply,
    /// The body.
    pub body: Box<dyn ReplyStream>,
}

/// The pieces of a streamed body. They are asked for only while the client takes bytes.
pub trait ReplyStream {
    /// The next piece; none at the end. After an error the response is cut, so that the client can tell; the
    /// error is a sentence for the log.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, String>>>;
}
