//! A layered graph of four columns that keeps its busiest nodes up to a limit and counts the others. It knows
//! no object.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::{ObjectKey, ObjectKind};
use serde_json::{Map, Value, json};

use crate::summary::{Figures, rates};

/// A column, from the client's side to the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum GraphColumn {
    Routes,
    Services,
    Upstreams,
    Endpoints,
}

impl GraphColumn {
    const ALL: [GraphColumn; 4] =
        [GraphColumn::Routes, GraphColumn::Services, GraphColumn::Upstreams, GraphColumn::Endpoints];

    const fn as_str(self) -> &'static str {
        match self {
            GraphColumn::Routes => "routes",
            GraphColumn::Services => "services",
            GraphColumn::Upstreams => "upstreams",
            GraphColumn::Endpoints => "endpoints",
        }
    }
}

struct GraphNode {
    column: GraphColumn,
    id: String,
    name: Option<String>,
    state: &'static str,
    figures: Option<Figures>,
}

/// The ends of an edge: a column and an id each.
type EdgeEnds<'a> = (GraphColumn, &'a str, GraphColumn, &'a str);

/// See the module.
pub(super) struct Graph {
    limit: usize,
    nodes: Vec<GraphNode>,
    places: HashMap<(GraphColumn, String), usize>,
    /// From and to, as places of nodes, to the requests a second.
    edges: HashMap<(usize, usize), Option<f64>>,
}

impl Graph {
    pub(super) fn new(limit: usize) -> Graph {
        Graph { limit, nodes: Vec::new(), places: HashMap::new(), edges: HashMap::new() }
    }

    /// Adds a node; one that is there stays as it is.
    pub(super) fn put(
        &mut self,
        column: GraphColumn,
        id: String,
        name: Option<&str>,
        state: &'static str,
        figures: Option<Figures>,
    ) {
        let Entry::Vacant(free) = self.places.entry((column, id.clone())) else { return };
        free.insert(self.nodes.len());
        self.nodes.push(GraphNode { column, id, name: name.map(str::to_owned), state, figures });
    }

    pub(super) fn set_state(&mut self, column: GraphColumn, id: &str, state: &'static str) {
        if let Some(node) = self.node_mut(column, id) {
            node.state = state;
        }
    }

    /// Adds the traffic of a part to a node. The percentile becomes the higher one, because that of both
    /// cannot be known.
    pub(super) fn add_traffic(&mut self, column: GraphColumn, id: &str, part: Option<Figures>) {
        let (Some(node), Some(part)) = (self.node_mut(column, id), part) else { return };
        let sum = node.figures.unwrap_or_default();
        let errors = |figures: Figures| figures.rps * figures.p5xx.unwrap_or_default();
        let rps = sum.rps + part.rps;
        let p5xx = (rps > 0.0).then(|| (errors(sum) + errors(part)) / rps);
        node.figures = Some(Figures { rps, p5xx, p99_us: sum.p99_us.max(part.p99_us) });
    }

    /// Adds an edge, or more requests to one that is there. Edges to nodes that are not there are left out.
    pub(super) fn connect(&mut self, (from, from_id, to, to_id): EdgeEnds<'_>, rps: Option<f64>) {
        let place = |column: GraphColumn, id: &str| self.places.get(&(column, id.to_owned())).copied();
        let (Some(from), Some(to)) = (place(from, from_id), place(to, to_id)) else { return };
        let sum = self.edges.entry((from, to)).or_default();
        if let Some(rps) = rps {
            *sum = Some(sum.unwrap_or_default() + rps);
        }
    }

    fn node_mut(&mut self, column: GraphColumn, id: &str) -> Option<&mut GraphNode> {
        let place = *self.places.get(&(column, id.to_owned()))?;
        self.nodes.get_mut(place)
    }

    /// The graph as JSON: the focus, then the busiest nodes of each column.
    pub(super) fn finish(self, focus: &ObjectKey) -> Value {
        let kept = self.kept(focus);
        let mut new_places: HashMap<usize, usize> = HashMap::new();
        let mut nodes = Vec::new();
        for place in kept {
            new_places.insert(place, nodes.len());
            nodes.push(describe(&self.nodes[place]));
        }
        let mut edges: Vec<(usize, usize, Option<f64>)> = self
            .edges
            .iter()
            .filter_map(|((from, to), rps)| Some((*new_places.get(from)?, *new_places.get(to)?, *rps)))
            .collect();
        edges.sort_by_key(|edge| (edge.0, edge.1));
        let edges: Vec<Value> = edges
            .into_iter()
            .map(|(from, to, rps)| json!({ "from": from, "to": to, "rps": rates::round_figure(rps) }))
            .collect();
        let mut folded = Map::new();
        for column in GraphColumn::ALL {
            let is_folded = |(place, node): &(usize, &GraphNode)| {
                node.column == column && !new_places.contains_key(place)
            };
            let count = self.nodes.iter().enumerate().filter(is_folded).count();
            if count > 0 {
                folded.insert(column.as_str().to_owned(), count.into());
            }
        }
        json!({ "nodes": nodes, "edges": edges, "folded": folded })
    }

