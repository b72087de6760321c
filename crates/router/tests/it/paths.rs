//! The canonical path against its naive twin, for paths composed of significant pieces and for any bytes.

use proptest::prelude::*;
use router::path::PathOptions;

use crate::oracles::path::check_with;

const PIECES: [&str; 26] = [
    "/", "/", "x", "y", ".", ".", "..", "%2e", "%2E", "%2f", "%2F", "%61", ";", "%3b", "%25", "%", "\\",
    "%5c", "%00", "thing", "%4", "zz", "%c0", "%ae", "é", "?",
];

fn options() -> impl Strategy<Value = PathOptions> {
    prop_oneof![
        Just(PathOptions::default()),
        any::<[bool; 4]>().prop_map(|[merge_slashes, match_uri_encoded_slash, tail, servlet]| PathOptions {
            merge_slashes,
            match_uri_encoded_slash,
            delete_uri_tail_slash: tail,
            normalize_uri_like_servlet: servlet,
        })
    ]
}

proptest! {
    #[test]
    fn composed_paths_agree_with_the_twin(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..12), options in options()) {
        check_with(format!("/{}", pieces.concat()).as_bytes(), &options);
    }

    #[test]
    fn any_bytes_agree_with_the_twin(tail in prop::collection::vec(
        prop_oneof![Just(b'/'), Just(b'.'), Just(b'%'), Just(b'2'), Just(b'e'), Just(b';'), any::<u8>()], 0..24),
        options in options()) {
        check_with(&[b"/".as_slice(), &tail].concat(), &options);
    }
}
