//! The next step for a managed certificate, from what is known of it. Pure: the time is handed in.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::current::Current;
use super::record::CertificateRecord;

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CertificateStep {
    /// Order now.
    Order,
    /// Ask the authority for advice on renewal now.
    AskForAdvice,
    /// Nothing before this time, in milliseconds since the Unix epoch.
    WaitUntil(u64),
}

/// When a certificate is to be ordered: at once if there is none for these names, else when it has to be
/// renewed; never within the pause after the attempt before.
pub(super) fn order_at_ms(
    names: &[String],
    current: Option<&Current>,
    record: &CertificateRecord,
    now_ms: u64,
) -> u64 {
    let wanted_at =
        current.filter(|current| names.iter().all(|name| current.covers(name))).map_or(0, |current| {
            let advice = record.advice.as_ref().filter(|advice| advice.serial == current.serial);
            current.validity.renew_at_ms(advice, record.past(), seed(names, current))
        });
    // Other names than before are another certificate, which no pause concerns. A pause that is longer than
    // any is of a clock that was wrong.
    let is_same = record.names == names;
    let is_possible = record.not_before_ms <= now_ms.saturating_add(PAUSE_MAX_MS);
    let pause_until = if is_same && is_possible { record.not_before_ms } else { 0 };
    wanted_at.max(pause_until)
}

/// See [`CertificateStep`].
pub(super) fn plan_next_step(
    names: &[String],
    current: Option<&Current>,
    record: &CertificateRecord,
    now_ms: u64,
) -> CertificateStep {
    let order_at_ms = order_at_ms(names, current, record, now_ms);
    if order_at_ms <= now_ms {
        return CertificateStep::Order;
    }
    let Some(current) = current.filter(|_| record.authority.is_some()) else {
        return CertificateStep::WaitUntil(order_at_ms);
    };
    match &record.advice {
        Some(advice) if advice.serial == current.serial => {
            let check_at_ms = advice.check_at_ms.min(now_ms.saturating_add(PAUSE_MAX_MS));
            if check_at_ms <= now_ms {
                CertificateStep::AskForAdvice
            } else {
                CertificateStep::WaitUntil(order_at_ms.min(check_at_ms))
            }
        }
        _ => CertificateStep::AskForAdvice,
    }
}

/// A number that stays the same for a certificate and differs between certificates.
fn seed(names: &[String], current: &Current) -> u64 {
    let mut hasher = DefaultHasher::new();
    (names, &current.serial).hash(&mut hasher);
    hasher.finish()
}

/// Longer than every pause and every wait that an authority is granted.
const PAUSE_MAX_MS: u64 = 8 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::super::schedule::{Advice, Validity};
    use super::*;

    const NOW: u64 = 1_000_000_000;

    fn current(names: &[&str], from_ms: u64, to_ms: u64) -> Current {
        Current {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            validity: Validity { not_before_ms: from_ms, not_after_ms: to_ms },
            serial: "01".to_owned(),
            identifier: None,
        }
    }

    fn check(current: Option<Current>, record: &CertificateRecord, expected: CertificateStep) {
        assert_eq!(
            plan_next_step(&["a.example".to_owned()], current.as_ref(), record, NOW),
            expected,
            "{record:?}"
        );
    }

    fn record() -> CertificateRecord {
        CertificateRecord { names: vec!["a.example".to_owned()], ..CertificateRecord::default() }
    }

    #[test]
    fn missing_certificate_is_ordered_after_its_pause() {
        check(None, &record(), CertificateStep::Order);
        check(
            None,
            &CertificateRecord { not_before_ms: NOW + 5, ..record() },
            CertificateStep::WaitUntil(NOW + 5),
        );
        check(None, &CertificateRecord { not_before_ms: NOW, ..record() }, CertificateStep::Order);
        check(None, &CertificateRecord { not_before_ms: u64::MAX, ..record() }, CertificateStep::Order);
        check(
            None,
            &CertificateRecord { not_before_ms: NOW + 5, ..CertificateRecord::default() },
            CertificateStep::Order,
        );
        check(Some(current(&["b.example"], 0, u64::MAX)), &record(), CertificateStep::Order);
        check(
            Some(current(&["*.example"], NOW, NOW + 4_000_000)),
            &record(),
            CertificateStep::WaitUntil(due()),
        );
        check(Some(current(&["a.example"], 0, NOW)), &record(), CertificateStep::Order);
    }

    /// When a certificate that is valid from `NOW` for 4,000 seconds is renewed.
    fn due() -> u64 {
        let wildcard = current(&["*.example"], NOW, NOW + 4_000_000);
        let due = order_at_ms(&["a.example".to_owned()], Some(&wildcard), &record(), NOW);
        assert!((NOW + 2_400_000..=NOW + 2_666_667).contains(&due), "{due}");
        due
    }

    #[test]
    fn advice_is_asked_for_once_per_certificate() {
        let valid = || Some(current(&["a.example"], NOW, NOW + 4_000_000));
        let issued = || CertificateRecord { authority: Some("d".to_owned()), ..record() };
        let with = |serial: &str, check_at_ms| {
            let advice = Advice { start_ms: 0, end_ms: 0, check_at_ms, serial: serial.to_owned() };
            CertificateRecord { advice: Some(advice), ..issued() }
        };
        check(valid(), &issued(), CertificateStep::AskForAdvice);
        check(valid(), &with("02", NOW + 7), CertificateStep::AskForAdvice);
        check(valid(), &with("01", NOW), CertificateStep::AskForAdvice);
        check(valid(), &with("01", NOW + 7), CertificateStep::WaitUntil(NOW + 7));
        check(valid(), &with("01", u64::MAX), CertificateStep::WaitUntil(due()));
    }
}
