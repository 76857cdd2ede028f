//! The real binary: how it starts, refuses, stops, and what survives.

use crate::gateways::dead_port;
use crate::support::Process;
use crate::support::process::{post, run};
use retrylens::clock::{Clock as _, SystemClock};
use retrylens::config::notify::Receiver;
use retrylens::config::{Config, Sources};
use retrylens::domain::time::Millis;
use retrylens::store::Store;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn event(id: &str) -> Value {
    json!({"event_id": id, "occurred_at": "2026-11-11T11:59:00Z", "service": "checkout",
        "host": "api.example.com", "status": 429})
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_says_where_it_listens_where_the_data_is_and_how_to_send_a_first_event() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path(), &[], &[]);
    let said = &process.greeting;
    assert!(said.contains(&format!("http://{}/", process.address)), "{said}");
    assert!(said.contains("sqlite://retrylens.db"), "{said}");
    assert!(folder.path().join("retrylens.db").exists());

    // The printed command is run as a person would: pasted into a shell.
    let from = said.find("curl ").unwrap();
    let to = said.find("then open").unwrap();
    let curl = said.get(from..to).unwrap();
    let output = std::process::Command::new("sh").args(["-c", curl]).output().unwrap();
    let answer = text(&output.stdout);
    let answer: Value =
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{curl}: {answer}"));
    assert_eq!(answer["stored"], 1, "{answer}");
}

#[test]
fn a_busy_port_is_named_with_the_setting() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(folder.path(), &["serve", "--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains(&address) && said.contains("--listen"), "{said}");
}

#[test]
fn an_address_that_others_can_reach_is_refused_without_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["--listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for part in ["refusing to listen", "RETRYLENS_INGEST_TOKENS", "RETRYLENS_READ_TOKENS"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!folder.path().join("retrylens.db").exists(), "nothing was made");

    let environment = [
        ("RETRYLENS_INGEST_TOKENS", "sending-token-0123456789"),
        ("RETRYLENS_READ_TOKENS", "reading-token-0123456789"),
    ];
    let mut process = Process::serve(folder.path(), &["--listen", "0.0.0.0:0"], &environment);
    assert!(process.greeting.contains("authorization: Bearer"), "{}", process.greeting);
    assert!(!process.greeting.contains("token-0123"), "{}", process.greeting);
    process.signal("TERM");
    assert!(process.wait().success());
}

#[test]
fn a_mistake_in_the_settings_is_told_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("own.toml"), "[server]\nlitsen = \"x\"\n").unwrap();
    for (arguments, part) in [
        (&["--config", "own.toml"][..], "litsen (file) is not a setting"),
        (&["--config", "absent.toml"], "absent.toml"),
        (&["--set", "max_items=many"], "max_items (flag): expected a whole number"),
        (&["--database-url", "mysql://x"], "database_url (flag)"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
    let usage = run(folder.path(), &["--no-such-flag"]);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn doctor_shows_the_settings_without_secrets_and_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let output = crate::support::process::command(folder.path())
        .arg("doctor")
        .env("RETRYLENS_READ_TOKENS", "reading-token-0123456789")
        .env("RETRYLENS_HASH_KEY", "hash-key-0123456789")
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("ok    settings"), "the result comes first: {said}");
    assert!(!said.contains("# default") && said.lines().count() < 15, "{said}");
    let all = text(&run(folder.path(), &["doctor", "--settings"]).stdout);
    assert!(all.contains("listen = \"127.0.0.1:4290\"  # default"), "{all}");
    assert!(said.contains("read_tokens = [1 hidden]  # environment"), "{said}");
    assert!(!said.contains("0123456789"), "{said}");
    assert!(!folder.path().join("retrylens.db").exists());

    let migrated = run(folder.path(), &["migrate"]);
    assert!(migrated.status.success(), "{}", text(&migrated.stderr));
    let again = text(&run(folder.path(), &["doctor"]).stdout);
    assert!(again.contains("ok    store"), "{again}");

    let bad = run(folder.path(), &["doctor", "--listen", "0.0.0.0:1"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad.stdout).contains("FAIL  doors"), "{}", text(&bad.stdout));
}

