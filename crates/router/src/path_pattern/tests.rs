//! Which paths match which patterns, with and without parameters, and the values of the parameters.

use super::PathPattern;
use crate::params::Params;
use proptest::prelude::*;

fn fits(pattern: &PathPattern, with_parameters: bool, path: &str, params: &mut Params) -> bool {
    path.as_bytes().starts_with(pattern.literal(with_parameters))
        && pattern.fits(with_parameters, path.as_bytes(), Some(params))
}

fn check(text: &str, with_parameters: bool, path: &str, expected: Option<&[(&str, &str)]>) {
    let pattern = PathPattern::parse(text).unwrap();
    let mut params = Params::new();
    let fitted = fits(&pattern, with_parameters, path, &mut params);
    assert_eq!(fitted, expected.is_some(), "{text} on {path}");
    let got: Vec<(&[u8], &[u8])> = params.iter().collect();
    let expected: Vec<(&[u8], &[u8])> = expected
        .unwrap_or_default()
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        .collect();
    assert_eq!(got, expected, "parameters of {text} on {path}");
}

#[test]
fn literals_and_prefixes() {
    for with_parameters in [false, true] {
        check("/a", with_parameters, "/a", Some(&[]));
        check("/a", with_parameters, "/a/", None);
        check("/a/*", with_parameters, "/a/", Some(&[(":ext", "")]));
        check("/a/*", with_parameters, "/a/b/c", Some(&[(":ext", "b/c")]));
        check("/a/*", with_parameters, "/a", None);
        check("/a*", with_parameters, "/abc/d", Some(&[(":ext", "bc/d")]));
        check("*", with_parameters, "/x", Some(&[(":ext", "/x")]));
    }
}

#[test]
fn inner_wildcards() {
    for with_parameters in [false, true] {
        check("/a/*x/b", with_parameters, "/a/1/2/b", Some(&[("x", "1/2")]));
        check("/a/*x/b", with_parameters, "/a//b", Some(&[("x", "")]));
        check("/a/*x/b", with_parameters, "/a/b", None);
        check("/a/*x/b", with_parameters, "/a/1/b/c", None);
        check("/a/*.html", with_parameters, "/a/b/c.html", Some(&[(":ext", "b/c")]));
        check("/a/*.html", with_parameters, "/a/b.htm", None);
        check("/a/b*c/d", with_parameters, "/a/bxc/d", Some(&[(":ext", "x")]));
        check("/a/*x/b/*y", with_parameters, "/a/1/b/2/b/3", Some(&[("x", "1/b/2"), ("y", "3")]));
        check("/*x/a/*y/b", with_parameters, "/1/a/2/a/3/b", Some(&[("x", "1/a/2"), ("y", "3")]));
    }
}

#[test]
fn parameters() {
    check("/u/:id", false, "/u/7", None);
    check("/u/:id", false, "/u/:id", Some(&[]));
    check("/u/:id", true, "/u/7", Some(&[("id", "7")]));
    check("/u/:id", true, "/u/", None);
    check("/u/:id", true, "/u/7/", None);
    check("/u/:id/", true, "/u/7/", Some(&[("id", "7")]));
    check("/u/:id/p/:name/*rest", true, "/u/7/p/x/a/b", Some(&[("id", "7"), ("name", "x"), ("rest", "a/b")]));
    check("/u/*x/p/:id", true, "/u/1/p/2/p/3", Some(&[("x", "1/p/2"), ("id", "3")]));
    check("/u/a:b", true, "/u/a:b", Some(&[]));
    check("/u/:id", true, "/u/cat%2Fdog", Some(&[("id", "cat%2Fdog")]));
}

#[test]
fn literals_end_where_patterns_begin() {
    let pattern = PathPattern::parse("/u/:id/*").unwrap();
    assert_eq!(pattern.literal(false), b"/u/:id/");
    assert_eq!(pattern.literal(true), b"/u/");
    assert!(!pattern.is_exact(false) && !pattern.is_exact(true));
    let pattern = PathPattern::parse("/u/:id").unwrap();
    assert!(pattern.is_exact(false) && !pattern.is_exact(true));
}

#[test]
fn refused() {
    for bad in [String::new(), "x".repeat(4097), "/*".repeat(9)] {
        assert!(PathPattern::parse(&bad).is_err());
    }
}

