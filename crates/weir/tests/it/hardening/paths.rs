//! Check 14: the spellings of a path. A rule denies `/admin`; no path that is passed on may be a spelling of
//! it, even for the most lenient origin, and matching, log and origin must agree on the path.

use testkit::{Weir, wait_for};

use super::oracle;
use super::stand::{Stand, account_text};
use crate::support::upstream;

/// Spellings of a path under `/admin` that some program accepts.
const SPELLINGS: [&str; 74] = [
    "/admin/x",
    "//admin/x",
    "///admin/x",
    "/admin//x",
    "/./admin/x",
    "/admin/./x",
    "/x/../admin/x",
    "/x/y/../../admin/x",
    "/x/./../admin/x",
    "/x//../admin/x",
    "/%61dmin/x",
    "/%61%64%6d%69%6e/x",
    "/%61%64%6D%69%6E/%78",
    "/admi%6e/x",
    "/%2e/admin/x",
    "/%2E/admin/x",
    "/x/%2e%2e/admin/x",
    "/x/%2E%2E/admin/x",
    "/x/.%2e/admin/x",
    "/x/%2e./admin/x",
    "/x/%2e%2e//admin/x",
    "/../admin/x",
    "/%2e%2e/admin/x",
    "/..//admin/x",
    "/x/../../admin/x",
    "/x/..;/admin/x",
    "/x/..;a=b/admin/x",
    "/..;/admin/x",
    "/.;/admin/x",
    "/x/%2e%2e;/admin/x",
    "/x/..%3b/admin/x",
    "/x/..%3B/admin/x",
    "/x/..%2fadmin/x",
    "/x/..%2Fadmin/x",
    "/x%2f..%2fadmin/x",
    "/x/%2e%2e%2fadmin/x",
    "/.%2fadmin/x",
    "/x/..\\admin/x",
    "\\admin/x",
    "/\\admin/x",
    "/x\\..\\admin/x",
    "/x/..%5cadmin/x",
    "/x%5c..%5cadmin/x",
    "/%5cadmin/x",
    "/admin\\x",
    "/admin%5cx",
    "/admin%00/x",
    "/admin/x%00",
    "/%00admin/x",
    "/admin%0a/x",
    "/admin%0d%0a/x",
    "/admin%09/x",
    "/admin%20/x",
    "/admin%7f/x",
    "/%c0%aeadmin/x",
    "/x/%c0%ae%c0%ae/admin/x",
    "/x/%e0%80%ae%e0%80%ae/admin/x",
    "/%c0%afadmin/x",
    "/x/%uff0e%uff0e/admin/x",
    "/%u002e/admin/x",
    "/x/%2/admin/x",
    "/admin%",
    "/%/admin/x",
    "/admin/x#",
    "/admin/%2e%2e/admin/x",
    "http://h//x/..//admin/x",
    "/admin%2fx",
    "/admin%2F",
    "/%2fadmin/x",
    "/%2fadmin",
    "/%2f%2Fadmin/x",
    "//%2fadmin/x",
    "/%2f/admin%2f%2fx",
    "http://h/%2Fadmin%2fx",
];

/// Spellings that are another path for RFC 3986 and the same one for some origins. Waived: sections 3.3
/// (parameters of a segment) and 2.4 (decoding twice).
const WAIVED: [(&str, &str); 4] = [
    ("/admin;/x", "/admin;/x"),
    ("/admin;a=b/x", "/admin;a=b/x"),
    ("/%2561dmin/x", "/%2561dmin/x"),
    ("/x/%252e%252e/admin/x", "/x/%252e%252e/admin/x"),
];

/// Denies every path under `/admin` and passes all others on.
fn stand(arguments: &[&str]) -> Stand {
    let resources = |origin| {
        let upstream = upstream(&[origin], "");
        let deny = "plugins: {ip-restriction: {blacklist: ['0.0.0.0/0', '::/0']}}";
        format!(
            "routes:\n  - {{id: admin, uris: [/admin, '/admin/*'], {deny}, upstream: {upstream}}}\n  \
             - {{id: all, uri: /*, upstream: {upstream}}}\n"
        )
    };
    let log = ["--access-log", "stdout", "--access-log-format", "logged $status $uri"];
    Stand::of(resources, &[&log, arguments].concat())
}

fn ask(stand: &Stand, target: &str) -> (u16, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let mut heard = stand.exchange(request.as_bytes());
    assert_eq!(heard.answers.len(), 1, "{target}");
    let answer = heard.answers.remove(0);
    (answer.status, answer.text())
}

