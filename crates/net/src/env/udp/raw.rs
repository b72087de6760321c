//! The calls that move several datagrams at once (recvmmsg(2), sendmmsg(2)), with the address that a datagram
//! came to (ip(7), `IP_PKTINFO`) and the segments that the kernel has put together or is to cut (udp(7),
//! `UDP_GRO`, `UDP_SEGMENT`). It knows no session.

use std::io;
use std::mem::{self, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Words of eight bytes for the control messages of one datagram: an address of IPv6 takes 40 bytes, the
/// length of segments 24.
const CONTROL_WORDS: usize = 10;
/// Its size in bytes.
const CONTROL_BYTES: usize = CONTROL_WORDS * size_of::<u64>();

/// An address as the kernel reads and writes it.
#[derive(Clone, Copy)]
#[repr(C)]
union RawAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// The memory that one datagram of a call points to.
#[derive(Clone, Copy)]
struct Room {
    address: RawAddress,
    control: [u64; CONTROL_WORDS],
    vector: libc::iovec,
}

/// The headers of one call; made once and used for many calls, because each has as many as a batch has
/// datagrams.
pub(super) struct Messages<const COUNT: usize> {
    headers: [libc::mmsghdr; COUNT],
    rooms: [Room; COUNT],
}

/// A datagram, or several of one sender that the kernel has put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    /// Bytes of all of them.
    pub(super) length: usize,
    /// Bytes of each but the last, where there are several; else 0.
    pub(super) segment_bytes: u16,
    /// The sender; none if the socket is connected.
    pub(super) peer: Option<SocketAddr>,
    /// The address that it was sent to, where the socket asks for it.
    pub(super) local: Option<IpAddr>,
    /// It was longer than its room, or has an address of another family.
    pub(super) is_cut: bool,
}

/// A datagram to send, or several of the same length to one receiver.
#[derive(Clone, Copy)]
pub(super) struct OutgoingDatagram<'a> {
    pub(super) bytes: &'a [u8],
    /// Bytes of each but the last, where there are several; else 0.
    pub(super) segment_bytes: u16,
    /// The receiver; none if the socket is connected.
    pub(super) peer: Option<SocketAddr>,
    /// The address that it is sent from; none for the socket's.
    pub(super) local: Option<IpAddr>,
}

impl<const COUNT: usize> Messages<COUNT> {
    pub(super) fn new() -> Box<Messages<COUNT>> {
        // SAFETY: numbers and null pointers of C, for which zeros are valid values.
        #[allow(unsafe_code)]
        let messages = unsafe { mem::zeroed() };
        Box::new(messages)
    }

