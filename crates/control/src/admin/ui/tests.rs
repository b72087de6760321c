//! The dashboard's files with a small set of them.

use http::Request;

use super::*;

struct Few;

impl Files for Few {
    fn get(&self, name: &str) -> Option<Bytes> {
        let files: [(&str, &'static str); 6] = [
            ("index.html", "<meta content=%NONCE%><style nonce=\"%NONCE%\">"),
            ("assets/app-1a.js", "plain"),
            ("assets/app-1a.js.br", "brotli"),
            ("assets/app-1a.js.gz", "gzip"),
            ("assets/logo.svg", "<svg/>"),
            ("favicon.ico", "icon"),
        ];
        let found = files.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| Bytes::from_static(text.as_bytes()))
    }
}

struct Nothing;

impl Files for Nothing {
    fn get(&self, _: &str) -> Option<Bytes> {
        None
    }
}

fn ask(files: &dyn Files, method: &str, target: &str, codings: &str) -> (u16, http::HeaderMap, String) {
    let request = Request::builder().method(method).uri(target).header("accept-encoding", codings);
    let (head, ()) = request.body(()).unwrap().into_parts();
    let (head, body) = answer(files, &head).into_parts();
    (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
}

fn field(headers: &http::HeaderMap, name: &str) -> String {
    headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[test]
fn page_is_served_for_every_address_of_it() {
    for target in ["/ui/", "/ui/index.html", "/ui/overview", "/ui/routes/shop.v1", "/ui/routes/a.js?tab=form"]
    {
        let (status, headers, body) = ask(&Few, "GET", target, "br");
        assert_eq!((status, field(&headers, "cache-control").as_str()), (200, "no-store"), "{target}");
        assert_eq!(field(&headers, "content-type"), "text/html; charset=utf-8");
        assert!(body.starts_with("<meta") && !body.contains("%NONCE%"), "{body}");
        assert_eq!(field(&headers, "content-encoding"), "", "the page is made for each request");
    }
}

#[test]
fn nonce_is_fresh_and_in_the_policy() {
    let nonce = || {
        let (_, headers, body) = ask(&Few, "GET", "/ui/", "");
        let policy = field(&headers, "content-security-policy");
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
        assert!(policy.contains(&format!("style-src 'self' 'nonce-{nonce}';")), "{policy}");
        assert_eq!(body.matches(&nonce).count(), 2, "{body}");
        assert!(nonce.len() >= 22);
        nonce
    };
    assert_ne!(nonce(), nonce());
}

#[test]
fn asset_is_served_in_the_best_coding() {
    let check = |codings: &str, expected: &str, coding: &str| {
        let (status, headers, body) = ask(&Few, "GET", "/ui/assets/app-1a.js", codings);
        assert_eq!((status, body.as_str()), (200, expected), "{codings}");
        assert_eq!(field(&headers, "content-encoding"), coding);
        assert_eq!(field(&headers, "content-type"), "text/javascript; charset=utf-8");
        assert_eq!(field(&headers, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(field(&headers, "vary"), "accept-encoding");
    };
    check("gzip, br", "brotli", "br");
    check("gzip", "gzip", "gzip");
    check("br;q=0", "plain", "");
    check("", "plain", "");
    let (_, headers, body) = ask(&Few, "GET", "/ui/assets/logo.svg", "br");
    assert_eq!((body.as_str(), field(&headers, "content-type").as_str()), ("<svg/>", "image/svg+xml"));
    let (_, headers, _) = ask(&Few, "GET", "/ui/favicon.ico", "br");
    assert_eq!(field(&headers, "cache-control"), "no-cache");
}

#[test]
fn missing_file_is_no_page() {
    for target in
        ["/ui/assets/gone-2b.js", "/ui/assets/", "/ui/robots.txt", "/ui/app.js", "/ui/assets/../index.html"]
    {
        assert_eq!(ask(&Few, "GET", target, "").0, 404, "{target}");
    }
    let (status, _, body) = ask(&Nothing, "GET", "/ui/", "");
    assert_eq!((status, body.as_str()), (404, "this build has no dashboard\n"));
}

#[test]
fn every_answer_has_the_security_fields() {
    for (method, target, status) in [
        ("GET", "/ui/", 200),
        ("HEAD", "/ui/x", 200),
        ("GET", "/ui/assets/app-1a.js", 200),
        ("GET", "/ui/assets/gone.js", 404),
        ("GET", "/ui", 308),
        ("POST", "/ui/", 405),
    ] {
        let (found, headers, _) = ask(&Few, method, target, "");
        assert_eq!(found, status, "{method} {target}");
        let policy = field(&headers, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
        assert!(policy.ends_with("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in SECURITY {
            assert_eq!(field(&headers, name.as_str()), value, "{method} {target}");
        }
        assert_eq!(field(&headers, "access-control-allow-origin"), "");
    }
    assert_eq!(field(&ask(&Few, "GET", "/ui?a=1", "").1, "location"), "/ui/?a=1");
}

#[test]
fn paths_of_the_dashboard_are_told_apart() {
    let check = |path: &str, expected: bool| assert_eq!(is_ours(path), expected, "{path}");
    check("/ui", true);
    check("/ui/", true);
    check("/ui/a/b", true);
    check("/uix", false);
    check("/apisix/admin/ui/", false);
    check("/", false);
}
