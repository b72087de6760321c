//! The path templates of a document as a tree of segments. A text is preferred to a parameter, so that
//! `/pets/mine` is not read as `/pets/{id}`.

use std::collections::HashMap;

/// Paths of one document.
const PATHS_MAX: usize = 10_000;
/// Segments of one path, because the search recurses.
const SEGMENTS_MAX: usize = 64;

/// The tree; `T` is what stands at a path.
pub(super) struct Paths<T> {
    root: PathTrieNode<T>,
    count: usize,
}

struct PathTrieNode<T> {
    texts: HashMap<Box<str>, PathTrieNode<T>>,
    /// Segments with a text beside parameters, such as `{name}.json`.
    mixed: Vec<(Mixed, PathTrieNode<T>)>,
    any: Option<Box<PathTrieNode<T>>>,
    ends: Vec<PathEnd<T>>,
}

/// A path that ends at a step.
struct PathEnd<T> {
    names: Box<[Box<str>]>,
    value: T,
}

/// A segment with texts and parameters: the text before each parameter, and the one behind the last.
#[derive(PartialEq)]
struct Mixed {
    before: Vec<Box<str>>,
    last: Box<str>,
}

/// A path that was found: what stands there, and the values of its parameters by name.
pub(super) type PathMatch<'t, 'p, T> = (&'t T, Vec<(&'t str, &'p str)>);

impl<T> Default for Paths<T> {
    fn default() -> Paths<T> {
        Paths { root: PathTrieNode::default(), count: 0 }
    }
}

impl<T> Default for PathTrieNode<T> {
    fn default() -> PathTrieNode<T> {
        PathTrieNode { texts: HashMap::new(), mixed: Vec::new(), any: None, ends: Vec::new() }
    }
}

impl<T> Paths<T> {
    /// Adds a path.
    ///
    /// # Errors
    /// It is no template, or there are too many.
    pub(super) fn add(&mut self, template: &str, value: T) -> Result<(), String> {
        let path = template.strip_prefix('/').ok_or("a path begins with a slash")?;
        self.count += 1;
        if self.count > PATHS_MAX {
            return Err(format!("there are more than {PATHS_MAX} paths"));
        }
        let mut names = Vec::new();
        let mut step = &mut self.root;
        for (index, segment) in path.split('/').enumerate() {
            if index >= SEGMENTS_MAX {
                return Err(format!("the path has more than {SEGMENTS_MAX} segments"));
            }
            step = step.next(segment, &mut names)?;
        }
        step.ends.push(PathEnd { names: names.into(), value });
        Ok(())
    }

    /// The first path that `fits`, in the order of preference.
    pub(super) fn find<'t, 'p>(
        &'t self,
        path: &'p str,
        fits: &dyn Fn(&T) -> bool,
    ) -> Option<PathMatch<'t, 'p, T>> {
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').take(SEGMENTS_MAX + 1).collect();
        let mut values = Vec::new();
        let end = self.root.find(&segments, &mut values, fits)?;
        Some((&end.value, end.names.iter().map(|name| &**name).zip(values).collect()))
    }
}

impl<T> PathTrieNode<T> {
    fn next(&mut self, segment: &str, names: &mut Vec<Box<str>>) -> Result<&mut PathTrieNode<T>, String> {
        let mut mixed = Mixed { before: Vec::new(), last: "".into() };
        let mut rest = segment;
        while let Some(open) = rest.find('{') {
            let close = rest[open..].find('}').ok_or("a parameter has no closing brace")? + open;
            let name = &rest[open + 1..close];
            if name.is_empty() {
                return Err("a parameter has no name".to_owned());
            }
            if !mixed.before.is_empty() && open == 0 {
                return Err("two parameters of a segment have no text between them".to_owned());
            }
            names.push(name.into());
            mixed.before.push(rest[..open].into());
            rest = &rest[close + 1..];
        }
        mixed.last = rest.into();
        Ok(match &*mixed.before {
            [] => self.texts.entry(segment.into()).or_default(),
            [before] if before.is_empty() && rest.is_empty() => self.any.get_or_insert_default(),
            _ => {
                let known = self.mixed.iter().position(|(other, _)| *other == mixed);
                let index = known.unwrap_or_else(|| {
                    self.mixed.push((mixed, PathTrieNode::default()));
                    self.mixed.len() - 1
                });
                &mut self.mixed[index].1
            }
        })
    }

    /// Each step is visited once at most, because a path has one way to each.
    fn find<'t, 'p>(
        &'t self,
        segments: &[&'p str],
        values: &mut Vec<&'p str>,
        fits: &dyn Fn(&T) -> bool,
    ) -> Option<&'t PathEnd<T>> {
        let Some((segment, rest)) = segments.split_first() else {
            return self.ends.iter().find(|end| fits(&end.value));
        };
        if let Some(found) = self.texts.get(*segment).and_then(|step| step.find(rest, values, fits)) {
            return Some(found);
        }
        let known = values.len();
        for (mixed, step) in &self.mixed {
            if mixed.read(segment, values)
                && let Some(found) = step.find(rest, values, fits)
            {
                return Some(found);
            }
            values.truncate(known);
        }
        let any = self.any.as_ref().filter(|_| !segment.is_empty())?;
        values.push(segment);
        let found = any.find(rest, values, fits);
        if found.is_none() {
            values.truncate(known);
        }
        found
    }
}

impl Mixed {
    /// Adds the values of the parameters in `segment`; whether it has this form.
    fn read<'p>(&self, segment: &'p str, values: &mut Vec<&'p str>) -> bool {
        let Some(mut rest) = segment.strip_prefix(&*self.before[0]) else { return false };
        for text in &self.before[1..] {
            let Some(at) = rest.find(&**text).filter(|at| *at > 0) else { return false };
            values.push(&rest[..at]);
            rest = &rest[at + text.len()..];
        }
        match rest.strip_suffix(&*self.last) {
            Some(value) if !value.is_empty() => {
                values.push(value);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_preferred_to_parameters() {
        let mut paths = Paths::default();
        let templates = [
            "/pets",
            "/pets/{id}",
            "/pets/mine",
            "/pets/{id}/toys/{toy}",
            "/pets/{name}.json",
            "/a/{x}-{y}/z",
            "/{any}/last",
        ];
        for template in templates {
            paths.add(template, template).unwrap();
        }
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let found = paths.find(path, &|_| true).map(|(template, values)| {
                let values: Vec<String> =
                    values.iter().map(|(name, value)| format!("{name}={value}")).collect();
                (*template, values.join(" "))
            });
            assert_eq!(found, expected.map(|(template, values)| (template, values.to_owned())), "{path}");
        };
        check("/pets", Some(("/pets", "")));
        check("/pets/7", Some(("/pets/{id}", "id=7")));
        check("/pets/mine", Some(("/pets/mine", "")));
        check("/pets/mine/toys/ball", Some(("/pets/{id}/toys/{toy}", "id=mine toy=ball")));
        check("/pets/rex.json", Some(("/pets/{name}.json", "name=rex")));
        check("/pets/.json", Some(("/pets/{id}", "id=.json")));
        check("/pets/last", Some(("/pets/{id}", "id=last")));
        check("/a/1-2-3/z", Some(("/a/{x}-{y}/z", "x=1 y=2-3")));
        check("/b/last", Some(("/{any}/last", "any=b")));
        check("/pets/", None);
        check("/pets/7/", None);
        check("/", None);
        let found = paths.find("/pets/mine", &|template| *template == "/pets/{id}");
        assert_eq!(found.map(|(template, _)| *template), Some("/pets/{id}"), "the next one that fits");
    }

    #[test]
    fn faulty_templates_are_refused() {
        let mut paths = Paths::default();
        for template in ["pets", "/a/{", "/a/{}", "/a/{x}{y}", &"/a".repeat(SEGMENTS_MAX + 1)] {
            assert!(paths.add(template, ()).is_err(), "{template}");
        }
        assert!((0..=PATHS_MAX).any(|number| paths.add(&format!("/{number}"), ()).is_err()));
    }
}
