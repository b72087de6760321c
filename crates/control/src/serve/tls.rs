//! TLS of a listener of the control side: certificate, key and the authorities of client certificates from
//! files, which are read again when they change. It does not know what is served.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use outbound::tls::{crypto_provider, handshake_clock, roots_of};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The files of a TLS listener, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate that is presented, its chain behind it.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
    /// The authorities of client certificates. With them, a client without such a certificate is refused.
    pub client_ca: Option<PathBuf>,
}

/// TLS of one listener.
#[derive(Debug)]
pub(crate) struct ServerTls {
    files: TlsFiles,
    loaded: Mutex<LoadedServerConfig>,
}

#[derive(Debug)]
struct LoadedServerConfig {
    config: Arc<ServerConfig>,
    stamps: Vec<TlsFileStamp>,
    checked: Instant,
}

/// The state of a file by which a change is noticed: time of modification and length; none if it cannot be
/// read.
type TlsFileStamp = Option<(SystemTime, u64)>;

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read or used, as a sentence that names it.
    pub(crate) fn load(files: TlsFiles) -> Result<ServerTls, String> {
        // Before the files are read, so that a change meanwhile is noticed.
        let stamps = stamps(&files);
        let config = Arc::new(config(&files)?);
        let loaded = Mutex::new(LoadedServerConfig { config, stamps, checked: Instant::now() });
        Ok(ServerTls { files, loaded })
    }

    /// The acceptor for the next connection, with the files as they are now. Files that have become unusable
    /// are reported once, and the certificate before stays in use.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock();
        if loaded.checked.elapsed() >= CHECK_EVERY {
            loaded.checked = Instant::now();
            let stamps = stamps(&self.files);
            if stamps != loaded.stamps {
                loaded.stamps = stamps;
                match config(&self.files) {
                    Ok(config) => {
                        loaded.config = Arc::new(config);
                        tracing::info!(certificate = %self.files.certificate.display(), "read the certificate again");
                    }
                    Err(fault) => tracing::error!(%fault, "the certificate before stays in use"),
                }
            }
        }
        TlsAcceptor::from(Arc::clone(&loaded.config))
    }
}

fn config(files: &TlsFiles) -> Result<ServerConfig, String> {
    let unusable = |path: &Path, fault: String| format!("{}: {fault}", path.display());
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|fault| unusable(&files.certificate, fault.to_string()))?;
    if chain.is_empty() {
        return Err(unusable(&files.certificate, "holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|fault| unusable(&files.key, format!("holds no private key in PEM: {fault}")))?;
    let builder = ServerConfig::builder_with_details(crypto_provider(), handshake_clock())
        .with_safe_default_protocol_versions()
        .map_err(|fault| fault.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots_of(path)?), crypto_provider())
                    .build()
                    .map_err(|fault| unusable(path, fault.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|fault| unusable(&files.certificate, format!("cannot be used with its key: {fault}")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn stamps(files: &TlsFiles) -> Vec<TlsFileStamp> {
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()]
        .into_iter()
        .flatten()
        .map(stamp)
        .collect()
}

/// How often the files are looked at; a renewed certificate is in use this soon.
const CHECK_EVERY: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, name: &str) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        std::fs::write(path.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(path.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    fn files(path: &Path) -> TlsFiles {
        TlsFiles { certificate: path.join("cert.pem"), key: path.join("key.pem"), client_ca: None }
    }

    #[test]
    fn unusable_files_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let check = |change: &dyn Fn(&Path), expected: &str| {
            write(directory.path(), "a.example");
            change(directory.path());
            let fault = ServerTls::load(files(directory.path())).err().unwrap_or_default();
            assert!(fault.contains(expected), "{fault}");
        };
        let clear =
            |name: &'static str| move |path: &Path| std::fs::write(path.join(name), "no PEM").unwrap();
        check(&clear("cert.pem"), "cert.pem: holds no certificate");
        check(&clear("key.pem"), "key.pem: holds no private key");
        check(&|path| std::fs::remove_file(path.join("cert.pem")).unwrap(), "cert.pem: ");
        let foreign = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let swap = |path: &Path| std::fs::write(path.join("key.pem"), &foreign).unwrap();
        check(&swap, "cert.pem: cannot be used with its key");
    }

    #[test]
    fn changed_files_are_read_again() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "a.example");
        let tls = ServerTls::load(files(directory.path())).unwrap();
        let before = Arc::clone(&tls.loaded.lock().config);
        let again = |tls: &ServerTls| {
            let mut loaded = tls.loaded.lock();
            loaded.checked = Instant::now().checked_sub(CHECK_EVERY).unwrap();
            loaded.stamps.clear();
            drop(loaded);
            tls.acceptor()
        };
        std::fs::write(directory.path().join("key.pem"), "no PEM").unwrap();
        assert!(Arc::ptr_eq(again(&tls).config(), &before), "an unusable key changes nothing");
        write(directory.path(), "b.example");
        assert!(!Arc::ptr_eq(again(&tls).config(), &before));
    }
}
