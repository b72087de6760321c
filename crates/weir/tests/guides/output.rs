//! Compares what a command printed with what a page shows.
//!
//! `…` on a page stands for anything in its line, and for any number of lines where it is alone in one. Times
//! and dates are equal to each other.

/// Whether the output is that of the page.
pub(crate) fn is_shown(shown: &str, printed: &str) -> bool {
    let printed = settled(printed);
    let shown = settled(shown);
    lines_match(&lines(&shown), &lines(&printed))
}

/// Whether the output begins with that of the page: for programs that go on.
pub(crate) fn begins_as_shown(shown: &str, printed: &str) -> bool {
    is_shown(&format!("{}\n…\n", shown.trim_end()), printed)
}

fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, others)| line_matches(first, line) && lines_match(rest, others)),
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let parts: Vec<&str> = shown.split('…').collect();
    let [first, middle @ .., last] = &parts[..] else { return shown == printed };
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The text without carriage returns, and with `TIME` for each time of day or stamp and `DATE` for each date.
fn settled(text: &str) -> String {
    let text = text.replace('\r', "");
    let is_part = |sign: char| sign.is_ascii_digit() || ":.-+TZ".contains(sign);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_digit() {
            let end = rest.find(|sign| !is_part(sign)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let is_time = word.matches(':').count() >= 2 && !word.contains("::");
            out.push_str(if is_time { "TIME" } else { word });
            rest = after;
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    let words: Vec<&str> = out.split(' ').collect();
    let mut settled: Vec<String> = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let is_number = |word: Option<&&str>| {
            word.is_some_and(|word| {
                !word.is_empty() && word.trim_end_matches(',').bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        let is_date = is_number(words.get(index))
            && words.get(index + 1).is_some_and(|word| MONTHS.contains(word))
            && is_number(words.get(index + 2));
        settled.push(if is_date { "DATE".to_owned() } else { words[index].to_owned() });
        index += if is_date { 3 } else { 1 };
    }
    settled.join(" ")
}

#[test]
fn gap_stands_for_text_and_for_lines() {
    assert!(is_shown("a\n…\nd\n", "a\nb\nc\nd\n"));
    assert!(is_shown("a\n…\nd\n", "a\nd"));
    assert!(!is_shown("a\n…\nd\n", "a\nb\n"));
    assert!(is_shown("{\"id\": …, \"x\": 1}", "{\"id\": 17, \"x\": 1}\r\n"));
    assert!(!is_shown("{\"id\": …, \"x\": 1}", "{\"id\": 17, \"x\": 2}"));
    assert!(!is_shown("a", "a\nb"));
    assert!(begins_as_shown("a\n", "a\nb"));
}

#[test]
fn times_are_equal_and_numbers_are_not() {
    assert!(is_shown("12  22 Nov 2026 01:20:33 GMT  x", "12  26 Nov 2027 11:00:00 GMT  x"));
    assert!(is_shown("at 2026-11-24T09:20:51.487660Z.", "at 2026-11-25T00:00:00.1Z."));
    assert!(!is_shown("12  22 Nov", "13  22 Nov"));
    assert!(!is_shown("127.0.0.1:9080", "127.0.0.1:9081"));
}