    /// Receives as many datagrams as have arrived and as there are `slots`, each into one; how many there
    /// were. The kernel is asked for their senders where those are not known.
    ///
    /// # Errors
    /// The kernel's: none has arrived (`EAGAIN`), or an error that a node has answered with by ICMP.
    pub(super) fn receive<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        slots: impl Iterator<Item = &'a mut [u8]>,
        wants_peers: bool,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (slot, (header, room)) in slots.zip(self.headers.iter_mut().zip(&mut self.rooms)) {
            room.vector = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            let message = &mut header.msg_hdr;
            (message.msg_name, message.msg_namelen) = match wants_peers {
                true => ((&raw mut room.address).cast(), size_of::<RawAddress>() as libc::socklen_t),
                false => (ptr::null_mut(), 0),
            };
            message.msg_iov = &raw mut room.vector;
            message.msg_iovlen = 1;
            message.msg_control = room.control.as_mut_ptr().cast();
            message.msg_controllen = CONTROL_BYTES as _;
            message.msg_flags = 0;
            count += 1;
        }
        // SAFETY: the first `count` headers were just filled: each points to a slot, an address or none, and
        // a control buffer of its own that live until the end of the call, with their lengths; no time limit
        // is given.
        #[allow(unsafe_code)]
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    /// The datagram at `index` of those that the last call of [`Messages::receive`] has received.
    pub(super) fn received(&self, index: usize) -> Received {
        let (header, room) = (&self.headers[index], &self.rooms[index]);
        let message = &header.msg_hdr;
        let mut received = Received {
            length: header.msg_len as usize,
            segment_bytes: 0,
            peer: None,
            local: None,
            is_cut: message.msg_flags & libc::MSG_TRUNC != 0,
        };
        if message.msg_namelen > 0 {
            received.peer = room.address.read();
            received.is_cut |= received.peer.is_none();
        }
        // SAFETY: the kernel has filled the control buffer with whole control messages and set its length;
        // the macros of libc stay within that length, and each value is read only from a message of its kind
        // and size.
        #[allow(unsafe_code)]
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(message);
            while !at.is_null() {
                let data = libc::CMSG_DATA(at);
                match ((*at).cmsg_level, (*at).cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        let info = ptr::read_unaligned(data.cast::<libc::in_pktinfo>());
                        received.local = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let info = ptr::read_unaligned(data.cast::<libc::in6_pktinfo>());
                        received.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let bytes = ptr::read_unaligned(data.cast::<libc::c_int>());
                        let bytes = u16::try_from(bytes).unwrap_or(0);
                        received.segment_bytes = if usize::from(bytes) < received.length { bytes } else { 0 };
                    }
                    _ => {}
                }
                at = libc::CMSG_NXTHDR(message, at);
            }
        }
        received
    }

    /// Sends datagrams; how many the kernel has taken. The rest has to be given again, without the first one
    /// if that failed.
    ///
    /// # Errors
    /// The kernel's, of the first datagram.
    pub(super) fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: impl Iterator<Item = OutgoingDatagram<'a>>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (datagram, (header, room)) in datagrams.zip(self.headers.iter_mut().zip(&mut self.rooms)) {
            let bytes = datagram.bytes;
            room.vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let message = &mut header.msg_hdr;
            message.msg_namelen = datagram.peer.map_or(0, |peer| room.address.write(peer));
            message.msg_name = match datagram.peer {
                Some(_) => (&raw mut room.address).cast(),
                None => ptr::null_mut(),
            };
            message.msg_iov = &raw mut room.vector;
            message.msg_iovlen = 1;
            let control_bytes = write_control(&mut room.control, datagram.local, datagram.segment_bytes);
            message.msg_controllen = control_bytes as _;
            message.msg_control =
                if control_bytes > 0 { room.control.as_mut_ptr().cast() } else { ptr::null_mut() };
            message.msg_flags = 0;
            count += 1;
        }
        // SAFETY: the first `count` headers were just filled: each points to bytes, an address and a control
        // buffer that live until the end of the call, with their lengths; the kernel only reads them.
        #[allow(unsafe_code)]
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

impl RawAddress {
    /// Writes the address; its length.
    fn write(&mut self, address: SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(address) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(address) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }

    /// The address; none for another family.
    fn read(&self) -> Option<SocketAddr> {
        // SAFETY: every bit pattern is a valid value of both forms, and both begin with the family.
        #[allow(unsafe_code)]
        let (family, v4, v6) = unsafe { (self.v4.sin_family, self.v4, self.v6) };
        match libc::c_int::from(family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

/// Writes the control messages of a datagram; their length.
fn write_control(control: &mut [u64; CONTROL_WORDS], local: Option<IpAddr>, segment_bytes: u16) -> usize {
    let mut used = 0;
    match local {
        None => {}
        Some(IpAddr::V4(address)) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from(address).to_be() },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            push(control, &mut used, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        Some(IpAddr::V6(address)) => {
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr { s6_addr: address.octets() },
                ipi6_ifindex: 0,
            };
            push(control, &mut used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
    }
    if segment_bytes > 0 {
        push(control, &mut used, libc::SOL_UDP, libc::UDP_SEGMENT, segment_bytes);
    }
    used
}

/// Appends one control message.
fn push<T: Copy>(
    control: &mut [u64; CONTROL_WORDS],
    used: &mut usize,
    level: libc::c_int,
    kind: libc::c_int,
    value: T,
) {
    let size = size_of::<T>() as libc::c_uint;
    // SAFETY: `CMSG_SPACE` and `CMSG_LEN` only compute. The header is written at a multiple of eight bytes,
    // which is its alignment, and the assertion keeps it and its value inside of the buffer.
    #[allow(unsafe_code)]
    unsafe {
        let space = libc::CMSG_SPACE(size) as usize;
        assert!(*used + space <= CONTROL_BYTES, "the buffer has room for both messages");
        let header = control.as_mut_ptr().cast::<u8>().add(*used).cast::<libc::cmsghdr>();
        (*header).cmsg_len = libc::CMSG_LEN(size) as _;
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<T>(), value);
        *used += space;
    }
}

/// Turns an option of a socket on or off.
///
/// # Errors
/// The kernel's: it does not know the option.
pub(super) fn turn(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    is_on: bool,
) -> io::Result<()> {
    let value = libc::c_int::from(is_on);
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads one C integer, which is what it is given.
    #[allow(unsafe_code)]
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
