//! Numbers with a unit, as in reports of load generators.

/// A time in milliseconds: `130.00us`, `4.05ms`, `1.06s`, `1.50m`, `2.00h`.
pub(super) fn milliseconds(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    Some(match unit {
        "us" => number / 1000.0,
        "ms" => number,
        "s" => number * 1000.0,
        "m" | "min" => number * 60_000.0,
        "h" => number * 3_600_000.0,
        _ => return None,
    })
}

/// Bytes: `124B`, `104.49KB`, `1.97MB`. Each unit is 1024 of the one before, in wrk as in h2load.
pub(super) fn bytes(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let power = match unit {
        "B" => 0,
        "KB" | "K" => 1,
        "MB" | "M" => 2,
        "GB" | "G" => 3,
        "TB" | "T" => 4,
        _ => return None,
    };
    Some(number * 1024_f64.powi(power))
}

fn split(text: &str) -> Option<(f64, &str)> {
    let at = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let number: f64 = text[..at].parse().ok()?;
    (number >= 0.0).then_some((number, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit() {
        let check = |read: fn(&str) -> Option<f64>, text: &str, wanted: f64| {
            let had = read(text).unwrap();
            assert!((had - wanted).abs() < 1e-9 * wanted.max(1.0), "{text}: {had}");
        };
        check(milliseconds, "130.00us", 0.13);
        check(milliseconds, "26us", 0.026);
        check(milliseconds, "4.05ms", 4.05);
        check(milliseconds, "1.06s", 1060.0);
        check(milliseconds, "1.50m", 90_000.0);
        check(milliseconds, "2.00h", 7_200_000.0);
        check(milliseconds, "0.00us", 0.0);
        check(bytes, "124B", 124.0);
        check(bytes, "656.01B", 656.01);
        check(bytes, "1.97KB", 1.97 * 1024.0);
        check(bytes, "1.25MB", 1.25 * 1_048_576.0);
        check(bytes, "2GB", 2_147_483_648.0);
        for text in ["", "1", "ms", "-1ms", "-nan%", "1.2.3ms", "5 parsecs", "5min s"] {
            assert_eq!((milliseconds(text), bytes(text)), (None, None), "{text}");
        }
    }
}
