//! A compiled deadline: how long a request may take in all, by the configuration and by what the client says.
//! Pure.

use message::Headers;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlinePolicy {
    /// The longest time in milliseconds; 0: only what the client says.
    pub total_ms: u64,
    /// The request field with the client's time.
    pub header: Option<Box<str>>,
    /// Milliseconds in a unit of that field.
    pub unit_ms: u64,
    /// Whether calls of gRPC pass the time on in `grpc-timeout`.
    pub sets_grpc_timeout: bool,
}

impl DeadlinePolicy {
    /// How long the request with these fields may take, in milliseconds: the shorter of both times. None is
    /// without limit.
    ///
    /// # Errors
    /// The name of the field, if its value is not a whole number or it is there twice.
    pub fn limit_ms(&self, headers: &Headers) -> Result<Option<u64>, &str> {
        let total_ms = (self.total_ms != 0).then_some(self.total_ms);
        let Some(name) = self.header.as_deref() else { return Ok(total_ms) };
        let mut values = headers.get_all(name);
        let Some(value) = values.next() else { return Ok(total_ms) };
        let asked = message::syntax::decimal(value).filter(|_| values.next().is_none()).ok_or(name)?;
        let asked_ms = asked.saturating_mul(self.unit_ms);
        Ok(Some(total_ms.map_or(asked_ms, |total_ms| total_ms.min(asked_ms))))
    }

    /// The value of the field for so much time, rounded up, because an endpoint must not give up before its
    /// client.
    pub fn value_of(&self, left_ns: u64) -> u64 {
        left_ns.div_ceil(self.unit_ms * 1_000_000).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_of_total_and_header_counts() {
        let limit = |total_ms: u64, unit_ms: u64, values: &[&str]| {
            let header = Some("x-timeout".into());
            let policy = DeadlinePolicy { total_ms, header, unit_ms, sets_grpc_timeout: true };
            let mut headers = Headers::new();
            values.iter().for_each(|value| headers.append("X-Timeout", value.as_bytes()).unwrap());
            policy.limit_ms(&headers).map_err(str::to_owned)
        };
        assert_eq!(limit(0, 1, &[]), Ok(None));
        assert_eq!(limit(500, 1, &[]), Ok(Some(500)));
        assert_eq!(limit(500, 1, &["100"]), Ok(Some(100)));
        assert_eq!(limit(500, 1, &["900"]), Ok(Some(500)));
        assert_eq!(limit(0, 1_000, &["2"]), Ok(Some(2_000)));
        assert_eq!(limit(500, 1, &["0"]), Ok(Some(0)));
        for bad in [&["1.5"][..], &["-1"], &[""], &["1s"], &["1", "2"]] {
            assert_eq!(limit(500, 1, bad), Err("x-timeout".to_owned()), "{bad:?}");
        }
    }

    #[test]
    fn time_left_is_rounded_up() {
        let policy =
            |unit_ms| DeadlinePolicy { total_ms: 0, header: None, unit_ms, sets_grpc_timeout: false };
        assert_eq!(policy(1).value_of(1_500_000), 2);
        assert_eq!(policy(1).value_of(0), 1);
        assert_eq!(policy(1_000).value_of(1_000_000_001), 2);
    }
}
