//! Lays flags over environment over the operator's file over the built-in defaults.
//!
//! A setting is known by its name alone: sections are for readers, so names are unique over all of
//! them, and the environment variable is `RETRYLENS_` and the name in upper case.

use super::ConfigError;
use super::alerts::OVERRIDES;
use super::notify::RECEIVERS;
use crate::domain::spelling::spelled_enum;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::{Table, Value};

/// The built-in settings, with what each does.
pub const DEFAULTS: &str = include_str!("default.toml");

/// What starts the name of an environment variable of ours.
pub const ENV_PREFIX: &str = "RETRYLENS_";

spelled_enum! {
    /// Where a setting's value came from.
    pub enum Origin {
        /// Built in.
        Default => "default",
        /// The operator's file.
        File => "file",
        /// An environment variable.
        Environment => "environment",
        /// The command line.
        Flag => "flag",
    }
}

/// Everything that may change a setting.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The operator's file.
    pub file: Option<PathBuf>,
    /// Environment variables, all of them or only ours.
    pub environment: Vec<(String, String)>,
    /// Setting names with their value as text, from the command line.
    pub flags: Vec<(String, String)>,
}

/// One setting in force.
#[derive(Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// All settings by name, each with where it came from.
pub(super) struct Settings(pub(super) BTreeMap<String, Setting>);

impl Settings {
    /// Lays `sources` over the defaults. Beside the settings: what the operator should know, such
    /// as a variable that looks like ours and names no setting.
    pub(super) fn gather(sources: &Sources) -> Result<(Self, Vec<String>), ConfigError> {
        let mut settings = Self::defaults()?;
        if let Some(path) = &sources.file {
            settings.lay_file(path)?;
        }
        let warnings = settings.lay_environment(&sources.environment)?;
        for (name, text) in &sources.flags {
            settings.lay_text(name, text, Origin::Flag)?;
        }
        Ok((settings, warnings))
    }

    fn defaults() -> Result<Self, ConfigError> {
        let table: Table =
            DEFAULTS.parse().map_err(|_| ConfigError::file("default.toml", 0, "not TOML"))?;
        let mut settings = BTreeMap::new();
        for (section, entries) in table {
            for (name, value) in entries.as_table().into_iter().flatten() {
                let setting = Setting {
                    section: section.clone(),
                    value: value.clone(),
                    origin: Origin::Default,
                };
                settings.insert(name.clone(), setting);
            }
        }
        Ok(Self(settings))
    }

