//! The order of the paths of a document: segments of text before those with parameters, as OpenAPI matches.

use contract::ContractOperation;

/// The operations by their paths, in the order in which paths that match one request are tried.
pub(super) fn in_order_of_matching<'o, 'd>(
    operations: &'o [ContractOperation<'d>],
) -> Vec<(&'d str, Vec<&'o ContractOperation<'d>>)> {
    let mut by_path: Vec<(&str, Vec<&ContractOperation<'_>>)> = Vec::new();
    for operation in operations {
        // The document lists the operations of a path together.
        match by_path.last_mut() {
            Some((path, of_path)) if *path == operation.path => of_path.push(operation),
            _ => by_path.push((operation.path, vec![operation])),
        }
    }
    by_path.sort_by_cached_key(|(path, _)| path.split('/').map(rank).collect::<Vec<u8>>());
    by_path
}

/// 0 for a text, 2 for a parameter, 1 for both in one segment.
fn rank(segment: &str) -> u8 {
    let is_parameter = segment.starts_with('{') && segment.find('}') == Some(segment.len().saturating_sub(1));
    match (segment.contains('{'), is_parameter) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    }
}