#[test]
fn doctor_says_that_a_database_or_its_folder_can_not_be_written() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let folder = tempfile::tempdir().unwrap();
    let set = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let database = folder.path().join("retrylens.db");
    assert!(run(folder.path(), &["migrate"]).status.success());
    let doctor = || {
        let mut command = crate::support::process::command(folder.path());
        if rustix::process::getuid().is_root() {
            // Nothing is closed to root.
            command.uid(65_534);
        }
        let output = command.arg("doctor").output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    for (folder_mode, file_mode, expected) in [
        (0o777, 0o666, None),
        (0o777, 0o444, Some("FAIL  store")),
        (0o555, 0o666, Some("FAIL  disk")),
    ] {
        set(&database, file_mode);
        set(folder.path(), folder_mode);
        let (code, said) = doctor();
        assert_eq!(
            code,
            Some(i32::from(expected.is_some())),
            "{file_mode:o} {folder_mode:o}: {said}"
        );
        match expected {
            None => assert!(!said.contains("FAIL"), "{said}"),
            Some(start) => {
                let failed = said.lines().find(|line| line.starts_with(start));
                assert!(failed.is_some_and(|line| line.contains("can't be written")), "{said}");
            }
        }
    }
    set(folder.path(), 0o777);
}

#[test]
fn doctor_says_whether_receivers_answer_and_at_which_port() {
    let folder = tempfile::tempdir().unwrap();
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listening.local_addr().unwrap().port();
    let gone = dead_port();
    let receiver = |name: &str, port: u16| {
        format!(
            "[[receivers]]\nname = \"{name}\"\nkind = \"alertmanager\"\n\
             url = \"http://127.0.0.1:{port}/team/secret-part\"\n"
        )
    };
    let answering = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listening.accept().unwrap();
            let mut head = [0; 1024];
            let read = std::io::Read::read(&mut stream, &mut head).unwrap();
            asked.push(String::from_utf8_lossy(&head[..read]).into_owned());
            let answer = b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            std::io::Write::write_all(&mut stream, answer).unwrap();
        }
        asked
    });
    let settings = folder.path().join("retrylens.toml");
    std::fs::write(&settings, receiver("here", port)).unwrap();
    let file = settings.to_str().unwrap();
    let well = run(folder.path(), &["doctor", "--config", file]);
    let said = text(&well.stdout);
    assert!(well.status.success(), "{said}");
    assert!(
        said.contains(&format!(
            "ok    receivers here (alertmanager): http://127.0.0.1:{port} answers"
        )),
        "{said}"
    );
    assert!(said.contains(&format!("http://127.0.0.1:{port}/(hidden)")), "{said}");
    assert!(!said.contains("secret-part"), "{said}");
    std::fs::write(&settings, receiver("here", port) + &receiver("gone", gone)).unwrap();
    let ill = run(folder.path(), &["doctor", "--config", file]);
    let said = text(&ill.stdout);
    assert_eq!(ill.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("FAIL  receivers gone (alertmanager): http://127.0.0.1:{gone} "))
    );
    for head in answering.join().unwrap() {
        assert!(head.starts_with("HEAD / HTTP/1.1"), "nothing is sent to its path: {head}");
    }
}

#[tokio::test]
async fn doctor_tells_of_receivers_that_want_to_be_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens there: whoever asked it would say so.
    let receivers = |pager: &str| {
        let one = |name: &str, path: &str| {
            format!(
                "{{name = \"{name}\", kind = \"alertmanager\", url = \"http://127.0.0.1:1/{path}\"}}"
            )
        };
        format!("[{}, {}]", one("pager", pager), one("chat", "chat"))
    };
    let settings = |receivers: &str| {
        let text = format!("receivers = {receivers}\n");
        std::fs::write(folder.path().join("retrylens.toml"), text).unwrap();
    };
    let sources = Sources {
        flags: vec![("receivers".to_owned(), receivers("pager"))],
        environment: Vec::new(),
        file: None,
    };
    let keys = Config::load(&sources).unwrap().notify.receivers;
    let [pager, chat] = [&keys[0], &keys[1]].map(Receiver::key);
    let database = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    let store = Store::open(&database).await.unwrap();
    let now = SystemClock.now();
    store.note_gone(&pager, now).await.unwrap();
    let until = now.plus(Millis(3_600_000));
    store.hold_back(&chat, until).await.unwrap();
    store.close().await.unwrap();
    settings(&receivers("pager"));
    let doctor = || run(folder.path(), &["doctor", "--config", "retrylens.toml"]);
    let output = doctor();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let gone = format!(
        "FAIL  receivers pager (alertmanager): http://127.0.0.1:1 answered 410 Gone at {}",
        now.to_rfc3339()
    );
    assert!(said.contains(&gone) && said.contains("put its url right"), "{said}");
    let held = format!(
        "note  receivers chat (alertmanager): http://127.0.0.1:1 asked with Retry-After for nothing \
         before {}",
        until.to_rfc3339()
    );
    assert!(said.contains(&held), "{said}");
    let store = Store::open(&database).await.unwrap();
    store.hold_back(&chat, now.plus(Millis(31_536_000_000))).await.unwrap();
    store.close().await.unwrap();
    let said = text(&doctor().stdout);
    assert!(said.contains("FAIL  receivers chat") && said.contains("ends the wait"), "{said}");
    // Another address has said nothing yet: it is asked.
    settings(&receivers("moved"));
    let said = text(&doctor().stdout);
    assert!(!said.contains("410") && said.contains("FAIL  receivers pager"), "{said}");
}

