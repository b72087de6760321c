//! Tests of the costs, with the examples of APISIX's documentation.

use serde_json::json;

use super::*;
use crate::shared::attributes::Attribute;

/// A schema in a short form: types with the types of their fields; `first` of `Query.paged` is 50 by default.
fn schema(types: Value) -> SchemaIndex {
    let field = |(name, returns): (&String, &Value)| {
        let args = match &**name {
            "paged" => json!([{"name": "first", "defaultValue": "50"}]),
            _ => json!([]),
        };
        json!({"name": name, "args": args, "type": {"kind": "LIST", "ofType": {"name": returns}}})
    };
    let types: Vec<Value> = types
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, fields)| {
            json!({"name": name, "fields": fields.as_object().unwrap().iter().map(field).collect::<Vec<_>>()})
        })
        .collect();
    let answer = json!({"data": {"__schema": {"queryType": {"name": "Query"}, "types": types}}});
    SchemaIndex::read(answer.to_string().as_bytes()).unwrap()
}

fn people() -> SchemaIndex {
    schema(json!({
        "Query": {"allPeople": "PeopleConnection"},
        "PeopleConnection": {"people": "Person"},
        "Person": {"name": "String", "vehicleConnection": "VehicleConnection"},
        "VehicleConnection": {"vehicles": "Vehicle"},
        "Vehicle": {"id": "ID", "name": "String", "cargoCapacity": "Float", "filmConnection": "FilmConnection"},
        "FilmConnection": {"films": "Film"},
        "Film": {"title": "String", "characterConnection": "CharacterConnection"},
        "CharacterConnection": {"characters": "Person"},
    }))
}

fn products() -> SchemaIndex {
    schema(json!({
        "Query": {"products": "ProductConnection", "node": "Product", "any": "Node", "paged": "Product"},
        "ProductConnection": {"nodes": "Product"},
        "Product": {"id": "ID", "name": "String", "expensive": "String", "reviews": "ReviewConnection"},
        "ReviewConnection": {"nodes": "Review"},
        "Review": {"id": "ID"},
        "Node": {"id": "ID"},
    }))
}

/// The cost, with variables or without.
fn cost(
    strategy: CostFormula,
    schema: &SchemaIndex,
    weights: &Value,
    query: &str,
    variables: Option<Value>,
) -> Option<f64> {
    let written: Vec<Decoration> = Vec::read(weights.clone()).unwrap();
    let decorations = Decorations::compile(&written).unwrap();
    let document = GraphqlDocument::parse(query).unwrap();
    let operations: Vec<&GraphqlOperation> = document.operations.iter().collect();
    let uses_defaults = variables.is_some();
    let variables = variables.map(|variables| variables.as_object().unwrap().clone());
    let inputs = Inputs {
        decorations: &decorations,
        schema: Some(schema),
        variables: variables.as_ref(),
        uses_defaults,
    };
    query_cost(strategy, &document, &operations, &inputs).ok()
}

const PEOPLE: &str = "{ allPeople(first: 20) { people { name vehicleConnection(first: 10) { vehicles { id name cargoCapacity } } } } }";
const FILMS: &str = "{ allPeople(first: 100) { people { vehicleConnection(first: 10) { vehicles { filmConnection(first: 5) \
    { films { characterConnection(first: 50) { characters { name } } } } } } } } }";

#[test]
fn examples_of_the_documentation() {
    let first = |path: &str| json!({"field_path": path, "mul_arguments": ["first"]});
    let check = |strategy: CostFormula, query: &str, weights: Value, expected: f64| {
        assert_eq!(cost(strategy, &people(), &weights, query, None), Some(expected), "{weights}");
    };
    let plain = json!([first("Query.allPeople"), first("Person.vehicleConnection")]);
    check(CostFormula::Complexity, PEOPLE, plain, 862.0);
    let heavy = json!([
        {"field_path": "Query.allPeople", "mul_arguments": ["first"], "mul_value": 2, "add_value": 2},
        {"field_path": "Person.vehicleConnection", "mul_arguments": ["first"], "add_value": 5},
        {"field_path": "Vehicle.name", "add_value": 8},
    ]);
    check(CostFormula::Complexity, PEOPLE, heavy, 4_683.0);
    let mut films = json!([
        first("Query.allPeople"),
        first("Person.vehicleConnection"),
        first("Vehicle.filmConnection"),
        first("Film.characterConnection"),
    ]);
    check(CostFormula::NodeQuantifier, FILMS, films.clone(), 6_101.0);
    films[1]["add_value"] = 42.into();
    check(CostFormula::NodeQuantifier, FILMS, films, 10_201.0);
}

