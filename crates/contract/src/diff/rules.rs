//! Names and default levels of the comparison rules. Most names are a place ("request-property") and an edit
//! ("max-length-decreased"); their level follows from the effect of the edit and the direction of the
//! message.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::ChangeLevel;
use ChangeLevel::{Breaking, Info, Warning};
use RuleEffect::{Differs, Narrows, Neutral, Unclear, Widens};

/// Effect of an edit on the set of accepted values.
#[derive(Clone, Copy)]
enum RuleEffect {
    Narrows,
    Widens,
    /// The old and the new set are not contained in one another.
    Differs,
    /// The documents do not say which set is larger.
    Unclear,
    Neutral,
}

// Places of schemas, as a bit set.
const REQUEST_BODY: u8 = 1;
const REQUEST_PROPERTY: u8 = 2;
const PARAMETER: u8 = 4;
const PARAMETER_PROPERTY: u8 = 8;
const RESPONSE_BODY: u8 = 16;
const RESPONSE_PROPERTY: u8 = 32;
const RESPONSE_HEADER: u8 = 64;
const BODIES: u8 = REQUEST_BODY | REQUEST_PROPERTY | RESPONSE_BODY | RESPONSE_PROPERTY;
const REQUESTS: u8 = REQUEST_BODY | REQUEST_PROPERTY | PARAMETER | PARAMETER_PROPERTY;
const EVERYWHERE: u8 = REQUESTS | BODIES | RESPONSE_HEADER;

/// Every place with its part of the rule name.
const PLACES: [(u8, &str); 7] = [
    (REQUEST_BODY, "request-body"),
    (REQUEST_PROPERTY, "request-property"),
    (PARAMETER, "request-parameter"),
    (PARAMETER_PROPERTY, "request-parameter-property"),
    (RESPONSE_BODY, "response-body"),
    (RESPONSE_PROPERTY, "response-property"),
    (RESPONSE_HEADER, "response-header"),
];

/// Ordered bounds: the part of the rule name, and whether a larger value narrows.
const BOUNDS: [(&str, bool); 12] = [
    ("max", false),
    ("min", true),
    ("exclusive-max", false),
    ("exclusive-min", true),
    ("max-length", false),
    ("min-length", true),
    ("max-items", false),
    ("min-items", true),
    ("max-properties", false),
    ("min-properties", true),
    ("max-contains", false),
    ("min-contains", true),
];

/// Keywords with rules `…-added` (narrows) and `…-removed` (widens) in bodies and their properties.
const CONSTRAINTS: [&str; 13] = [
    "all-of",
    "const",
    "contains",
    "content-schema",
    "dependent-required",
    "dependent-schema",
    "if",
    "then",
    "else",
    "pattern-property",
    "property-names",
    "unevaluated-items",
    "unevaluated-properties",
];

/// Edits with irregular places: name, effect, places.
const EDITS: &[(&str, RuleEffect, u8)] = &[
    ("all-of-added-annotation-only", Neutral, BODIES),
    ("all-of-removed-annotation-only", Neutral, BODIES),
    ("any-of-added", Widens, BODIES),
    ("any-of-removed", Narrows, BODIES),
    ("one-of-added", Widens, BODIES),
    ("one-of-removed", Narrows, BODIES),
    ("became-enum", Narrows, REQUEST_BODY | REQUEST_PROPERTY | PARAMETER | RESPONSE_PROPERTY),
    ("became-not-enum", Widens, REQUESTS | RESPONSE_PROPERTY),
    ("enum-value-added", Widens, REQUESTS | RESPONSE_PROPERTY),
    ("enum-value-removed", Narrows, REQUESTS | RESPONSE_PROPERTY),
    ("became-nullable", Widens, EVERYWHERE),
    ("became-not-nullable", Narrows, EVERYWHERE),
    ("const-changed", Differs, BODIES),
    ("content-encoding-changed", Differs, BODIES),
    ("content-media-type-changed", Differs, BODIES),
    ("dependent-required-changed", Differs, BODIES),
    ("default-value-added", Neutral, BODIES | PARAMETER),
    ("default-value-changed", Neutral, BODIES | PARAMETER),
    ("default-value-removed", Neutral, BODIES | PARAMETER),
    ("discriminator-added", Neutral, BODIES),
    ("discriminator-removed", Neutral, BODIES),
    ("discriminator-property-name-changed", Neutral, BODIES),
    ("discriminator-mapping-added", Neutral, BODIES),
    ("discriminator-mapping-changed", Neutral, BODIES),
    ("discriminator-mapping-deleted", Neutral, BODIES),
    ("list-of-types-narrowed", Narrows, REQUESTS | RESPONSE_BODY | RESPONSE_PROPERTY),
    ("list-of-types-widened", Widens, REQUESTS | RESPONSE_BODY | RESPONSE_PROPERTY),
    ("multiple-of-set", Narrows, BODIES | PARAMETER | RESPONSE_HEADER),
    ("multiple-of-unset", Widens, BODIES | PARAMETER | RESPONSE_HEADER),
    ("multiple-of-changed", Differs, BODIES),
    ("multiple-of-generalized", Neutral, REQUEST_BODY | REQUEST_PROPERTY),
    ("multiple-of-specialized", Neutral, RESPONSE_BODY | RESPONSE_PROPERTY),
    ("pattern-added", Narrows, REQUEST_PROPERTY | PARAMETER | RESPONSE_PROPERTY),
    ("pattern-removed", Widens, REQUEST_PROPERTY | PARAMETER | RESPONSE_PROPERTY),
    ("pattern-changed", Unclear, REQUEST_PROPERTY | PARAMETER | RESPONSE_PROPERTY),
    ("pattern-generalized", Neutral, REQUEST_PROPERTY | PARAMETER),
    ("prefix-items-added", Unclear, BODIES),
    ("prefix-items-removed", Unclear, BODIES),
    ("schema-became-false", Narrows, EVERYWHERE & !RESPONSE_BODY),
    ("schema-became-not-false", Widens, EVERYWHERE & !RESPONSE_BODY),
    ("type-changed", Differs, EVERYWHERE & !PARAMETER_PROPERTY),
    ("type-generalized", Widens, EVERYWHERE),
    ("type-compatible", Neutral, BODIES | RESPONSE_HEADER),
    ("type-specialized", Narrows, PARAMETER_PROPERTY | RESPONSE_BODY | RESPONSE_PROPERTY | RESPONSE_HEADER),
    ("unique-items-set", Narrows, REQUEST_BODY | REQUEST_PROPERTY),
    ("unique-items-unset", Widens, BODIES),
];

