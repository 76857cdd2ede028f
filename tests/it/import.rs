//! `retrylens import`: files into the store or to a server, through kills and rotation.

use super::access_logs::nginx_line;
use super::gateways::dead_port;
use retrylens::store::Store;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tokio::time::Instant;

fn lines(from: u32, to: u32) -> String {
    (from..to).fold(String::new(), |mut text, n| {
        writeln!(text, "{}", nginx_line(&format!("i-{n}"), n % 1000, 429, true)).unwrap();
        text
    })
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retrylens"));
    let database = format!("sqlite://{}", folder.join("import.db").display());
    command.current_dir(folder).arg("import").args(args).env("RETRYLENS_DATABASE_URL", database);
    // The lines are of one day, whenever the test runs.
    command.env("RETRYLENS_RETENTION_DAYS", "3650").env("RETRYLENS_SUMS_RETENTION_DAYS", "3650");
    command
}

fn import(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// How many of the ids `i-0`, … are stored, and whether any is there twice.
async fn stored(folder: &Path, upto: u32) -> (u32, bool) {
    let url = format!("sqlite://{}", folder.join("import.db").display());
    let store = Store::open(&url).await.unwrap();
    let (mut found, mut twice) = (0, false);
    for n in 0..upto {
        let events = store.lookup(&format!("i-{n}")).await.unwrap().events;
        found += u32::from(!events.is_empty());
        twice |= events.len() > 1;
    }
    (found, twice)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_read_once_also_as_its_packed_copy_and_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plain = folder.join("diag.ndjson");
    std::fs::write(&plain, format!("{}nonsense\n{}", lines(0, 50), lines(50, 60))).unwrap();
    let first = import(folder, &["diag.ndjson"]);
    assert_eq!(first.status.code(), Some(0), "a line was wrong: {}", said(&first));
    assert!(
        said(&first).starts_with("61 lines, 60 stored, 0 duplicates, 0 expired, 1 wrong"),
        "{}",
        said(&first)
    );
    let wrong = "\ndiag.ndjson: line 51: a line of no format";
    assert!(said(&first).contains(wrong), "{}", said(&first));

    let mut grown = OpenOptions::new().append(true).open(&plain).unwrap();
    // The last line is still being written.
    grown.write_all(format!("{}{{\"gateway\":\"ngi", lines(60, 70)).as_bytes()).unwrap();
    let second = import(folder, &["--format", "nginx", "diag.ndjson"]);
    assert!(said(&second).starts_with("10 lines, 10 stored"), "{}", said(&second));
    assert_eq!(second.status.code(), Some(0), "{}", said(&second));

    let all = lines(0, 70);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(std::fs::read(&plain).unwrap().as_slice()).unwrap();
    std::fs::write(folder.join("diag.ndjson.1.gz"), gzip.finish().unwrap()).unwrap();
    std::fs::write(folder.join("diag.ndjson.2.zst"), zstd::encode_all(all.as_bytes(), 3).unwrap())
        .unwrap();
    std::fs::remove_file(folder.join("retrylens-import.json")).unwrap();
    let packed = import(folder, &["diag.ndjson.1.gz"]);
    assert!(said(&packed).contains(" 0 stored, 70 duplicates"), "{}", said(&packed));
    let other = import(folder, &["--state", "other.json", "diag.ndjson.2.zst"]);
    assert!(said(&other).starts_with("70 lines, "), "{}", said(&other));
    let (found, _) = stored(folder, 70).await;
    assert_eq!(found, 70);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_line_without_its_end_was_skipped_and_is_read_once_whatever_comes_behind_it() {
    for end in ["\n", "\r\n"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let path = folder.join("a.ndjson");
        let append = |text: &str| {
            let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let run = || said(&import(folder, &["a.ndjson"]));
        append(lines(0, 1).trim_end());
        let text = run();
        assert!(text.starts_with("1 line, 1 stored"), "the only line: {text}");
        assert!(run().starts_with("0 lines"), "it is not read again");
        append(end);
        assert!(run().starts_with("0 lines"), "its end is no line");
        append(lines(1, 3).trim_end());
        assert!(run().starts_with("2 lines, 2 stored, 0 duplicates"));
        // Half a line is left, and said.
        let four = lines(3, 4);
        let (half, rest) = four.split_at(four.len() / 2);
        append(&format!("{end}{half}"));
        let text = run();
        assert!(text.starts_with("0 lines"), "{text}");
        assert!(text.contains("a.ndjson: line 4 has no end and can't be read as it is"), "{text}");
        append(&format!("{rest}nonsense\n"));
        let text = run();
        assert!(text.starts_with("2 lines, 1 stored, 0 duplicates, 0 expired, 1 wrong"), "{text}");
        assert!(text.contains("\na.ndjson: line 5: a line of no format"), "{text}");
        assert_eq!(stored(folder, 4).await, (4, false));
        std::fs::remove_file(folder.join("retrylens-import.json")).unwrap();
        let text = run();
        assert!(text.starts_with("5 lines, 0 stored, 4 duplicates, 0 expired, 1 wrong"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_text_that_was_read_before_it_was_written_to_its_end_is_one_event() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = r#"192.0.2.7 - - [11/Nov/2026:07:29:00 +0000] "GET /a HTTP/1.1" 429 162 "-" "curl""#;
    let (half, _) = line.split_at(line.len() - 12);
    std::fs::write(folder.join("c.log"), format!("{line}\n{half}")).unwrap();
    let text = said(&import(folder, &["c.log"]));
    assert!(text.starts_with("2 lines, 2 stored"), "{text}");
    std::fs::write(folder.join("c.log"), format!("{line}\n{line}\n{line}\n")).unwrap();
    let text = said(&import(folder, &["c.log"]));
    assert!(text.starts_with("1 line, 1 stored"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_an_earlier_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.ndjson"), lines(0, 3)).unwrap();
    let state = folder.join("retrylens-import.json");
    import(folder, &["a.ndjson"]);
    let written: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    let name = written.as_object().unwrap().keys().next().unwrap();
    std::fs::write(&state, format!("{{\"{name}\":40}}")).unwrap();
    let text = said(&import(folder, &["a.ndjson"]));
    assert!(text.starts_with("3 lines, 0 stored, 3 duplicates"), "{text}");
    assert!(said(&import(folder, &["a.ndjson"])).starts_with("0 lines"));
}

#[test]
fn a_server_that_does_not_answer_is_told_after_the_first_try() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.ndjson"), lines(0, 1)).unwrap();
    let closed = format!("127.0.0.1:{}", dead_port());
    let url = format!("http://jane:hunter2fake@{closed}");
    let mut run = command(folder, &["--url", &url, "a.ndjson"]);
    let mut run = Running(run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    let errors = run.0.stderr.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(errors), &mut first).unwrap();
    for part in [closed.as_str(), "gave no answer: ", "refused", "11 more tries within 5 minutes"] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(!first.contains("hunter2fake"), "{first}");
    assert!(run.0.try_wait().unwrap().is_none(), "it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_are_too_old_to_be_kept_are_told_and_a_packed_stream_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let old = lines(0, 1).replace("1794391", "1000000");
    let text = format!("\u{feff}{}{old}", lines(1, 3));
    let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let mut run = command(folder, &["-"]);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    run.stdin.take().unwrap().write_all(&packed).unwrap();
    let done = run.wait_with_output().unwrap();
    let expected = "3 lines, 2 stored, 0 duplicates, 1 expired, 0 wrong";
    assert!(said(&done).starts_with(expected), "{}", said(&done));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_goes_on_and_stores_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let count = 30_000;
    std::fs::write(folder.join("big.ndjson"), lines(0, count)).unwrap();
    let mut run = command(folder, &["big.ndjson"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let state = folder.join("retrylens-import.json");
    wait_for("a first piece", || state.exists());
    run.kill().unwrap();
    run.wait().unwrap();
    let rest = import(folder, &["big.ndjson"]);
    let text = said(&rest);
    let read: u32 = text
        .lines()
        .find(|line| line.contains(" stored, ") && line.contains("lines/s"))
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(read > 0 && read < count, "it went on where the other one was: {text}");
    for n in [0, 1, count / 2, count - 1] {
        let url = format!("sqlite://{}", folder.join("import.db").display());
        let store = Store::open(&url).await.unwrap();
        assert_eq!(store.lookup(&format!("i-{n}")).await.unwrap().events.len(), 1, "{n}");
    }
    std::fs::remove_file(&state).unwrap();
    let again = said(&import(folder, &["big.ndjson"]));
    assert!(again.contains(&format!("{count} lines, 0 stored, {count} duplicates")), "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_growing_file_is_followed_through_both_kinds_of_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = folder.join("grow.ndjson");
    std::fs::write(&path, lines(0, 10)).unwrap();
    let mut run = Running(
        command(folder, &["--follow", "grow.ndjson"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let upto = async |n: u32| {
        let until = Instant::now() + Duration::from_secs(30);
        while stored(folder, n).await != (n, false) {
            assert!(Instant::now() < until, "{n}: {:?}", stored(folder, n).await);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let append = |text: &str| {
        let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    upto(10).await;
    append(&lines(10, 20));
    // Renamed with lines that were not read yet, and made anew.
    std::fs::rename(&path, folder.join("grow.ndjson.1")).unwrap();
    append(&lines(20, 30));
    upto(30).await;
    // Copied and emptied, then soon longer than before.
    std::fs::copy(&path, folder.join("grow.ndjson.2")).unwrap();
    File::create(&path).unwrap();
    append(&lines(30, 60));
    upto(60).await;
    assert!(run.0.try_wait().unwrap().is_none(), "it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_go_to_a_server_too_and_a_wrong_name_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = super::support::Process::serve(folder, &[], &[]);
    let mut text = lines(0, 30).into_bytes();
    text.extend(b"{\"gateway\":\"nginx\",\"epoch\":1794391003.5,\"status\":429,\"limit_req_status\":\"REJECTED\",\"path\":\"/\xff\"}\r\n");
    text.extend(lines(30, 40).into_bytes());
    std::fs::write(folder.join("a.ndjson"), text).unwrap();
    let url = format!("http://{}", server.address);
    let sent = import(folder, &["--url", &url, "--service", "checkout", "a.ndjson"]);
    assert!(said(&sent).starts_with("41 lines, 41 stored, 0 duplicates"), "{}", said(&sent));
    std::fs::remove_file(folder.join("retrylens-import.json")).unwrap();
    let again = import(folder, &["--url", &url, "--service", "checkout", "a.ndjson"]);
    assert!(said(&again).starts_with("41 lines, 0 stored, 41 duplicates"), "{}", said(&again));
    let wrong = import(folder, &["--format", "iis", "a.ndjson"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said(&wrong).contains("name one of nginx"), "{}", said(&wrong));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_packed_file_that_was_cut_the_whole_lines_are_kept_and_a_whole_copy_adds_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let all = lines(0, 3_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(all.as_bytes()).unwrap();
    for (name, packed) in
        [("a.gz", gzip.finish().unwrap()), ("b.zst", zstd::encode_all(all.as_bytes(), 3).unwrap())]
    {
        let (cut, whole) = (format!("cut-{name}"), format!("whole-{name}"));
        std::fs::write(folder.join(&cut), &packed[..packed.len() * 2 / 3]).unwrap();
        std::fs::write(folder.join(&whole), packed).unwrap();
        std::fs::write(folder.join("other.ndjson"), lines(3_000, 3_001)).unwrap();
        let state = format!("{name}.json");
        let first = import(folder, &["--state", &state, &cut, "other.ndjson"]);
        let text = said(&first);
        assert_eq!(first.status.code(), Some(1), "{text}");
        let kept: u32 = text
            .split_once("damaged or cut short; ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{text}"));
        assert!((500..3_000).contains(&kept), "{text}");
        assert!(
            text.contains(&cut) && text.starts_with(&format!("{} lines, ", kept + 1)),
            "{text}"
        );
        let rest = said(&import(folder, &["--state", &state, &whole]));
        assert!(rest.starts_with(&format!("{} lines, ", 3_000 - kept)), "{rest}");
        assert!(rest.contains(" 0 wrong"), "{rest}");
        std::fs::remove_file(folder.join("import.db")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_follows_ends_well_on_a_signal_and_the_next_one_goes_on_there() {
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let path = folder.join("grow.ndjson");
        std::fs::write(&path, lines(0, 10)).unwrap();
        let mut run = command(folder, &["--follow", "grow.ndjson"]);
        let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
        let state = folder.join("retrylens-import.json");
        wait_for("the first piece", || state.exists());
        let id = run.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let until = Instant::now() + Duration::from_secs(30);
        while run.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                run.kill().unwrap();
                panic!("SIG{signal} doesn't end it");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let done = run.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{signal}: {}", said(&done));
        assert!(said(&done).starts_with("10 lines, 10 stored"), "{signal}: {}", said(&done));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(lines(10, 13).as_bytes()).unwrap();
        let next = said(&import(folder, &["grow.ndjson"]));
        assert!(next.starts_with("3 lines, 3 stored"), "{signal}: {next}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_lines_cost_only_themselves_whether_a_file_is_followed_or_not() {
    let good_and_bad = format!("{}no line of a log\n", lines(0, 3));
    for (text, said_first, code) in [
        (good_and_bad.as_str(), "4 lines, 3 stored, 0 duplicates, 0 expired, 1 wrong", 0),
        ("no line of a log\n", "1 line, 0 stored, 0 duplicates, 0 expired, 1 wrong", 1),
    ] {
        for follow in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            std::fs::write(folder.join("a.log"), text).unwrap();
            let done = if follow {
                let mut run = command(folder, &["--follow", "a.log"]);
                let run = run.stdout(Stdio::piped()).spawn().unwrap();
                if code == 0 {
                    wait_for("the piece", || folder.join("retrylens-import.json").exists());
                } else {
                    // Nothing tells when a file was looked at of which nothing is read.
                    std::thread::sleep(Duration::from_secs(3));
                }
                let id = run.id().to_string();
                assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
                run.wait_with_output().unwrap()
            } else {
                import(folder, &["a.log"])
            };
            let text = said(&done);
            assert!(text.starts_with(said_first), "{follow}: {text}");
            assert_eq!(done.status.code(), Some(code), "{follow}: {text}");
        }
    }
}

#[test]
fn a_wrong_line_of_several_files_was_shown_without_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.log"), format!("{}no line\n", lines(0, 2))).unwrap();
    std::fs::write(folder.join("b.log"), format!("no line\n{}no line\n", lines(2, 3))).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(format!("{}no line\n", lines(3, 4)).as_bytes()).unwrap();
    std::fs::write(folder.join("c.log.gz"), gzip.finish().unwrap()).unwrap();
    let mut run = command(folder, &["a.log", "b.log", "c.log.gz", "-"]);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    run.stdin.take().unwrap().write_all("no line\n".repeat(9).as_bytes()).unwrap();
    let text = said(&run.wait_with_output().unwrap());
    assert!(text.starts_with("17 lines, 4 stored, 0 duplicates, 0 expired, 13 wrong"), "{text}");
    let named: Vec<&str> = text.lines().filter_map(|line| line.split(": a line").next()).collect();
    let mut expected: Vec<String> =
        ["a.log: line 3", "b.log: line 1", "b.log: line 3", "c.log.gz: line 2"]
            .map(str::to_owned)
            .into();
    expected.extend((1..7).map(|line| format!("standard input: line {line}")));
    assert_eq!(named.get(1..), Some(&expected.iter().map(String::as_str).collect::<Vec<_>>()[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_read_in_a_wrong_format_is_read_whole_in_the_right_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.log"), lines(0, 3)).unwrap();
    let wrong = import(folder, &["--format", "haproxy", "a.log"]);
    let text = said(&wrong);
    assert!(text.starts_with("3 lines, 0 stored, 0 duplicates, 0 expired, 3 wrong"), "{text}");
    assert_eq!(wrong.status.code(), Some(1));
    let text = said(&import(folder, &["a.log"]));
    assert!(text.starts_with("3 lines, 3 stored, 0 duplicates, 0 expired, 0 wrong"), "{text}");
    let text = said(&import(folder, &["a.log"]));
    assert!(text.starts_with("0 lines"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_says_which_zone_it_took_for_times_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = r#"192.0.2.7:52610 [11/Nov/2026:11:26:57.958] f01 f01/<NOSRV> 0/-1/-1/-1/0 429 225 - - PR-- 1/1/0/0/0 0/0 "GET /v1/a HTTP/1.1""#;
    std::fs::write(folder.join("h.log"), format!("{line}\n")).unwrap();
    let text = said(&import(folder, &["h.log"]));
    assert!(text.contains("1 line names no zone beside the time: read as UTC"), "{text}");
    let text = said(&import(folder, &["--time-zone", "+09:00", "--state", "b.json", "h.log"]));
    assert!(text.contains("read as +09:00"), "{text}");
    let wrong = import(folder, &["--time-zone", "Tokio", "h.log"]);
    assert!(said(&wrong).contains("a zone of the IANA database"), "{}", said(&wrong));
    assert_eq!(wrong.status.code(), Some(2));
}

/// A process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_there() {
        assert!(Instant::now() < until, "waited for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
