//! Authorities of upstreams, which are a host with or without a port.

/// An authority without its port. An IPv6 address keeps its brackets.
pub(crate) fn strip_port(authority: &[u8]) -> &[u8] {
    match authority.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !authority[colon..].contains(&b']') => &authority[..colon],
        _ => authority,
    }
}

/// As [`strip_port`], for text.
pub(crate) fn without_port_str(authority: &str) -> &str {
    // The cut is at a colon, which is no part of another character.
    &authority[..strip_port(authority.as_bytes()).len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_cut_and_addresses_stay_whole() {
        let check = |authority: &str, expected: &str| {
            assert_eq!(without_port_str(authority), expected);
        };
        check("a.example", "a.example");
        check("a.example:443", "a.example");
        check("[::1]", "[::1]");
        check("[::1]:443", "[::1]");
        check("", "");
        check(":443", "");
    }
}
