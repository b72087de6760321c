//! Checks `docs/reference/apisix-contract.md` against the tests: each sentence names tests that exist, or
//! says that it is not met and why. Does not run these tests.

use crate::hardening::pages::{read, tests_of};

#[test]
fn contract_sentences_have_tests_or_reasons() {
    let page = read("docs/reference/apisix-contract.md");
    let (mut shown, mut not_met) = (0, 0);
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| sentence |")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [_, evidence] = cells.as_slice() else { panic!("a row has two cells: {row}") };
        let tests = tests_of(evidence);
        for (file, test) in &tests {
            assert!(read(file).contains(&format!("fn {test}(")), "there is no {test} in {file}: {row}");
        }
        match evidence.trim().strip_prefix("not met: ") {
            Some(reason) => {
                assert!(reason.len() > 10, "a reason says something: {row}");
                not_met += 1;
            }
            None => {
                assert!(!tests.is_empty(), "names no test and does not say that it is not met: {row}");
                shown += 1;
            }
        }
    }
    assert!(shown > 60, "{shown} sentences");
    assert!(not_met < 15, "{not_met} sentences are not met");
}
