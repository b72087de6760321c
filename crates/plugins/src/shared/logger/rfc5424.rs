//! Lines of syslog as RFC 5424 has them. It sends nothing.

use std::io::Write;
use std::time::Duration;

use net::env;
use stdx::clock::CivilTime;

/// Facility 5 (messages of syslog itself), severity 6 (informational): what APISIX writes.
const PRIORITY: u8 = 5 * 8 + 6;
/// The name of the application: that of APISIX, because filters of syslog servers look for it.
const APPLICATION: &str = "apisix";
/// The longest host name in a line, in bytes.
const HOST_MAX_BYTES: usize = 255;

/// One line with `message`, of a request to `host`. `structured` is `-`, or what [`structured_data`] gives.
pub(crate) fn format_syslog_line(host: &[u8], structured: &str, message: &[u8]) -> Vec<u8> {
    line_at(env::wall_clock(), host, structured, message)
}

fn line_at(now: Duration, host: &[u8], structured: &str, message: &[u8]) -> Vec<u8> {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::at(now.as_secs());
    let mut line = Vec::with_capacity(message.len() + structured.len() + 128);
    let ms = now.subsec_millis();
    // Writing into memory cannot fail.
    let _ = write!(
        line,
        "<{PRIORITY}>1 {year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z "
    );
    match host {
        [] => line.push(b'-'),
        // A name of a client must not add fields or lines.
        host => line.extend(
            host.iter().take(HOST_MAX_BYTES).map(|byte| if byte.is_ascii_graphic() { *byte } else { b'?' }),
        ),
    }
    let _ = write!(line, " {APPLICATION} {} - {structured} ", std::process::id());
    line.extend_from_slice(message);
    line.push(b'\n');
    line
}

/// Structured data with the identifier `logservice`.
pub(crate) fn structured_data(parameters: &[(&str, &str)]) -> String {
    let mut data = "[logservice".to_owned();
    for (name, value) in parameters {
        data.push(' ');
        data.push_str(name);
        data.push_str("=\"");
        for character in value.chars() {
            // RFC 5424, section 6.3.3.
            if matches!(character, '"' | '\\' | ']') {
                data.push('\\');
            }
            data.push(character);
        }
        data.push('"');
    }
    data.push(']');
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_the_fields_of_its_rfc() {
        let now = Duration::from_millis(1_577_836_800_007);
        let pid = std::process::id();
        let check = |host: &[u8], structured: &str, expected: &str| {
            let line = String::from_utf8(line_at(now, host, structured, b"{}")).unwrap();
            let expected = format!("<46>1 2020-01-01T00:00:00.007Z {expected} {{}}\n");
            assert_eq!(line, expected.replace("PID", &pid.to_string()));
        };
        check(b"shop.example", "-", "shop.example apisix PID - -");
        check(b"", "-", "- apisix PID - -");
        check(b"a b\n<1>1", "-", "a?b?<1>1 apisix PID - -");
        let data = structured_data(&[("project", "p"), ("access-key-secret", "a\"b\\c]d")]);
        assert_eq!(data, r#"[logservice project="p" access-key-secret="a\"b\\c\]d"]"#);
        check(b"h", &data, &format!("h apisix PID - {data}"));
    }
}
