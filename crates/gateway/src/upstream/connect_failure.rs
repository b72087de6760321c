//! Why a connection could not be opened, and whether that is this machine's fault.

use std::io;

use exchange::failure::{Cause, ExchangeFailure};
use net::tls;
use net::tls::failure::TlsFault;

/// The failure of a connection that took too long, in its TLS handshake or before.
#[cold]
pub(crate) fn connect_timeout_failure(is_in_handshake: bool) -> ExchangeFailure {
    let detail = if is_in_handshake {
        "it did not complete the TLS handshake in time"
    } else {
        "it did not accept the connection in time"
    };
    ExchangeFailure::new(Cause::ConnectTimeout, detail)
}

/// The failure of a TLS handshake.
#[cold]
pub(super) fn tls_failure(error: &io::Error) -> ExchangeFailure {
    let (fault, detail) = tls::failure::of_handshake(error);
    let cause = match fault {
        TlsFault::Certificate => Cause::CertificateRefused,
        TlsFault::Handshake => Cause::TlsFailed,
        TlsFault::Closed => Cause::TlsClosed,
    };
    ExchangeFailure::new(cause, detail)
}

/// The cause of a failed connection attempt: this machine's when it has no descriptor or port left.
pub(crate) fn connect_cause(error: &io::Error) -> Cause {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    const ENOBUFS: i32 = 105;
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory, _) => Cause::NoResources,
        (_, Some(EMFILE | ENFILE | ENOBUFS)) => Cause::NoResources,
        (io::ErrorKind::TimedOut, _) => Cause::ConnectTimeout,
        // Not errors of the connection: a source that the process must not use, or of another family than the
        // node.
        (io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput, None) => Cause::FaultyConfiguration,
        _ => Cause::ConnectFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_shortage_is_not_the_endpoints_fault() {
        let check = |code: i32, cause: Cause| {
            assert_eq!(connect_cause(&io::Error::from_raw_os_error(code)), cause, "error {code}");
        };
        // EMFILE, ENFILE, ENOBUFS, ENOMEM; and EADDRNOTAVAIL, when all local ports are in use.
        [24, 23, 105, 12, 99].into_iter().for_each(|code| check(code, Cause::NoResources));
        // ECONNREFUSED, EHOSTUNREACH, ECONNRESET; ETIMEDOUT.
        [111, 113, 104].into_iter().for_each(|code| check(code, Cause::ConnectFailed));
        check(110, Cause::ConnectTimeout);
        // EPERM is a firewall; without a number it is the missing capability.
        check(1, Cause::ConnectFailed);
        let missing = io::Error::new(io::ErrorKind::PermissionDenied, net::env::NEEDS_CAPABILITY);
        assert_eq!(connect_cause(&missing), Cause::FaultyConfiguration);
    }
}