/// Rules with names of their own, by level, separated by white space.
const SINGLE_RULES: [(ChangeLevel, &str); 3] = [
    (
        Breaking,
        "api-deprecated-sunset-parse api-invalid-stability-level api-path-removed-before-sunset
        api-path-removed-without-deprecation api-path-sunset-parse api-removed-before-sunset
        api-removed-without-deprecation api-security-anonymous-access-removed
        api-security-component-api-key-in-changed api-security-component-api-key-name-changed
        api-security-component-http-scheme-changed api-security-component-type-changed
        api-security-removed api-security-scope-added api-stability-decreased
        api-sunset-date-changed-earlier api-sunset-date-changed-too-small api-sunset-date-too-small
        sunset-deleted webhook-removed new-request-path-parameter
        new-required-request-default-parameter-to-existing-path new-required-request-header-property
        new-required-request-parameter new-required-request-property
        new-required-request-property-with-default request-body-added-required
        request-body-became-required request-body-media-type-item-schema-added
        request-body-media-type-removed request-body-media-type-schema-added request-body-removed
        request-body-wrapped-in-one-of request-header-property-became-required
        request-parameter-became-required request-parameter-removed-before-sunset
        request-parameter-sunset-date-changed-earlier request-parameter-sunset-date-changed-too-small
        request-parameter-sunset-date-too-small request-parameter-sunset-deleted
        request-parameter-sunset-parse request-parameter-x-extensible-enum-value-removed
        request-property-became-required request-property-became-required-with-default
        request-property-deprecated-sunset-invalid request-property-removed-before-sunset
        request-property-sunset-date-changed-earlier request-property-sunset-date-changed-too-small
        request-property-sunset-date-too-small request-property-sunset-deleted
        request-property-x-extensible-enum-value-removed request-required-property-became-not-read-only
        required-response-header-removed response-body-media-type-item-schema-removed
        response-body-media-type-schema-removed response-body-schema-became-false
        response-body-wrapped-in-one-of response-header-became-optional
        response-media-type-name-generalized response-media-type-parameter-changed
        response-media-type-parameter-removed response-media-type-removed
        response-mediatype-became-not-enum response-mediatype-enum-value-added
        response-property-became-optional response-property-deprecated-sunset-invalid
        response-property-sunset-date-changed-earlier response-property-sunset-date-changed-too-small
        response-property-sunset-date-too-small response-property-sunset-deleted
        response-required-property-became-write-only response-required-property-removed
        response-required-property-removed-before-sunset response-success-status-removed
        api-global-security-removed api-global-security-scope-added request-header-property-became-enum
        request-property-stability-decreased response-property-stability-decreased
        response-body-media-type-item-schema-removed-untyped wire-enum-order-changed
        wire-parameter-order-changed wire-property-order-changed",
    ),
    (
        Warning,
        "api-security-component-oauth-refresh-url-changed api-security-component-oauth-token-url-changed
        api-security-component-oauth-url-changed api-security-component-openid-connect-url-changed
        request-body-wrapped-in-one-of-original-preserved request-optional-property-became-read-only
        request-parameter-property-type-changed request-parameter-removed request-property-removed
        request-required-property-became-read-only response-body-wrapped-in-one-of-original-preserved
        response-media-type-name-changed request-parameter-serialization-changed
        request-body-additional-properties-disallowed request-property-additional-properties-disallowed
        response-body-additional-properties-allowed response-property-additional-properties-allowed",
    ),
    (
        Info,
        "api-global-security-added api-global-security-scope-removed api-operation-id-added
        api-operation-id-removed api-path-removed-with-deprecation api-removed-with-deprecation
        api-schema-removed api-security-added api-security-anonymous-access-added
        api-security-component-added api-security-component-bearer-format-changed
        api-security-component-oauth-scope-added api-security-component-oauth-scope-changed
        api-security-component-oauth-scope-removed api-security-component-removed
        api-security-scope-removed api-stability-increased api-tag-added api-tag-removed
        api-version-changed endpoint-added endpoint-deprecated endpoint-deprecated-with-sunset
        endpoint-reactivated new-optional-request-default-parameter-to-existing-path
        new-optional-request-parameter new-optional-request-property optional-response-header-removed
        request-body-added-optional request-body-became-optional request-body-media-type-added
        request-body-media-type-item-schema-removed request-body-media-type-schema-removed
        request-optional-property-became-not-read-only request-optional-property-became-not-write-only
        request-optional-property-became-write-only request-parameter-became-optional
        request-parameter-deprecated request-parameter-reactivated
        request-parameter-removed-with-deprecation request-property-became-optional
        request-property-deprecated request-property-deprecated-with-sunset request-property-reactivated
        request-property-removed-with-deprecation
        request-required-property-became-not-read-only-in-openapi-31
        request-required-property-became-not-write-only request-required-property-became-write-only
        response-body-media-type-item-schema-added response-body-media-type-schema-added
        response-body-schema-became-not-false response-header-added response-media-type-added
        response-media-type-name-specialized response-media-type-parameter-added
        response-mediatype-became-enum response-mediatype-enum-value-removed
        response-non-success-status-added response-non-success-status-removed
        response-success-status-added request-property-stability-increased
        response-property-stability-increased request-read-only-property-enum-value-removed
        request-read-only-property-exclusive-max-decreased
        request-read-only-property-exclusive-min-increased request-read-only-property-max-decreased
        request-read-only-property-max-items-decreased request-read-only-property-max-length-decreased
        request-read-only-property-max-properties-decreased request-read-only-property-min-increased
        response-write-only-property-enum-value-added response-optional-property-added
        response-optional-property-became-not-read-only response-optional-property-became-not-write-only
        response-optional-property-became-read-only response-optional-property-became-write-only
        response-optional-property-removed response-optional-write-only-property-added
        response-optional-write-only-property-removed response-property-became-required
        response-property-deprecated response-property-deprecated-with-sunset
        response-property-reactivated response-required-property-added
        response-required-property-became-not-read-only response-required-property-became-not-write-only
        response-required-property-became-read-only response-required-property-removed-with-deprecation
        response-required-write-only-property-added response-required-write-only-property-removed
        response-write-only-property-became-optional response-write-only-property-became-required
        webhook-added request-body-additional-properties-allowed
        request-property-additional-properties-allowed response-body-additional-properties-disallowed
        response-property-additional-properties-disallowed",
    ),
];

