//! TLS of a blocking client: what commands use to reach an Admin API that is served over HTTPS. It does not
//! know what is asked.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

use crate::tls::{Trust, add_roots_of, add_system_roots, crypto_provider, presenting_identity, verifying_by};

/// How a client checks the server, and what it presents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Authorities that are trusted (PEM); none means those of the system.
    pub ca: Option<PathBuf>,
    /// The server's own certificate (PEM), where it is known: it is trusted whatever its name and issuer are.
    pub pinned: Option<PathBuf>,
    /// Certificate and private key (PEM) that are presented to the server.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate must have.
    pub server_name: String,
}

/// Bytes both ways.
pub trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

impl ClientFiles {
    /// Speaks TLS over `stream`; the handshake is done when this returns.
    ///
    /// # Errors
    /// A file that cannot be used, or a server that is not trusted or refuses; the message says which.
    pub fn wrap(&self, stream: TcpStream) -> io::Result<Box<dyn ReadWrite>> {
        let config = self.config().map_err(io::Error::other)?;
        let name = ServerName::try_from(self.server_name.clone()).map_err(|fault| {
            io::Error::other(format!("`{}` is no server name: {fault}", self.server_name))
        })?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Box::new(stream))
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let pinned = match &self.pinned {
            Some(path) => Some(
                CertificateDer::from_pem_file(path)
                    .map_err(|fault| format!("{}: {fault}", path.display()))?,
            ),
            None => None,
        };
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(ca) => add_roots_of(&mut roots, ca)?,
            // A system without roots is no fault where the server's own certificate is known.
            None if pinned.is_some() => drop(add_system_roots(&mut roots)),
            None => add_system_roots(&mut roots)?,
        }
        // Without roots there is no verifier, and only the pinned certificate is trusted.
        let by_roots =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto_provider()).build();
        presenting_identity(verifying_by(Trust::Pinned(pinned, by_roots.ok()))?, self.identity.as_ref())
    }
}
