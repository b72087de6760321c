//! Tables of responses: which are stored, and for how long.

use super::*;
use exchange::testing::headers_of;

const NOW_S: u64 = 784_111_777;

fn rules(lifetime: Lifetime) -> CacheRules {
    CacheRules {
        statuses: [200, 301, 404].into(),
        lifetime,
        stores_cookies: false,
        while_revalidate_s: 0,
        if_error_s: 0,
    }
}

fn fresh_s(lifetime: Lifetime, fields: &[(&str, &str)]) -> Result<u64, StorageRefusal> {
    rules(lifetime).judge(200, &headers_of(fields), true, NOW_S).map(|freshness| freshness.fresh_s)
}

#[test]
fn lifetime_comes_from_the_first_that_tells() {
    let check = |fields: &[(&str, &str)], response: Option<u64>, nginx: Option<u64>| {
        let stale = |seconds: Option<u64>| seconds.ok_or(StorageRefusal::Stale);
        assert_eq!(fresh_s(Lifetime::Response, fields), stale(response), "{fields:?}");
        assert_eq!(fresh_s(Lifetime::ResponseOr(10), fields), stale(nginx), "{fields:?}");
        assert_eq!(fresh_s(Lifetime::Fixed(300), fields), Ok(300), "{fields:?}");
    };
    check(&[], None, Some(10));
    check(&[("Cache-Control", "max-age=60")], Some(60), Some(60));
    check(&[("Cache-Control", "max-age=60, s-maxage=5")], Some(5), Some(5));
    check(&[("Cache-Control", "s-maxage=0, max-age=60")], None, None);
    check(&[("Cache-Control", "max-age=60"), ("Age", "59")], Some(1), Some(1));
    check(&[("Cache-Control", "max-age=60"), ("Age", "60")], None, None);
    check(&[("Cache-Control", "max-age=60"), ("Date", "Sun, 06 Nov 1994 08:49:07 GMT")], Some(30), Some(30));
    check(&[("Expires", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(60), Some(60));
    let dated = [("Expires", "Sun, 06 Nov 1994 08:50:37 GMT"), ("Date", "Sun, 06 Nov 1994 08:49:27 GMT")];
    check(&dated, Some(60), Some(60));
    check(&[("Expires", "0")], None, None);
    check(&[("Expires", "0"), ("Cache-Control", "max-age=9")], Some(9), Some(9));
    check(&[("X-Accel-Expires", "7"), ("Cache-Control", "max-age=60")], Some(60), Some(7));
    check(&[("X-Accel-Expires", "@784111787")], None, Some(10));
    check(&[("X-Accel-Expires", "0")], None, None);
}

#[test]
fn refused_responses_say_why() {
    let check = |status: u16, fields: &[(&str, &str)], expected: StorageRefusal| {
        let got = rules(Lifetime::Fixed(300)).judge(status, &headers_of(fields), true, NOW_S);
        assert_eq!(got, Err(expected), "{status} {fields:?}");
    };
    check(500, &[], StorageRefusal::Status);
    check(206, &[], StorageRefusal::Status);
    check(200, &[("Content-Range", "bytes 0-1/2")], StorageRefusal::Status);
    for directive in ["no-store", "private", "no-cache", "max-age=9, PRIVATE", "no-cache=\"a\""] {
        check(200, &[("Cache-Control", directive)], StorageRefusal::Directive);
    }
    check(200, &[("Set-Cookie", "a=b")], StorageRefusal::Cookie);
    check(200, &[("Vary", "*")], StorageRefusal::Varies);
    check(200, &[("Vary", "accept, *")], StorageRefusal::Varies);
    let unbounded = rules(Lifetime::Fixed(300)).judge(200, &headers_of(&[]), false, NOW_S);
    assert_eq!(unbounded, Err(StorageRefusal::Unbounded));
}

#[test]
fn cookies_are_stored_where_asked() {
    let rules = CacheRules { stores_cookies: true, ..rules(Lifetime::Fixed(300)) };
    assert!(rules.judge(200, &headers_of(&[("Set-Cookie", "a=b")]), true, NOW_S).is_ok());
}

#[test]
fn stale_use_is_what_response_or_user_allow() {
    let check = |lifetime: Lifetime, value: &str, expected: (u64, u64, bool)| {
        let rules = CacheRules { while_revalidate_s: 1, if_error_s: 2, ..rules(lifetime) };
        let got = rules.judge(200, &headers_of(&[("Cache-Control", value)]), true, NOW_S).unwrap();
        let got = (got.while_revalidate_s, got.if_error_s, got.must_revalidate);
        assert_eq!(got, expected, "{value}");
    };
    check(Lifetime::Response, "max-age=9", (1, 2, false));
    check(Lifetime::Response, "max-age=9, stale-while-revalidate=5, stale-if-error=6", (5, 6, false));
    check(Lifetime::Fixed(3), "max-age=9, stale-while-revalidate=5, stale-if-error=6", (1, 2, false));
    check(Lifetime::Fixed(3), "must-revalidate", (1, 2, true));
    check(Lifetime::Response, "max-age=9, must-revalidate", (1, 2, true));
    check(Lifetime::Response, "s-maxage=9", (1, 2, true));
}

#[test]
fn end_of_body_is_told_by_its_message() {
    let check = |status: u16, version: Version, fields: &[(&str, &str)], expected: bool| {
        assert_eq!(has_end(status, version, &headers_of(fields)), expected, "{status} {fields:?}");
    };
    check(200, Version::Http11, &[], false);
    check(200, Version::Http10, &[], false);
    check(204, Version::Http11, &[], true);
    check(200, Version::Http11, &[("Content-Length", "3")], true);
    check(200, Version::Http11, &[("Transfer-Encoding", "chunked")], true);
    check(200, Version::Http2, &[], true);
}
