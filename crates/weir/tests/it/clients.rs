//! Independent clients of APISIX's Admin API, as released on PyPI, drive the real binary.
//! `lab/install.sh test` installs them under `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{ADMIN_KEY, Origin, Weir};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// The Python interpreter with the clients.
pub(crate) fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/test-python/bin/python");
    assert!(python.exists(), "{} is not there; run lab/install.sh test", python.display());
    python
}

#[test]
fn apisix_client_drives_what_it_knows() {
    let origin = Origin::echoing();
    let weir = Weir::start(BINARY);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/drive_apisix_client.py");
    let run = Command::new(python())
        .arg(script)
        .arg(format!("http://{}", weir.address("admin")))
        .arg(ADMIN_KEY)
        .arg(format!("http://{}", weir.proxy()))
        .arg(origin.port().to_string())
        .output()
        .unwrap();
    let (printed, failed) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && printed.ends_with("done\n"), "{printed}{failed}");
}
