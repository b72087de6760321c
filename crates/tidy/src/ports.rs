//! How tests choose ports: a port that the kernel chose and that was given back at once can be another
//! process's by the time it is used.

use std::fs;

use crate::{collect, crates};

/// A listener that is gone as soon as its address is known, without white space.
const GIVEN_BACK: [&str; 2] = [
    r#"TcpListener::bind("127.0.0.1:0").unwrap().local_addr("#,
    r#"TcpListener::bind("127.0.0.1:0").and_then(|listener|listener.local_addr("#,
];

#[test]
fn no_port_is_given_back_and_used() {
    let mut files = Vec::new();
    collect(&crates(), &mut files);
    let of_rule = |name: &str| name.ends_with("/tidy/src/ports.rs");
    let found: Vec<String> = files
        .iter()
        .filter(|file| gives_back(&fs::read_to_string(file).expect("a source can be read")))
        .map(|file| file.display().to_string())
        .filter(|name| !of_rule(name))
        .collect();
    assert!(
        found.is_empty(),
        "use `testkit::Origin::nowhere` for an address without a listener, and `testkit::free_address` for a \
         program that is told its port: {found:#?}"
    );
}

#[test]
fn planted_choice_is_found() {
    assert!(gives_back(
        "let free = TcpListener::bind(\"127.0.0.1:0\")\n    .unwrap()\n    .local_addr().unwrap();"
    ));
    assert!(!gives_back(
        "let listener = TcpListener::bind(\"127.0.0.1:0\").unwrap();\nlistener.local_addr()"
    ));
}

/// Whether the code takes a port and gives it back in one expression.
fn gives_back(text: &str) -> bool {
    let code: String = text.split_whitespace().collect();
    GIVEN_BACK.iter().any(|choice| code.contains(choice))
}
