//! A certificate for a run, signed by itself: contenders that speak TLS get its files. Nothing verifies it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    /// `$CERTIFICATE`.
    pub certificate: PathBuf,
    /// `$KEY`.
    pub key: PathBuf,
}

/// Makes a certificate in this folder: ECDSA P-256, the kind that most sites have.
pub(crate) fn make(folder: &Path) -> anyhow::Result<Certificate> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).context("no certificate can be made")?;
    let files = Certificate { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
    fs::write(&files.certificate, made.cert.pem())?;
    fs::write(&files.key, made.signing_key.serialize_pem())?;
    Ok(files)
}
