//! Every listening socket of the node, bound before anything else starts: an address in use is found while there is
//! nothing to undo. Knows addresses, not what is served on them.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;
use control::Listeners;
use gateway::listener::{self, ListenFault, ListenerSet, Protocols, Wanted};
use model::report::ListenerReport;

use crate::settings::Settings;

/// Bound sockets, and what they are to others.
pub(super) struct Sockets {
    /// The workers'.
    pub(super) proxy: ListenerSet,
    /// The control side's.
    pub(super) control: Listeners,
    /// What the control side listens on.
    pub(super) reports: Vec<ListenerReport>,
}

impl Sockets {
    /// `listening NAME ADDR`, in the documented order.
    pub(super) fn lines(&self) -> Vec<String> {
        let proxy = self.proxy.iter().map(|listener| listening_line("proxy", listener.address()));
        let control = self.reports.iter().map(|report| listening_line(report.name, report.address));
        proxy.chain(control).collect()
    }
}

/// The line that announces a listener on standard output.
pub(super) fn listening_line(name: &str, address: SocketAddr) -> String {
    format!("listening {name} {address}")
}

/// The proxy's listeners, as the settings ask for them.
pub(super) fn wanted(settings: &Settings) -> Vec<Wanted> {
    let plain = |address: &SocketAddr| Wanted { address: *address, protocols: Protocols::HTTP1 };
    settings.proxy.iter().map(plain).collect()
}

/// Binds what the settings ask for.
///
/// # Errors
/// The listener's name, its address and the system's reason.
pub(super) fn bind(settings: &Settings) -> anyhow::Result<Sockets> {
    let proxy = listener::bind_all(&wanted(settings), settings.workers);
    let proxy = proxy.map_err(|ListenFault { address, cause, .. }| {
        anyhow::Error::new(cause).context(cannot_listen("proxy", address))
    })?;
    let mut reports = Vec::new();
    let mut one = |name: &'static str, address: Option<SocketAddr>| -> anyhow::Result<Option<TcpListener>> {
        let Some(address) = address else { return Ok(None) };
        let listener = TcpListener::bind(address).with_context(|| cannot_listen(name, address))?;
        reports.push(ListenerReport { name, address: listener.local_addr()?, protocols: vec!["http1"] });
        Ok(Some(listener))
    };
    let control = Listeners {
        admin: one("admin", settings.admin)?,
        control: one("control", settings.control)?,
        status: one("status", settings.status)?,
        metrics: one("metrics", settings.metrics)?,
    };
    Ok(Sockets { proxy, control, reports })
}

fn cannot_listen(name: &str, address: SocketAddr) -> String {
    format!("cannot listen on {address}; give another address with `--{name}`, or stop what uses it")
}
