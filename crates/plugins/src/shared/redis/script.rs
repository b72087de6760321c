//! A script that Redis runs, with the digest by which the server knows it once it has seen it.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use data_encoding::HEXLOWER;

/// A script of Lua; it names one key.
pub(crate) struct RedisScript {
    /// The source.
    pub(crate) text: &'static str,
    /// SHA-1 of the source in hexadecimal digits, which Redis prescribes.
    pub(crate) digest: Box<str>,
}

impl RedisScript {
    /// The script with this source.
    pub(crate) fn new(text: &'static str) -> RedisScript {
        let digest = HEXLOWER.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref());
        RedisScript { text, digest: digest.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_that_of_redis() {
        // From `redis-cli SCRIPT LOAD 'return 1'`.
        assert_eq!(&*RedisScript::new("return 1").digest, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
