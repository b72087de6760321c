//! The codings of bodies: what clients accept, which responses are coded, the encoders of gzip, Brotli and
//! Zstandard, and a decoder with limits. It knows no plugin.

mod accept;
mod brotli;
pub(crate) mod decode;
mod encoder;
mod fields;
mod gzip;
mod plugin;
mod plugin_kind;
mod pool;
mod rules;
mod zstd;

pub(crate) use self::brotli::{Brotli, BrotliMode, BrotliSettings};
pub(crate) use self::gzip::{Gzip, GzipLevel};
pub(crate) use self::zstd::{Zstd, ZstdLevel};
pub(crate) use encoder::Compressor;
pub(crate) use plugin_kind::{CodingConfig, coding_attributes, coding_kind};
pub(crate) use rules::{EncodingRules, HttpVersion, MediaTypes};

#[cfg(test)]
mod tests;
