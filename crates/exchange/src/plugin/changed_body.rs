//! The fields of a response of which the body is changed: those that hold for the old bytes go. It knows no
//! plugin and no coding.

use message::{FieldId, Headers};

/// Fields that describe the bytes of the old body (RFC 9530, RFC 3230, RFC 1864), or parts of it.
const STALE: [&str; 5] = ["Accept-Ranges", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest"];

/// Removes the length, digests and offers of ranges, and makes a strong `ETag` weak.
pub fn forget(response: &mut Headers) {
    response.remove_known(FieldId::ContentLength);
    for name in STALE {
        response.remove(name);
    }
    weaken_etag(response);
}

/// A strong `ETag` promises equal bytes, and an editor or a compressor does not promise to give the same ones
/// again. One that is not quoted cannot be made weak and is removed.
fn weaken_etag(response: &mut Headers) {
    let Some(etag) = response.get_known(FieldId::Etag) else { return };
    let is_quoted = |text: &[u8]| matches!(text, [b'"', inner @ .., b'"'] if !inner.contains(&b'"'));
    if etag.strip_prefix(b"W/").is_some_and(is_quoted) {
        return;
    }
    let weak = is_quoted(etag).then(|| [b"W/", etag].concat());
    let is_set = weak.is_some_and(|weak| response.set_known(FieldId::Etag, &weak).is_ok());
    if !is_set {
        response.remove_known(FieldId::Etag);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{headers_of, lines};

    use super::*;

    #[test]
    fn fields_of_the_old_bytes_go() {
        let mut headers = headers_of(&[
            ("Content-Length", "26"),
            ("Accept-Ranges", "bytes"),
            ("content-md5", "AA=="),
            ("Digest", "sha-256=AA=="),
            ("Content-Digest", "sha-256=:AA==:"),
            ("Repr-Digest", "sha-256=:AA==:"),
            ("X-A", "b"),
        ]);
        forget(&mut headers);
        assert_eq!(lines(&headers), ["X-A: b"]);
    }

    #[test]
    fn strong_etag_becomes_weak() {
        for (before, after) in [
            ("\"abc\"", Some("W/\"abc\"")),
            ("W/\"abc\"", Some("W/\"abc\"")),
            ("\"\"", Some("W/\"\"")),
            ("abc", None),
            ("W/abc", None),
            ("\"a\"b\"", None),
            ("\"", None),
        ] {
            let mut headers = headers_of(&[("ETag", before)]);
            forget(&mut headers);
            let etag = headers.get("ETag").map(String::from_utf8_lossy);
            assert_eq!(etag.as_deref(), after, "{before}");
        }
    }
}
