//! Helpers of all subjects: the program in memory, the program as a process, and databases.

pub(crate) mod app;
pub(crate) mod http;
pub(crate) mod postgres;
pub(crate) mod postgres_server;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod secrets;

pub(crate) use app::{Answer, TestApp};
pub(crate) use process::Process;