#[test]
fn fragments_are_transparent() {
    let weights = json!([{"field_path": "Query.allPeople", "mul_arguments": ["first"]}]);
    let check = |query: &str, expected: f64| {
        assert_eq!(
            cost(CostFormula::Complexity, &people(), &weights, query, None),
            Some(expected),
            "{query}"
        );
    };
    check("{ allPeople(first: 20) { people { ...pf } } } fragment pf on Person { name }", 42.0);
    check("{ allPeople(first: 20) { people { ...pf ...pf } } } fragment pf on Person { name }", 62.0);
    check("{ allPeople(first: 20) { people { ... on Person { name } } } }", 42.0);
    let weights = json!([{"field_path": "Product.expensive", "add_value": 100}]);
    let deep = json!([{"field_path": "Product.expensive", "add_value": 100}, {"field_path": "Query", "add_value": 1}]);
    let check = |query: &str, expected: f64| {
        for weights in [&weights, &deep] {
            assert_eq!(
                cost(CostFormula::Complexity, &products(), weights, query, None),
                Some(expected),
                "{query}"
            );
        }
    };
    check("{ any { ... on Product { expensive } } }", 102.0);
    check("{ any { ...pf } } fragment pf on Product { expensive }", 102.0);
    check("{ any { ... on Unknown { id } } }", 3.0);
}

#[test]
fn only_counts_are_multiplied() {
    let weights = json!([{"field_path": "Query.products", "mul_arguments": ["first"]}]);
    let check = |query: &str, variables: Option<Value>, expected: f64| {
        let got = cost(CostFormula::Complexity, &products(), &weights, query, variables);
        assert_eq!(got, Some(expected), "{query}");
    };
    for absent in ["\"ten\"", "true", "-5", "null", "$n", "[3]"] {
        check(&format!("{{ products(first: {absent}) {{ nodes {{ id }} }} }}"), None, 4.0);
    }
    check("{ products(first: \"10\") { nodes { id } } }", None, 22.0);
    check("{ __typename products(first: 4) { nodes { id } } }", None, 11.0);
    check("{ products(first: 4) { nodes { id sku } } }", None, 14.0);
    check(
        "query A { products(first: 2) { nodes { id } } } query B { products(first: 100) { nodes { id } } }",
        None,
        202.0,
    );
    check("{ a: products(first: 5) { nodes { id } } b: products(first: 7) { nodes { id } } }", None, 27.0);
}

#[test]
fn variables_and_defaults_cost_what_literals_cost() {
    let weights = json!([
        {"field_path": "Query.products", "mul_arguments": ["first"]},
        {"field_path": "Query.paged", "mul_arguments": ["first"]},
    ]);
    let check = |query: &str, variables: Option<Value>, expected: f64| {
        let got = cost(CostFormula::Complexity, &products(), &weights, query, variables.clone());
        assert_eq!(got, Some(expected), "{query} {variables:?}");
    };
    let of = |head: &str| format!("query Q{head} {{ products(first: $n) {{ nodes {{ id }} }} }}");
    check(&of("($n: Int)"), Some(json!({"n": 100})), 202.0);
    check(&of("($n: Int = 100)"), Some(json!({})), 202.0);
    check(&of("($n: Int = 100)"), Some(json!({"n": 3})), 8.0);
    check(&of("($n: Int = 100)"), None, 4.0);
    check(&of("($n: Int)"), Some(json!({})), 4.0);
    check(&of("($n: Int)"), Some(json!({"n": "x"})), 4.0);
    check(
        "query A($n: Int = 2) { products(first: $n) { nodes { id } } } query B { products(first: $n) { nodes { id } } }",
        Some(json!({})),
        6.0,
    );
    check("{ paged { id } }", Some(json!({})), 52.0);
    check("{ paged(first: 2) { id } }", Some(json!({})), 4.0);
    check("{ paged { id } }", None, 3.0);
}

