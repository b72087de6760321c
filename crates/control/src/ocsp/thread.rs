//! The thread that asks responders, a few at a time. The cache decides the time of each request.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outbound::background::BackgroundThread;
use outbound::bounded_request::{BoundedRequest, send_bounded};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cache::OcspTask;
use super::message::{self, Response};
use super::{OcspShared, now_s};

/// Starts the thread. When it is stopped, unfinished requests are dropped.
///
/// # Errors
/// As [`BackgroundThread::start`].
pub(super) fn start_ocsp_thread(shared: Arc<OcspShared>) -> io::Result<BackgroundThread> {
    BackgroundThread::start("ocsp", MAX_LOOKUPS, move |stopping| run(Arc::clone(&shared), stopping))
}

async fn run(shared: Arc<OcspShared>, mut stopping: watch::Receiver<bool>) {
    // Requests of a run that has panicked ended with it.
    shared.cache.lock().ask_again(Instant::now());
    let mut asking: JoinSet<([u8; 32], Result<Response, String>)> = JoinSet::new();
    loop {
        let now = Instant::now();
        let (changed, tasks, next) = {
            let mut cache = shared.cache.lock();
            let changed = cache.expire(now_s());
            let tasks = cache.due(now, MAX_ASKED - asking.len());
            (changed, tasks, cache.next(now, now_s()))
        };
        shared.tell(changed);
        for task in tasks {
            let shared = Arc::clone(&shared);
            asking.spawn(async move { (task.digest, ask(&task, &shared).await) });
        }
        // While all places are taken, only an answer frees one.
        let next = if asking.len() >= MAX_ASKED { now + TIMEOUT } else { next };
        tokio::select! {
            Some(joined) = asking.join_next(), if !asking.is_empty() => {
                if joined.is_err() {
                    // It panicked, and its place is not known any more.
                    shared.cache.lock().ask_again(Instant::now() + PANIC_PAUSE);
                } else if let Ok((digest, answer)) = joined {
                    let mut random = [0; 4];
                    // Without random bytes the requests are not spread.
                    let _ = getrandom::fill(&mut random);
                    let random = u32::from_ne_bytes(random);
                    let at = (Instant::now(), now_s());
                    let changed = shared.cache.lock().answered(&digest, answer, at, random);
                    shared.tell(changed);
                }
            }
            () = tokio::time::sleep_until(next.max(now + LEAST_PAUSE).into()) => {}
            () = shared.wake.notified() => {}
            // An error means that the owner of the thread is gone.
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        }
    }
}

async fn ask(task: &OcspTask, shared: &OcspShared) -> Result<Response, String> {
    let subject = &task.subject;
    let request = BoundedRequest {
        base: subject.url.clone(),
        target: if subject.url.ends_with('/') { "/".to_owned() } else { String::new() },
        headers: vec![("content-type", "application/ocsp-request".to_owned())],
        body: Some(subject.request()?),
    };
    // Responses are signed, so that responders need no TLS (RFC 5019 section 5 asks for http).
    let no_tls = || Err("the responder is named by https, which is not used for OCSP".to_owned());
    let got = send_bounded(request, TIMEOUT, &shared.policy, no_tls).await;
    let got = got.map_err(|reason| format!("{}: {reason}", subject.url))?;
    if got.status != 200 {
        return Err(format!("{}: it answered with the status {}", subject.url, got.status));
    }
    message::read_ocsp_response(&got.body, subject, task.skip_verify, now_s())
        .map_err(|reason| format!("{}: {reason}", subject.url))
}

/// Time until responders are asked again after a request has panicked.
const PANIC_PAUSE: Duration = Duration::from_secs(5);
/// Time limit of one answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of requests at the same time: a first start with thousands of certificates must not flood a
/// responder.
const MAX_ASKED: usize = 8;
/// Limit of name lookups at the same time; the system's resolver blocks a thread for each.
const MAX_LOOKUPS: usize = 4;
/// Shortest pause between two rounds, so that a wrong due time does not make a busy loop.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
