//! The signature of requests to Tencent Cloud Log Service:
//! <https://cloud.tencent.com/document/product/614/12445>. It uses SHA-1 because the service asks for it.

use aws_lc_rs::{digest, hmac};
use data_encoding::HEXLOWER;

/// The path that is signed, of requests that hold entries.
pub(super) const PATH: &str = "/structuredlog";
/// Seconds that a signature is valid.
const LIFETIME_S: u64 = 60;

/// The value of Authorization for a POST to [`PATH`] at `now_s`, in seconds of the Unix epoch.
pub(super) fn sign_cls_request(secret_id: &str, secret_key: &str, now_s: u64) -> String {
    // Method, path, parameters and fields; of the latter none are signed.
    let request = format!("post\n{PATH}\n\n\n");
    let time = format!("{now_s};{}", now_s + LIFETIME_S);
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, request.as_bytes());
    let text = format!("sha1\n{time}\n{}\n", HEXLOWER.encode(hash.as_ref()));
    let key = hmac_hex(secret_key, &time);
    let signature = hmac_hex(&key, &text);
    format!(
        "q-sign-algorithm=sha1&q-ak={secret_id}&q-sign-time={time}&q-key-time={time}&q-header-list=&\
         q-url-param-list=&q-signature={signature}"
    )
}

fn hmac_hex(key: &str, text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    HEXLOWER.encode(hmac::sign(&key, text.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value was computed with Python's `hmac` and `hashlib` from the service's description.
    #[test]
    fn signature_is_that_of_the_description() {
        let expected = "q-sign-algorithm=sha1&q-ak=id&q-sign-time=1700000000;1700000060&\
                        q-key-time=1700000000;1700000060&q-header-list=&q-url-param-list=&\
                        q-signature=cea1921f990ea9532fdb1c0c71222a6402681f3c";
        assert_eq!(sign_cls_request("id", "key", 1_700_000_000), expected);
    }
}
