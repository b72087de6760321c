//! "Did you mean": the known name nearest to a misspelt one. Knows nothing of what the names are for.

/// The candidate that is at most a third of its length away in single-letter edits, the nearest one first. Case does not
/// count, nor does `-` for `_`.
#[must_use]
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let written = plain(written);
    candidates
        .into_iter()
        .map(|candidate| (distance(&written, &plain(candidate)), candidate))
        // Two names of one letter are one edit apart and have nothing in common.
        .filter(|(distance, candidate)| {
            *distance <= (candidate.len() / 3).max(1) && *distance < candidate.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for row in 1..=one.len() {
        let mut current = vec![row];
        for column in 1..=other.len() {
            let same = usize::from(one[row - 1] != other[column - 1]);
            let mut best = (last[column - 1] + same).min(last[column] + 1).min(current[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && one[row - 1] == other[column - 2]
                && one[row - 2] == other[column - 1];
            if swapped {
                best = best.min(before_last[column - 2] + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[other.len()]
}

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
}