    fn lay_file(&mut self, path: &std::path::Path) -> Result<(), ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::ReadFile { path: shown.clone(), source })?;
        // The parser's own text quotes the line, which may hold a token; only its message is kept.
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
            ConfigError::file(&shown, line, "this is not valid TOML")
        })?;
        for (section, entries) in table {
            // `[[receivers]]` stands at the top, since each is a section of its own.
            let (section, entries) = match entries {
                Value::Array(_) if section == RECEIVERS => {
                    let own = Table::from_iter([(section, entries)]);
                    ("notify".to_owned(), Value::Table(own))
                }
                entries => (section, entries),
            };
            let Value::Table(entries) = entries else {
                let hint = match self.0.get(&section) {
                    Some(known) => format!("{section} belongs below [{}]", known.section),
                    None => "settings stand below a section such as [server]".to_owned(),
                };
                return Err(ConfigError::UnknownSetting {
                    name: section,
                    origin: Origin::File,
                    hint,
                });
            };
            for (name, value) in entries {
                let known = self.known(&name, Origin::File)?;
                if known.section != section {
                    return Err(ConfigError::UnknownSetting {
                        name: format!("{section}.{name}"),
                        origin: Origin::File,
                        hint: format!("{name} belongs below [{}]", known.section),
                    });
                }
                if !same_shape(&name, &known.value, &value) {
                    let expected = shape(&name, &known.value).to_owned();
                    return Err(ConfigError::BadValue { name, origin: Origin::File, expected });
                }
                known.value = value;
                known.origin = Origin::File;
            }
        }
        Ok(())
    }

    /// Variables that start like ours and name no setting are reported and skipped: orchestrators
    /// set some by themselves (a Kubernetes service named `retrylens` brings
    /// `RETRYLENS_SERVICE_HOST` and `RETRYLENS_PORT`).
    fn lay_environment(&mut self, pairs: &[(String, String)]) -> Result<Vec<String>, ConfigError> {
        let mut warnings = Vec::new();
        for (variable, text) in pairs {
            let Some(name) = variable.strip_prefix(ENV_PREFIX) else { continue };
            let name = name.to_ascii_lowercase();
            if name == "config" || name == "grafana_token" || name.starts_with("test_") {
                continue;
            }
            if self.0.contains_key(&name) {
                self.lay_text(&name, text, Origin::Environment)?;
            } else {
                warnings.push(format!("{variable} is set but names no setting"));
            }
        }
        Ok(warnings)
    }

    fn lay_text(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let known = self.known(name, origin)?;
        let bad = |expected: &str| ConfigError::BadValue {
            name: name.to_owned(),
            origin,
            expected: expected.to_owned(),
        };
        known.value = match &known.value {
            Value::Array(_) if holds_tables(name) => {
                // A value is no document of its own.
                let table = format!("it = {text}").parse::<Table>().ok();
                let value = table.and_then(|mut table| table.remove("it"));
                value
                    .filter(|v| same_shape(name, &known.value, v))
                    .ok_or_else(|| bad(tables(name)))?
            }
            Value::Integer(_) => {
                Value::Integer(text.trim().parse().map_err(|_| bad("a whole number"))?)
            }
            Value::Boolean(_) => {
                Value::Boolean(text.trim().parse().map_err(|_| bad("true or false"))?)
            }
            Value::Array(_) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Value::Array(parts.map(|part| Value::String(part.to_owned())).collect())
            }
            _ => Value::String(text.to_owned()),
        };
        known.origin = origin;
        Ok(())
    }

    fn known(&mut self, name: &str, origin: Origin) -> Result<&mut Setting, ConfigError> {
        let names = self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        self.0.get_mut(name).ok_or_else(|| ConfigError::UnknownSetting {
            name: name.chars().take(64).collect(),
            origin,
            hint: format!("the settings are: {names}"),
        })
    }

    /// The text of a setting, trimmed; `None` where it is empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let text = self.0.get(name)?.value.as_str()?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// The value in force.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).map(|setting| &setting.value)
    }

    /// The texts of a list.
    pub(super) fn texts(&self, name: &str) -> Vec<&str> {
        let list = self.0.get(name).and_then(|setting| setting.value.as_array());
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// A whole number between `least` and `most`.
    pub(super) fn number(&self, name: &str, least: u64, most: u64) -> Result<u64, ConfigError> {
        let number = self.0.get(name).and_then(|setting| setting.value.as_integer());
        number
            .and_then(|number| u64::try_from(number).ok())
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.bad(name, &format!("a whole number from {least} to {most}")))
    }

    /// The error for a setting whose value can't be used, or for a part of it (`name[0].field`).
    pub(super) fn bad(&self, name: &str, expected: &str) -> ConfigError {
        let setting = self.0.get(name.split('[').next().unwrap_or(name));
        let origin = setting.map_or(Origin::Default, |setting| setting.origin);
        ConfigError::BadValue { name: name.to_owned(), origin, expected: expected.to_owned() }
    }
}

/// Whether a setting is a list of tables.
fn holds_tables(name: &str) -> bool {
    matches!(name, OVERRIDES | RECEIVERS)
}

/// What a list of tables is called in an error.
fn tables(name: &str) -> &'static str {
    match name {
        RECEIVERS => "a list of tables, such as [{name = \"pager\", kind = \"webhook\", …}]",
        _ => "a list of tables, such as [{service = \"checkout\", …}]",
    }
}

fn same_shape(name: &str, known: &Value, given: &Value) -> bool {
    match (known, given) {
        (_, Value::Array(items)) if holds_tables(name) => items.iter().all(Value::is_table),
        (Value::Array(_), Value::Array(items)) => items.iter().all(Value::is_str),
        _ => known.same_type(given),
    }
}

fn shape(name: &str, value: &Value) -> &'static str {
    match value {
        _ if holds_tables(name) => tables(name),
        Value::Integer(_) => "a whole number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list of texts",
        _ => "a text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_names_are_unique_over_all_sections() {
        let table: Table = DEFAULTS.parse().unwrap();
        let mut names: Vec<String> =
            table.values().flat_map(|s| s.as_table().unwrap().keys().cloned()).collect();
        let before = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), before);
    }

    #[test]
    fn no_setting_has_a_name_that_an_orchestrator_sets_by_itself() {
        let (settings, _) = Settings::gather(&Sources::default()).unwrap();
        for name in settings.0.keys() {
            assert!(!name.starts_with("port") && !name.starts_with("service_"), "{name}");
        }
    }
}
