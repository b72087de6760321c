//! Every listening socket of the instance. All are bound before anything else starts, so that an address in
//! use is found while there is nothing to undo. Sockets of a predecessor are taken over. Knows addresses, not
//! the protocols served on them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::Context;
use control::ControlListeners;
use model::report::ListenerReport;
use net::env::NEEDS_CAPABILITY;
use net::listener::{self, Application, Interception, Listener, ListenerSet, Protocols, WantedListener};

use super::lasting::Lasting;
use super::occupant::listening_on;
use super::upgrade::InheritedSocket;
use crate::settings::Settings;

/// Bound sockets, and their descriptions for the control side and a successor.
pub(super) struct Sockets {
    /// The sockets of the proxy, for the workers.
    pub(super) proxy: ListenerSet,
    /// The sockets of the control side.
    pub(super) control: ControlListeners,
    /// Name and address of each listener of the control side.
    pub(super) reports: Vec<ListenerReport>,
    /// Duplicates of the control side's sockets for a successor, each with its setting and the address
    /// written there.
    pub(super) spare: Vec<(&'static str, SocketAddr, TcpListener)>,
}

impl Sockets {
    /// The lines `listening NAME ADDR`, in the documented order.
    pub(super) fn lines(&self) -> Vec<String> {
        let proxy =
            self.proxy.iter().map(|listener| listening_line(find_setting_name(listener), listener.address()));
        let control = self.reports.iter().map(|report| listening_line(report.name, report.address));
        proxy.chain(control).collect()
    }
}

/// The line that announces a listener on standard output.
pub(super) fn listening_line(name: &str, address: SocketAddr) -> String {
    format!("listening {name} {address}")
}

/// The listeners of the proxy in the settings, those of layer 4 behind those of HTTP.
pub(super) fn wanted(settings: &Settings) -> Vec<WantedListener> {
    let of_setting = |((_, addresses), (_, protocols)): ((_, &[SocketAddr]), (_, Protocols))| {
        let one = |address: &SocketAddr| WantedListener {
            address: *address,
            protocols: protocols_at(settings, *address, protocols),
        };
        addresses.iter().map(one).collect::<Vec<_>>()
    };
    let lists = settings.proxy_listeners().into_iter().chain(settings.stream_listeners());
    lists.zip(PROXY_LISTENERS).flat_map(of_setting).collect()
}

/// The flags of the settings that name listeners of the proxy, with the protocols of their connections, in
/// the order of [`Settings::proxy_listeners`] and [`Settings::stream_listeners`].
const PROXY_LISTENERS: [(&str, Protocols); 10] = [
    ("proxy", Protocols::HTTP1),
    ("proxy-tls", Protocols::HTTPS1),
    ("proxy-tls-http3", Protocols::HTTPS_AND_HTTP3),
    ("proxy-protocol", Protocols::HTTP1.behind_proxy_protocol()),
    ("proxy-protocol-tls", Protocols::HTTPS1.behind_proxy_protocol()),
    ("stream-tcp", Protocols::TCP),
    ("stream-tls", Protocols::TLS),
    ("stream-proxy-protocol", Protocols::TCP.behind_proxy_protocol()),
    ("stream-proxy-protocol-tls", Protocols::TLS.behind_proxy_protocol()),
    ("stream-udp", Protocols::UDP),
];

/// The protocols of a list, with what the settings say of one address in it.
fn protocols_at(settings: &Settings, address: SocketAddr, protocols: Protocols) -> Protocols {
    let sends = protocols.application == Application::Stream && !protocols.udp;
    let proxy_protocol_to_nodes = sends && settings.stream_send_proxy_protocol.contains(&address);
    let takes = |list: &[SocketAddr]| sends && !protocols.proxy_protocol && list.contains(&address);
    let interception = if takes(&settings.stream_tproxy) {
        Interception::Tproxy
    } else if takes(&settings.stream_redirect) {
        Interception::Redirect
    } else {
        Interception::None
    };
    let is_optional = settings.proxy_protocol_optional.contains(&address);
    let proxy_protocol_optional = protocols.proxy_protocol && is_optional;
    Protocols { proxy_protocol_to_nodes, proxy_protocol_optional, interception, ..protocols }
}

/// The setting that a listener of the proxy comes from, as its line names it.
pub(super) fn find_setting_name(listener: &Listener) -> &'static str {
    name_for(listener.wanted().protocols)
}

