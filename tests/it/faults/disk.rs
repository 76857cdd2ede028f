//! No room for the database: a small file system of its own, and a limit on the size of files.

use super::ledger::{Ledger, receipt};
use crate::support::Process;
use crate::support::http::Client;
use crate::support::postgres_server::Server;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What keeps the database from growing.
enum Narrow {
    /// A file system in memory of 48 MiB, of which a file takes a part until room is made.
    Tmpfs { folder: PathBuf },
    /// `RLIMIT_FSIZE`: no file may grow beyond it. A write then fails as beyond a quota.
    FileSize,
}

/// Room on the small file system, and how much of it is taken away at first.
const TMPFS_MIB: usize = 48;
const BALLAST_MIB: usize = 30;
/// Largest file under the limit, in bytes.
const LARGEST_FILE: u64 = 12 << 20;

impl Narrow {
    /// Mounts the small file system; needs the right to mount.
    fn tmpfs(folder: &Path) -> Option<Self> {
        let size = format!("size={TMPFS_MIB}m");
        let mut mount = Command::new("mount");
        let output = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder).output();
        let is_mounted = output.is_ok_and(|output| output.status.success());
        is_mounted.then(|| {
            std::fs::write(folder.join("ballast"), vec![0_u8; BALLAST_MIB << 20]).unwrap();
            Self::Tmpfs { folder: folder.to_owned() }
        })
    }

    /// Narrows the running service; the file system is narrow already.
    fn apply(&self, process: &Process) {
        if let Self::FileSize = self {
            file_size_limit(process, &LARGEST_FILE.to_string());
        }
    }

    /// Makes room while the service runs.
    fn make_room(&self, process: &Process) {
        match self {
            Self::Tmpfs { folder } => std::fs::remove_file(folder.join("ballast")).unwrap(),
            Self::FileSize => file_size_limit(process, "unlimited"),
        }
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        if let Self::Tmpfs { folder } = self {
            Command::new("umount").arg(&*folder).status().ok();
        }
    }
}

/// Sets the soft limit of a running service, as `ulimit -f` or a unit's `LimitFSIZE=` would.
fn file_size_limit(process: &Process, bytes: &str) {
    let status = Command::new("prlimit")
        .args(["--pid", &process.id().to_string(), &format!("--fsize={bytes}:")])
        .stdout(Stdio::null())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "prlimit (util-linux) can't set a limit: this test needs it, or the right to mount"
    );
}

