//! Strings: by pattern, by format, or a plain one of the right length.

use serde_json::{Map, Value};

use super::generate::limit;
use super::pattern::pattern_example;

/// The plain value, as Prism has it.
const PLAIN: &str = "string";
/// Characters of a string that `minLength` asks for.
const LENGTH_MAX: usize = 64 * 1024;

/// A string that the schema accepts; `pick` selects among them. Nothing where the length cannot be kept.
///
/// A pattern that [`pattern_example`] does not know is ignored. A format other than those of [`formatted`] is
/// as well; a plain string is returned if the value of a known format has the wrong length.
pub(super) fn make_string(flat: &Map<String, Value>, pick: u64) -> Option<String> {
    let least = limit(flat, "minLength").unwrap_or(0);
    let most = limit(flat, "maxLength").unwrap_or(usize::MAX);
    if least > most || least > LENGTH_MAX {
        return None;
    }
    if let Some(pattern) = flat.get("pattern").and_then(Value::as_str)
        && let Some(text) = pattern_example(pattern, least, most, pick)
    {
        return Some(text);
    }
    let format = flat.get("format").and_then(Value::as_str).unwrap_or_default();
    let fits = |text: &String| (least..=most).contains(&text.chars().count());
    Some(formatted(format, least, pick).filter(fits).unwrap_or_else(|| plain(least, most, pick)))
}

/// `string`, repeated or cut to the length, with the number of the variant at its end.
fn plain(least: usize, most: usize, pick: u64) -> String {
    let mut text = PLAIN.repeat(least.div_ceil(PLAIN.len()).max(1));
    text.truncate(least.max(PLAIN.len()).min(most));
    let suffix = if pick == 0 { String::new() } else { (pick % 100_000).to_string() };
    if text.len() + suffix.len() > most {
        text.truncate(most.saturating_sub(suffix.len()));
    }
    text.extend(suffix.chars().take(most));
    text
}

/// A value of a format of OpenAPI or JSON Schema, as long as `least` where the format allows it.
fn formatted(format: &str, least: usize, pick: u64) -> Option<String> {
    let day = 1 + pick % 28;
    let small = pick % 250;
    let filled = |text: String, fill: char| {
        let missing = least.saturating_sub(text.chars().count());
        (text, fill.to_string().repeat(missing))
    };
    Some(match format {
        "date-time" if pick == 0 => "2019-08-24T14:15:22Z".to_owned(),
        "date-time" => format!("2019-09-{day:02}T{:02}:15:22Z", pick % 24),
        "date" if pick == 0 => "2019-08-24".to_owned(),
        "date" => format!("2019-09-{day:02}"),
        "time" => format!("14:{:02}:22Z", (15 + pick) % 60),
        "duration" => format!("P{}D", 3 + small),
        "uuid" => format!("095be615-a8ad-4c33-8e9c-{:012x}", (0xc761_2fbf_6c9f + pick) % (1 << 48)),
        "email" | "idn-email" => {
            let (text, fill) = filled(format!("user{}@example.com", suffix_of(pick)), 'a');
            format!("{fill}{text}")
        }
        "uri" | "url" | "iri" | "uri-reference" | "iri-reference" => {
            let (text, fill) = filled(format!("http://example.com/{}", suffix_of(pick)), 'a');
            format!("{text}{fill}")
        }
        "uri-template" => "http://example.com/{endpoint}".to_owned(),
        "hostname" | "idn-hostname" => format!("example{}.com", suffix_of(pick)),
        "ipv4" => format!("192.168.0.{}", 1 + small),
        "ipv6" => format!("2001:db8::{:x}", 1 + small),
        // Groups of four characters are whole bytes.
        "byte" => {
            let group = ["c3Ry", "aW5n", "dGV4", "YnRl"][usize::try_from(pick % 4).unwrap_or(0)];
            format!("{}{group}", "aW5n".repeat(least.div_ceil(4).saturating_sub(1).max(1)))
        }
        "json-pointer" => format!("/json/pointer{}", suffix_of(pick)),
        "relative-json-pointer" => format!("{}/relative/json/pointer", 1 + small),
        "regex" => "regex".to_owned(),
        _ => return None,
    })
}

/// The number of a variant; empty for the plain value.
fn suffix_of(pick: u64) -> String {
    if pick == 0 { String::new() } else { (pick % 1_000_000).to_string() }
}
