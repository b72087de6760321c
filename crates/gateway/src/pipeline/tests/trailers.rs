//! A plugin that moves trailers into the body and writes its own: before the last piece of the body, for
//! every response.

use super::*;

/// Appends the trailers to the body and takes them away, or sends one trailer in their place.
struct Mover {
    need: BodyNeed,
    adds: bool,
    answers: bool,
}

impl Plugin for Mover {
    fn access<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
        if !self.answers {
            return Flow::Continue;
        }
        Flow::reply(exchange::plugin::BufferedReply::status(403).with_body(b"no".as_slice()))
    }

    fn wants_response_body(&self, _: &Exchange) -> BodyNeed {
        self.need
    }

    fn response_trailers(&self, exchange: &mut Exchange, trailers: &mut Headers) {
        let text = trailers
            .get("x-trailer")
            .or(trailers.get("x-sum"))
            .map_or("none".to_owned(), |value| String::from_utf8_lossy(value).into_owned());
        *exchange.state::<String>() = text;
        trailers.clear();
        if self.adds {
            trailers.append("X-Moved", b"1").unwrap();
        }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        if portion == Portion::Last {
            body.extend_from_slice(b"|");
            body.extend_from_slice(exchange.state::<String>().as_bytes());
        }
        ResponseStep::Done
    }
}

pub(super) const MOVER: PluginKind = PluginKind {
    name: "mover",
    phases: &[PluginPhase::Access, PluginPhase::ResponseBody],
    build: |_, config| {
        let need =
            if config["whole"] == true { BodyNeed::Buffer { limit_bytes: 99 } } else { BodyNeed::Stream };
        Ok(Arc::new(Mover { need, adds: config["adds"] == true, answers: config["answers"] == true }))
    },
    ..TRAILER_MARK
};

#[test]
fn trailers_reach_plugins_before_the_last_piece() {
    let with = Origin::start(|_| Reply::chunked(&["hello"], &[("X-Sum", "7")]));
    let without = Origin::answering("hello");
    let check = |config: Value, origin: &Origin, calls: &str, answer: &str| {
        let plugins = json!({"mover": config});
        let got = exchange_through(plugins, origin, "GET /here", scripted(&[], BodyLength::None));
        assert_eq!(got, (calls.to_owned(), answer.to_owned()), "{config}");
    };
    check(json!({}), &with, "start:200:Unknown finish:0", "hello|7");
    check(json!({}), &without, "start:200:Unknown finish:0", "hello|none");
    check(json!({"adds": true}), &with, "start:200:Unknown finish:1", "hello|7");
    check(json!({"adds": true}), &without, "start:200:Unknown finish:1", "hello|none");
    check(json!({"whole": true}), &with, "start:200:Known(7) finish:0", "hello|7");
    check(json!({"whole": true}), &without, "start:200:Known(10) finish:0", "hello|none");
    // A body of known length would be sent without the trailer.
    check(json!({"whole": true, "adds": true}), &without, "start:200:Unknown finish:1", "hello|none");
}

#[test]
fn trailers_of_local_replies_pass_through_plugins() {
    let origin = Origin::answering("unasked");
    let check = |plugins: Value, path: &str, calls: &str, answer: &str| {
        let got = exchange_through(plugins.clone(), &origin, path, scripted(&[], BodyLength::None));
        assert_eq!(got, (calls.to_owned(), answer.to_owned()), "{plugins}");
    };
    let answers = json!({"mover": {"answers": true}});
    check(answers, "GET /here", "start:403:Known(7) finish:0", "no|none");
    let adds = json!({"mover": {"answers": true, "adds": true}});
    check(adds.clone(), "GET /here", "start:403:Unknown finish:1", "no|none");
    check(adds, "HEAD /here", "start:403:Unknown finish:0", "");
    let stored = |streams: bool, whole: bool| {
        json!({
            "keeper": {"at": "access", "streams": streams},
            "mover": {"adds": true, "whole": whole},
        })
    };
    for (streams, whole) in [(false, false), (false, true), (true, false), (true, true)] {
        check(stored(streams, whole), "GET /here", "start:200:Unknown finish:1", "stored|none");
    }
    assert_eq!(origin.connections(), 0);
}
