//! A PostgreSQL server of a test's own, to be stopped, frozen and killed.

use rustix::process::{Pid, Signal, kill_process};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server with its data in a temporary folder. It is stopped and removed when dropped.
pub(crate) struct Server {
    programs: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    postmaster: Option<Child>,
}

impl Server {
    /// Makes and starts one. `None` where tests without PostgreSQL were asked for
    /// (`RETRYLENS_TEST_NO_POSTGRES=1`); programs that are missing without that are a failure.
    pub(crate) fn start() -> Option<Self> {
        if std::env::var("RETRYLENS_TEST_NO_POSTGRES").is_ok_and(|value| value == "1") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Another user has to come in where this one is root.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Self { programs: programs(), folder, port, postmaster: None };
        if rustix::process::geteuid().is_root() {
            let chown = Command::new("chown").arg("postgres").arg(server.folder.path()).status();
            assert!(chown.unwrap().success(), "there is no user named postgres");
        }
        let made = server
            .command("initdb")
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
            .arg(server.data())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.resume();
        Some(server)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Its address, for a user that may do everything.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts it where it was stopped or killed, and waits until it takes connections.
    pub(crate) fn resume(&mut self) {
        for _ in 0..100 {
            let log = std::fs::File::options()
                .create(true)
                .append(true)
                .open(self.folder.path().join("log"))
                .unwrap();
            let mut postmaster = self
                .command("postgres")
                .args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1", "-k"])
                .arg(self.folder.path())
                .arg("-D")
                .arg(self.data())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap();
            while postmaster.try_wait().unwrap().is_none() {
                if self.is_ready() {
                    self.postmaster = Some(postmaster);
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            // What a killed one left running holds the data for a moment.
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{}", std::fs::read_to_string(self.folder.path().join("log")).unwrap());
    }

    fn is_ready(&self) -> bool {
        Command::new(self.programs.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .status()
            .unwrap()
            .success()
    }

    /// Stops it as its own `fast` mode does: sessions are broken off.
    pub(crate) fn stop(&mut self) {
        self.end(Signal::INT);
    }

    /// Kills the postmaster as `kill -9` does. Its children notice and end by themselves.
    pub(crate) fn kill(&mut self) {
        self.end(Signal::KILL);
    }

    fn end(&mut self, signal: Signal) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        kill_process(Pid::from_child(&postmaster), signal).unwrap();
        postmaster.wait().unwrap();
    }

    /// Kills one process of the service's sessions as `kill -9` does; the server then restarts all
    /// of them. Whether there was one.
    pub(crate) fn kill_a_session(&self) -> bool {
        let sessions = self.processes();
        sessions
            .iter()
            .filter(|(_, name)| name.contains("retrylens") || name.contains("127.0.0.1"))
            .take(1)
            .filter(|(pid, _)| kill_process(*pid, Signal::KILL).is_ok())
            .count()
            == 1
    }

    /// Stops (or continues) all of its processes where they stand: it holds its connections and
    /// answers nothing.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
        let postmaster = self.postmaster.as_ref().unwrap();
        kill_process(Pid::from_child(postmaster), signal).unwrap();
        for (pid, _) in self.processes() {
            // One that has ended since needs no signal.
            kill_process(pid, signal).ok();
        }
    }

    /// The postmaster's children: number and title.
    fn processes(&self) -> Vec<(Pid, String)> {
        let postmaster = self.postmaster.as_ref().unwrap().id();
        let output = Command::new("ps")
            .args(["-o", "pid=,args=", "--ppid", &postmaster.to_string()])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| {
                let (pid, title) = line.trim().split_once(' ')?;
                Some((Pid::from_raw(pid.parse().ok()?)?, title.to_owned()))
            })
            .collect()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// One of its programs, run by a user that is not root: the server refuses to serve root.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/").stdin(Stdio::null());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(postmaster) = &self.postmaster {
            kill_process(Pid::from_child(postmaster), Signal::CONT).ok();
        }
        self.end(Signal::QUIT);
    }
}

/// The folder of the server's programs, as `scripts/test-postgres` looks for it.
fn programs() -> PathBuf {
    if let Ok(folder) = std::env::var("PG_BIN") {
        return folder.into();
    }
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    versions.sort();
    versions
        .into_iter()
        .chain(std::env::var_os("PATH").iter().flat_map(std::env::split_paths))
        .find(|folder| Path::exists(&folder.join("initdb")))
        .expect("PostgreSQL's programs: install it, set PG_BIN, or RETRYLENS_TEST_NO_POSTGRES=1")
}
