//! The coding of a response body on its way to the client (RFC 9110 section 8.4.1), behind every plugin that
//! sees or edits the body. It knows no coding and no plugin.

/// Codes one response body. A plugin makes it in [`Plugin::encoder`](super::Plugin::encoder); the exchange
/// drops it with its response, complete or not.
pub trait BodyEncoder {
    /// Takes the next piece of the body and appends to `coded` as much of its coded form as is ready.
    ///
    /// # Errors
    /// When the body cannot be coded. The response is cut then, because its client expects the coding.
    fn piece(&mut self, piece: &[u8], coded: &mut Vec<u8>) -> Result<(), EncoderFailed>;

    /// The upstream has nothing more at hand: an encoder of a stream appends everything that it holds back,
    /// so that a client can decode all pieces so far. It appends nothing if there was no piece since the last
    /// call.
    ///
    /// # Errors
    /// As for [`BodyEncoder::piece`].
    fn flush(&mut self, coded: &mut Vec<u8>) -> Result<(), EncoderFailed>;

    /// Ends the body and appends the rest of its coded form.
    ///
    /// # Errors
    /// As for [`BodyEncoder::piece`].
    fn end(&mut self, coded: &mut Vec<u8>) -> Result<(), EncoderFailed>;
}

/// A body cannot be coded; the text tells the log why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderFailed(pub &'static str);
