//! The conditions of endpoints as a client sees them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::*;

/// Sends a request; returns the beginning of the response, or the error.
fn ask(stream: &mut TcpStream, path: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let mut buffer = [0; 1024];
    let bytes = stream.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..bytes]).into_owned())
}

fn until<T>(mut probe: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it never came");
        thread::yield_now();
    }
}

#[test]
fn condition_changes_responses_and_time() {
    let endpoints = EndpointSet::start(2, Duration::from_secs(60), &[]).unwrap();
    let addresses = endpoints.addresses();
    assert_ne!(addresses[0].ip(), addresses[1].ip());
    let mut stream = TcpStream::connect(addresses[0]).unwrap();
    assert!(ask(&mut stream, "/x").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    endpoints.switch(0, EndpointCondition::Failing);
    assert!(ask(&mut stream, "/x").unwrap().starts_with("HTTP/1.1 500 "));
    endpoints.switch(0, EndpointCondition::Slow);
    let begun = Instant::now();
    assert!(ask(&mut stream, "/health").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(begun.elapsed() >= SERVICE * SLOWNESS);
    let counts: Vec<u64> = endpoints.arrivals().map(Arrivals::all).collect();
    assert_eq!(counts, [2, 0], "checks are not traffic");
}

#[test]
fn hung_endpoint_answers_after_its_return() {
    let endpoints = EndpointSet::start(1, Duration::from_secs(60), &[]).unwrap();
    endpoints.switch(0, EndpointCondition::Hung);
    let mut stream = TcpStream::connect(endpoints.addresses()[0]).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    until(|| (endpoints.arrivals().map(Arrivals::all).sum::<u64>() == 1).then_some(()));
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    endpoints.switch(0, EndpointCondition::Healthy);
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning).unwrap();
    assert_eq!(&beginning, b"HTTP/1.1 200");
}

#[test]
fn dead_endpoint_resets_refuses_and_returns() {
    let endpoints = EndpointSet::start(1, Duration::from_secs(60), &[]).unwrap();
    let address = endpoints.addresses()[0];
    let mut stream = TcpStream::connect(address).unwrap();
    ask(&mut stream, "/").unwrap();
    endpoints.switch(0, EndpointCondition::Dead);
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    until(|| TcpStream::connect(address).is_err().then_some(()));
    endpoints.switch(0, EndpointCondition::Healthy);
    let mut stream = until(|| TcpStream::connect(address).ok());
    assert!(ask(&mut stream, "/").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn stopped_endpoint_closes_in_order() {
    let endpoints = EndpointSet::start(1, Duration::from_secs(60), &[]).unwrap();
    let address = endpoints.addresses()[0];
    let mut idle = TcpStream::connect(address).unwrap();
    ask(&mut idle, "/").unwrap();
    let mut busy = TcpStream::connect(address).unwrap();
    endpoints.switch(0, EndpointCondition::Hung);
    write!(busy, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    until(|| (endpoints.arrivals().map(Arrivals::all).sum::<u64>() == 2).then_some(()));
    endpoints.switch(0, EndpointCondition::Stopped);
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    let mut answer = String::new();
    busy.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("200 OK") && answer.contains("Connection: close\r\n"), "{answer}");
    until(|| TcpStream::connect(address).is_err().then_some(()));
}
