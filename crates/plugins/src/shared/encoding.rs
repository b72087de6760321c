//! The codings of bodies: what clients accept, which responses are coded, the encoders of gzip, Brotli and Zstandard, and a
//! decoder with limits. It knows no plugin.

mod accept;
mod brotli;
pub(crate) mod decode;
mod encoder;
mod fields;
mod gzip;
mod plugin;
mod pool;
mod rules;
mod zstd;

pub(crate) use self::brotli::{Brotli, BrotliMode, BrotliSettings};
pub(crate) use self::gzip::{Gzip, GzipLevel};
pub(crate) use self::zstd::{Zstd, ZstdLevel};
pub(crate) use plugin::Compression;
pub(crate) use rules::{HttpVersion, Rules, Types};

#[cfg(test)]
mod tests;
