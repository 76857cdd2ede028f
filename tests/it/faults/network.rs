//! The network is cut in mid-request and in mid-answer, and the batch is sent again.

use super::dice;
use super::ledger::{Ledger, OnDrop, lines, receipt};
use crate::support::Process;
use crate::support::http::{Client, read_reply};
use rand::RngExt as _;
use rand::rngs::StdRng;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How far a connection through the cutting proxy comes.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Bytes from the sender that are passed on.
    up: usize,
    /// Bytes of answers that are passed back.
    down: usize,
}

/// Passes on at most `limit` bytes, then cuts both connections.
fn pass(mut from: TcpStream, mut to: TcpStream, limit: usize) {
    let mut left = limit;
    let mut buffer = [0; 8 * 1024];
    while left > 0 {
        let room = left.min(buffer.len());
        let Ok(n @ 1..) = from.read(&mut buffer[..room]) else { break };
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
        left -= n;
    }
    for stream in [from, to] {
        stream.shutdown(Shutdown::Both).ok();
    }
}

/// Cuts every connection to `server` somewhere until `is_over`, then returns.
fn cutting_proxy(
    listener: &TcpListener,
    server: SocketAddr,
    mut dice: StdRng,
    is_over: &AtomicBool,
) {
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            if is_over.load(Ordering::SeqCst) {
                break;
            }
            let client = stream.unwrap();
            let cut = if dice.random() {
                Cut { up: dice.random_range(0..150_000), down: usize::MAX }
            } else {
                Cut { up: usize::MAX, down: dice.random_range(0..8_000) }
            };
            let server = TcpStream::connect(server).unwrap();
            let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            scope.spawn(move || pass(client, forth, cut.up));
            scope.spawn(move || pass(server, back, cut.down));
        }
    });
}

#[test]
fn a_network_cut_in_requests_and_answers_leaves_each_event_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &[], &[]);
    let mut dice = dice("network cut");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (proxy, is_over) = (listener.local_addr().unwrap(), AtomicBool::new(false));
    let (ledger, seed) = (Ledger::default(), dice.random());
    std::thread::scope(|scope| {
        scope.spawn(|| cutting_proxy(&listener, process.address, dice, &is_over));
        let load_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = OnDrop(&load_over);
            scope.spawn(|| ledger.load(proxy, 3, seed, &load_over));
            for _ in 0..400 {
                std::thread::sleep(Duration::from_millis(50));
                let counts = &ledger.counts;
                if counts.stored_unseen.load(Ordering::Relaxed) >= 8
                    && counts.unanswered.load(Ordering::Relaxed) >= 25
                {
                    break;
                }
            }
            load_over.store(true, Ordering::Relaxed);
        });
        is_over.store(true, Ordering::SeqCst);
        TcpStream::connect(proxy).unwrap();
    });
    eprintln!("network cut: {}", ledger.told());
    let seen = ledger.counts.stored_unseen.load(Ordering::Relaxed);
    assert!(seen >= 3, "no answer was cut off after the commit: {}", ledger.told());
    ledger.settle(process.address);
    process.signal("TERM");
    assert!(process.wait().success());
    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    tokio::runtime::Runtime::new().unwrap().block_on(ledger.assert_exact(&url));
}

/// Sends `text` and closes at once, without reading.
fn send_and_leave(address: SocketAddr, text: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
}

fn request(framing: &str, body: &str) -> String {
    format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
         {framing}\r\n\r\n{body}"
    )
}

#[test]
fn a_body_that_breaks_off_stores_nothing_and_is_stored_when_sent_whole() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path(), &[], &[]);
    let mut client = Client::new(process.address);
    for (n, (what, framing, keep)) in [
        ("nothing of the body", "content-length", 0.0),
        ("half of it, in mid-line", "content-length", 0.5),
        ("all but the last byte", "content-length", 1.0),
        ("half of a chunk", "chunked", 0.5),
        ("all chunks but no end", "chunked", 1.0),
    ]
    .into_iter()
    .enumerate()
    {
        let start = n as u64 * 50;
        let batch = start..start + 50;
        let body = lines(&batch);
        let whole = body.len();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a small length"
        )]
        let kept: String = body.chars().take(((whole - 1) as f64 * keep) as usize).collect();
        let framed = match framing {
            "chunked" => {
                let chunk = if keep < 1.0 { whole } else { kept.len() };
                request("transfer-encoding: chunked", &format!("{chunk:x}\r\n{kept}"))
            }
            _ => request(&format!("content-length: {whole}"), &kept),
        };
        send_and_leave(process.address, &framed);
        let reply = client.send(&body).unwrap();
        assert_eq!(receipt(&reply), (50, 0), "{what}: nothing of it was stored before");
    }
}

#[test]
fn a_sender_that_leaves_before_the_answer_is_told_of_duplicates_later() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path(), &[], &[]);
    let mut client = Client::new(process.address);
    let (mut stored, mut known) = (0, 0);
    for n in 0..12_u64 {
        let batch = n * 40..(n + 1) * 40;
        let body = lines(&batch);
        let whole = request(&format!("content-length: {}", body.len()), &body);
        if n % 2 == 0 {
            // Gone at once: whether the service takes it in is a race, half of it never is.
            send_and_leave(process.address, &whole);
        } else {
            // Gone when the first byte of the answer is there: then it is on disk.
            let mut stream = TcpStream::connect(process.address).unwrap();
            stream.write_all(whole.as_bytes()).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            drop(stream);
        }
        let counts = receipt(&client.send(&body).unwrap());
        assert!(counts == (40, 0) || counts == (0, 40), "half a batch was there: {counts:?}");
        if n % 2 == 1 {
            assert_eq!(counts, (0, 40), "an answer came, so that all of it was on disk");
        }
        (stored, known) = (stored + counts.0, known + counts.1);
    }
    assert_eq!(stored + known, 480);
    let day = "from=2026-11-11T00:00:00Z&to=2026-11-12T00:00:00Z";
    let overview = client.get(&format!("/api/v1/overview?{day}")).unwrap().json();
    assert_eq!(overview["figures"][0]["note"], "480 attempts", "{overview}");
}

#[test]
fn a_body_that_ends_in_mid_line_stores_its_whole_lines_and_names_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path(), &[], &[]);
    let mut client = Client::new(process.address);
    let body = lines(&(0..10));
    let cut: String = body.chars().take(body.len() - 200).collect();
    assert_eq!(cut.lines().count(), 10, "the cut is in the last line");
    let mut stream = TcpStream::connect(process.address).unwrap();
    let framed = request(&format!("content-length: {}", cut.len()), &cut);
    stream.write_all(framed.as_bytes()).unwrap();
    let receipt = read_reply(&mut BufReader::new(stream)).unwrap().json();
    assert_eq!(receipt["stored"], 9, "{receipt}");
    assert_eq!(receipt["rejected"].as_array().unwrap().len(), 1, "{receipt}");
    assert_eq!(receipt["rejected"][0]["index"], 9, "{receipt}");
    let again = client.send(&body).unwrap().json();
    assert_eq!((&again["stored"], &again["duplicates"]), (&1.into(), &9.into()), "{again}");
}
