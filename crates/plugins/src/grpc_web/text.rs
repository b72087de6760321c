//! The base64 of `application/grpc-web-text`: a request may consist of several texts, each with padding of
//! its own.

use data_encoding::BASE64;

/// Decodes a request body; none if it is no base64.
pub(super) fn decode_grpc_text(text: &[u8]) -> Option<Vec<u8>> {
    // A client that encodes piece by piece leaves padding inside the text, after which the next piece begins.
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let end = match rest.iter().position(|byte| *byte == b'=') {
            Some(padding) => (padding / 4 + 1) * 4,
            None => rest.len(),
        };
        let (piece, later) = rest.split_at_checked(end)?;
        decoded.extend_from_slice(&BASE64.decode(piece).ok()?);
        rest = later;
    }
    Some(decoded)
}

/// Encodes a piece of a response body, with padding of its own.
pub(super) fn encode_grpc_text(piece: &mut Vec<u8>) {
    if !piece.is_empty() {
        *piece = BASE64.encode(piece).into_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concatenated_texts_are_decoded() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(decode_grpc_text(text.as_bytes()).as_deref(), expected.map(str::as_bytes), "{text}");
        };
        check("", Some(""));
        check("aGVsbG8=", Some("hello"));
        check("aGVsbG8=aGVsbG8=\r\n", Some("hellohello"));
        check("aA==aGU=aGVs", Some("hhehel"));
        for bad in ["a", "aGVsbG8", "aGVs!A==", "=", "====", "aA=a", "aA==a", "aA==aG=", "aB=="] {
            check(bad, None);
        }
    }

    #[test]
    fn encoded_pieces_are_decoded_again() {
        let mut sent = Vec::new();
        for piece in ["a", "", "bc", "def"] {
            let mut piece = piece.as_bytes().to_vec();
            encode_grpc_text(&mut piece);
            sent.extend_from_slice(&piece);
        }
        assert_eq!(
            (sent.as_slice(), decode_grpc_text(&sent).unwrap().as_slice()),
            (&b"YQ==YmM=ZGVm"[..], &b"abcdef"[..])
        );
    }
}
