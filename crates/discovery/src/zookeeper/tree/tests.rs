//! Tests of the tree: the requests that replies and events lead to.

use super::*;
use crate::parts::MAX_VALUE_BYTES;

fn names(names: &[&str]) -> Vec<u8> {
    let mut out = i32::try_from(names.len()).unwrap().to_be_bytes().to_vec();
    for name in names {
        out.extend(i32::try_from(name.len()).unwrap().to_be_bytes());
        out.extend(name.as_bytes());
    }
    out
}

fn text(text: &str) -> Vec<u8> {
    names(&[text])[4..].to_vec()
}

fn expect(tree: &mut ServiceTree, request: &ZooKeeperRequest) -> i32 {
    let (xid, next) = tree.next_request().expect("a request");
    assert_eq!(&next, request);
    xid
}

fn children_of(path: &str) -> ZooKeeperRequest {
    ZooKeeperRequest::Children(path.to_owned())
}

fn data_of(path: &str) -> ZooKeeperRequest {
    ZooKeeperRequest::Data(path.to_owned())
}

/// A tree that knows `/s/a` with one node.
fn followed() -> ServiceTree {
    let mut tree = ServiceTree::default();
    tree.follow(&["/s/a".to_owned()]);
    let xid = expect(&mut tree, &children_of("/s/a"));
    assert_eq!(tree.reply(xid, 0, &names(&["1"])), Ok(None));
    let xid = expect(&mut tree, &data_of("/s/a/1"));
    let known = tree.reply(xid, 0, &text("one")).unwrap().unwrap();
    assert_eq!(known.nodes, Ok(Some(vec![b"one".to_vec()])));
    assert_eq!(tree.next_request(), None);
    tree
}

#[test]
fn service_is_known_when_all_nodes_are_read() {
    let mut tree = followed();
    tree.event("/s/a");
    let xid = expect(&mut tree, &children_of("/s/a"));
    assert_eq!(tree.reply(xid, 0, &names(&["1", "2", "3"])), Ok(None));
    let second = expect(&mut tree, &data_of("/s/a/2"));
    let third = expect(&mut tree, &data_of("/s/a/3"));
    assert_eq!(tree.reply(second, 0, &text("two")), Ok(None));
    let known = tree.reply(third, NO_NODE, b"").unwrap().unwrap();
    assert_eq!(known.nodes, Ok(Some(vec![b"one".to_vec(), b"two".to_vec()])));
}

#[test]
fn missing_service_is_watched_until_it_is_made() {
    let mut tree = ServiceTree::default();
    tree.follow(&["/s/a".to_owned()]);
    let xid = expect(&mut tree, &children_of("/s/a"));
    assert_eq!(tree.reply(xid, NO_NODE, b"").unwrap().unwrap().nodes, Ok(None));
    let xid = expect(&mut tree, &ZooKeeperRequest::Exists("/s/a".to_owned()));
    assert_eq!(tree.reply(xid, NO_NODE, b""), Ok(None));
    assert_eq!(tree.next_request(), None);
    tree.event("/s/a");
    expect(&mut tree, &children_of("/s/a"));
}

#[test]
fn changed_data_is_read_again() {
    let mut tree = followed();
    tree.event("/s/a/1");
    tree.event("/s/a/unknown");
    let xid = expect(&mut tree, &data_of("/s/a/1"));
    let known = tree.reply(xid, 0, &text("new")).unwrap().unwrap();
    assert_eq!(known.nodes, Ok(Some(vec![b"new".to_vec()])));
    assert_eq!(tree.next_request(), None);
}

#[test]
fn refusal_is_no_empty_service() {
    let mut tree = followed();
    tree.event("/s/a");
    let xid = expect(&mut tree, &children_of("/s/a"));
    let known = tree.reply(xid, -102, b"").unwrap().unwrap();
    let refused = Err("the credentials may not read /s/a".to_owned());
    assert_eq!(known.nodes, refused);
    assert_eq!(tree.known("/s/a".to_owned()).unwrap().nodes, refused, "a further key gets no empty answer");
    assert!(tree.has_refused());
    tree.ask_refused_again();
    let xid = expect(&mut tree, &children_of("/s/a"));
    let known = tree.reply(xid, 0, &names(&["1"])).unwrap().unwrap();
    assert_eq!(known.nodes, Ok(Some(vec![b"one".to_vec()])));
    assert!(!tree.has_refused());
}

