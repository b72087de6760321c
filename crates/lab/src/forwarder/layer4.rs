//! Layer 4: copies a client's bytes to a connection of its own, and back. It does not interpret them.

use std::io;

use super::link::{LinkReader, LinkWriter};
use super::loops::Loops;

/// Serves one client. The end of one direction is forwarded and leaves the other open; a fault ends both.
pub(super) async fn serve_layer4(
    client: (LinkReader, LinkWriter),
    me: usize,
    loops: &Loops,
) -> io::Result<()> {
    let (from_client, to_client) = client;
    let (from_origin, to_origin) = loops.connect(loops.place(me)).await?;
    tokio::try_join!(copy(from_client, to_origin), copy(from_origin, to_client))?;
    Ok(())
}

async fn copy(mut from: LinkReader, mut to: LinkWriter) -> io::Result<()> {
    while let Some(piece) = from.read().await? {
        to.write(piece).await?;
    }
    to.finish().await
}
