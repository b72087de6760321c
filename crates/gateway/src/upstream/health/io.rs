//! Reads and writes of a check that owns its connection.

use std::future::poll_fn;
use std::io;

use net::transport::Transport;

/// Bytes read at once.
const READ_BYTES: usize = 4 * 1024;

/// Writes all of `bytes`.
pub(super) async fn write_all_bytes(transport: &mut Transport, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|cx| transport.poll_write(cx, bytes)).await?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Reads what has come behind `input`; 0 at the end of the connection.
pub(super) async fn read_some(transport: &mut Transport, input: &mut Vec<u8>) -> io::Result<usize> {
    let mut bytes = [0; READ_BYTES];
    let count = poll_fn(|cx| transport.poll_read(cx, &mut bytes)).await?;
    input.extend_from_slice(&bytes[..count]);
    Ok(count)
}
