//! Responses that a plugin has stored: how one is sent in place of an upstream's, and how a plugin gets a
//! copy of a body on its way to the client. It knows no cache.

use bytes::Bytes;

use super::reply::ReplyStream;

/// A stored response. Its status and fields are those of [`Exchange::response`](crate::Exchange::response),
/// which the plugin has set before: fields are copied once, and a hit builds no list of them. The response
/// phases and the log run as for any other response.
pub struct StoredReply {
    /// The bytes of the body; for a response to HEAD, those that GET would bring.
    pub length: u64,
    /// The body.
    pub body: StoredBody,
}

/// The body of a stored response.
pub enum StoredBody {
    /// In memory, shared with the store.
    Whole(Bytes),
    /// Read while it is sent.
    Stream(Box<dyn ReplyStream>),
}

/// Gets a copy of the body of an upstream's response, before plugins edit it. It must not wait: the bytes are
/// on their way to the client. Dropped without [`BodyTap::end`], the response was cut.
pub trait BodyTap {
    /// The next bytes. False: no more are wanted.
    fn piece(&mut self, bytes: &[u8]) -> bool;
    /// The response is complete.
    fn end(self: Box<Self>);
}
