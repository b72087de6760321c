//! TLS to registries: the certificates that are trusted, and the one that the gateway presents. Files are
//! read at each connection, so that a renewed certificate is used without a restart.

use std::path::PathBuf;
use std::sync::Arc;

use outbound::tls::{Trust, presenting_identity, trusting_authorities, verifying_by};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

/// The `tls` part of a block.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct TlsSettings {
    /// Authorities (PEM); none: those of the system.
    pub(crate) ca: Option<PathBuf>,
    /// The certificate (PEM, its chain behind it) that is presented.
    pub(crate) cert: Option<PathBuf>,
    /// The private key (PEM) of that certificate.
    pub(crate) key: Option<PathBuf>,
    /// Whether the server's certificate is verified.
    pub(crate) verify: bool,
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings { ca: None, cert: None, key: None, verify: true }
    }
}

impl TlsSettings {
    /// The JSON Schema of this part.
    pub(crate) fn schema() -> Value {
        json!({
            "type": "object",
            "description": "TLS, for servers with https.",
            "properties": {
                "ca": {"type": "string", "minLength": 1, "description": "File of trusted authorities (PEM); without it, those of the system."},
                "cert": {"type": "string", "minLength": 1, "description": "File of the certificate (PEM) that the gateway presents."},
                "key": {"type": "string", "minLength": 1, "description": "File of the private key (PEM) of that certificate."},
                "verify": {"type": "boolean", "default": true, "description": "Whether the server's certificate is verified."}
            },
            "dependencies": {"cert": ["key"], "key": ["cert"]},
            "additionalProperties": false
        })
    }

    /// Makes connections of these settings; it reads the files.
    ///
    /// # Errors
    /// A file cannot be read or used; the error names it.
    pub(crate) fn connector(&self) -> Result<TlsConnector, String> {
        let builder = match self.verify {
            true => trusting_authorities(self.ca.as_deref(), "tls.ca")?,
            false => verifying_by(Trust::Anything)?,
        };
        let identity = self.cert.clone().zip(self.key.clone());
        Ok(TlsConnector::from(Arc::new(presenting_identity(builder, identity.as_ref())?)))
    }
}
