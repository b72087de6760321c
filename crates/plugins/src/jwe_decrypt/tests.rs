//! Configurations of `jwe-decrypt`, tokens that another library and APISIX's documentation made, and
//! refusals.

use exchange::testing::{Scene, check_configuration, consumer, decide};
use model::catalog::SchemaType;

use super::*;

const SECRET: &str = "12345678901234567890123456789012";
/// Made with jwcrypto: the content `hello jack`.
const STANDARD: &str = "eyJhbGciOiAiZGlyIiwgImVuYyI6ICJBMjU2R0NNIiwgImtpZCI6ICJ1c2VyLWtleSJ9..vG4DfsJa5K5IHMxx.HKJ2M0SvcrDBHQ.9fPkumF1kNlNz3M6KONYkg";
/// Made with jwcrypto: a content with a line break.
const TWO_LINES: &str = "eyJhbGciOiAiZGlyIiwgImVuYyI6ICJBMjU2R0NNIiwgImtpZCI6ICJ1c2VyLWtleSJ9..nc1PrvABDasNU7MJ.iziaLIAneA.qt6R87Iz-ZIDRfiQF3QGpg";
/// In the form of APISIX, without an authenticated header: the content `hello`.
const UNBOUND: &str = "eyJraWQiOiJ1c2VyLWtleSIsImFsZyI6ImRpciIsImVuYyI6IkEyNTZHQ00ifQ..MTIzNDU2Nzg5MDEy.6JeRgm0.rNt131nG5wMvUD1KXbwLGA";

#[test]
fn configurations() {
    let check = |schema_type, config: Value, fault: Option<&str>| {
        check_configuration(&KIND, schema_type, &config, fault);
    };
    check(SchemaType::Plugin, json!({}), None);
    check(SchemaType::Plugin, json!({"header": "X", "forward_header": "Y", "strict": false}), None);
    check(
        SchemaType::Plugin,
        json!({"forward_header": "a b"}),
        Some("forward_header: invalid field character"),
    );
    check(SchemaType::Plugin, json!({"strict": 1}), Some("strict"));
    let credential = |config: Value, fault| check(SchemaType::Consumer, config, fault);
    credential(json!({"key": "123", "secret": SECRET}), None);
    credential(
        json!({"key": "k", "secret": "fo4XKdZ1xSrIZyms4q2BwPrW5lMpls9qqy5tiAk2esc=", "is_base64_encoded": true}),
        None,
    );
    credential(json!({"key": "k", "secret": "$env://SECRET"}), None);
    credential(json!({"secret": SECRET}), Some("property \"key\" is required"));
    credential(json!({"key": "", "secret": SECRET}), Some("key"));
    credential(json!({"key": 123, "secret": SECRET}), Some("wrong type: expected string, got number"));
    credential(
        json!({"key": "k", "secret": "1234567890123456789012345678901"}),
        Some("the secret length should be 32 chars"),
    );
    for secret in ["YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWZn", SECRET, "***"] {
        let config = json!({"key": "k", "secret": secret, "is_base64_encoded": true});
        credential(config, Some("the secret length after base64 decode should be 32 chars"));
    }
}

/// The field `X-Content` that the upstream receives, or the refusal.
fn ask(config: Value, fields: &str) -> Result<Option<String>, (u16, String)> {
    let mut jack = consumer("jack");
    jack.compiled = Some(compile_credential(&json!({"secret": SECRET})).unwrap());
    let mut scene =
        Scene::new().with_consumer(NAME, "user-key", jack).with_consumer(NAME, "bare", consumer("jo"));
    let plugin = scene.build(&KIND, &config);
    let mut exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    match decide(plugin.rewrite(&mut exchange)) {
        Some(reply) => {
            let body: Value = serde_json::from_slice(&reply.body).unwrap();
            Err((reply.status, body["message"].as_str().unwrap().to_owned()))
        }
        None => Ok(exchange
            .request
            .headers
            .get("X-Content")
            .map(|value| String::from_utf8(value.to_vec()).unwrap())),
    }
}

#[test]
fn content_of_a_token_is_passed_on() {
    let config = json!({"forward_header": "X-Content"});
    let check = |field: &str, content: &str| {
        let fields = format!("X-Content: forged\r\nAuthorization: {field}\r\n");
        assert_eq!(ask(config.clone(), &fields), Ok(Some(content.to_owned())), "{field}");
    };
    check(STANDARD, "hello jack");
    check(&format!("Bearer {STANDARD}"), "hello jack");
    check(&format!("bearer {UNBOUND}"), "hello");
    let named = json!({"header": "X-Token", "forward_header": "X-Content"});
    assert_eq!(ask(named, &format!("X-Token: {UNBOUND}\r\n")), Ok(Some("hello".to_owned())));
}

#[test]
fn other_requests_are_refused() {
    let refused = |config: Value, fields: &str, status, message: &str| {
        assert_eq!(ask(config, fields), Err((status, message.to_owned())), "{fields}");
    };
    refused(json!({}), "", 403, "missing JWE token in request");
    assert_eq!(ask(json!({"strict": false}), ""), Ok(None));
    let open = json!({"strict": false, "forward_header": "X-Content"});
    assert_eq!(ask(open, "X-Content: forged\r\n"), Ok(None), "no token stands for the content");
    let check = |token: &str, message: &str| {
        refused(json!({}), &format!("Authorization: {token}\r\n"), 400, message);
    };
    let header = |text: &str| {
        STANDARD.replacen(STANDARD.split('.').next().unwrap(), &BASE64URL_NOPAD.encode(text.as_bytes()), 1)
    };
    let invalid = "JWE token invalid";
    check("", invalid);
    check(&format!("bearer invalid-{UNBOUND}"), invalid);
    check(&UNBOUND.replace("..", "."), invalid);
    check(&format!("{UNBOUND}.a"), invalid);
    check(&UNBOUND.replace("MTIzNDU2Nzg5MDEy", "MTIz"), invalid);
    check(&header("[]"), invalid);
    check(&header(r#"{"alg":"RSA-OAEP","kid":"user-key"}"#), invalid);
    let direct = |rest: &str| header(&format!(r#"{{"alg":"dir","enc":"A256GCM"{rest}}}"#));
    for malformed in [
        r#"{"alg":"dir","enc":"A128GCM","kid":"user-key"}"#,
        r#"{"alg":"dir","kid":"user-key"}"#,
        r#"{"enc":"A256GCM","kid":"user-key"}"#,
        r#"{"kid":"user-key"}"#,
    ] {
        check(&header(malformed), invalid);
    }
    for extension in [r#","zip":"DEF""#, r#","zip":"""#, r#","zip":null"#, r#","crit":["b64"]"#] {
        check(&direct(&format!(r#","kid":"user-key"{extension}"#)), invalid);
    }
    check(&STANDARD.replace("..", ".a."), invalid);
    check(&UNBOUND.replace("..", ".YWJj."), invalid);
    check(&direct(""), "missing kid in JWE token");
    check(&direct(r#","kid":"joe""#), "invalid kid in JWE token");
    check(&direct(r#","kid":"""#), "invalid kid in JWE token");
    let undecrypted = "failed to decrypt JWE token";
    check(&direct(r#","kid":"bare""#), undecrypted);
    // The header of a standard token is part of what its tag protects.
    check(&direct(r#","kid":"user-key""#), undecrypted);
    check(&UNBOUND.replace("6JeRgm0", "6JeRgmw"), undecrypted);
    check(TWO_LINES, undecrypted);
    refused(json!({}), &format!("Authorization: {UNBOUND}\r\nAuthorization: x\r\n"), 400, invalid);
}
