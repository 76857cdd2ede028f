//! Settings: flags, environment, TOML file, in that order of strength.
