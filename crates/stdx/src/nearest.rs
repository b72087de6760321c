//! "Did you mean": the known name nearest to a misspelt one, by the edit distance of the crate `strsim`.

use strsim::osa_distance;

/// The candidate that is at most a third of its length away in single-letter edits, the nearest one first.
/// Case does not count, nor does `-` for `_`.
#[must_use]
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let written = plain(written);
    candidates
        .into_iter()
        .map(|candidate| (osa_distance(&written, &plain(candidate)), candidate))
        // Two names of one letter are one edit apart and have nothing in common.
        .filter(|(distance, candidate)| {
            *distance <= (candidate.len() / 3).max(1) && *distance < candidate.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The candidate that `written` is a typing error of: at most `TYPING_ERRORS` single-letter edits away, and
/// less than half of its length, because two names of three letters are often two edits apart and have
/// nothing in common. Case does not count, nor does `-` for `_`. The nearest one first; none if `written` is
/// a candidate itself.
#[must_use]
pub fn misspelt<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer name cannot be a typing error of any name this program knows, and the distance costs the
    // product.
    if written.len() > NAME_BYTES_MAX {
        return None;
    }
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let found = plain(written);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(written.len()) <= TYPING_ERRORS)
        .map(|candidate| (osa_distance(&found, &plain(candidate)), candidate))
        .filter(|(edits, candidate)| *edits <= TYPING_ERRORS && *edits * 2 < candidate.len())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
        .filter(|candidate| *candidate != written)
}

/// Edits that one typing error or two make.
const TYPING_ERRORS: usize = 2;
/// Longer than every name of a field, plugin or setting.
const NAME_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_nearest() {
        let check = |written: &str, expected: Option<&str>| {
            assert_eq!(nearest(written, ["proxy", "admin", "admin_allow", "workers"]), expected, "{written}");
        };
        check("proxi", Some("proxy"));
        check("porxy", Some("proxy"));
        check("admin-allow", Some("admin_allow"));
        check("WORKER", Some("workers"));
        check("routes", None);
        check("", None);
        assert_eq!(nearest("x", ["n"]), None);
        assert_eq!(nearest("Request-Id", ["request_id"]), Some("request_id"));
        assert_eq!(nearest("key_aut", ["key-auth"]), Some("key-auth"));
    }

    #[test]
    fn misspelt_names_are_within_two_edits() {
        let check = |written: &str, expected: Option<&str>| {
            assert_eq!(misspelt(written, ["count", "key", "redis_host", "_meta"]), expected, "{written}");
        };
        check("cuont", Some("count"));
        check("cnt", Some("count"));
        check("redishost", Some("redis_host"));
        check("redis-hots", Some("redis_host"));
        check("kye", Some("key"));
        check("uri", None);
        check("amount", Some("count"));
        check("weight", None);
        check("count", None);
        check("_mata", Some("_meta"));
        check("$comment", None);
        check(&"x".repeat(10_000), None);
    }
}
