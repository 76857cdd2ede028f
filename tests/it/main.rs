//! Every test that goes beyond one module, in one binary: a module per subject.

mod secrets;
mod store_contract;
mod support;

#[test]
fn the_binary_is_built() {
    assert!(std::path::Path::new(env!("CARGO_BIN_EXE_retrylens")).exists());
}
