//! The dashboard's files with a small set of them.

use http::Request;

use super::*;

/// "plain" in Brotli, as one uncompressed block.
const BROTLI: &[u8] = b"\x0b\x02\x80plain\x03";

static FEW: DashboardFiles = DashboardFiles::new(|name| {
    let files: [(&str, &'static [u8]); 6] = [
        ("index.html", b"<meta content=%NONCE%><style nonce=\"%NONCE%\">"),
        ("assets/app-1a.js.br", BROTLI),
        ("assets/cut-1a.js.br", &BROTLI[..4]),
        ("assets/logo.svg", b"<svg/>"),
        ("assets/font-1a.woff2", b"font"),
        ("favicon.ico", b"icon"),
    ];
    let found = files.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, content)| Bytes::from_static(content))
});

static NOTHING: DashboardFiles = DashboardFiles::new(|_| None);

fn ask_bytes(
    files: &DashboardFiles,
    method: &str,
    target: &str,
    codings: &str,
) -> (u16, http::HeaderMap, Bytes) {
    let request = Request::builder().method(method).uri(target).header("accept-encoding", codings);
    let (head, ()) = request.body(()).unwrap().into_parts();
    let (head, body) = answer_dashboard(files, &head).into_parts();
    (head.status.as_u16(), head.headers, body)
}

fn ask(files: &DashboardFiles, method: &str, target: &str, codings: &str) -> (u16, http::HeaderMap, String) {
    let (status, headers, body) = ask_bytes(files, method, target, codings);
    (status, headers, String::from_utf8(body.to_vec()).unwrap())
}

fn field(headers: &http::HeaderMap, name: &str) -> String {
    headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[test]
fn page_is_served_for_every_address_of_it() {
    for target in ["/ui/", "/ui/index.html", "/ui/overview", "/ui/routes/shop.v1", "/ui/routes/a.js?tab=form"]
    {
        let (status, headers, body) = ask(&FEW, "GET", target, "br");
        assert_eq!((status, field(&headers, "cache-control").as_str()), (200, "no-store"), "{target}");
        assert_eq!(field(&headers, "content-type"), "text/html; charset=utf-8");
        assert!(body.starts_with("<meta") && !body.contains("%NONCE%"), "{body}");
        assert_eq!(field(&headers, "content-encoding"), "", "the page is made for each request");
    }
}

#[test]
fn nonce_is_fresh_and_in_the_policy() {
    let nonce = || {
        let (_, headers, body) = ask(&FEW, "GET", "/ui/", "");
        let policy = field(&headers, "content-security-policy");
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
        assert!(policy.contains(&format!("style-src 'self' 'nonce-{nonce}';")), "{policy}");
        assert_eq!(body.matches(&nonce).count(), 2, "{body}");
        assert!(nonce.len() >= 22);
        nonce
    };
    assert_ne!(nonce(), nonce());
}

/// The content of a body by its `Content-Encoding`.
#[cfg(feature = "dashboard")]
fn decoded(body: &[u8], coding: &str) -> Vec<u8> {
    use std::io::Read;

    let mut content = Vec::new();
    match coding {
        "" => content.extend_from_slice(body),
        "br" => drop(brotli::Decompressor::new(body, 4_096).read_to_end(&mut content).unwrap()),
        "gzip" => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut content).unwrap()),
        other => panic!("{other}"),
    }
    content
}

#[cfg(feature = "dashboard")]
#[test]
fn asset_is_served_in_the_best_coding() {
    let check = |codings: &str, coding: &str| {
        // The server takes the body of an answer to HEAD away and keeps its length.
        for method in ["GET", "HEAD"] {
            let (status, headers, body) = ask_bytes(&FEW, method, "/ui/assets/app-1a.js", codings);
            assert_eq!((status, &*field(&headers, "content-encoding")), (200, coding), "{codings}");
            assert_eq!(decoded(&body, coding), b"plain", "{codings}");
            assert_eq!(field(&headers, "content-type"), "text/javascript; charset=utf-8");
            assert_eq!(field(&headers, "cache-control"), "public, max-age=31536000, immutable");
            assert_eq!(field(&headers, "vary"), "accept-encoding");
        }
    };
    check("gzip, br", "br");
    check("br", "br");
    check("gzip, deflate", "gzip");
    check("br;q=0, gzip", "gzip");
    check("br, gzip;q=0", "br");
    check("br;q=0", "");
    check("br;q=0, gzip;q=0.0", "");
    check("identity", "");
    check("deflate, zstd", "");
    check("", "");
}

