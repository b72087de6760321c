//! The values of parameters in a path, by the template of an operation.

/// The values by their names; none if the path does not have the form of the template, which the router has
/// found by the same form.
pub(super) fn path_values<'t, 'p>(template: &'t str, path: &'p str) -> Option<Vec<(&'t str, &'p str)>> {
    let mut values = Vec::new();
    let (mut template_segments, mut path_segments) = (template.split('/'), path.split('/'));
    loop {
        match (template_segments.next(), path_segments.next()) {
            (None, None) => return Some(values),
            (Some(written), Some(segment)) => segment_values(written, segment, &mut values)?,
            _ => return None,
        }
    }
}

/// The values of one segment. The text behind the last parameter is found from the right, any other at its
/// first place, as the router does.
fn segment_values<'t, 'p>(
    mut written: &'t str,
    mut segment: &'p str,
    values: &mut Vec<(&'t str, &'p str)>,
) -> Option<()> {
    while let Some(open) = written.find('{') {
        let close = open + written[open..].find('}')?;
        segment = segment.strip_prefix(&written[..open])?;
        let name = &written[open + 1..close];
        written = &written[close + 1..];
        let text = &written[..written.find('{').unwrap_or(written.len())];
        let length = match (text, text.len() == written.len()) {
            ("", _) => segment.len(),
            (text, true) => segment.len().checked_sub(text.len())?,
            (text, false) => {
                segment.char_indices().skip(1).find(|(at, _)| segment[*at..].starts_with(text))?.0
            }
        };
        let value = segment.get(..length).filter(|value| !value.is_empty())?;
        values.push((name, value));
        segment = &segment[length..];
    }
    (segment == written).then_some(())
}

#[cfg(test)]
mod tests {
    use super::path_values;

    #[test]
    fn values_are_read_by_template() {
        for (template, path, expected) in [
            ("/pets", "/pets", Some("")),
            ("/pets/{id}", "/pets/7", Some("id=7")),
            ("/pets/{id}/toys/{toy}", "/pets/7/toys/ball", Some("id=7 toy=ball")),
            ("/a/{x}-{y}", "/a/1-2-3", Some("x=1 y=2-3")),
            ("/a/{x}.json", "/a/b.json.json", Some("x=b.json")),
            ("/a/{x}.{y}.z", "/a/1.2.3.z", Some("x=1 y=2.3")),
            ("/a/{x}:run", "/a/é:run", Some("x=é")),
            ("/pets/{id}", "/pets/", None),
            ("/pets/{id}", "/pets/7/8", None),
            ("/a/{x}.json", "/a/.json", None),
        ] {
            let values = path_values(template, path).map(|values| {
                values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(values.as_deref(), expected, "{template} {path}");
        }
    }
}