/// The path as the most lenient origin reads it: everything decoded once, backslashes as slashes, parameters
/// and the rest after a NUL removed, slashes merged, dot segments resolved even above the root.
fn obliging(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [byte, after @ ..] = rest {
        let escape = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *byte == b'%') {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes).replace('\\', "/");
    let text = text.split('\0').next().unwrap_or_default();
    let mut kept = Vec::new();
    for segment in text.split('/').map(|segment| segment.split(';').next().unwrap_or_default()) {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

fn is_denied(path: &str) -> bool {
    path == "/admin" || path.starts_with("/admin/")
}

// Check 14; CVE-2021-43557, CVE-2026-73511, CVE-2026-73551, CVE-2019-9901.
#[test]
fn check_14_denied_path_in_every_spelling() {
    let stand = stand(&[]);
    let mut denied = 0;
    for spelling in SPELLINGS {
        let (status, text) = ask(&stand, spelling);
        match status {
            403 => denied += 1,
            400 => {}
            200 => {
                stand.expect_one_more();
                let path = text.split(' ').nth(1).unwrap();
                assert!(!is_denied(&obliging(path)), "{spelling} came out as {path}");
            }
            _ => panic!("{spelling}: {status} {text}"),
        }
    }
    assert!(denied >= 20, "only {denied} were understood as the denied path, the rest was guessed to be bad");
    for (spelling, forwarded) in WAIVED {
        stand.expect_one_more();
        assert_eq!(ask(&stand, spelling), (200, account_text("GET", forwarded, "h", "")));
    }
    stand.end();
}

// Check 14: the waiver of RFC 3986 section 2.2 (an encoded slash), with the setting for it.
#[test]
fn check_14_an_encoded_slash_is_data_if_so_set() {
    let stand = stand(&["--match-uri-encoded-slash=true"]);
    for (spelling, forwarded) in [("/admin%2fx", "/admin%2Fx"), ("/%2fadmin/x", "/%2Fadmin/x")] {
        stand.expect_one_more();
        assert_eq!(ask(&stand, spelling), (200, account_text("GET", forwarded, "h", "")));
    }
    for spelling in SPELLINGS.into_iter().filter(|spelling| !spelling.to_ascii_lowercase().contains("%2f")) {
        let (status, text) = ask(&stand, spelling);
        match status {
            200 => {
                stand.expect_one_more();
                let path = text.split(' ').nth(1).unwrap();
                assert!(!is_denied(&obliging(path)), "{spelling} came out as {path}");
            }
            _ => assert!(matches!(status, 400 | 403), "{spelling}: {status} {text}"),
        }
    }
    stand.end();
}

// Check 14: the setting that closes the waiver for parameters.
#[test]
fn check_14_settings_follow_the_origins_reading() {
    let stand = stand(&["--normalize-uri-like-servlet=true"]);
    for spelling in [
        "/admin%2fx",
        "/%2fadmin/x",
        "/admin;/x",
        "/admin;a=b/x",
        "/admin;a%2fb/x",
        "/x;%2fadmin",
        "/x/..%2fadmin/x",
    ] {
        let (status, text) = ask(&stand, spelling);
        assert!(matches!(status, 400 | 403), "{spelling}: {status} {text}");
    }
    stand.end();
}

// Check 14: one normal form.
#[test]
fn check_14_match_log_and_origin_agree_on_paths() {
    agree_on_every_path(&[], false);
}

// Check 14: one normal form, where an encoded slash is data.
#[test]
fn check_14_they_agree_if_encoded_slashes_are_data() {
    agree_on_every_path(&["--match-uri-encoded-slash=true"], true);
}

fn agree_on_every_path(arguments: &[&str], keeps_encoded_slash: bool) {
    let stand = stand(arguments);
    let mut paths: Vec<String> = SPELLINGS.map(|spelling| spelling.replace("admin", "other")).to_vec();
    // Left out, because a target with a fragment is refused before its path is read.
    paths.retain(|path| !path.contains('#'));
    // Every escape, alone, doubled, and before and after dots and slashes.
    for value in 0..=255u8 {
        for form in ["/%XX", "/a%XXb", "/%XX%XX/a", "/a/%XX./b", "/a/.%XX/b", "/a/..%XX/b", "/a/%XX../b"] {
            paths.push(form.replace("XX", &format!("{value:02x}")));
        }
    }
    let mut expected = Vec::new();
    for path in &paths {
        let (status, text) = ask(&stand, path);
        let want = oracle::target::canonical(path.trim_start_matches("http://h"));
        match (status, want) {
            (200, Some(want)) => {
                stand.expect_one_more();
                assert_eq!(text, account_text("GET", &want, "h", ""), "{path}");
                expected.push(format!("logged 200 {}", logged(&want, keeps_encoded_slash)));
            }
            (400, None) => {}
            (403, Some(want)) if is_denied(&want) => {}
            // Skipped, because the oracle does not know UTF-8, and the gateway refuses overlong forms.
            (400, Some(_)) if path.contains("%c0%a") || path.contains("%e0%80") => {}
            (_, want) => panic!("{path}: {status} {text}, not {want:?}"),
        }
    }
    assert!(expected.len() > 1_000, "{}", expected.len());
    assert_eq!(log(stand.weir(), expected.len()), expected);
    stand.end();
}

/// The form of a path in the log: decoded, an encoded slash as it is matched, and bytes that could forge a
/// line escaped.
fn logged(path: &str, keeps_encoded_slash: bool) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some(sign) = rest.chars().next() {
        rest = &rest[1..];
        let escaped = (sign == '%').then(|| u8::from_str_radix(&rest[..2], 16).unwrap());
        let value = match escaped {
            Some(b'/') if keeps_encoded_slash => {
                out += "%2F";
                rest = &rest[2..];
                continue;
            }
            Some(value) => {
                rest = &rest[2..];
                value
            }
            None => sign as u8,
        };
        match value {
            b'/' if out.ends_with('/') => {}
            b'"' | b'\\' | 0..0x20 | 0x7f.. => out += &format!("\\x{value:02X}"),
            _ => out.push(char::from(value)),
        }
    }
    out
}

fn log(weir: &Weir, count: usize) -> Vec<String> {
    wait_for(&format!("{count} lines of passed requests"), || {
        let lines = weir.stdout();
        let passed: Vec<String> = lines.into_iter().filter(|line| line.starts_with("logged 200 ")).collect();
        (passed.len() >= count).then_some(passed)
    })
}