/// The pattern as the regular expression that APISIX would make of it, with names as groups.
fn regex_of(text: &str) -> regex::bytes::Regex {
    let mut source = String::from("(?s-u)^");
    for (index, segment) in text.split('/').enumerate() {
        if index > 0 {
            source.push('/');
        }
        match segment.as_bytes().first() {
            Some(b':') => source.push_str("([^/]+)"),
            Some(b'*') => source.push_str("(.*)"),
            _ => source.push_str(&regex::escape(segment)),
        }
    }
    source.push('$');
    regex::bytes::Regex::new(&source).unwrap()
}

proptest! {
    #[test]
    fn agrees_with_a_greedy_regular_expression(
        segments in proptest::collection::vec(prop::sample::select(vec!["a", "b", "*x", "*", ":p", ":q", ""]), 1..7),
        path in proptest::collection::vec(prop::sample::select(vec!["a", "b", "ab", ""]), 1..8)) {
        let text = format!("/{}", segments.join("/"));
        let path = format!("/{}", path.join("/"));
        let pattern = PathPattern::parse(&text).unwrap();
        let mut params = Params::new();
        let fitted = fits(&pattern, true, &path, &mut params);
        let expected = regex_of(&text).captures(path.as_bytes());
        prop_assert_eq!(fitted, expected.is_some(), "{} on {}", text, path);
        if let Some(groups) = expected {
            let values: Vec<Vec<u8>> = groups.iter().skip(1).map(|group| group.unwrap().as_bytes().to_vec()).collect();
            let got: Vec<Vec<u8>> = params.iter().map(|(_, value)| value.to_vec()).collect();
            prop_assert_eq!(got, values, "{} on {}", text, path);
        }
    }
}

#[test]
fn templates_have_parameters_in_braces() {
    let check = |template: &str, path: &str, expected: Option<&str>| {
        let pattern = PathPattern::parse_template(template).unwrap();
        for with_parameters in [false, true] {
            let mut params = Params::new();
            let found = fits(&pattern, with_parameters, path, &mut params).then(|| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let pairs = params.iter().map(|(name, value)| format!("{}={}", text(name), text(value)));
                pairs.collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.as_deref(), expected, "{template} {path}");
        }
    };
    check("/pets", "/pets", Some(""));
    check("/pets/:id/*", "/pets/:id/*", Some(""));
    check("/pets/:id/*", "/pets/7/8", None);
    check("/pets/{id}", "/pets/7", Some("id=7"));
    check("/pets/{id}", "/pets/", None);
    check("/pets/{id}", "/pets/7/8", None);
    check("/pets/{id}/toys/{toy}", "/pets/7/toys/ball", Some("id=7 toy=ball"));
    check("/a/{x}-{y}", "/a/1-2-3", Some("x=1 y=2-3"));
    check("/a/{x}.json", "/a/b.json.json", Some("x=b.json"));
    check("/a/{x}.json", "/a/.json", None);
    check("/a/{x}.json", "/a/b/c.json", None);
    check("/a/{x}.json/edit", "/a/b.json/edit", Some("x=b"));
    check("/a/{x}.{y}.z", "/a/1.2.3.z", Some("x=1 y=2.3"));
    check("/a/{x}:run", "/a/é:run", Some("x=é"));
    for (faulty, reason) in [
        ("", "is empty"),
        ("/a/{", "without a `}`"),
        ("/a/}", "without a `{`"),
        ("/a/{}", "without a name"),
        ("/a/{x/y}", "over several segments"),
        ("/a/{x}{y}", "no text between"),
        (&"/{x}".repeat(65), "more than 64 parameters"),
        (&"/a".repeat(2049), "longer than 4096"),
    ] {
        let found = PathPattern::parse_template(faulty).unwrap_err();
        assert!(found.contains(reason), "{faulty}: {found}");
    }
}

proptest! {
    #[test]
    fn templates_never_panic(template in "[/a{}x.:*-]{0,40}", path in "[/ax.:-]{0,40}") {
        if let Ok(pattern) = PathPattern::parse_template(&template) {
            let mut params = Params::new();
            pattern.read(path.as_bytes(), &mut params);
        }
    }
}
