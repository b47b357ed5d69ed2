//! Configuration files that mean what they say.
//!
//! A file is YAML or JSON. A field that the program does not know is refused, with its path
//! and the name that was probably meant, whether or not the type asks for that itself; so
//! is a value of the wrong type. Nothing here knows what any field is for.

mod strict;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The largest configuration file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration {}: {source}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is too large to be a configuration.
    #[error("configuration {} is larger than {FILE_BYTES_MAX} bytes; is it the right file?", .file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The file holds nothing.
    #[error("configuration {} is empty", .file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file is not YAML.
    #[error("configuration {} is not valid YAML or JSON: {reason}", .file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Where and what.
        reason: String,
    },
    /// A field is unknown, missing, or of the wrong type.
    #[error("configuration {}: {fault}", .file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// Where and what.
        fault: Fault,
    },
}

pub use strict::{Fault, nearest};

/// Reads a configuration file.
///
/// # Errors
/// When the file cannot be read, or something in it is not what `T` takes.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { file: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::TooLarge { file: path.to_owned() });
    }
    parse(path, &text)
}

/// Reads a configuration from text; `path` is only named in errors.
///
/// # Errors
/// When something in the text is not what `T` takes.
pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    let file = || path.to_owned();
    let value: Value = serde_saphyr::from_str(text).map_err(|error| ConfigError::Syntax {
        file: file(),
        reason: error.without_snippet().to_string(),
    })?;
    if value.is_null() {
        return Err(ConfigError::Empty { file: file() });
    }
    from_value(&value).map_err(|fault| ConfigError::Field { file: file(), fault })
}

/// Reads a configuration, or a part of one, from a value.
///
/// ```
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Args { usage_percent_max: u8 }
/// let value = serde_json::json!({ "usagePercentMx": 65 });
/// let fault = chassis::config::from_value::<Args>(&value).err().unwrap();
/// assert_eq!(fault.to_string(), "usagePercentMx: unknown field; did you mean usagePercentMax?");
/// ```
///
/// # Errors
/// When something in the value is not what `T` takes.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Fault> {
    T::deserialize(strict::Strict::new(value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code)]
    struct Profile {
        name: String,
        #[serde(default)]
        plugins: Vec<Plugin>,
        #[serde(default)]
        weights: BTreeMap<String, u8>,
        mode: Option<Mode>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code)]
    struct Plugin {
        usage_percent_max: u8,
        #[serde(default)]
        enabled: bool,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    enum Mode {
        MostAllocated,
        LeastAllocated,
        Ratio { shape: u8 },
    }

    fn outcome(text: &str) -> String {
        match parse::<Profile>(Path::new("p.yaml"), text) {
            Ok(profile) => format!("{} {} {:?}", profile.name, profile.plugins.len(), profile.mode),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn a_good_file_is_read_as_yaml_and_as_json() {
        let yaml = "name: a\nplugins:\n- usagePercentMax: 65\nmode: MostAllocated\n";
        assert_eq!(outcome(yaml), "a 1 Some(MostAllocated)");
        let json = "{\n\t\"name\": \"a\",\n\t\"plugins\": [{\"usagePercentMax\": 65}],\n\t\"weights\": {\"x\": 1}\n}\n";
        assert_eq!(outcome(json), "a 1 None");
        assert_eq!(outcome("name: a\nmode: {Ratio: {shape: 3}}"), "a 0 Some(Ratio { shape: 3 })");
    }

    #[test]
    fn a_fault_names_file_path_and_fix() {
        let check = |text: &str, want: &str| {
            assert_eq!(outcome(text), format!("configuration p.yaml: {want}"), "{text}");
        };
        check("name: a\nplugin: []", "plugin: unknown field; did you mean plugins?");
        check("name: a\nzzz: 1", "zzz: unknown field; known are name, plugins, weights, mode");
        check(
            "name: a\nplugins: [{usagePercentMax: 1}, {usagePercentmax: 2}]",
            "plugins[1].usagePercentmax: unknown field; did you mean usagePercentMax?",
        );
        check(
            "name: a\nplugins: [{usagePercentMax: 300}]",
            "plugins[0].usagePercentMax: invalid value: integer `300`, expected u8",
        );
        check(
            "name: a\nplugins: [{usagePercentMax: lots}]",
            "plugins[0].usagePercentMax: invalid type: string \"lots\", expected u8",
        );
        check("name: a\nplugins: {}", "plugins: invalid type: map, expected a sequence");
        check("name: a\nplugins: [{}]", "plugins[0]: missing field `usagePercentMax`");
        check("name: a\nweights: {x: -1}", "weights[x]: invalid value: integer `-1`, expected u8");
        check("name: a\nmode: mostAllocated", "mode: unknown value; did you mean MostAllocated?");
        check(
            "name: a\nmode: {Ratio: {shap: 1}}",
            "mode.Ratio.shap: unknown field; did you mean shape?",
        );
        check("[]", "invalid type: sequence, expected struct Profile");
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        assert_eq!(outcome(""), "configuration p.yaml is empty");
        assert_eq!(outcome("# only words\n"), "configuration p.yaml is empty");
        let refused = |text: &str| {
            let told = outcome(text);
            assert!(told.starts_with("configuration p.yaml is not valid YAML or JSON: "), "{told}");
        };
        refused("name: [");
        refused("name: a\nname: b");
        refused("name: a\n---\nname: b");
        refused(&"[".repeat(1_000_000));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = load::<Profile>(Path::new("/no/such.yaml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read configuration /no/such.yaml: No such"), "{error}");
    }
}
