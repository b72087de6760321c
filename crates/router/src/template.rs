//! A path with parameters in braces on its own, for callers that read the values of parameters of a request
//! which the table has found by the same template.

use crate::params::Params;
use crate::path_pattern::PathPattern;

/// A path such as `/pets/{id}.json`.
#[derive(Clone, Debug)]
pub struct PathTemplate(PathPattern);

impl PathTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// Why it is none, a phrase behind the word `path`.
    pub fn parse(text: &str) -> Result<PathTemplate, &'static str> {
        PathPattern::parse_template(text).map(PathTemplate)
    }

    /// Adds the values of the parameters in `path` to `params`, if it has the form of the template.
    pub fn read(&self, path: &[u8], params: &mut Params) -> bool {
        self.0.read(path, params)
    }
}
