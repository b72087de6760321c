//! Frames: a byte with the type of the message, three bytes with its length, the message. It knows no
//! message.

use super::error::CallError;

/// Bytes in front of a message.
pub(super) const HEAD_BYTES: usize = 4;
/// The longest message: its length has three bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = (1 << 24) - 1;

/// An error of the runner, in place of an answer.
pub(super) const ERROR: u8 = 0;
/// A configuration for a token.
pub(super) const PREPARE_CONF: u8 = 1;
/// A request that plugins see.
pub(super) const REQUEST_CALL: u8 = 2;
/// A question of the runner, or the answer.
pub(super) const EXTRA_INFO: u8 = 3;
/// A response that plugins see.
pub(super) const RESPONSE_CALL: u8 = 4;

/// Begins a frame in `buffer`, which is emptied; [`finish_frame`] writes its head.
pub(super) fn begin_frame(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(&[0; HEAD_BYTES]);
}

/// Writes the head of the frame in `buffer`.
///
/// # Errors
/// The message is longer than a frame can be.
pub(super) fn finish_frame(buffer: &mut [u8], kind: u8) -> Result<(), CallError> {
    let length = buffer.len() - HEAD_BYTES;
    if length > MESSAGE_BYTES_MAX {
        return Err(CallError::TooLong(length));
    }
    let length = (length as u32).to_be_bytes();
    buffer[..HEAD_BYTES].copy_from_slice(&[kind, length[1], length[2], length[3]]);
    Ok(())
}

/// The type of a frame and the bytes of the whole frame; none while the head is incomplete.
pub(super) fn parse_frame_head(buffer: &[u8]) -> Option<(u8, usize)> {
    let [kind, high, middle, low] = *buffer.first_chunk::<HEAD_BYTES>()?;
    let length = u32::from_be_bytes([0, high, middle, low]) as usize;
    Some((kind, HEAD_BYTES + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_has_type_and_length() {
        let mut buffer = vec![9; 3];
        begin_frame(&mut buffer);
        buffer.resize(HEAD_BYTES + 0x01_02_03, 0);
        finish_frame(&mut buffer, REQUEST_CALL).unwrap();
        assert_eq!(buffer[..HEAD_BYTES], [2, 1, 2, 3]);
        assert_eq!(parse_frame_head(&buffer), Some((2, HEAD_BYTES + 0x01_02_03)));
        assert_eq!(parse_frame_head(&buffer[..3]), None);
        buffer.resize(HEAD_BYTES + MESSAGE_BYTES_MAX + 1, 0);
        assert!(finish_frame(&mut buffer, 1).is_err());
    }
}
