//! Every listening socket of the node, bound before anything else starts: an address in use is found while there is
//! nothing to undo. Knows addresses, not what is served on them.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;
use control::Listeners;
use gateway::listener::{self, Listening};

use crate::settings::Settings;

/// Bound sockets, and the lines that announce them.
pub(super) struct Sockets {
    /// For each worker, the sockets it accepts on.
    pub(super) proxy: Vec<Vec<Listening>>,
    /// The control side's.
    pub(super) control: Listeners,
    /// `listening NAME ADDR`, in the documented order.
    pub(super) lines: Vec<String>,
}

/// Binds what the settings ask for.
///
/// # Errors
/// The listener's name, its address and the system's reason.
pub(super) fn bind(settings: &Settings) -> anyhow::Result<Sockets> {
    let mut lines = Vec::new();
    let mut proxy: Vec<Vec<Listening>> = (0..settings.workers).map(|_| Vec::new()).collect();
    for address in &settings.proxy {
        let sockets =
            listener::bind(*address, settings.workers).with_context(|| cannot_listen("proxy", *address))?;
        lines.push(format!("listening proxy {}", sockets[0].address));
        for (worker, socket) in proxy.iter_mut().zip(sockets) {
            worker.push(socket);
        }
    }
    let mut one = |name: &'static str, address: Option<SocketAddr>| -> anyhow::Result<Option<TcpListener>> {
        let Some(address) = address else { return Ok(None) };
        let listener = TcpListener::bind(address).with_context(|| cannot_listen(name, address))?;
        lines.push(format!("listening {name} {}", listener.local_addr()?));
        Ok(Some(listener))
    };
    let control = Listeners {
        admin: one("admin", settings.admin)?,
        control: one("control", settings.control)?,
        status: one("status", settings.status)?,
        metrics: one("metrics", settings.metrics)?,
    };
    Ok(Sockets { proxy, control, lines })
}

fn cannot_listen(name: &str, address: SocketAddr) -> String {
    format!("cannot listen on {address}; give another address with `--{name}`, or stop what uses it")
}
