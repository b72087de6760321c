//! The Admin API over HTTPS, through the real binary: certificates of the server and of clients, plain HTTP
//! on the same port, commands that ask it, files that change and files that cannot be used.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use std::io::{Read, Write};

use testkit::{ADMIN_KEY, Certificates, Weir, WeirBuilder, wait_until};

use crate::support::BINARY;

fn https(certificates: &Certificates) -> WeirBuilder {
    let (certificate, key) = (certificates.certificate(), certificates.key());
    Weir::builder(BINARY).arguments(&[
        "--admin-tls-cert",
        certificate.to_str().unwrap(),
        "--admin-tls-key",
        key.to_str().unwrap(),
    ])
}

/// The output of curl for `https://ADMIN/apisix/admin/routes`.
fn curl(weir: &Weir, authority: &Path, more: &[&str]) -> Output {
    let address = weir.address("admin");
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20", "--header"]);
    command.arg(format!("X-API-KEY: {ADMIN_KEY}")).arg("--cacert").arg(authority).args(more);
    command.arg(format!("https://{address}/apisix/admin/routes"));
    command.output().expect("curl: `make test` installs it")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// `weir COMMAND…` with the environment of these tests only.
fn command(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(arguments).env_clear().env("WEIR_ADMIN_KEY", ADMIN_KEY);
    command.output().expect("the binary")
}

#[test]
fn admin_api_speaks_https_only() {
    let certificates = Certificates::make();
    let weir = https(&certificates).start();
    let answer = curl(&weir, &certificates.authority(), &[]);
    assert_eq!(text(&answer), "{\"list\":[],\"total\":0}\n");
    let foreign = Certificates::make();
    assert!(!curl(&weir, &foreign.authority(), &[]).status.success(), "another authority is not trusted");

    let mut plain = TcpStream::connect(weir.address("admin")).unwrap();
    plain.write_all(b"GET /apisix/admin/routes HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("speaks HTTPS"), "{answer}");
}

#[test]
fn client_without_certificate_is_refused() {
    let certificates = Certificates::make();
    let (authority, certificate, key) =
        (certificates.authority(), certificates.certificate(), certificates.key());
    let [authority_text, certificate_text, key_text] =
        [&authority, &certificate, &key].map(|path| path.to_str().unwrap());
    let weir = https(&certificates).arguments(&["--admin-tls-client-ca", authority_text]).start();
    assert!(!curl(&weir, &authority, &[]).status.success());
    let own = ["--cert", certificate_text, "--key", key_text];
    assert_eq!(text(&curl(&weir, &authority, &own)), "{\"list\":[],\"total\":0}\n");
    let stranger = Certificates::make();
    let (certificate, key) = (stranger.certificate(), stranger.key());
    let others = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert!(!curl(&weir, &authority, &others).status.success());

    let data = weir.data();
    let data = data.to_str().unwrap();
    let refused = command(&["history", "--data", data]);
    assert!(!refused.status.success(), "{}", text(&refused));
    let mut asked = Command::new(BINARY);
    asked.args(["history", "--data", data]).env_clear().env("WEIR_ADMIN_KEY", ADMIN_KEY);
    asked.env("WEIR_ADMIN_CLIENT_CERT", certificate_text).env("WEIR_ADMIN_CLIENT_KEY", key_text);
    let asked = asked.output().unwrap();
    assert!(asked.status.success(), "{}", text(&asked));
}

#[test]
fn commands_reach_the_admin_api_over_https() {
    let certificates = Certificates::make();
    let weir = https(&certificates).start();
    let data = weir.data();
    let by_folder = command(&["history", "--data", data.to_str().unwrap()]);
    assert!(by_folder.status.success(), "its own certificate is trusted: {}", text(&by_folder));

    let admin = weir.address("admin").to_string();
    let authority = certificates.authority();
    let by_address = ["history", "--admin", &admin, "--admin-ca", authority.to_str().unwrap()];
    let named = command(&by_address);
    assert!(named.status.success(), "{}", text(&named));
    let as_localhost = command(&[&by_address[..], &["--admin-server-name", "localhost"]].concat());
    assert!(as_localhost.status.success(), "{}", text(&as_localhost));
    let as_other = command(&[&by_address[..], &["--admin-server-name", "other.example"]].concat());
    assert!(!as_other.status.success() && text(&as_other).contains("other.example"), "{}", text(&as_other));
    let foreign = Certificates::make().authority();
    let untrusted = command(&["history", "--admin", &admin, "--admin-ca", foreign.to_str().unwrap()]);
    assert!(!untrusted.status.success(), "{}", text(&untrusted));
    let plain = command(&["history", "--admin", &admin]);
    assert!(!plain.status.success() && text(&plain).contains("speaks HTTPS"), "{}", text(&plain));
}

#[test]
fn changed_certificate_is_in_use_without_restart() {
    let (first, second) = (Certificates::make(), Certificates::make());
    let weir = https(&first).start();
    assert!(curl(&weir, &first.authority(), &[]).status.success());
    std::fs::copy(second.key(), first.key()).unwrap();
    std::fs::copy(second.certificate(), first.certificate()).unwrap();
    wait_until("the new certificate is presented", || curl(&weir, &second.authority(), &[]).status.success());
}

#[test]
fn unusable_certificate_prevents_the_start() {
    let certificates = Certificates::make();
    std::fs::write(certificates.key(), "no key").unwrap();
    let exited = https(&certificates).try_start().expect_err("it has no key");
    let said = format!("{exited:?}");
    assert!(said.contains("cannot be served over HTTPS") && said.contains("key.pem"), "{said}");
}
