//! Vectors of another program, round trips, and the errors for damaged and foreign texts.
//!
//! OpenSSL 3.0 made the vectors with the same keys:
//! `printf %s TEXT | openssl enc -aes-128-cbc -K HEX -iv HEX -base64 -A`, where both HEX are the key's bytes
//! (`od -v -An -tx1`), with `-aes-256-cbc` the vector its first 16.

use model::ObjectKind;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{catalog, sealer};

const KEY_128: &str = "edd1c9f0985e76a2";
const KEY_256: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "qeddd145sfvddff3";

fn jack() -> ObjectKey {
    ObjectKey::new(ObjectKind::Consumer, "jack").unwrap()
}

fn consumer(secret: &str) -> String {
    json!({"username": "jack", "plugins": {"auth": {"key": secret}}}).to_string()
}

#[test]
fn encryption_gives_the_bytes_of_openssl() {
    let check = |key: &str, plain: &str, sealed: &str| {
        assert_eq!(sealer(&[key]).seal(&jack(), &consumer(plain)), consumer(sealed));
        assert_eq!(sealer(&[OTHER, key]).open(&jack(), &consumer(sealed)).unwrap(), consumer(plain));
    };
    check(KEY_128, "auth-one", "RjeV6km+KxQJN2rfu8Y7aA==");
    check(KEY_256, "auth-one", "jMinfe2nNUgjwW02ZBFULg==");
    check(
        KEY_128,
        "a secret of more than one block, ü",
        "4uBjmDjw6u2y7BHpBUMtYNCstyUjJxLvBbe4kI28pBRLa0NOwtRQhY0wN5Sf8oUt",
    );
    check(KEY_128, "", "vA4BfcVo+wewoRJDl1bmfA==");
}

#[test]
fn private_keys_are_encrypted_and_references_stay() {
    let ssl = ObjectKey::new(ObjectKind::Ssl, "1").unwrap();
    let sealer = sealer(&[KEY_128]);
    let text = json!({"cert": "---c", "key": "---k", "certs": ["---d"], "keys": ["$secret://vault/1/a/b"]});
    let sealed: Value = serde_json::from_str(&sealer.seal(&ssl, &text.to_string())).unwrap();
    assert_eq!((&sealed["cert"], &sealed["certs"][0]), (&json!("---c"), &json!("---d")));
    assert_eq!(sealed["keys"][0], "$secret://vault/1/a/b");
    assert_ne!(sealed["key"], "---k");
    assert_eq!(sealer.open(&ssl, &sealed.to_string()).unwrap(), text.to_string());
    let marked = sealer.seal_for(StorageMedium::Store, &ssl, &text.to_string()).into_owned();
    assert_eq!(sealer.open_from(StorageMedium::Store, &ssl, &marked).unwrap(), text.to_string());
}

#[test]
fn plain_secret_is_read_with_a_keyring() {
    let sealer = sealer(&[KEY_128]);
    // The last three look encrypted: base64 of 16, 32 and 48 bytes.
    for plain in [
        "auth-one",
        "",
        "$env://KEY",
        "AAECAwQFBgcICQoLDA0ODw==",
        "IHn1dJ8Wlw2mSYKYmW2aVJRrcuAmDpsUlbn0Nhcv0HA=",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ] {
        assert_eq!(
            sealer.open_from(StorageMedium::Store, &jack(), &consumer(plain)).unwrap(),
            consumer(plain)
        );
    }
    // Without the store's mark the form is unknown, and a text that may be an encrypted key opens no access.
    let closed = sealer.open(&jack(), &consumer("AAECAwQFBgcICQoLDA0ODw==")).unwrap_err();
    assert_eq!(closed, SealedError::Field("/plugins/auth/key".to_owned()));
    assert_eq!(sealer.open(&jack(), &consumer("auth-one")).unwrap(), consumer("auth-one"));
}

#[test]
fn undecryptable_secret_is_reported_without_text() {
    let text = consumer("s3cr3t");
    let stored = sealer(&[KEY_128]).seal_for(StorageMedium::Store, &jack(), &text).into_owned();
    assert!(!stored.contains("s3cr3t"));
    assert_eq!(
        sealer(&[]).open_from(StorageMedium::Store, &jack(), &stored).unwrap_err(),
        SealedError::NoKeyring
    );
    let field = SealedError::Field("/plugins/auth/key".to_owned());
    assert_eq!(sealer(&[OTHER]).open_from(StorageMedium::Store, &jack(), &stored).unwrap_err(), field);
    assert_eq!(
        sealer(&[OTHER, KEY_256, KEY_128]).open_from(StorageMedium::Store, &jack(), &stored).unwrap(),
        text
    );
    // A marked text holds encrypted secrets only, so a plain secret in it shows that it was changed.
    let plain = format!("{MARK}{text}");
    assert_eq!(sealer(&[KEY_128]).open_from(StorageMedium::Store, &jack(), &plain).unwrap_err(), field);
    assert_eq!(format!("{:?}", sealer(&[KEY_128])), "Sealer(1 keys)");
}

#[test]
fn text_without_keyring_or_secret_is_unchanged() {
    let none = sealer(&[]);
    for text in [consumer("k"), "{ }".to_owned(), "no JSON".to_owned()] {
        assert!(
            matches!(none.seal_for(StorageMedium::Store, &jack(), &text), Cow::Borrowed(same) if same == text)
        );
        assert!(matches!(none.open(&jack(), &text), Ok(Cow::Borrowed(same)) if same == text));
    }
    for text in [r#"{ "username":"jack" , "a" : 1.0}"#, "no JSON"] {
        let sealer = sealer(&[KEY_128]);
        let sealed = sealer.seal_for(StorageMedium::Store, &jack(), text);
        assert!(matches!(sealed, Cow::Borrowed(same) if same == text));
    }
}

#[test]
fn unusable_keyrings_are_refused() {
    let refused = |keyring: &[&str]| Sealer::new(catalog(), keyring).unwrap_err();
    assert_eq!(refused(&[KEY_128, "short"]), KeyringError::Length { number: 2, bytes: 5 });
    assert_eq!(refused(&[KEY_128; MAX_KEYS + 1]), KeyringError::TooMany(MAX_KEYS + 1));
}

proptest! {
    #[test]
    fn encrypted_secret_decrypts_to_the_same(
        secret in any::<String>(),
        first in "[ -~]{16}|[ -~]{32}",
        second in "[ -~]{16}|[ -~]{32}",
    ) {
        let text = consumer(&secret);
        let sealed = sealer(&[&second]).seal(&jack(), &text).into_owned();
        prop_assert_eq!(&*sealer(&[&second]).open(&jack(), &sealed).unwrap(), &*text);
        prop_assert_eq!(&*sealer(&[&first, &second]).open(&jack(), &sealed).unwrap(), &*text);
        let marked = sealer(&[&second]).seal_for(StorageMedium::Store, &jack(), &text).into_owned();
        let both = sealer(&[&first, &second]);
        prop_assert_eq!(&*both.open_from(StorageMedium::Store, &jack(), &marked).unwrap(), &*text);
    }

    #[test]
    fn opening_anything_never_panics(secret in "[A-Za-z0-9+/=]{0,70}", marked in any::<bool>()) {
        let text = if marked { format!("{MARK}{}", consumer(&secret)) } else { consumer(&secret) };
        let _ = sealer(&[KEY_128, KEY_256]).open_from(StorageMedium::Store, &jack(), &text);
        let _ = sealer(&[KEY_128, KEY_256]).open(&jack(), &text);
    }
}
