//! Listeners of layer 4: addresses, and ranges of ports of one address. Opens no socket.

use std::net::SocketAddr;

use super::super::values::StreamRoutes;
use super::super::written::SettingTexts;
use super::addresses::parse_listen_address;
use super::{items, single};

/// Most addresses of one list, ranges counted port by port. Each has a socket and a task in every worker, so
/// that a range written by mistake (`1-65535`) would take all descriptors of the process.
const STREAM_ADDRESSES_MAX: usize = 1_000;

/// Any number of listening addresses with a port or a range of ports, or `off`.
pub(in super::super) fn stream_listeners(given: &SettingTexts) -> Result<Vec<SocketAddr>, String> {
    let mut all = Vec::new();
    match items(given)[..] {
        ["off"] => return Ok(all),
        [] => return Err("is empty; write an address such as `0.0.0.0:9100`, or `off`".to_owned()),
        ref entries => {
            for text in entries {
                extend(&mut all, text)?;
            }
        }
    }
    Ok(all)
}

/// Adds the addresses of one entry.
fn extend(all: &mut Vec<SocketAddr>, text: &str) -> Result<(), String> {
    let (first, last) = match range(text)? {
        Some((first, last)) => (first, last),
        None => {
            let only = parse_listen_address(text)?;
            (only, only.port())
        }
    };
    let count = usize::from(last - first.port()) + 1;
    if all.len() + count > STREAM_ADDRESSES_MAX {
        return Err(format!(
            "`{text}` makes {} addresses; a list has at most {STREAM_ADDRESSES_MAX}",
            all.len() + count
        ));
    }
    all.extend((first.port()..=last).map(|port| SocketAddr::new(first.ip(), port)));
    Ok(())
}

/// The first address and the last port of `IP:FIRST-LAST`; none if it is no range.
fn range(text: &str) -> Result<Option<(SocketAddr, u16)>, String> {
    let Some((rest, last)) = text.rsplit_once('-') else { return Ok(None) };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(last) {
        return Ok(None);
    }
    let first = parse_listen_address(rest)?;
    let last: u16 = last.parse().map_err(|_| format!("`{text}`: a port is a number up to 65535"))?;
    match first.port() {
        0 => Err(format!("`{text}`: a range begins with a port, not with 0")),
        port if port > last => Err(format!("`{text}`: the first port of a range is not above the last one")),
        _ => Ok(Some((first, last))),
    }
}

/// Whether stream routes are taken.
pub(in super::super) fn stream_routes(given: &SettingTexts) -> Result<StreamRoutes, String> {
    match single(given)? {
        "auto" => Ok(StreamRoutes::Auto),
        "true" => Ok(StreamRoutes::Taken),
        "false" => Ok(StreamRoutes::Refused),
        other => Err(format!("`{other}` is neither `auto` nor `true` nor `false`")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fault::SettingLocation;
    use super::*;

    fn check(texts: &[&str], expected: Result<&str, &str>) {
        let values = texts.iter().map(|&text| text.to_owned()).collect();
        let found = stream_listeners(&SettingTexts { values, place: SettingLocation::Flag });
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                assert_eq!(found.join(" "), expected, "{texts:?}");
            }
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{texts:?}: {reason}"),
            (found, expected) => panic!("{texts:?}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn ranges_become_one_address_per_port() {
        check(&["off"], Ok(""));
        check(&["127.0.0.1:9100"], Ok("127.0.0.1:9100"));
        check(&["127.0.0.1:9100-9102,[::1]:7-7"], Ok("127.0.0.1:9100 127.0.0.1:9101 127.0.0.1:9102 [::1]:7"));
        check(&["127.0.0.1:0", "localhost:65534-65535"], Ok("127.0.0.1:0 127.0.0.1:65534 127.0.0.1:65535"));
        check(&["0.0.0.0:0-3"], Err("a range begins with a port"));
        check(&["0.0.0.0:9-3"], Err("not above the last one"));
        check(&["0.0.0.0:9-65536"], Err("up to 65535"));
        check(&["0.0.0.0:9-"], Err("is not `IP:PORT`"));
        check(&["9100-9110"], Err("is not `IP:PORT`"));
        check(&["my-host-7:9100"], Err("not a name"));
        check(&[], Err("is empty"));
    }

    #[test]
    fn list_of_too_many_addresses_is_refused() {
        let thousand = format!("127.0.0.1:1-{STREAM_ADDRESSES_MAX}");
        let values = vec![thousand.clone()];
        assert_eq!(
            stream_listeners(&SettingTexts { values, place: SettingLocation::Flag }).unwrap().len(),
            STREAM_ADDRESSES_MAX
        );
        check(&[&thousand, "127.0.0.1:9999"], Err("makes 1001 addresses; a list has at most 1000"));
        check(&["127.0.0.1:1-65535"], Err("makes 65535 addresses"));
    }
}
