//! A zone keeps its limits and tells its keys apart.

use bytes::Bytes;

use super::*;
use crate::proxy_cache::entry::EntryTimes;

fn zone(memory_bytes: u64) -> Zone {
    Zone::new(&ZoneSettings { name: "z".into(), memory_bytes, disk: None })
}

fn entry(body: &[u8]) -> Arc<CacheEntry> {
    let times = EntryTimes {
        stored_s: 0,
        initial_age_s: 0,
        fresh_s: 10,
        while_revalidate_s: 0,
        if_error_s: 0,
        must_revalidate: false,
    };
    Arc::new(CacheEntry {
        status: 200,
        headers: Headers::new(),
        body: CachedBody::Memory(Bytes::copy_from_slice(body)),
        times,
        held_until_s: AtomicU64::new(0),
    })
}

fn key(number: u32) -> Arc<[u8]> {
    number.to_be_bytes().into()
}

fn body(zone: &Zone, key: &[u8], request: &[(&str, &str)]) -> Option<Bytes> {
    let mut headers = Headers::new();
    request.iter().for_each(|(name, value)| headers.append(name, value.as_bytes()).unwrap());
    match zone.find(key, &headers, 0) {
        ZoneLookup::Entry(entry) => match &entry.body {
            CachedBody::Memory(bytes) => Some(bytes.clone()),
            CachedBody::Disk(_) => None,
        },
        ZoneLookup::Passes | ZoneLookup::Nothing => None,
    }
}

#[test]
fn full_zone_stays_within_its_bytes() {
    let zone = zone(1 << 20);
    for number in 0..2_000 {
        zone.insert(&key(number), &[], &[], entry(&[0; 4_096]));
        let (_, bytes, capacity) = zone.size();
        assert!(bytes <= capacity, "{number}: {bytes}");
    }
    assert!(zone.size().0 > 100);
    zone.insert(&key(5_000), &[], &[], entry(&vec![0; 2 << 20]));
    assert_eq!(body(&zone, &key(5_000), &[]), None, "longer than the zone");
    assert!(zone.body_bytes_max() <= 1 << 19);
}

#[test]
fn often_used_entry_outlives_a_scan() {
    let zone = zone(1 << 20);
    zone.insert(&key(9_999), &[], &[], entry(b"often"));
    for number in 0..5_000 {
        assert!(body(&zone, &key(9_999), &[]).is_some(), "{number}");
        zone.insert(&key(number), &[], &[], entry(&[0; 4_096]));
    }
}

#[test]
fn new_fields_of_vary_replace_all_variants() {
    let zone = zone(1 << 20);
    let fields = |name: &str| -> Box<[Box<str>]> { [name.into()].into() };
    let put = |name: &str, value: &str| {
        let mut headers = Headers::new();
        headers.append(name, value.as_bytes()).unwrap();
        let fields = fields(name);
        zone.insert(&key(1), &fields, &signature(&fields, &headers), entry(value.as_bytes()));
    };
    put("a", "1");
    put("a", "2");
    assert_eq!(body(&zone, &key(1), &[("A", "1")]).as_deref(), Some(&b"1"[..]));
    assert_eq!(body(&zone, &key(1), &[("A", "2")]).as_deref(), Some(&b"2"[..]));
    assert_eq!(body(&zone, &key(1), &[]), None);
    put("b", "3");
    assert_eq!(body(&zone, &key(1), &[("A", "1")]), None);
    assert_eq!(body(&zone, &key(1), &[("B", "3")]).as_deref(), Some(&b"3"[..]));
    zone.insert(&key(1), &[], &[], entry(b"4"));
    assert_eq!(body(&zone, &key(1), &[("B", "3")]).as_deref(), Some(&b"4"[..]));
    assert_eq!(zone.size().0, 1, "variants without an index are gone");
    assert!(zone.purge(&key(1)) && !zone.purge(&key(1)));
}

#[test]
fn mark_of_a_refusal_ends() {
    let zone = zone(1 << 20);
    zone.insert(&key(1), &[], &[], entry(b"old"));
    zone.pass(&key(1), 100);
    let find = |now_s: u64| zone.find(&key(1), &Headers::new(), now_s);
    assert!(matches!(find(100), ZoneLookup::Passes));
    assert!(matches!(find(100 + PASS_S), ZoneLookup::Nothing));
    assert!(!zone.purge(&key(1)), "a mark is no entry");
}

#[test]
fn failure_to_store_leaves_an_entry() {
    let zone = zone(1 << 20);
    zone.insert(&key(1), &[], &[], entry(b"old"));
    zone.pass_unless_stored(&key(1));
    assert!(body(&zone, &key(1), &[]).is_some());
    zone.pass_unless_stored(&key(2));
    assert!(matches!(zone.find(&key(2), &Headers::new(), 0), ZoneLookup::Passes));
}

#[test]
fn responses_under_way_are_limited() {
    let zone = zone(1 << 20);
    assert!(zone.take_filling(1 << 20) && !zone.take_filling(1));
    zone.give_filling(1 << 20);
    assert!(zone.take_filling(1));
}
