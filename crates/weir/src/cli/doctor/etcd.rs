//! Checks of etcd, where the configuration comes from it: whether endpoints answer, and how far their clock
//! is from this one.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use stdx::clock::HttpDate;

use super::DoctorCheck;
use crate::settings::{ResourceSource, Settings};

/// Longest wait for an endpoint.
const PATIENCE: Duration = Duration::from_secs(3);
/// Addresses of a name that are tried: both families, and one more of each.
const ADDRESSES_MAX: usize = 4;
/// Difference of two clocks from which leases and certificates are read differently.
const SKEW_MAX_S: u64 = 5;

/// One check for each endpoint; none where the configuration comes from elsewhere.
pub(super) fn check_etcd(settings: &Settings) -> Vec<DoctorCheck> {
    if settings.source() != ResourceSource::Etcd {
        return Vec::new();
    }
    settings.etcd_endpoints.iter().map(|endpoint| check_endpoint(endpoint)).collect()
}

fn check_endpoint(endpoint: &str) -> DoctorCheck {
    let advice =
        "start etcd there, or correct etcd_endpoints; without it the last known configuration is served";
    let date = match ask(endpoint) {
        Ok(date) => date,
        Err(error) => return DoctorCheck::failed("etcd", format!("{endpoint}: {error}"), advice),
    };
    let Some(date) = date else { return DoctorCheck::ok("etcd", format!("{endpoint} accepts connections")) };
    let now_s = stdx::clock::unix_time().as_secs();
    match skew(&date, now_s) {
        Some(seconds) => DoctorCheck::attention(
            "etcd",
            format!("{endpoint} answers, and its clock is {seconds} s from this one"),
            "synchronise both clocks (chrony, systemd-timesyncd)",
        ),
        None => DoctorCheck::ok("etcd", format!("{endpoint} answers")),
    }
}

/// Connects, and over plain HTTP asks for the version; the `Date` of the answer.
fn ask(endpoint: &str) -> std::io::Result<Option<String>> {
    let (scheme, authority) = endpoint.split_once("://").unwrap_or(("http", endpoint));
    let authority = authority.trim_end_matches('/');
    let mut stream = connect(authority)?;
    if scheme != "http" {
        return Ok(None);
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET /version HTTP/1.0\r\nHost: {authority}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(16 * 1024).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let field = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim().to_owned())
    });
    Ok(field)
}

/// Connects to the first address that accepts, because a server often listens on only one of those of
/// `localhost`.
fn connect(authority: &str) -> std::io::Result<TcpStream> {
    let mut failed = std::io::Error::other("the name has no address");
    for address in authority.to_socket_addrs()?.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The difference of the clocks in seconds, if it is too large; none also for a date that is up to that much
/// away. The date is compared with those around now, so that it need not be parsed.
fn skew(date: &str, now_s: u64) -> Option<String> {
    let mut formatted = HttpDate::new();
    let mut is_at = |second: u64| formatted.at(second).as_slice() == date.as_bytes();
    if (now_s.saturating_sub(SKEW_MAX_S)..=now_s + SKEW_MAX_S).any(&mut is_at) {
        return None;
    }
    let far = (SKEW_MAX_S..=SKEW_SOUGHT_S).find(|far| is_at(now_s - far.min(&now_s)) || is_at(now_s + far));
    Some(far.map_or_else(|| format!("more than {SKEW_SOUGHT_S}"), |far| far.to_string()))
}

/// How far a different clock is looked for.
const SKEW_SOUGHT_S: u64 = 3_600;

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn clocks_are_compared() {
        let mut date = HttpDate::new();
        let at = String::from_utf8(date.at(1_767_225_600).to_vec()).unwrap();
        assert_eq!(skew(&at, 1_767_225_603), None);
        assert_eq!(skew(&at, 1_767_225_640).as_deref(), Some("40"));
        assert_eq!(skew(&at, 1_867_225_640).as_deref(), Some("more than 3600"));
    }

    #[test]
    fn endpoint_without_a_server_fails() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(check_endpoint(&format!("http://{address}")).state, CheckState::Failed);
    }
}
