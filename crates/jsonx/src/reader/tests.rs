//! The reader beside `serde_json`, and the texts of numbers.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Parsed, ReadError> {
    parse(text.as_bytes(), Bounds::DEFAULT)
}

#[test]
fn numbers_keep_their_text() {
    let texts = [
        "0",
        "-0",
        "1e2",
        "1E400",
        "-1e-400",
        "18446744073709551615",
        "18446744073709551616",
        "0.1000000000000000055511151231257827",
        "[1.50,\"a\",9007199254740993]",
        "{\"id\":1000000000000000000001,\"b\":{\"c\":[-0.0]}}",
    ];
    for text in texts {
        let parsed = read(text).unwrap();
        assert_eq!((parsed.value.to_string().as_str(), parsed.repeats_names), (text, false));
    }
}

#[test]
fn numbers_for_serde_are_the_nearest() {
    let check = |text: &str, expected: &str| {
        assert_eq!(read(text).unwrap().value.to_serde().to_string(), expected, "{text}");
    };
    check("18446744073709551615", "18446744073709551615");
    check("-9223372036854775808", "-9223372036854775808");
    check("-0", "-0.0");
    check("1E400", "1.7976931348623157e+308");
    check("-1E400", "-1.7976931348623157e+308");
    check("1e-400", "5e-324");
    check("0e-400", "0.0");
    check("[1.5,{\"a\":null}]", "[1.5,{\"a\":null}]");
}

#[test]
fn changes_keep_the_digits_of_the_rest() {
    let value = read(r#"{"id":18446744073709551616,"l":[1.50,{"pin":1e2}],"m":[1.10,2]}"#).unwrap().value;
    let mut changed = value.to_serde();
    changed["l"][1]["pin"] = "***".into();
    changed["m"] = serde_json::json!([1.1]);
    changed["new"] = 7.into();
    let expected = r#"{"id":18446744073709551616,"l":[1.50,{"pin":"***"}],"m":[1.1],"new":7}"#;
    assert_eq!(value.with_changes(&changed).to_string(), expected);
}

#[test]
fn last_member_of_a_name_counts() {
    let many: String = (0..40).map(|index| format!("\"k{index}\":{index},")).collect();
    for (text, expected) in [
        (r#"{"b":1,"a":2,"b":3}"#.to_owned(), r#"{"b":3,"a":2}"#.to_owned()),
        (r#"{"a":1,"\u0061":2}"#.to_owned(), r#"{"a":2}"#.to_owned()),
        (r#"[{"x":{"a":[],"a":{}}}]"#.to_owned(), r#"[{"x":{"a":{}}}]"#.to_owned()),
        (
            format!("{{{many}\"k0\":7}}"),
            format!("{{{}}}", many.replacen(":0", ":7", 1).trim_end_matches(',')),
        ),
    ] {
        let parsed = read(&text).unwrap();
        assert!(parsed.repeats_names && parsed.value.to_string() == expected, "{text}: {parsed:?}");
    }
    assert!(!read(&format!("{{{many}\"k\":{{\"k0\":1}}}}")).unwrap().repeats_names);
}

/// The verdicts and values of this reader and of `serde_json` agree; numbers that no double holds are taken
/// here only.
fn check_twin(text: &[u8]) {
    let expected = serde_json::from_slice::<serde_json::Value>(text);
    match (parse(text, Bounds::DEFAULT), expected) {
        (Ok(parsed), Ok(expected)) => assert_eq!(parsed.value.to_serde(), expected),
        (Ok(_), Err(error)) => assert!(error.to_string().contains("number out of range"), "{error}"),
        (Err(error), Ok(value)) => panic!("{error}: {value}"),
        (Err(_), Err(_)) => {}
    }
}

#[test]
fn malformed_texts_are_refused_as_by_serde() {
    let texts: [&[u8]; 34] = [
        b"",
        b" ",
        b"{",
        b"[",
        b"[1",
        b"[1,",
        b"[1,]",
        b"[,]",
        b"{\"a\"}",
        b"{\"a\":}",
        b"{\"a\":1,}",
        b"{1:2}",
        b"1 2",
        b"01",
        b"-",
        b"-01",
        b"1.",
        b".5",
        b"1e",
        b"1e+",
        b"+1",
        b"tru",
        b"nul",
        b"truex",
        b"\"",
        b"\"\\\"",
        b"\"\\x\"",
        b"\"\\ud800\"",
        b"\"\n\"",
        b"\"\xff\"",
        b"\"\\u00e9\xc3\xa9\"",
        b"[]]",
        b"\xef\xbb\xbf{}",
        b"'a'",
    ];
    for text in texts {
        check_twin(text);
    }
    assert!(read(&"[".repeat(200_000)).is_err());
    let balanced = format!("{}{}", "[".repeat(127), "]".repeat(127));
    assert!(read(&balanced).is_ok() && read(&format!("[{balanced}]")).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_as_by_serde(text in "[\\[\\]{}:,\"\\\\u0-9a-f.eE+ \\-truefalsn]{0,40}") {
        check_twin(text.as_bytes());
    }

    #[test]
    fn written_values_are_read_again(text in "\\PC{0,20}", number: f64, integer: i64) {
        prop_assume!(number.is_finite());
        let value = serde_json::json!({"t": text, (text.clone()): [number, integer, {"x": [null, true]}]});
        let parsed = read(&value.to_string()).unwrap();
        prop_assert_eq!(parsed.value.to_serde(), value.clone());
        prop_assert_eq!(Value::from(&value).to_string(), value.to_string());
    }
}
