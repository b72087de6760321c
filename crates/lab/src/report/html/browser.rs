//! The page in a real browser: Debian's Chromium, driven over ChromeDriver's protocol (W3C WebDriver).
//! `lab/install.sh test` installs both.

mod driver;

use std::fs;

use serde_json::{Value, json};

use self::driver::Browser;
use super::render_html_page;
use crate::report::sample;

fn opened() -> (tempfile::TempDir, Browser) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    fs::write(&file, render_html_page(&sample::report())).unwrap();
    let browser = Browser::open(&format!("file://{}", file.display()));
    (directory, browser)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// One browser for all checks, because starting one takes longer than the checks.
#[test]
fn the_page_works_in_chromium() {
    let (_directory, mut browser) = opened();
    charts_are_whole(&mut browser);
    the_theme_can_be_switched(&mut browser);
    tables_open_and_sort(&mut browser);
    a_mark_tells_its_numbers(&mut browser);
    charts_fill_their_rows(&mut browser);
    it_fits_a_phone(&mut browser);
    // Last, so that the logs contain all earlier steps.
    assert_eq!(browser.console(), Vec::<String>::new(), "the console is silent");
    let asked: Vec<String> = browser.requests();
    let outside: Vec<&String> =
        asked.iter().filter(|url| !url.starts_with("file://") && !url.starts_with("data:")).collect();
    assert!(outside.is_empty() && asked.len() <= 2, "{asked:?}");
    assert_eq!(browser.run("return document.querySelectorAll('img, script').length"), json!(1));
}

fn charts_are_whole(browser: &mut Browser) {
    // Sixteen of seventeen were measured, one of them without a gateway; a bar of CPU has two parts.
    let rows = [
        ("#small figure.throughput rect.bar", 16),
        ("#small figure.loss rect.bar", 15),
        ("#small figure.cpu rect.bar", 30),
        ("#small figure.latency .dot.weir", 9),
        ("#small figure.memory rect.bar", 15),
        ("#small figure.time", 0),
        ("#rate-half figure.time path.line", 16),
        ("#rate-half figure.loss", 0),
        ("#thread-model figure.study", 3),
        ("#thread-model figure.study rect.bar", 36),
        ("figure.overview", 2),
        ("section > .command .copy", 20 + 1),
    ];
    for (selector, expected) in rows {
        let found = browser.run(&format!("return document.querySelectorAll({selector:?}).length"));
        assert_eq!(found, json!(expected), "{selector}");
    }
    // Hidden drawings would be counted as well.
    let empty =
        "return [...document.querySelectorAll('figure svg')].filter(s => s.getBBox().width < 100).length";
    assert_eq!(browser.run(empty), json!(0));
    let beyond = "return [...document.querySelectorAll('svg')].filter(s => { const b = s.getBBox(), v = s.viewBox.baseVal; \
        return b.x < -1 || b.x + b.width > v.width + 1 || b.y + b.height > v.height + 1; }).map(s => s.getAttribute('aria-label'))";
    assert_eq!(browser.run(beyond), json!([]), "drawn beyond the edge");
}

fn the_theme_can_be_switched(browser: &mut Browser) {
    let mut looks = Vec::new();
    for expected in ["light", "dark", "system"] {
        browser.run("document.getElementById('theme').click()");
        assert_eq!(
            browser.run("return document.getElementById('theme').textContent"),
            json!(format!("Theme: {expected}"))
        );
        looks.push(browser.run("return getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(looks[0], looks[1], "light and dark look different");
}

fn tables_open_and_sort(browser: &mut Browser) {
    let open = "return document.querySelectorAll('figure details[open]').length";
    assert_eq!(browser.run(open), json!(0));
    browser.run("document.getElementById('data').click()");
    let figures = browser.run("return document.querySelectorAll('figure').length");
    assert_eq!(browser.run(open), figures);
    let table = "#small figure.throughput table";
    let sorted = |browser: &mut Browser, column: u32| {
        browser.run(&format!("document.querySelector('{table} th:nth-child({column}) button').click()"));
        browser.run(&format!(
            "return [...document.querySelectorAll('{table} td:nth-child({column})')].map(c => c.dataset.n ?? c.textContent)"
        ))
    };
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|n| n.as_str().unwrap().parse().unwrap()).collect()
    };
    let most_first = numbers(&sorted(browser, 3));
    assert!(most_first.len() == 16 && most_first.is_sorted_by(|one, other| one >= other), "{most_first:?}");
    let least_first = numbers(&sorted(browser, 3));
    assert!(least_first.is_sorted(), "{least_first:?}");
    let names = sorted(browser, 1);
    assert_eq!(names[0], "<script>alert(1)</script>", "a name is text: {names}");
    browser.run("document.getElementById('data').click()");
    assert_eq!(browser.run(open), json!(0));
}

fn a_mark_tells_its_numbers(browser: &mut Browser) {
    let point = "const mark = document.querySelector('#small figure.throughput rect.bar.weir'); \
        mark.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: 50, clientY: 50 })); \
        return [document.getElementById('tip').textContent, mark.classList.contains('hot'), \
        document.querySelectorAll('#ab-10000 .hot').length > 0]";
    let answer = browser.run(point);
    assert!(answer[0].as_str().unwrap().starts_with("Weir: 25,829 requests/s"), "{answer}");
    assert_eq!((&answer[1], &answer[2]), (&json!(true), &json!(true)));
}

/// Checks that on a desktop no row of cards has a hole.
fn charts_fill_their_rows(browser: &mut Browser) {
    let hole = "return [...document.querySelectorAll('.charts, .wide')].filter(grid => { \
        const right = Math.max(...[...grid.children].map(card => card.getBoundingClientRect().right)); \
        const last = grid.lastElementChild; \
        return last && right - last.getBoundingClientRect().right > 2; }).length";
    assert_eq!(browser.run(hole), json!(0));
}

fn it_fits_a_phone(browser: &mut Browser) {
    browser.resize(390, 900);
    let width = "return [document.documentElement.scrollWidth, innerWidth]";
    let widths = browser.run(width);
    assert!(number(&widths[0]) <= number(&widths[1]) && number(&widths[1]) < 600.0, "{widths}");
    // Every mark lies within its card: the marks of the subject, its numbers, the line of the baseline.
    let outside = "return [...document.querySelectorAll('figure svg *')].filter(mark => { \
        const box = mark.getBoundingClientRect(), card = mark.closest('figure').getBoundingClientRect(); \
        return box.width > 0 && (box.left < card.left - 1 || box.right > card.right + 1); }).length";
    assert_eq!(browser.run(outside), json!(0));
    let letters = "return Math.min(...[...document.querySelectorAll('figure svg .name')].slice(0, 40) \
        .map(text => text.getBoundingClientRect().height))";
    assert!(number(&browser.run(letters)) >= 9.0, "names can be read: {}", browser.run(letters));
    // A table keeps its columns: it scrolls in its own box, and its first column stays.
    let table = "const box = document.querySelector('.places .scroll'); box.scrollLeft = 60; \
        const name = box.querySelector('tbody td').getBoundingClientRect(); \
        return [box.scrollWidth > box.clientWidth, Math.abs(name.left - box.getBoundingClientRect().left) < 2]";
    assert_eq!(browser.run(table), json!([true, true]));
}