static RULES: LazyLock<HashMap<String, ChangeLevel>> = LazyLock::new(build_rules);

fn build_rules() -> HashMap<String, ChangeLevel> {
    let mut rules = HashMap::new();
    let bounded = BODIES | PARAMETER | RESPONSE_HEADER;
    for (bound, larger_narrows) in BOUNDS {
        let (increase, decrease) = if larger_narrows { (Narrows, Widens) } else { (Widens, Narrows) };
        let actions = [("set", Narrows), ("unset", Widens), ("increased", increase), ("decreased", decrease)];
        for (action, effect) in actions {
            insert_edit(&mut rules, &format!("{bound}-{action}"), effect, bounded);
        }
    }
    for keyword in CONSTRAINTS {
        insert_edit(&mut rules, &format!("{keyword}-added"), Narrows, BODIES);
        insert_edit(&mut rules, &format!("{keyword}-removed"), Widens, BODIES);
    }
    for &(edit, effect, places) in EDITS {
        insert_edit(&mut rules, edit, effect, places);
    }
    for (level, names) in SINGLE_RULES {
        rules.extend(names.split_whitespace().map(|name| (name.to_owned(), level)));
    }
    rules
}

fn insert_edit(rules: &mut HashMap<String, ChangeLevel>, edit: &str, effect: RuleEffect, places: u8) {
    for (place, prefix) in PLACES {
        if places & place == 0 {
            continue;
        }
        let is_request = place & REQUESTS != 0;
        let level = match effect {
            Narrows if is_request => Breaking,
            Widens if !is_request => Breaking,
            Differs => Breaking,
            Unclear => Warning,
            Narrows | Widens | Neutral => Info,
        };
        rules.insert(format!("{prefix}-{edit}"), level);
    }
}

/// The rule of this name as a static string, with its default level; `None` for an unknown name.
pub(super) fn find_rule(name: &str) -> Option<(&'static str, ChangeLevel)> {
    RULES.get_key_value(name).map(|(name, level)| (name.as_str(), *level))
}

/// Whether a rule of this name exists.
pub fn is_change_rule(name: &str) -> bool {
    RULES.contains_key(name)
}

/// All rules with their default levels, in no particular order.
pub fn change_rules() -> impl Iterator<Item = (&'static str, ChangeLevel)> {
    RULES.iter().map(|(name, level)| (name.as_str(), *level))
}
