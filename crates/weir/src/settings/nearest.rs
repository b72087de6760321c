//! "Did you mean": the known name nearest to a misspelt one. Knows nothing of settings.

/// The candidate that is at most a third of its length away in single-letter edits, the nearest one first.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_ascii_lowercase().replace('-', "_");
    candidates
        .into_iter()
        .map(|candidate| (distance(&written, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
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
    }
}
