//! The same with clients that others wrote: curl and openssl s_client. Skipped with a word where they are not
//! installed.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::{Authority, Origin};

use super::{gateway, put_ssl};

/// The output of `openssl s_client` about a handshake.
pub(super) fn s_client(address: SocketAddr, arguments: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("openssl, which lab/install.sh installs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn curl_verifies_and_is_served() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let file = weir.directory().join("authority.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let address = weir.address("proxy-tls");
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--http1.1", version, "--cacert"])
            .arg(&file)
            .arg("--resolve")
            .arg(format!("a.example:{}:{}", address.port(), address.ip()))
            .arg(format!("https://a.example:{}/", address.port()))
            .output()
            .expect("curl, which lab/install.sh installs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "served", "{output:?}");
    }
}

#[test]
fn openssl_agrees_on_versions_and_curves() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &["--ssl-curves", "P-256"]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let address = weir.address("proxy-tls");
    for (arguments, expected) in [
        (&["-tls1_3", "-servername", "a.example"][..], "New, TLSv1.3"),
        (&["-tls1_2", "-servername", "a.example"], "New, TLSv1.2"),
        (&["-servername", "a.example"], "ECDH, prime256v1"),
        (&["-servername", "a.example", "-alpn", "http/1.1"], "ALPN protocol: http/1.1"),
        (&["-servername", "b.example"], "unrecognized name"),
        (
            &["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0", "-servername", "a.example"],
            "alert handshake failure",
        ),
    ] {
        let shown = s_client(address, arguments);
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
}

#[test]
fn example_of_the_guide_runs() {
    let script = crate::hardening::pages::repository().join("examples/https.sh");
    let output = Command::new("bash").arg(script).arg(crate::support::BINARY).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
