//! Filters against a small request: each sign, each fault with its place, and properties of arbitrary texts.

use proptest::prelude::*;

use super::*;

/// A request with two hosts.
struct Sample;

impl Searchable for Sample {
    fn any_word(&self, test: &mut dyn FnMut(&str) -> bool) -> bool {
        ["Shop-Read", "shop.example", "/shop/books", "http://a:80", "ÄRGER, \"so\""].into_iter().any(test)
    }

    fn any_text(&self, field: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
        match field {
            "host" => ["shop.example", "www.shop.example"].into_iter().any(test),
            "path" => test("/shop/books"),
            "method" => test("GET"),
            "cause" => test("a b"),
            _ => false,
        }
    }

    fn number(&self, field: &str) -> Option<f64> {
        match field {
            "status" => Some(502.0),
            "took" => Some(250_000.0),
            "bytes" => Some(2_000.0),
            _ => None,
        }
    }
}

#[track_caller]
fn check(text: &str, expected: bool) {
    let filter = SearchFilter::parse(text, &TRAFFIC_FIELDS).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(filter.matches(&Sample), expected, "{text}");
    let again = SearchFilter::parse(&filter.to_string(), &TRAFFIC_FIELDS);
    assert_eq!(again.as_ref(), Ok(&filter), "{text} became {filter}");
}

#[test]
fn words_are_parts_of_texts() {
    for (text, expected) in [
        ("", true),
        ("  ", true),
        ("shop", true),
        ("SHOP-r", true),
        ("shop books", true),
        ("shop other", false),
        ("-shop", false),
        ("-other", true),
        ("other,books", true),
        ("sh*bo*s", true),
        ("bo*sh*p", false),
        ("http://a", true),
        ("http://b", false),
        ("\"a:80\"", true),
        ("ärger", true),
        ("\"ärger, \\\"so\"", true),
        ("*", true),
        ("-", true),
    ] {
        check(text, expected);
    }
}

#[test]
fn fields_are_compared_whole() {
    for (text, expected) in [
        ("host:shop.example", true),
        ("HOST:Shop.Example", true),
        ("host:shop", false),
        ("host:*shop.example", true),
        ("host:www.*", true),
        ("host:*shop*", true),
        ("host:w*w.s*e", true),
        ("host:w*x", false),
        ("host:\"*\"", false),
        ("host:**", true),
        ("-host:other", true),
        ("-host:shop.example", false),
        ("method:GET,POST", true),
        ("method:PUT,POST", false),
        ("cause:\"A b\"", true),
        ("consumer:*", false),
        ("host:shop.example status:>=500 -method:POST", true),
    ] {
        check(text, expected);
    }
}

#[test]
fn numbers_and_times_are_compared() {
    for (text, expected) in [
        ("status:502", true),
        ("status:5xx", true),
        ("status:4xx,5XX", true),
        ("status:50*", true),
        ("status:4*", false),
        ("status:>=500", true),
        ("status:<500", false),
        ("took:>200ms", true),
        ("took:<=0.25s", true),
        ("took:250ms", true),
        ("took:>1m", false),
        ("took:>0", true),
        ("bytes:>=2k", true),
        ("bytes:<2Ki", true),
        ("worker:0", false),
        ("-worker:0", true),
    ] {
        check(text, expected);
    }
}

#[track_caller]
fn refuse(text: &str, at: usize, expected: &str, reason: &str) {
    let error = SearchFilter::parse(text, &TRAFFIC_FIELDS).unwrap_err();
    assert_eq!(error.at, at, "{text}: {error}");
    assert!(error.expected.contains(&expected) || expected.is_empty(), "{text}: {:?}", error.expected);
    assert!(error.reason.contains(reason), "{text}: {error}");
}

#[test]
fn faults_name_their_place_and_the_way_out() {
    refuse("stats:500", 0, "status", "did you mean `status`?");
    refuse("ä -zzzzzzzz:1", 3, "route", "no field `zzzzzzzz`");
    refuse("status:", 7, ">=", "missing");
    refuse("status:abc", 7, "5xx", "status:>=500");
    refuse("status:>=x", 9, "number", "status");
    refuse("took:>200", 6, "ms", "took:>200ms");
    refuse("took:>soon", 6, "ms", "took:>200ms");
    refuse("host:\"a", 5, "\"", "not closed");
    refuse("host:\"a\"b", 8, ",", "behind the closing quote");
    refuse("host:>a", 5, "", "no order");
    refuse("host:a,", 7, "", "missing");
    refuse("localhost:8080", 0, "host", "in quotes");
    refuse(&"x".repeat(FILTER_BYTES_MAX + 1), FILTER_BYTES_MAX, "", "1024 bytes");
    refuse(&"x ".repeat(TERMS_MAX + 1), 2 * TERMS_MAX, "", "32 terms");
    refuse(&"x,".repeat(VALUES_MAX + 1), 2 * VALUES_MAX, "", "64 values");
    let error = SearchFilter::parse("state:gone", &OBJECT_FIELDS).unwrap_err();
    assert_eq!((error.at, error.expected), (6, vec!["in_force", "last_good", "out", "off"]));
}

/// An object with one text.
struct One<'a>(&'a str);

impl Searchable for One<'_> {
    fn any_word(&self, test: &mut dyn FnMut(&str) -> bool) -> bool {
        test(self.0)
    }

    fn any_text(&self, field: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
        field == "host" && test(self.0)
    }

    fn number(&self, _: &str) -> Option<f64> {
        None
    }
}

proptest! {
    #[test]
    fn any_text_is_a_filter_or_a_fault(text in ".{0,80}", field in "(host|status|took|bytes|x)?:?") {
        let text = format!("{field}{text}");
        match SearchFilter::parse(&text, &TRAFFIC_FIELDS) {
            Ok(filter) => {
                filter.matches(&Sample);
                let again = SearchFilter::parse(&filter.to_string(), &TRAFFIC_FIELDS);
                prop_assert_eq!(again, Ok(filter));
            }
            Err(error) => prop_assert!(error.at <= text.chars().count()),
        }
    }

    #[test]
    fn signs_in_any_order_do_not_panic(text in "[-:,*\"\\\\ <>=a5x.%]{0,40}") {
        if let Ok(filter) = SearchFilter::parse(&text, &TRAFFIC_FIELDS) {
            filter.matches(&Sample);
            let again = SearchFilter::parse(&filter.to_string(), &TRAFFIC_FIELDS);
            prop_assert_eq!(again, Ok(filter));
        }
    }

    #[test]
    fn quoted_text_finds_itself(text in "\\PC{1,60}") {
        let word = SearchFilter::parse(&quote(&text), &TRAFFIC_FIELDS).unwrap();
        prop_assert!(word.matches(&One(&text)), "{}", word);
        let field = SearchFilter::parse(&format!("host:{}", quote(&text)), &TRAFFIC_FIELDS).unwrap();
        prop_assert!(field.matches(&One(&text)), "{}", field);
        let longer = format!("{text}\u{1}");
        prop_assert!(!field.matches(&One(&longer)), "{}", field);
    }
}
