//! The oracle's reading of targets and authorities: the canonical form of a path, and the refused forms.
//! Knows no head.

use std::net::Ipv6Addr;

use super::text;

/// The target in origin form with a canonical path, and the authority of an absolute target.
pub(super) fn target_of(method: &[u8], target: &[u8]) -> Option<(String, Option<String>)> {
    if matches!(method, b"CONNECT" | b"TRACE") || !target.iter().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let target = text(target);
    if target.contains('#') {
        return None;
    }
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let (authority, rest) = match scheme {
        None => (None, target.as_str()),
        Some(scheme) => {
            let rest = &target[scheme.len()..];
            let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority.to_owned()), rest)
        }
    };
    if authority.as_ref().is_some_and(|authority| !is_authority(authority)) {
        return None;
    }
    let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let path = if path.is_empty() && authority.is_some() { "/" } else { path };
    Some((canonical(path)? + query, authority))
}

/// The canonical form of a path (RFC 3986 section 6.2.2, slashes merged); `None` if it is refused.
pub(in super::super) fn canonical(path: &str) -> Option<String> {
    let mut plain = String::new();
    let mut rest = path.strip_prefix('/')?;
    while let Some(sign) = rest.chars().next() {
        rest = &rest[1..];
        if sign != '%' {
            plain.push(sign);
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        rest = &rest[2..];
        let value = char::from(u8::from_str_radix(digits, 16).ok()?);
        match value {
            '\\' | '\0'..' ' | '\x7f' => return None,
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~' => plain.push(value),
            _ => plain += &format!("%{}", digits.to_ascii_uppercase()),
        }
    }
    if plain.contains('\\') {
        return None;
    }
    let segments: Vec<&str> = plain.split('/').collect();
    let mut kept = Vec::new();
    for (index, &segment) in segments.iter().enumerate() {
        match segment {
            ".." => drop(kept.pop()?),
            "" | "." => {}
            _ if hides_dots(segment) => return None,
            _ => kept.push(segment),
        }
        if index + 1 == segments.len() && matches!(segment, "" | "." | "..") {
            kept.push("");
        }
    }
    Some(format!("/{}", kept.join("/")))
}

/// Whether an origin that decodes `%2F`, or drops parameters, would see a dot segment.
fn hides_dots(segment: &str) -> bool {
    let plain = segment.replace("%3B", ";");
    plain.split("%2F").any(|piece| matches!(piece.split(';').next(), Some("." | "..")))
}

/// RFC 9110 section 4.2: host and port, no user.
pub(super) fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => ("literal", rest),
        Some(_) => return false,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let mut unescaped = String::new();
    let mut rest = host;
    while let Some((before, after)) = rest.split_once('%') {
        unescaped += before;
        match after.get(..2) {
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => rest = &after[2..],
            _ => return false,
        }
    }
    unescaped += rest;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    let is_port = |port: &str| {
        (1..=5).contains(&port.len())
            && port.bytes().all(|digit| digit.is_ascii_digit())
            && port.parse::<u32>().is_ok_and(|port| port <= 65_535)
    };
    !host.is_empty()
        && unescaped.bytes().all(is_name)
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}