    /// The places of the nodes that are shown, in the order of the columns, the busiest first.
    fn kept(&self, focus: &ObjectKey) -> Vec<usize> {
        let mut columns = GraphColumn::ALL.map(|column| {
            let mut places: Vec<usize> =
                (0..self.nodes.len()).filter(|place| self.nodes[*place].column == column).collect();
            places.sort_by(|left, right| {
                let weight = |place: usize| self.weight(place, focus);
                weight(*right).total_cmp(&weight(*left)).then_with(|| left.cmp(right))
            });
            places
        });
        // Columns give up nodes one by one, the longest first, so that each keeps its fair part.
        while columns.iter().map(Vec::len).sum::<usize>() > self.limit {
            let is_focus = |places: &Vec<usize>| match places[..] {
                [only] => self.weight(only, focus) == f64::INFINITY,
                _ => false,
            };
            let longest =
                columns.iter_mut().filter(|places| !is_focus(places)).max_by_key(|places| places.len());
            if longest.and_then(Vec::pop).is_none() {
                break;
            }
        }
        columns.concat()
    }

    /// The order of a node in its column: the focus, failing nodes, then by traffic.
    fn weight(&self, place: usize, focus: &ObjectKey) -> f64 {
        let node = &self.nodes[place];
        let is_focus = match focus.kind {
            ObjectKind::Route => node.column == GraphColumn::Routes,
            ObjectKind::Service => node.column == GraphColumn::Services,
            _ => node.column == GraphColumn::Upstreams,
        };
        if is_focus && *node.id == *focus.id {
            return f64::INFINITY;
        }
        let rps = node.figures.map_or(0.0, |figures| figures.rps);
        if matches!(node.state, "down" | "out") { 1e12 + rps } else { rps }
    }
}

fn describe(node: &GraphNode) -> Value {
    let mut described = json!({
        "kind": node.column.as_str(),
        "id": node.id,
        "name": node.name,
        "state": node.state,
    });
    rates::add_figures(&mut described, node.figures);
    described
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rps: f64) -> Option<Figures> {
        Some(Figures { rps, p5xx: Some(1.0), p99_us: None })
    }

    #[test]
    fn busiest_nodes_stay_and_others_are_counted() {
        let focus = ObjectKey::new(ObjectKind::Upstream, "u").unwrap();
        let mut graph = Graph::new(6);
        graph.put(GraphColumn::Upstreams, "u".to_owned(), None, "up", None);
        for route in 0..10_u32 {
            let id = format!("r{route}");
            graph.put(GraphColumn::Routes, id.clone(), None, "up", figures(f64::from(route)));
            graph.connect((GraphColumn::Routes, &id, GraphColumn::Upstreams, "u"), Some(f64::from(route)));
            graph.add_traffic(GraphColumn::Upstreams, "u", figures(f64::from(route)));
        }
        graph.put(GraphColumn::Routes, "r0".to_owned(), Some("again"), "down", None);
        graph.set_state(GraphColumn::Routes, "r1", "out");
        graph.connect((GraphColumn::Routes, "r9", GraphColumn::Upstreams, "u"), Some(1.0));
        graph.connect((GraphColumn::Routes, "r9", GraphColumn::Upstreams, "gone"), Some(1.0));
        let drawn = graph.finish(&focus);
        let ids: Vec<&str> =
            drawn["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["r1", "r9", "r8", "r7", "r6", "u"]);
        assert_eq!(drawn["folded"], json!({ "routes": 5 }));
        assert_eq!(drawn["edges"].as_array().unwrap().len(), 5);
        assert_eq!(drawn["edges"][1], json!({ "from": 1, "to": 5, "rps": 10.0 }));
        assert_eq!((&drawn["nodes"][5]["rps"], &drawn["nodes"][5]["p5xx"]), (&json!(45.0), &json!(1.0)));
    }

    #[test]
    fn focus_stays_with_the_least_limit() {
        let mut graph = Graph::new(1);
        graph.put(GraphColumn::Services, "s".to_owned(), None, "up", None);
        graph.put(GraphColumn::Upstreams, "u".to_owned(), None, "up", figures(1.0));
        let drawn = graph.finish(&ObjectKey::new(ObjectKind::Service, "s").unwrap());
        assert_eq!((&drawn["nodes"][0]["id"], &drawn["folded"]), (&json!("s"), &json!({ "upstreams": 1 })));
    }
}
