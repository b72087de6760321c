//! TLS on both sides, on rustls with the cryptography of aws-lc-rs: the only module of the data plane that
//! names either. `stream` carries bytes, `server` chooses certificates and policies for clients, `client`
//! speaks to endpoints with an `identity` and `roots`, `failure` words what went wrong, `facts` tells what
//! was agreed. It knows no HTTP and no configuration format.
//!
//! Bulk traffic depends on the C library: glibc before 2.39 copies pieces of some KiB with `rep movsb`, which
//! is slow on Zen 3 and 4 and costs more than the cipher. `weir run` sets the tunable that cures it
//! (docs/decisions/0038-quick-copies.md).

pub mod certificate;
pub mod client;
pub mod facts;
pub mod failure;
pub mod identity;
mod ja4;
pub mod live_roots;
pub mod names;
pub mod roots;
pub mod server;
mod stream;
mod wall_clock;

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;

pub use rustls_pki_types::CertificateDer;
pub use stream::TlsStream;

/// The library that does the cryptography, with all of its suites and groups in its order of preference.
pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}