/// What SQLite itself says of a file that the service has open.
async fn integrity(file: &Path) -> String {
    let url = format!("sqlite://{}?mode=ro", file.display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap()
}

const DAY: &str = "from=2026-11-11T00:00:00Z&to=2026-11-12T00:00:00Z";

/// Attempts of the day as the overview says it.
fn attempts(client: &mut Client) -> u64 {
    let reply = client.get(&format!("/api/v1/overview?{DAY}")).unwrap();
    assert_eq!(reply.status, 200, "reading goes on: {reply:?}");
    let note = reply.json()["figures"][0]["note"].as_str().unwrap().replace(',', "");
    note.split(' ').next().unwrap().parse().unwrap()
}

/// Fills what room there is, looks at what senders and readers are told, makes room, and goes on.
fn fill_and_go_on(narrow: &Narrow, folder: &Path) {
    let mut process = Process::serve(folder, &[], &[]);
    narrow.apply(&process);
    let mut client = Client::new(process.address);
    let ledger = Ledger::default();
    let mut refused = 0;
    for _ in 0..400 {
        let reply = ledger.send(&mut client, ledger.fresh(250), true).unwrap();
        if reply.status != 200 {
            reply.assert_asks_to_wait("store-full");
            refused += 1;
        }
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3, "it was never full: {}", ledger.told());
    eprintln!("full after {} events", ledger.acknowledged());
    assert!(ledger.acknowledged() >= 250, "nothing was stored before");

    client.get("/readyz").unwrap().assert_asks_to_wait("store-full");
    assert_eq!(client.get("/healthz").unwrap().status, 200);
    assert_eq!(attempts(&mut client), ledger.acknowledged(), "all that was acknowledged, no more");
    for page in ["/", "/triage"] {
        let page = client.get(&format!("{page}?{DAY}")).unwrap();
        assert_eq!(page.status, 200, "{page:?}");
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let file = folder.join("retrylens.db");
    assert_eq!(runtime.block_on(integrity(&file)), "ok");
    // Single events may or may not find a last corner; either way they are told the truth.
    for _ in 0..20 {
        ledger.send(&mut client, ledger.fresh(1), true).unwrap();
    }
    assert_eq!(attempts(&mut client), ledger.acknowledged());

    narrow.make_room(&process);
    ledger.settle(process.address);
    assert_eq!(client.get("/readyz").unwrap().status, 200, "ready again without a restart");
    let more = ledger.send(&mut client, ledger.fresh(2_000), true).unwrap();
    assert_eq!(receipt(&more), (2_000, 0));
    assert_eq!(attempts(&mut client), ledger.sent());
    eprintln!("full disk: {}", ledger.told());
    process.signal("TERM");
    assert!(process.wait().success());
    runtime.block_on(ledger.assert_exact(&format!("sqlite://{}", file.display())));
    assert_eq!(runtime.block_on(integrity(&file)), "ok");
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_full_disk_refuses_with_a_wait_keeps_reading_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(narrow) = Narrow::tmpfs(folder.path()) {
        eprintln!("full disk: a tmpfs of {TMPFS_MIB} MiB");
        fill_and_go_on(&narrow, folder.path());
    } else {
        // Said, and never left out: the same course under the limit that needs no rights.
        eprintln!("full disk: no right to mount, so RLIMIT_FSIZE stands in for the tmpfs");
        fill_and_go_on(&Narrow::FileSize, folder.path());
    }
}

#[test]
fn a_limit_on_the_size_of_files_refuses_as_a_full_disk_does() {
    let folder = tempfile::tempdir().unwrap();
    fill_and_go_on(&Narrow::FileSize, folder.path());
}

/// PostgreSQL's own disk: its tables lie on the small file system, its log does not.
#[test]
#[ignore = "long: make torture"]
fn a_full_disk_of_postgres_refuses_with_a_wait_and_goes_on_when_there_is_room() {
    let Some(server) = Server::start() else { return };
    let room = tempfile::tempdir().unwrap();
    let narrow = Narrow::tmpfs(room.path())
        .expect("the right to mount a tmpfs is missing: PostgreSQL has no other disk to fill");
    let tables = room.path().join("tables");
    std::fs::create_dir(&tables).unwrap();
    for path in [room.path(), &tables] {
        let chown = Command::new("chown").arg("postgres").arg(path).status();
        assert!(chown.unwrap().success(), "there is no user named postgres");
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        let made = format!("CREATE TABLESPACE narrow LOCATION '{}'", tables.display());
        sqlx::raw_sql(AssertSqlSafe(made)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
    let url = format!("{}?options[default_tablespace]=narrow", server.url());
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &[], &[("RETRYLENS_DATABASE_URL", &url)]);
    let mut client = Client::new(process.address);
    let ledger = Ledger::default();
    let reply = loop {
        let reply = ledger.send(&mut client, ledger.fresh(500), true).unwrap();
        if reply.status != 200 {
            break reply;
        }
    };
    reply.assert_asks_to_wait("store-full");
    client.get("/readyz").unwrap().assert_asks_to_wait("store-full");
    assert_eq!(attempts(&mut client), ledger.acknowledged(), "all that was acknowledged, no more");
    narrow.make_room(&process);
    ledger.settle(process.address);
    assert_eq!(client.get("/readyz").unwrap().status, 200, "ready again without a restart");
    eprintln!("full disk of PostgreSQL: {}", ledger.told());
    process.signal("TERM");
    assert!(process.wait().success());
    runtime.block_on(ledger.assert_exact(&url));
    drop(server);
    drop(narrow);
}
