//! Content negotiation: the best of the media types that a response has, by the field `Accept` (RFC 9110,
//! section 12.5.1).

/// Ranges of `Accept` that are read; further ones are ignored.
const RANGES_MAX: usize = 64;

/// A media range with its parameters in lower case.
struct AcceptRange {
    kind: String,
    subtype: String,
    parameters: Vec<(String, String)>,
    quality: f32,
}

/// The index of the media type that the client prefers. Parameters of ranges are ignored if no type has them.
pub(super) fn best_media_type(accept: &str, available: &[&str]) -> Option<usize> {
    let mut ranges: Vec<AcceptRange> =
        accept.split(',').take(RANGES_MAX).filter_map(AcceptRange::parse).collect();
    best_of(&ranges, available).or_else(|| {
        ranges.iter_mut().for_each(|range| range.parameters.clear());
        best_of(&ranges, available)
    })
}

/// Whether the client accepts any type.
pub(super) fn accepts_everything(accept: &str) -> bool {
    accept.contains("*/*")
}

fn best_of(ranges: &[AcceptRange], available: &[&str]) -> Option<usize> {
    let mut best: Option<(f32, usize, usize, usize)> = None;
    for (index, media_type) in available.iter().enumerate() {
        let Some(offered) = AcceptRange::parse(media_type) else { continue };
        // The most specific range decides about a type, even if its quality is the lowest.
        let matches =
            ranges.iter().enumerate().filter_map(|(order, range)| Some((range.match_of(&offered)?, order)));
        let Some((specificity, order)) =
            matches.max_by_key(|(specificity, order)| (*specificity, usize::MAX - order))
        else {
            continue;
        };
        let quality = ranges[order].quality;
        let is_better = best.is_none_or(|(best_quality, best_specificity, best_order, _)| {
            (quality, specificity, best_order) > (best_quality, best_specificity, order)
        });
        if quality > 0.0 && is_better {
            best = Some((quality, specificity, order, index));
        }
    }
    best.map(|(.., index)| index)
}

impl AcceptRange {
    fn parse(text: &str) -> Option<AcceptRange> {
        let mut parts = text.split(';');
        let (kind, subtype) = parts.next()?.trim().split_once('/')?;
        let mut range = AcceptRange {
            kind: kind.to_ascii_lowercase(),
            subtype: subtype.to_ascii_lowercase(),
            parameters: Vec::new(),
            quality: 1.0,
        };
        for parameter in parts {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
            if name == "q" {
                range.quality = value.parse().unwrap_or(0.0_f32).clamp(0.0, 1.0);
            } else {
                range.parameters.push((name, value.to_ascii_lowercase()));
            }
        }
        Some(range)
    }

    /// How exactly the range names the type, or nothing where it does not match.
    fn match_of(&self, offered: &AcceptRange) -> Option<usize> {
        let part = |wanted: &str, has: &str, weight| match wanted {
            "*" => Some(0),
            _ => (wanted == has).then_some(weight),
        };
        let specificity = part(&self.kind, &offered.kind, 4)? + part(&self.subtype, &offered.subtype, 2)?;
        let has_all = self.parameters.iter().all(|parameter| offered.parameters.contains(parameter));
        has_all.then_some(specificity + usize::from(!self.parameters.is_empty()))
    }
}
