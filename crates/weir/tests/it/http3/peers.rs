//! An independent client: libcurl with ngtcp2 and nghttp3, by pycurl.

use std::process::Command;

use testkit::{Origin, Reply};

use super::scene;

/// A GET and a POST of a megabyte over one connection, HTTP/3 only.
const SCRIPT: &str = r#"
import io, sys, pycurl
port, authority = sys.argv[1:]
curl = pycurl.Curl()
curl.setopt(pycurl.HTTP_VERSION, 31)
curl.setopt(pycurl.CAINFO, authority)
curl.setopt(pycurl.RESOLVE, [f"a.example:{port}:127.0.0.1"])
curl.setopt(pycurl.TIMEOUT, 30)
body = bytes(range(256)) * 4096
for sent in (None, body):
    out = io.BytesIO()
    curl.setopt(pycurl.URL, f"https://a.example:{port}/")
    curl.setopt(pycurl.WRITEDATA, out)
    if sent is not None:
        curl.setopt(pycurl.POSTFIELDS, sent)
    curl.perform()
    same = sent is None or out.getvalue() == sent
    print(curl.getinfo(pycurl.RESPONSE_CODE), curl.getinfo(pycurl.INFO_HTTP_VERSION), len(out.getvalue()), same)
"#;

#[test]
fn libcurl_is_served() {
    let origin = Origin::start(|request| Reply::with(200, &[], &request.body));
    let scene = scene(&origin, &[]);
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, scene.authority.pem()).unwrap();
    let port = scene.address().port().to_string();
    let run =
        Command::new(crate::clients::python()).args(["-c", SCRIPT, &port]).arg(&authority).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert_eq!(text, "200 30 0 True\n200 30 1048576 True\n", "{errors}");
}
