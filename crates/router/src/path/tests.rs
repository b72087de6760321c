//! The table of path spellings. The properties, against a naive twin, are in `tests/it/paths.rs`.

use super::{CanonicalPath, PathError, PathOptions, PathScratch, canonicalize};

fn with(raw: &[u8], options: &PathOptions) -> Result<(Vec<u8>, Vec<u8>), PathError> {
    let mut scratch = PathScratch::default();
    canonicalize(raw, options, &mut scratch).map(|path| (path.forward().to_vec(), path.decoded().to_vec()))
}

fn check(raw: &str, forward: &str, decoded: &str) {
    check_with(PathOptions::default(), raw, forward, decoded);
}

fn check_with(options: PathOptions, raw: &str, forward: &str, decoded: &str) {
    let (got_forward, got_decoded) =
        with(raw.as_bytes(), &options).unwrap_or_else(|error| panic!("{raw}: {error}"));
    assert_eq!(String::from_utf8_lossy(&got_forward), forward, "forward form of {raw}");
    assert_eq!(String::from_utf8_lossy(&got_decoded), decoded, "decoded form of {raw}");
}

fn refused(raw: &str, error: PathError) {
    assert_eq!(with(raw.as_bytes(), &PathOptions::default()), Err(error), "{raw}");
}

#[test]
fn an_ordinary_path_is_borrowed() {
    for raw in [
        "/",
        "/a/b",
        "/a/",
        "/.well-known/x",
        "/a.b/..c/...",
        "/a;x=1/b",
        "/a:b@c!$&'()*+,=~_-",
        "/{a}|^`\"<>",
    ] {
        let mut scratch = PathScratch::default();
        let path = canonicalize(raw.as_bytes(), &PathOptions::default(), &mut scratch).unwrap();
        assert!(path.is_as_sent(), "{raw}");
        let borrowed = CanonicalPath { forward: raw.as_bytes(), decoded: raw.as_bytes(), as_sent: true };
        assert_eq!(path, borrowed);
        assert!(std::ptr::eq(path.forward().as_ptr(), raw.as_ptr()), "{raw} was copied");
    }
}

#[test]
fn every_spelling_of_denied_path_matches_it() {
    for raw in [
        "/admin/x",
        "//admin/x",
        "/admin//x",
        "///admin///x",
        "/./admin/x",
        "/admin/./x",
        "/a/../admin/x",
        "/a/b/../../admin/x",
        "/admin/y/../x",
        "/%61dmin/x",
        "/%61%64%6d%69%6e/x",
        "/%61%64%6D%69%6E/%78",
        "/%2e/admin/x",
        "/%2E/admin/x",
        "/a/%2e%2e/admin/x",
        "/a/.%2e/admin/x",
        "/a/%2e./admin/x",
        "/a/%2E%2E//admin/x",
        "/a//../admin/x",
        "/a/.//../admin/x",
        "/admin/./././x",
        "/a/./../admin/x",
    ] {
        check(raw, "/admin/x", "/admin/x");
    }
}

#[test]
fn ambiguous_path_spelling_is_refused() {
    for raw in
        ["/..", "/../admin", "/a/../../admin", "/%2e%2e/admin", "/.%2E/admin", "//../admin", "/./../admin"]
    {
        refused(raw, PathError::AboveRoot);
    }
    for raw in ["/\\admin", "/a\\..\\admin", "/a/..\\admin", "/%5cadmin", "/a/..%5Cadmin", "/a%5c..%5cadmin"]
    {
        refused(raw, PathError::Backslash);
    }
    for raw in [
        "/.%2f/..",
        "/a/..;/admin",
        "/..;/admin",
        "/.;/admin",
        "/a/..;x=1/admin",
        "/a/..%3b/admin",
        "/a/..%2fadmin",
        "/a%2f..%2fadmin",
        "/a/%2e%2e%2Fadmin",
        "/a/%2f..",
        "/a/x%2f%2e%2e;y",
        "/a/.%2Fadmin",
        "/a/%2e%2e;/admin",
    ] {
        refused(raw, PathError::HiddenDotSegment);
    }
    for raw in ["/%c0%ae%c0%ae/admin", "/%C0%AFadmin", "/%c1%a1dmin", "/%e0%80%af", "/%f0%80%80%af"] {
        refused(raw, PathError::Overlong);
    }
    for raw in ["/%", "/%2", "/%zz", "/%u002e%u002e/admin", "/a%", "/%2g", "/%+1"] {
        refused(raw, PathError::InvalidEscape);
    }
    for raw in ["/%00", "/admin%00.png", "/%0d%0aX:y", "/%7f", "/%1F", "/a\tb", "/a\u{7f}"] {
        refused(raw, PathError::Control);
    }
    for raw in ["/a b", "/a#b", "/a?b", "/ä"] {
        refused(raw, PathError::InvalidByte);
    }
    for raw in ["", "a", "*", "http://x/"] {
        refused(raw, PathError::NotAbsolute);
    }
}