/// Loads a running program from several threads, ends it by `signal` in the middle, and gives the
/// ids that it had acknowledged.
fn load_and_end(process: &mut Process, signal: &str) -> Vec<String> {
    let acknowledged = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (acknowledged, is_over, address) = (&acknowledged, &is_over, process.address);
            scope.spawn(move || {
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let ids: Vec<String> =
                        (0..5).map(|n| format!("w{worker}-{round}-{n}")).collect();
                    let batch: Vec<Value> = ids.iter().map(|id| event(id)).collect();
                    if let Some((200, _)) = post(address, "/v1/events", &json!(batch)) {
                        acknowledged.lock().unwrap().extend(ids);
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(1500));
        process.signal(signal);
        let status = process.wait();
        is_over.store(true, Ordering::Relaxed);
        if signal == "TERM" {
            assert!(status.success(), "{status}");
        }
    });
    acknowledged.into_inner().unwrap()
}

/// Sends `ids` again to a fresh start on the same data: what was acknowledged is there already.
fn assert_all_there(folder: &std::path::Path, ids: &[String]) {
    assert!(ids.len() >= 20, "the load was too small to say anything: {}", ids.len());
    let process = Process::serve(folder, &[], &[]);
    for part in ids.chunks(500) {
        let batch: Vec<Value> = part.iter().map(|id| event(id)).collect();
        let (status, answer) = process.post("/v1/events", &json!(batch)).unwrap();
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["duplicates"], part.len(), "acknowledged events are missing: {answer}");
    }
}

#[test]
fn sigterm_in_the_middle_of_a_load_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &[], &[]);
    let ids = load_and_end(&mut process, "TERM");
    assert_all_there(folder.path(), &ids);
}

#[test]
fn kill_in_the_middle_of_a_load_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &[], &[]);
    let ids = load_and_end(&mut process, "KILL");
    assert_all_there(folder.path(), &ids);
}

#[test]
fn a_stop_finishes_the_request_under_way() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &[], &[]);
    let body = json!([event("slow")]).to_string();
    let mut stream = std::net::TcpStream::connect(process.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let (first, rest) = body.split_at(20);
    stream.write_all(first.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    process.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(std::net::TcpStream::connect(process.address).is_err(), "it listens no more");
    stream.write_all(rest.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"stored\":1"), "{answer}");
    assert!(process.wait().success());
}

#[test]
fn a_second_signal_forces_the_stop_and_the_exit_code_says_so() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &[], &[]);
    let mut stream = std::net::TcpStream::connect(process.address).unwrap();
    stream.write_all(b"POST /v1/events HTTP/1.1\r\nhost: x\r\n").unwrap();
    let mut busy = std::net::TcpStream::connect(process.address).unwrap();
    busy.write_all(b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    process.signal("TERM");
    std::thread::sleep(Duration::from_secs(1));
    process.signal("INT");
    assert_eq!(process.wait().code(), Some(1));
}

#[test]
fn a_client_that_sends_slowly_is_let_go() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let limits = ["--set", "header_timeout_ms=400", "--set", "body_timeout_ms=400"];
    let process = Process::serve(folder.path(), &limits, &[]);
    let slow = |start: &str| {
        let mut stream = std::net::TcpStream::connect(process.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(start.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    slow("");
    slow("GET / HTTP/1.1\r\nhost: loc");
    let answer = slow("POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("request-timeout"), "{answer}");
    assert!(process.get("/healthz").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_client_that_reads_nothing_is_let_go() {
    use std::io::{Read, Write};
    const ASKED: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &["--set", "request_timeout_ms=500"], &[]);
    let mut stream = std::net::TcpStream::connect(process.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = "GET /assets/retrylens.css HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request.repeat(ASKED).as_bytes()).ok();
    std::thread::sleep(Duration::from_secs(3));
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).ok();
    let answered = String::from_utf8_lossy(&answers).matches("HTTP/1.1 200").count();
    assert!(answered < ASKED, "buffers took all {answered} answers; ask for more");

    let second = std::net::TcpStream::connect(process.address).unwrap();
    drop(second);
    process.signal("TERM");
    assert!(process.wait().success(), "nothing holds up the stop");
}
