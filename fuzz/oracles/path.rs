//! Oracle of the canonical path, for any bytes.

use router::path::{PathOptions, PathScratch, canonicalize};

use super::path_twin;

/// The input is one byte of options and a path. `0` to `?` set the four options as bits; `0` is the default.
pub fn check(data: &[u8]) {
    let Some((switches, raw)) = data.split_first() else { return };
    let on = |bit: u8| switches & (1 << bit) != 0;
    check_with(
        raw,
        &PathOptions {
            merge_slashes: !on(0),
            match_uri_encoded_slash: on(1),
            delete_uri_tail_slash: on(2),
            normalize_uri_like_servlet: on(3),
        },
    );
}

/// Asserts that the path is refused, or has the same forms as in the twin; the forms are safe, not longer
/// than the path, and canonical themselves.
pub fn check_with(raw: &[u8], options: &PathOptions) {
    let mut scratch = PathScratch::default();
    // The buffer was used for another path before; bytes of that path must not appear.
    let _ = canonicalize(b"/%41/before/../%2fa;x", options, &mut scratch);
    let twin = path_twin::canonical(raw, options);
    let path = match canonicalize(raw, options, &mut scratch) {
        Ok(path) => path,
        Err(error) => {
            assert!(twin.is_none(), "{} is refused: {error}", raw.escape_ascii());
            return;
        }
    };
    let (forward, decoded) = (path.forward().to_vec(), path.decoded().to_vec());
    let as_sent = path.is_as_sent();
    let twin = twin.map(|(forward, decoded)| (forward.into_bytes(), decoded));
    assert_eq!(Some((forward.clone(), decoded.clone())), twin, "{}", raw.escape_ascii());
    // A path with an escape is copied even if the escape is unchanged.
    let unchanged = raw == forward && raw == decoded;
    assert!(if raw.contains(&b'%') { !as_sent } else { as_sent == unchanged }, "{}", raw.escape_ascii());
    assert!(forward.len() <= raw.len() && decoded.len() <= forward.len());
    for form in [&forward, &decoded] {
        let unsafe_byte = |byte: &u8| byte.is_ascii_control() || *byte == b'\\';
        assert!(form.starts_with(b"/") && !form.iter().any(unsafe_byte));
        let mut segments = form[1..].split(|byte| *byte == b'/');
        assert!(segments.all(|segment| segment != b"." && segment != b".."), "{}", form.escape_ascii());
        assert!(!options.merge_slashes || !form.windows(2).any(|pair| pair == b"//"));
    }
    let mut scratch = PathScratch::default();
    let again = canonicalize(&forward, options, &mut scratch).expect("a canonical path is accepted");
    assert_eq!((again.forward(), again.decoded()), (&*forward, &*decoded), "a second time");
}