fn name_for(protocols: Protocols) -> &'static str {
    let protocols = Protocols { interception: Interception::None, ..protocols.as_bound() };
    PROXY_LISTENERS.iter().find(|(_, known)| *known == protocols).map_or("proxy", |(name, _)| name)
}

/// Binds the addresses of the settings that are not among the `inherited` sockets. Inherited sockets that the
/// settings do not name are closed.
///
/// # Errors
/// The listener's name, its address and the error of the system.
pub(super) fn bind(settings: &Settings, mut inherited: Vec<InheritedSocket>) -> anyhow::Result<Sockets> {
    let adopted = adopt(&mut inherited, settings)?;
    let proxy = listener::bind_all(&adopted, &wanted(settings), settings.workers);
    let proxy = proxy.map_err(|fault| {
        if fault.in_the_way.is_some() {
            return anyhow::Error::msg(fault.to_string());
        }
        if is_not_allowed(&fault.cause) {
            return not_transparent(fault.address, fault.cause);
        }
        cannot_listen(name_for(fault.protocols), fault.address, fault.protocols.udp, fault.cause)
    })?;
    let (mut reports, mut spare) = (Vec::new(), Vec::new());
    let mut one = |name: &'static str, address: Option<SocketAddr>| -> anyhow::Result<Option<TcpListener>> {
        let Some(address) = address else { return Ok(None) };
        let listener = match take(&mut inherited, name, address) {
            Some(listener) => listener,
            None => TcpListener::bind(address).map_err(|cause| cannot_listen(name, address, false, cause))?,
        };
        spare.push((name, address, listener.try_clone()?));
        let protocols = match (name, &settings.admin_tls_cert) {
            ("admin", Some(_)) => vec!["tls", "http1"],
            _ => vec!["http1"],
        };
        reports.push(ListenerReport { name, address: listener.local_addr()?, protocols });
        Ok(Some(listener))
    };
    let control = ControlListeners {
        admin: one("admin", settings.admin)?,
        control: one("control", settings.control)?,
        status: one("status", settings.status)?,
        metrics: one("metrics", settings.metrics)?,
    };
    Ok(Sockets { proxy, control, reports, spare })
}

/// The name under which UDP sockets of HTTP/3 are handed over. A version that does not know it closes them.
pub(super) const DATAGRAMS: &str = "proxy-tls-http3/udp";

/// The proxy's listeners among the inherited sockets.
fn adopt(inherited: &mut Vec<InheritedSocket>, settings: &Settings) -> anyhow::Result<ListenerSet> {
    let mut datagrams: Vec<(SocketAddr, UdpSocket)> = Vec::new();
    for socket in inherited.extract_if(.., |socket| socket.name == DATAGRAMS) {
        let socket = UdpSocket::from(OwnedFd::from(socket.listener));
        datagrams.push((socket.local_addr()?, socket));
    }
    // TCP and UDP at the same address are two listeners, which differ in their protocols.
    let mut of_address: Vec<(SocketAddr, WantedListener, Vec<TcpListener>)> = Vec::new();
    for (name, protocols) in PROXY_LISTENERS {
        for socket in inherited.extract_if(.., |socket| socket.name == name) {
            let address = socket.listener.local_addr()?;
            let is_same = |(known, wanted, _): &&mut (SocketAddr, WantedListener, _)| {
                *known == address && wanted.protocols.udp == protocols.udp
            };
            match of_address.iter_mut().find(is_same) {
                Some((.., sockets)) => sockets.push(socket.listener),
                None => {
                    let protocols = protocols_at(settings, socket.asked, protocols);
                    let wanted = WantedListener { address: socket.asked, protocols };
                    of_address.push((address, wanted, vec![socket.listener]));
                }
            }
        }
    }
    let listener = |(address, wanted, sockets): (SocketAddr, WantedListener, Vec<TcpListener>)| {
        let (sockets, own) = match wanted.protocols.udp {
            true => (Vec::new(), sockets.into_iter().map(|socket| OwnedFd::from(socket).into()).collect()),
            false => {
                let own = datagrams.extract_if(.., |(known, _)| *known == address);
                (sockets, own.map(|(_, socket)| socket).collect())
            }
        };
        Listener::adopt(wanted, sockets, own, settings.workers)
            .map(Arc::new)
            .context("cannot take over the proxy's sockets")
    };
    of_address.into_iter().map(listener).collect()
}

