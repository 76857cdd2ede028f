//! The program under load: started from its binary, measured from outside.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running `retrylens`. It is killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Kept open, so that it can go on talking.
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Serves `database_url` with the settings that it has by default, working in `folder`, where
    /// its log is too. Only what is old is kept for longer: the load is of one day in 2026.
    pub(crate) fn start(folder: &Path, database_url: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_retrylens"))
            .current_dir(folder)
            .env_clear()
            .env("RETRYLENS_LISTEN", "127.0.0.1:0")
            .env("RETRYLENS_DATABASE_URL", database_url)
            // What the load sends happened on a day that stays the same.
            .env("RETRYLENS_RETENTION_DAYS", "36500")
            .env("RETRYLENS_SUMS_RETENTION_DAYS", "36500")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let address = stdout
            .by_ref()
            .lines()
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix("listening:")?.trim().parse().ok());
        let address = address.unwrap_or_else(|| {
            panic!("{}", std::fs::read_to_string(folder.join("log")).unwrap_or_default())
        });
        Self { child, _stdout: stdout, address }
    }

    /// CPU seconds so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(&self.child.id().to_string())
    }

    /// Resident memory in MB by a line of `/proc/PID/status` (proc(5)): `VmRSS` now, `VmHWM` at
    /// most so far.
    pub(crate) fn memory_mb(&self, line: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let value = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
        let kib: f64 =
            value.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap();
        kib * 1_024.0 / 1e6
    }

    /// Stops it as an operator would, and waits for its end.
    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success(), "it did not stop cleanly");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// CPU seconds of this process so far.
pub(crate) fn own_cpu_seconds() -> f64 {
    cpu_seconds("self")
}

/// User and system time out of `/proc/PID/stat`, which counts 100 ticks a second (proc(5)).
fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, behind_name) = stat.rsplit_once(')').unwrap();
    let ticks: Vec<f64> =
        behind_name.split_whitespace().skip(11).take(2).map(|n| n.parse().unwrap()).collect();
    ticks.iter().sum::<f64>() / 100.0
}