#[test]
fn other_bytes_are_kept_as_sent() {
    check("/a%20b/%e4%b8%ad", "/a%20b/%E4%B8%AD", "/a b/中");
    check("/%252e%252e/a", "/%252e%252e/a", "/%2e%2e/a");
    check("/a%3Bb;c", "/a%3Bb;c", "/a;b;c");
    check("/a%3fb%23", "/a%3Fb%23", "/a?b#");
    check("/a/.", "/a/", "/a/");
    check("/a/..", "/", "/");
    check("/a/b/..", "/a/", "/a/");
    check("/a//", "/a/", "/a/");
    check("//", "/", "/");
}

#[test]
fn encoded_slash_is_matched_as_a_slash() {
    check("/a%2fb", "/a%2Fb", "/a/b");
    check("/%2fadmin", "/%2Fadmin", "/admin");
    check("/%2f%2Fadmin", "/%2F%2Fadmin", "/admin");
    check("/x/%2fadmin/", "/x/%2Fadmin/", "/x/admin/");
    check("/admin%2f", "/admin%2F", "/admin/");
    check("/admin%2f/x", "/admin%2F/x", "/admin/x");
    check("/https%3A%2F%2Fx.y", "/https%3A%2F%2Fx.y", "/https:/x.y");
    // A path is decoded once; the result is text.
    check("/a%252Fb", "/a%252Fb", "/a%2Fb");
    let tailless = PathOptions { delete_uri_tail_slash: true, ..PathOptions::default() };
    check_with(tailless, "/a%2f", "/a%2F", "/a");
    let unmerged = PathOptions { merge_slashes: false, ..PathOptions::default() };
    check_with(unmerged, "/%2fadmin", "/%2Fadmin", "//admin");
}

#[test]
fn encoded_slash_stays_in_its_segment_if_so_set() {
    let keeping = PathOptions { match_uri_encoded_slash: true, ..PathOptions::default() };
    check_with(keeping, "/a%2fb", "/a%2Fb", "/a%2Fb");
    check_with(keeping, "/%2fadmin", "/%2Fadmin", "/%2Fadmin");
    check_with(keeping, "/https%3A%2F%2Fx.y", "/https%3A%2F%2Fx.y", "/https:%2F%2Fx.y");
    for hidden in ["/a%2f..%2fadmin", "/x/..%2fadmin", "/.%2fadmin"] {
        assert_eq!(with(hidden.as_bytes(), &keeping), Err(PathError::HiddenDotSegment), "{hidden}");
    }
}

#[test]
fn options() {
    let unmerged = PathOptions { merge_slashes: false, ..PathOptions::default() };
    check_with(unmerged, "/a//b/%61", "/a//b/a", "/a//b/a");
    check_with(unmerged, "/a//../b", "/a/b", "/a/b");
    let tailless = PathOptions { delete_uri_tail_slash: true, ..PathOptions::default() };
    check_with(tailless, "/a/", "/a/", "/a");
    check_with(tailless, "/", "/", "/");
    check_with(tailless, "/%61//", "/a/", "/a");
    let servlet = PathOptions { normalize_uri_like_servlet: true, ..PathOptions::default() };
    check_with(servlet, "/a;x=1/b;y", "/a;x=1/b;y", "/a/b");
    check_with(servlet, "/a/;y", "/a/;y", "/a/");
    assert_eq!(with(b"/a/;x/b", &servlet), Err(PathError::ParametersOnly));
    assert_eq!(with(b"/a/..;/b", &servlet), Err(PathError::HiddenDotSegment));
    // A container reads `/a` where the gateway would read `/a/b`.
    assert_eq!(with(b"/a;x%2fb", &servlet), Err(PathError::EncodedSlashInParameters));
    assert_eq!(with(b"/a%2f;x/b", &servlet), Err(PathError::ParametersOnly));
    check_with(servlet, "/a%2fb;x/c", "/a%2Fb;x/c", "/a/b/c");
    let keeping = PathOptions { match_uri_encoded_slash: true, ..servlet };
    check_with(keeping, "/a;x%2fb/c", "/a;x%2Fb/c", "/a/c");
}
