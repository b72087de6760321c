//! Makes the plain and the gzip form of a file from its Brotli form. It knows no names. A build without the
//! feature `dashboard` has no files, so that it needs no decoder for them.

use std::io;

/// The content of a Brotli form.
///
/// # Errors
/// It is no whole Brotli stream, or its content is longer than [`FILE_BYTES_MAX`].
#[cfg(feature = "dashboard")]
pub(super) fn decompress(brotli: &[u8]) -> io::Result<Vec<u8>> {
    use std::io::Read;

    let mut plain = Vec::new();
    // One byte more than the limit tells a file of exactly the limit from a longer one.
    let limit_bytes = FILE_BYTES_MAX as u64 + 1;
    brotli::Decompressor::new(brotli, INPUT_BYTES).take(limit_bytes).read_to_end(&mut plain)?;
    if plain.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("the file is longer than a file of the dashboard may be"));
    }
    Ok(plain)
}

/// The gzip form of a content.
///
/// # Errors
/// The encoder failed; writing to memory itself does not fail.
#[cfg(feature = "dashboard")]
pub(super) fn gzip(plain: &[u8]) -> io::Result<Vec<u8>> {
    use std::io::Write;

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain)?;
    encoder.finish()
}

#[cfg(not(feature = "dashboard"))]
pub(super) fn decompress(_: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(feature = "dashboard"))]
pub(super) fn gzip(_: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Limit of the plain content of a file, in bytes. The largest file has 0.4 MB; the limit bounds the memory
/// of a request if `web/dist` was built wrongly.
#[cfg(feature = "dashboard")]
const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of input that the decoder reads at a time.
#[cfg(feature = "dashboard")]
const INPUT_BYTES: usize = 4 * 1024;

#[cfg(all(test, feature = "dashboard"))]
mod tests {
    use super::*;

    #[test]
    fn content_is_bounded() {
        let check = |bytes: usize, is_taken: bool| {
            let mut brotli = Vec::new();
            let settings = brotli::enc::BrotliEncoderParams { quality: 1, ..Default::default() };
            brotli::BrotliCompress(&mut &*vec![b'a'; bytes], &mut brotli, &settings).unwrap();
            assert_eq!(decompress(&brotli).is_ok(), is_taken, "{bytes}");
            assert!(decompress(&brotli[..brotli.len() - 1]).is_err(), "{bytes}: a cut form is refused");
        };
        check(0, true);
        check(100_000, true);
        check(FILE_BYTES_MAX, true);
        check(FILE_BYTES_MAX + 1, false);
    }
}
