//! Tests of the functions of Rust, called from Lua.

use lua::natives::{Charge, install_natives};
use mlua::{Lua, Table, Value};

/// The values that `code` returns, as one text each, in an interpreter with the functions as `native`.
fn run(code: &str) -> String {
    let lua = Lua::new();
    let native = lua.create_table().unwrap();
    install_natives(&lua, &native).unwrap();
    lua.globals().set("native", native).unwrap();
    let code = format!(
        "local results = {{}} for _, v in ipairs({{(function() {code} end)()}}) do results[#results + 1] = tostring(v) end return table.concat(results, ' ')"
    );
    lua.load(code).eval::<String>().unwrap()
}

#[test]
fn json_marks_arrays_and_keeps_slashes() {
    let check = |code: &str, expected: &str| assert_eq!(run(code), expected, "{code}");
    check("return native.json_encode(native.json_decode('[]'))", "[]");
    check("return native.json_encode({ a = '/x' })", r#"{"a":"/x"}"#);
    check("local v = native.json_decode('[1,2]') v[1] = nil v[2] = nil return native.json_encode(v)", "[]");
    check("return native.json_canonical({ b = 1, a = { d = 2, c = 3 } })", r#"{"a":{"c":3,"d":2},"b":1}"#);
    check("local _, e = native.json_decode('{') return e ~= nil", "true");
    check("return native.json_encode({ native.null })", "[null]");
}

#[test]
fn digests_have_the_published_values() {
    let check = |code: &str, expected: &str| assert_eq!(run(code), expected, "{code}");
    check("return native.to_hex(native.digest('sha1', 'abc'))", "a9993e364706816aba3e25717850c26c9cd0d89d");
    check(
        "return native.to_hex(native.digest('sha256', 'abc'))",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    );
    check(
        "return native.to_hex(native.hmac('sha256', 'key', 'The quick brown fox jumps over the lazy dog'))",
        "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
    );
    check(
        "local ok, e = pcall(native.digest, 'sha3', 'abc') return ok, tostring(e):match('not available[^\\n]*')",
        "false not available in Weir: the digest `sha3`",
    );
}

#[test]
fn schema_takes_empty_tables_for_lists() {
    let check = |code: &str, expected: &str| {
        let with = format!(
            "local check, e = native.compile_schema({{ type = 'object', required = {{}}, properties = {{ \
             list = {{ type = 'array', default = {{}} }}, n = {{ type = 'integer', minimum = 1 }} }} }}) \
             if not check then return e end {code}"
        );
        assert_eq!(run(&with), expected, "{code}");
    };
    check("return check({ list = {} })", "true");
    check(
        "return check({ list = { a = 1 } })",
        r#"false property "list" validation failed: wrong type: expected array, got table"#,
    );
    check("return check({ n = 0 })", r#"false property "n" validation failed: expected 0 to be at least 1"#);
    check("return check({ n = '$secret://vault/1/a' })", "true");
    check("return check({ n = '$env://A' })", "true");
}

#[test]
fn addresses_and_networks_are_read() {
    let check = |code: &str, expected: &str| assert_eq!(run(code), expected, "{code}");
    check("return native.parse_ip('1.2.3.4')", "4 16909060");
    check("local kind, words = native.parse_ip('::1') return kind, words[4]", "6 1");
    check(
        "local contains = native.networks({ '10.0.0.0/8', '::1' }) return contains('10.1.2.3'), contains('11.0.0.1')",
        "true false",
    );
    check(
        "local contains, reason = native.networks({ 'x' }) return contains == nil, #reason > 0",
        "true true",
    );
    check("return native.check_expression({ { 'arg_a', '==', 'x' } })", "true");
    check(
        "local ok, reason = native.check_expression({ { 'arg_a', 'like', 'x' } }) return ok == nil, #reason > 0",
        "true true",
    );
}

#[test]
fn signature_is_verified_by_the_public_key_alone() {
    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let pem = |label: &str, der: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", data_encoding::BASE64.encode(der))
    };
    let private = pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref());
    let public = pem("PUBLIC KEY", pair.public_key().as_der().unwrap().as_ref());
    let code = format!(
        "local s = native.sign('ES256', [[{private}]], 'data') \
         return native.verify('ES256', [[{public}]], 'data', s), native.verify('ES256', [[{public}]], 'other', s)"
    );
    assert_eq!(run(&code), "true false");
    assert_eq!(
        run("local s, e = native.sign('ES256', 'no key', 'data') return s == nil, #e > 0"),
        "true true"
    );
}

#[test]
fn work_of_rust_is_charged_to_the_call() {
    let lua = Lua::new();
    let native = lua.create_table().unwrap();
    install_natives(&lua, &native).unwrap();
    lua.set_app_data(Charge::new(|steps| match steps {
        0..100 => Ok(()),
        _ => Err(mlua::Error::runtime("too many steps")),
    }));
    let digest: mlua::Function = native.get("digest").unwrap();
    assert!(digest.call::<Value>(("sha256", "short")).is_ok());
    assert!(digest.call::<Value>(("sha256", "x".repeat(10_000))).is_err());
    let _: Table = native.get("metadata").unwrap();
}
