//! `weir lab echo`: runs the origin of layer 4, for measurements and to try a gateway with.

use std::net::SocketAddr;
use std::process::ExitCode;

use crate::echo;
use crate::terminal::print_line;

/// Arguments of `weir lab echo`.
#[derive(Clone, Debug, clap::Args)]
pub struct EchoArguments {
    /// Where to listen, for TCP and UDP; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until the process is stopped.
pub fn execute_lab_echo(arguments: &EchoArguments) -> anyhow::Result<ExitCode> {
    let running = echo::start_echo(arguments.listen)?;
    print_line(format_args!("listening echo {}\nready", running.address));
    running.join()?;
    Ok(ExitCode::SUCCESS)
}
