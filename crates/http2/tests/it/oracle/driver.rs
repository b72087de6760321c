//! Drives a connection over a pipe, as the gateway does over a socket.

use http2::{Connection, Event};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// The work of streams on their events.
pub(crate) trait App {
    /// Works on one event.
    fn event(&mut self, connection: &mut Connection, event: Event);
    /// Whether the driver may stop once the output was written.
    fn is_done(&self, connection: &Connection) -> bool;
}

/// Runs a connection until the app is done or the peer has closed.
pub(crate) async fn drive(connection: &mut Connection, pipe: &mut DuplexStream, app: &mut impl App) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        work(connection, app);
        while !connection.output().is_empty() {
            let Ok(count) = pipe.write(connection.output()).await else { return };
            connection.advance(count);
            work(connection, app);
        }
        if app.is_done(connection) {
            return;
        }
        let count = pipe.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            connection.connection_lost();
            return work(connection, app);
        }
        // The time stands still: rates that ordinary peers reach in ten seconds are not reached here either.
        if let Err(error) = connection.receive(&buffer[..count], 0) {
            panic!("the peer is faulty: {error}");
        }
    }
}

/// Drains the events until a call returns none at once.
fn work(connection: &mut Connection, app: &mut impl App) {
    loop {
        let mut has_worked = false;
        while let Some(event) = connection.next_event() {
            app.event(connection, event);
            has_worked = true;
        }
        if !has_worked {
            return;
        }
    }
}