/// The inherited socket of the setting `name`, if it has this address.
fn take(inherited: &mut Vec<InheritedSocket>, name: &str, address: SocketAddr) -> Option<TcpListener> {
    let is_it = |socket: &InheritedSocket| {
        let real = socket.listener.local_addr().ok();
        socket.name == name && (socket.asked == address || real == Some(address))
    };
    let index = inherited.iter().position(is_it)?;
    Some(inherited.remove(index).listener)
}

/// The error of an address that cannot be listened on, with the flag and the setting that name it.
fn cannot_listen(name: &str, address: SocketAddr, is_udp: bool, cause: io::Error) -> anyhow::Error {
    let setting = name.replace('-', "_");
    let advice = format!("give another address with `--{name}` (`{setting}` in the settings file)");
    match cause.kind() {
        ErrorKind::AddrInUse => {
            let command = if is_udp { "ss -lunp" } else { "ss -ltnp" };
            let other = match listening_on(address, is_udp) {
                Some(process) => format!("{process}, which listens there"),
                None => format!("the process that listens there (`{command}` as root names it)"),
            };
            anyhow::Error::new(cause)
                .context(format!("cannot listen on {address}; {advice}, or stop {other}"))
        }
        ErrorKind::PermissionDenied => {
            let message = format!(
                "cannot listen on {address}: ports below 1024 need the capability CAP_NET_BIND_SERVICE; {LOW_PORTS}, or {advice}"
            );
            anyhow::Error::new(cause).context(Lasting(message))
        }
        _ => anyhow::Error::new(cause).context(format!("cannot listen on {address}; {advice}")),
    }
}

/// Whether the capability for intercepted connections is missing, and not the one for low ports.
fn is_not_allowed(cause: &io::Error) -> bool {
    cause.kind() == ErrorKind::PermissionDenied && cause.to_string() == NEEDS_CAPABILITY
}

/// The error of a listener for TPROXY without the capability.
fn not_transparent(address: SocketAddr, cause: io::Error) -> anyhow::Error {
    let message = format!(
        "cannot take connections to other destinations at {address} (`stream_tproxy` in the settings file); {TRANSPARENT}, or name \
         it in `stream_redirect`, which needs no capability, with a REDIRECT rule"
    );
    anyhow::Error::new(cause).context(Lasting(message))
}

/// How the unit of the packages gets the capability for intercepted connections.
const TRANSPARENT: &str = "for weir.service copy /usr/share/doc/weir/examples/transparent.conf into \
                           /etc/systemd/system/weir.service.d/, then run `systemctl daemon-reload` and `systemctl restart weir`";

/// How the unit of the packages gets that capability.
const LOW_PORTS: &str = "for weir.service copy /usr/share/doc/weir/examples/low-ports.conf into \
                         /etc/systemd/system/weir.service.d/, then run `systemctl daemon-reload` and `systemctl restart weir`";
