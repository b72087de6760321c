//! `weir lab forwarder`: runs one form of the thread-model study, as a contender beside the others.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::anyhow;

use crate::forwarder::{Buffers, ForwarderSettings, Layer, Model, start_forwarder};
use crate::terminal::print_line;

/// Arguments of `weir lab forwarder`.
#[derive(Clone, Debug, clap::Args)]
pub struct ForwarderArguments {
    /// The layer at which bytes are forwarded
    #[arg(long, value_name = "4|7", default_value = "7")]
    layer: Layer,
    /// Where the connection to the origin lives
    #[arg(long, value_name = "MODEL", default_value = "same-loop")]
    model: Model,
    /// Event loops; with separate pools as many again for the origin's side
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where to forward to
    #[arg(long, value_name = "ADDR")]
    origin: SocketAddr,
    /// Where the memory of read buffers comes from
    #[arg(long, value_name = "KIND", default_value = "pooled")]
    buffers: Buffers,
}

/// Forwards until the process is stopped.
pub fn execute_lab_forwarder(arguments: &ForwarderArguments) -> anyhow::Result<ExitCode> {
    let running = start_forwarder(ForwarderSettings {
        layer: arguments.layer,
        model: arguments.model,
        workers: usize::from(arguments.workers),
        listen: arguments.listen,
        origin: arguments.origin,
        buffers: arguments.buffers,
    })?;
    print_line(format_args!("listening forwarder {}\nready", running.address));
    for thread in running.threads {
        thread.join().map_err(|_| anyhow!("an event loop of the forwarder panicked"))??;
    }
    Ok(ExitCode::SUCCESS)
}