#[test]
fn longer_positions_outweigh_shorter_ones() {
    let check = |query: &str, weights: Value, expected: f64| {
        let got = cost(CostFormula::Complexity, &products(), &weights, query, None);
        assert_eq!(got, Some(expected), "{weights}");
    };
    let list = "{ products(first: 4) { nodes { id } } }";
    let reviews = "{ products(first: 4) { nodes { reviews(first: 3) { nodes { id } } } } }";
    let deep = json!({"field_path": "Query.products.nodes.reviews", "add_value": 100});
    let shallow = json!({"field_path": "Product.reviews", "mul_arguments": ["first"], "add_value": 2});
    check(list, json!([{"field_path": "Query.products.nodes", "add_value": 9}]), 12.0);
    check(
        reviews,
        json!([
            {"field_path": "Query.products", "mul_arguments": ["first"]},
            {"field_path": "Query.products.nodes.reviews", "mul_arguments": ["first"], "add_value": 7},
        ]),
        58.0,
    );
    let elsewhere =
        "{ products(first: 2) { nodes { id } } node(id: \"x\") { reviews(first: 3) { nodes { id } } } }";
    check(elsewhere, json!([{"field_path": "Query.products.nodes", "add_value": 9}]), 16.0);
    check(reviews, json!([shallow, deep]), 109.0);
    check(reviews, json!([deep, shallow]), 109.0);
    let two = "{ products(first: 4) { nodes { id name } } }";
    check(two, json!([]), 5.0);
    check(two, json!([{"field_path": "Query", "mul_value": 10}]), 41.0);
    check(two, json!([{"field_path": "Product", "mul_value": 10}]), 23.0);
    check(
        two,
        json!([
            {"field_path": "Product", "mul_value": 10},
            {"field_path": "ProductConnection.nodes", "mul_value": 2},
        ]),
        7.0,
    );
    check(two, json!([{"field_path": "Review", "mul_value": 10}]), 5.0);
}

#[test]
fn overflow_is_the_largest_cost() {
    let weights = json!([{"field_path": "Person.friends", "mul_arguments": ["first"], "add_value": 2}]);
    let people =
        schema(json!({"Query": {"me": "Person"}, "Person": {"name": "String", "friends": "Person"}}));
    let deep = format!("{} name {}", "friends(first: 2147483647) {".repeat(34), "}".repeat(34));
    let of = |strategy: CostFormula, query: &str| cost(strategy, &people, &weights, query, None);
    for strategy in [CostFormula::Complexity, CostFormula::NodeQuantifier] {
        assert_eq!(of(strategy, &format!("{{ me {{ {deep} }} }}")), Some(COST_MAX));
    }
    // A factor of 0 around an overflow leaves a number, and does not hide the neighbours.
    let beside = |rest: &str| {
        let query = format!("{{ me {{ friends(first: 0) {{ {deep} }} {rest} }} }}");
        of(CostFormula::Complexity, &query)
    };
    assert_eq!(beside(""), Some(4.0));
    assert_eq!(beside("friends(first: 10) { name }"), Some(16.0));
    assert_eq!(bounded(f64::NAN), COST_MAX);
}

#[test]
fn expansion_of_fragments_is_bounded() {
    let schema = products();
    let dag = |levels: usize| {
        let spread = |level: usize| format!("fragment f{} on T {{ ...f{level} ...f{level} }}\n", level + 1);
        let fragments: String = (0..levels).map(spread).collect();
        format!("fragment f0 on T {{ a }}\n{fragments}query {{ t {{ ...f{levels} }} }}")
    };
    let of = |query: &str| cost(CostFormula::Complexity, &schema, &json!([]), query, None);
    assert_eq!(of(&dag(10)), Some(1_026.0));
    assert_eq!(of(&dag(13)), None);
    assert_eq!(of(&dag(24)), None);
    let chain: String =
        (0..1_000).map(|number| format!("fragment F{number} on T{{a{{...F{}}}}}", number + 1)).collect();
    assert_eq!(of(&format!("{{...F0}}{chain}")), None);
    assert_eq!(of("{ ...F } fragment F on T { a ...F }"), Some(2.0));
}

#[test]
fn faulty_positions_are_refused() {
    let check = |weights: Value, expected: &str| {
        let written: Vec<Decoration> = Vec::read(weights).unwrap();
        assert!(Decorations::compile(&written).err().unwrap().contains(expected), "{expected}");
    };
    check(json!([{"field_path": "."}]), "names no type");
    check(json!([{"field_path": "A.b"}, {"field_path": "A.b"}]), "more than once");
}
