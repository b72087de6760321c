//! Endpoints of loaded code: the requests that each is for, and its code behind a handle that only the side
//! that runs it can open.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Endpoints of one kind that one version of an extension has at most: they are searched one by one.
pub const LOADED_ENDPOINTS_MAX: usize = 100;
/// The longest path of one, in bytes, and the longest method.
pub const LOADED_ENDPOINT_BYTES_MAX: usize = 1_024;

/// An endpoint of loaded code.
#[derive(Clone)]
pub struct LoadedEndpoint {
    /// Its methods in upper case; empty: all.
    methods: Arc<[Box<str>]>,
    path: Arc<str>,
    /// The code that answers.
    pub code: Arc<dyn Any + Send + Sync>,
}

impl LoadedEndpoint {
    /// An endpoint for `methods`, or for all if there are none, at `path`; a path that ends in `*` stands for
    /// all that begin with it.
    ///
    /// # Errors
    /// The fault of a method or the path, a sentence.
    pub fn new(
        methods: &[String],
        path: &str,
        code: Arc<dyn Any + Send + Sync>,
    ) -> Result<LoadedEndpoint, String> {
        if !path.starts_with('/') || path.len() > LOADED_ENDPOINT_BYTES_MAX {
            return Err(format!(
                "the path {path:.100?} of an endpoint does not begin with / or is longer than {LOADED_ENDPOINT_BYTES_MAX} bytes"
            ));
        }
        let is_method = |method: &String| {
            (1..=LOADED_ENDPOINT_BYTES_MAX).contains(&method.len())
                && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        };
        if let Some(method) = methods.iter().find(|method| !is_method(method)) {
            return Err(format!("{method:.100?} is no method in upper case"));
        }
        let methods = methods.iter().map(|method| method.as_str().into()).collect();
        Ok(LoadedEndpoint { methods, path: path.into(), code })
    }

    /// The endpoint that a request with this method and path is for. An exact path goes before a beginning, a
    /// longer beginning before a shorter one, and the first one otherwise.
    pub fn find<'e>(
        endpoints: impl IntoIterator<Item = &'e LoadedEndpoint>,
        method: &str,
        path: &[u8],
    ) -> Option<&'e LoadedEndpoint> {
        let mut best: Option<(usize, &LoadedEndpoint)> = None;
        for endpoint in endpoints {
            let rank = endpoint.rank(method, path);
            if let Some(rank) = rank.filter(|rank| best.is_none_or(|(best, _)| *rank > best)) {
                best = Some((rank, endpoint));
            }
        }
        best.map(|(_, endpoint)| endpoint)
    }

    /// How exactly the request is meant; none if it is not.
    fn rank(&self, method: &str, path: &[u8]) -> Option<usize> {
        let rank = match self.path.strip_suffix('*') {
            Some(start) => path.starts_with(start.as_bytes()).then_some(start.len()),
            None => (path == self.path.as_bytes()).then_some(usize::MAX),
        };
        rank.filter(|_| self.methods.is_empty() || self.methods.iter().any(|own| **own == *method))
    }
}

impl fmt::Debug for LoadedEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LoadedEndpoint({:?}, {})", self.methods, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(methods: &[&str], path: &str) -> Result<LoadedEndpoint, String> {
        let methods: Vec<String> = methods.iter().map(|method| (*method).to_owned()).collect();
        LoadedEndpoint::new(&methods, path, Arc::new(path.to_owned()))
    }

    #[test]
    fn most_exact_endpoint_of_the_method_answers() {
        let all = [
            endpoint(&[], "/a/*"),
            endpoint(&["GET"], "/a/b"),
            endpoint(&["GET", "PUT"], "/a/b/*"),
            endpoint(&["GET"], "/a/b"),
        ];
        let all = all.map(Result::unwrap);
        for (method, path, index) in [
            ("GET", "/a/b", Some(1)),
            ("POST", "/a/b", Some(0)),
            ("PUT", "/a/b/c", Some(2)),
            ("DELETE", "/a/b/c", Some(0)),
            ("GET", "/a", None),
            ("GET", "/b", None),
        ] {
            let found = LoadedEndpoint::find(&all, method, path.as_bytes());
            let index_of = |found: &LoadedEndpoint| all.iter().position(|one| std::ptr::eq(one, found));
            assert_eq!(found.and_then(index_of), index, "{method} {path}");
        }
    }

    #[test]
    fn faulty_paths_and_methods_are_refused() {
        for (methods, path) in
            [(&["GET"][..], "a"), (&["get"], "/a"), (&[""], "/a"), (&[], &*format!("/{}", "x".repeat(1_024)))]
        {
            assert!(endpoint(methods, path).is_err(), "{methods:?} {path}");
        }
    }
}