#[test]
fn plain_file_is_served_in_no_coding() {
    let check = |target: &str, content: &str, content_type: &str, caching: &str| {
        for codings in ["", "br", "gzip", "identity;q=0, br"] {
            let (status, headers, body) = ask(&FEW, "GET", target, codings);
            assert_eq!((status, &*body), (200, content), "{target} {codings}");
            assert_eq!(field(&headers, "content-encoding"), "", "{target} {codings}");
            assert_eq!(field(&headers, "content-type"), content_type, "{target}");
            assert_eq!(field(&headers, "cache-control"), caching, "{target}");
        }
    };
    let immutable = "public, max-age=31536000, immutable";
    check("/ui/assets/logo.svg", "<svg/>", "image/svg+xml", immutable);
    check("/ui/assets/font-1a.woff2", "font", "font/woff2", immutable);
    check("/ui/favicon.ico", "icon", "image/x-icon", "no-cache");
}

#[test]
fn damaged_file_is_an_error_in_no_coding() {
    for codings in ["gzip", ""] {
        let (status, headers, body) = ask(&FEW, "GET", "/ui/assets/cut-1a.js", codings);
        assert_eq!((status, &*body), (500, "this build has a damaged file here\n"), "{codings}");
        assert_eq!(field(&headers, "content-encoding"), "");
        assert_eq!(field(&headers, "cache-control"), "no-store");
    }
}

#[cfg(feature = "dashboard")]
#[test]
fn gzip_form_is_made_once() {
    static ONE: DashboardFiles =
        DashboardFiles::new(|name| (name == "a.js.br").then_some(Bytes::from_static(BROTLI)));
    let gzip = || ask_bytes(&ONE, "GET", "/ui/a.js", "gzip").2;
    for (target, codings) in [("/ui/a.js", "br"), ("/ui/a.js", ""), ("/ui/b.js", "gzip")] {
        ask_bytes(&ONE, "GET", target, codings);
    }
    assert_eq!(ONE.kept(), 0);
    let (first, second) = (gzip(), gzip());
    assert_eq!((first.as_ptr(), first.len()), (second.as_ptr(), second.len()));
    assert_eq!(ONE.kept(), 1);
}

#[cfg(feature = "dashboard")]
#[test]
fn embedded_files_are_the_same_in_each_coding() {
    for stored in files::embedded_names().filter(|name| name != INDEX) {
        let target = format!("/ui/{}", stored.trim_end_matches(".br"));
        let get = |codings: &str| {
            let (status, headers, body) = ask_bytes(embedded(), "GET", &target, codings);
            assert_eq!(status, 200, "{target}");
            decoded(&body, &field(&headers, "content-encoding"))
        };
        let content = get("");
        assert!(!content.is_empty(), "{target}");
        assert!(content == get("br") && content == get("gzip"), "{target}");
    }
}

#[test]
fn missing_file_is_no_page() {
    for target in [
        "/ui/assets/gone-2b.js",
        "/ui/assets/app-1a.js.br",
        "/ui/assets/",
        "/ui/robots.txt",
        "/ui/assets/../index.html",
    ] {
        assert_eq!(ask(&FEW, "GET", target, "").0, 404, "{target}");
    }
    let (status, _, body) = ask(&NOTHING, "GET", "/ui/", "");
    assert_eq!((status, body.as_str()), (404, "this build has no dashboard\n"));
}

#[test]
fn every_answer_has_the_security_fields() {
    for (method, target, status) in [
        ("GET", "/ui/", 200),
        ("HEAD", "/ui/x", 200),
        ("GET", "/ui/assets/logo.svg", 200),
        ("GET", "/ui/assets/gone.js", 404),
        ("GET", "/ui", 308),
        ("POST", "/ui/", 405),
    ] {
        let (found, headers, _) = ask(&FEW, method, target, "");
        assert_eq!(found, status, "{method} {target}");
        let policy = field(&headers, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
        assert!(policy.ends_with("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in SECURITY {
            assert_eq!(field(&headers, name.as_str()), value, "{method} {target}");
        }
        assert_eq!(field(&headers, "access-control-allow-origin"), "");
    }
    assert_eq!(field(&ask(&FEW, "GET", "/ui?a=1", "").1, "location"), "/ui/?a=1");
}

#[test]
fn paths_of_the_dashboard_are_told_apart() {
    let check = |path: &str, expected: bool| assert_eq!(is_dashboard_path(path), expected, "{path}");
    check("/ui", true);
    check("/ui/", true);
    check("/ui/a/b", true);
    check("/uix", false);
    check("/apisix/admin/ui/", false);
    check("/", false);
}