#[test]
fn refused_node_is_read_again_with_the_list() {
    let mut tree = followed();
    tree.event("/s/a");
    let xid = expect(&mut tree, &children_of("/s/a"));
    assert_eq!(tree.reply(xid, 0, &names(&["1", "2", "3"])), Ok(None));
    let second = expect(&mut tree, &data_of("/s/a/2"));
    let third = expect(&mut tree, &data_of("/s/a/3"));
    let refused = Err("the credentials may not read /s/a/2".to_owned());
    assert_eq!(tree.reply(second, -102, b"").unwrap().unwrap().nodes, refused);
    assert_eq!(tree.reply(third, 0, &text("three")), Ok(None), "the others are no answer");
    assert_eq!(tree.known("/s/a".to_owned()).unwrap().nodes, refused);
    tree.ask_refused_again();
    let xid = expect(&mut tree, &children_of("/s/a"));
    assert_eq!(tree.reply(xid, 0, &names(&["1", "2"])), Ok(None));
    let xid = expect(&mut tree, &data_of("/s/a/2"));
    let known = tree.reply(xid, 0, &text("two")).unwrap().unwrap();
    assert_eq!(known.nodes, Ok(Some(vec![b"one".to_vec(), b"two".to_vec()])));
}

#[test]
fn unreadable_reply_refuses_one_service_only() {
    let mut tree = followed();
    tree.event("/s/a");
    let xid = expect(&mut tree, &children_of("/s/a"));
    let known = tree.reply(xid, 0, b"").unwrap().unwrap();
    assert_eq!(known.nodes, Err("a list of nodes cannot be read".to_owned()));
    tree.event("/s/a/1");
    let xid = expect(&mut tree, &data_of("/s/a/1"));
    let known = tree.reply(xid, 0, &[0, 0, 0, 9, 1]).unwrap().unwrap();
    assert_eq!(known.nodes, Err("the data of a node cannot be read".to_owned()));
    let long = "x".repeat(MAX_VALUE_BYTES + 1);
    tree.ask_refused_again();
    let xid = expect(&mut tree, &children_of("/s/a"));
    assert_eq!(tree.reply(xid, 0, &names(&["1"])), Ok(None));
    let xid = expect(&mut tree, &data_of("/s/a/1"));
    let known = tree.reply(xid, 0, &text(&long)).unwrap().unwrap();
    assert_eq!(known.nodes.unwrap().unwrap()[0].len(), MAX_VALUE_BYTES, "long data is cut");
}

#[test]
fn services_no_longer_followed_are_ignored() {
    let mut tree = followed();
    tree.event("/s/a");
    let xid = expect(&mut tree, &children_of("/s/a"));
    tree.follow(&[]);
    assert_eq!(tree.reply(xid, 0, &names(&["1"])), Ok(None));
    tree.event("/s/a");
    assert_eq!(tree.next_request(), None);
}

#[test]
fn replies_out_of_order_end_the_session() {
    assert!(followed().reply(1, 0, b"").is_err());
    let mut tree = followed();
    tree.event("/s/a");
    let xid = expect(&mut tree, &children_of("/s/a"));
    assert!(tree.reply(xid + 1, 0, b"").is_err());
}

#[test]
fn requests_in_flight_are_bounded() {
    let mut tree = ServiceTree::default();
    let paths: Vec<String> = (0..2000).map(|number| format!("/s/{number}")).collect();
    tree.follow(&paths);
    let sent = std::iter::from_fn(|| tree.next_request()).count();
    assert_eq!(sent, MAX_IN_FLIGHT);
}
