//! The syslog message of an entry, in the form of RFC 5424 that Loggly reads. It sends nothing.

use exchange::Exchange;

use crate::shared::logger::times::{now, rfc3339};

/// The severities as users write them; the contract spells the first one so.
pub(super) const SEVERITIES: [&str; 16] = [
    "EMEGR", "ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG", "emegr", "alert", "crit", "err",
    "warning", "notice", "info", "debug",
];
/// The facility of user-level messages, in the form that is added to a severity.
const FACILITY_USER: u8 = 8;
/// Loggly's number among private enterprises, as its documentation has it.
const ENTERPRISE: u32 = 41_058;

/// The number of a severity (RFC 5424 section 6.2.1).
pub(super) fn level(severity: &str) -> u8 {
    let index = SEVERITIES.iter().position(|word| *word == severity).unwrap_or_default();
    (index % 8) as u8
}

/// The parts of messages that do not change.
pub(super) struct LogglySyslogFormat {
    level: u8,
    by_status: Vec<(u16, u8)>,
    /// The part behind the name of the host: program, process, token, tags.
    middle: Box<str>,
}

impl LogglySyslogFormat {
    pub(super) fn new(
        token: &str,
        tags: &[String],
        level: u8,
        by_status: Vec<(u16, u8)>,
    ) -> LogglySyslogFormat {
        let tags: Vec<String> = tags.iter().map(|tag| format!("tag=\"{}\"", escaped(tag))).collect();
        let process = std::process::id();
        let middle = format!("apisix {process} - [{token}@{ENTERPRISE} {}]", tags.join(" "));
        LogglySyslogFormat { level, by_status, middle: middle.into() }
    }

    /// The message of an exchange that has ended.
    pub(super) fn message(&self, exchange: &Exchange, entry: &[u8]) -> Vec<u8> {
        let of_status = self.by_status.iter().find(|(status, _)| *status == exchange.status());
        let priority = FACILITY_USER + of_status.map_or(self.level, |(_, level)| *level);
        let host = String::from_utf8_lossy(exchange.host());
        let host = if is_printable(&host) { &*host } else { "-" };
        let time = rfc3339(now(exchange));
        let mut message = format!("<{priority}>1 {time} {host} {} ", self.middle).into_bytes();
        message.extend_from_slice(entry);
        message
    }
}

/// The value of a parameter (RFC 5424 section 6.3.3).
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if matches!(character, '"' | '\\' | ']') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Whether a host can stand in a message (RFC 5424 section 6.2.4).
fn is_printable(host: &str) -> bool {
    !host.is_empty() && host.len() <= 255 && host.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, respond};

    use super::*;

    #[test]
    fn severity_follows_the_response() {
        let tags = ["a".to_owned(), "b\"]\\".to_owned()];
        let syslog = LogglySyslogFormat::new(
            "tok",
            &tags,
            level("INFO"),
            vec![(503, level("ERR")), (410, level("alert"))],
        );
        let process = std::process::id();
        let check = |status: u16, host: &str, priority: &str, shown: &str| {
            let mut scene = Scene::new();
            let mut exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            respond(&mut exchange, status, &[]);
            let message = String::from_utf8(syslog.message(&exchange, b"{}")).unwrap();
            let parts: Vec<&str> = message.splitn(3, ' ').collect();
            assert_eq!(parts[0], priority);
            assert_eq!((parts[1].len(), &parts[1][23..]), (24, "Z"));
            let rest = format!("{shown} apisix {process} - [tok@41058 tag=\"a\" tag=\"b\\\"\\]\\\\\"] {{}}");
            assert_eq!(parts[2], rest);
        };
        check(200, "shop", "<14>1", "shop");
        check(503, "shop", "<11>1", "shop");
        check(410, "shop", "<9>1", "shop");
        check(200, "", "<14>1", "-");
    }

    #[test]
    fn severities_have_the_numbers_of_syslog() {
        for (word, number) in [("EMEGR", 0), ("CRIT", 2), ("debug", 7), ("warning", 4)] {
            assert_eq!(level(word), number);
        }
    }
}
