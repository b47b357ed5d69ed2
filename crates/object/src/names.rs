//! Names of objects, keys and ports, and what makes one valid.
//!
//! Each check returns the messages that kube-apiserver would put into its answer,
//! none when the value is good. A check knows the text alone: which rule a resource
//! follows is for its strategy to say, and where the value stood for the caller.
//!
//! ```
//! use object::names;
//! assert!(names::dns1123_label("my-name").is_empty());
//! assert_eq!(names::dns1123_label("my.name"), ["must not contain dots"]);
//! ```

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::field::{Error, Errors, Path};

pub mod meta;

#[cfg(test)]
mod tests;

/// The longest DNS label, label value, and name part of a qualified name.
pub const LABEL_MAX: usize = 63;
/// The longest DNS subdomain.
pub const SUBDOMAIN_MAX: usize = 253;
/// The most bytes that the keys and values of all annotations may have together.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// The letters of a generated suffix: no vowels, and nothing that looks like another.
pub const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of a generated suffix.
pub const SUFFIX_LENGTH: usize = 5;
/// How much of a `generateName` a generated name keeps.
pub const GENERATED_BASE_MAX: usize = LABEL_MAX - SUFFIX_LENGTH;

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const HTTP_PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

/// Whether a text is a name, or something will be appended to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameUse {
    /// The text is the name.
    Whole,
    /// The text is a `generateName`: it may end in a dash.
    Prefix,
}

/// A rule that a resource has for its names.
pub type NameRule = fn(&str, NameUse) -> Vec<String>;

/// The rule of most resources: a DNS subdomain.
#[must_use]
pub fn name_is_dns_subdomain(name: &str, used: NameUse) -> Vec<String> {
    subdomain_messages(&masked(name, used), "characters")
}

/// The rule of namespaces: a DNS label.
#[must_use]
pub fn name_is_dns_label(name: &str, used: NameUse) -> Vec<String> {
    label_messages(&masked(name, used))
}

/// The rule of services: a DNS label that starts with a letter.
#[must_use]
pub fn name_is_dns1035_label(name: &str, used: NameUse) -> Vec<String> {
    label1035_messages(&masked(name, used))
}

/// The rule of the resources with free names, such as roles: what a URL can carry.
#[must_use]
pub fn name_is_path_segment(name: &str, used: NameUse) -> Vec<String> {
    if used == NameUse::Whole && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    let contains = |part: &&str| name.contains(*part);
    ["/", "%"]
        .iter()
        .filter(|part| contains(part))
        .map(|p| format!("may not contain '{p}'"))
        .collect()
}

/// A prefix as its name will be judged. Upstream replaces the last two characters of
/// `ab-` by one `a`, so that a dash in the last place but one goes unseen too.
fn masked(name: &str, used: NameUse) -> Cow<'_, [u8]> {
    let bytes = name.as_bytes();
    match (used, bytes) {
        (NameUse::Prefix, [kept @ .., _, b'-']) => Cow::Owned([kept, b"a"].concat()),
        _ => Cow::Borrowed(bytes),
    }
}

/// The name made of `generateName` and a random suffix: the base is cut so that the
/// name fits a DNS label.
#[must_use]
pub fn generated_name(base: &str, suffix: &str) -> String {
    format!("{}{suffix}", &base[..base.floor_char_boundary(GENERATED_BASE_MAX)])
}

/// A lower-case DNS label of RFC 1123.
#[must_use]
pub fn dns1123_label(value: &str) -> Vec<String> {
    label_messages(value.as_bytes())
}

/// Dot-separated lower-case DNS labels of RFC 1123.
#[must_use]
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain_messages(value.as_bytes(), "characters")
}

/// A DNS subdomain whose first label is `*`.
#[must_use]
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut messages = too_long(value.len(), SUBDOMAIN_MAX, "characters");
    if !value.strip_prefix("*.").is_some_and(|rest| is_subdomain(rest.as_bytes())) {
        messages.push(regex_message(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{DNS1123_SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    messages
}

/// A DNS label of RFC 1035, which starts with a letter.
#[must_use]
pub fn dns1035_label(value: &str) -> Vec<String> {
    label1035_messages(value.as_bytes())
}

fn label_messages(value: &[u8]) -> Vec<String> {
    let mut messages = too_long(value.len(), LABEL_MAX, "characters");
    if is_label(value) {
        return messages;
    }
    messages.push(if is_subdomain(value) {
        "must not contain dots".to_owned()
    } else {
        regex_message(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
            DNS1123_LABEL,
            &["my-name", "123-abc"],
        )
    });
    messages
}

fn subdomain_messages(value: &[u8], unit: &str) -> Vec<String> {
    let mut messages = too_long(value.len(), SUBDOMAIN_MAX, unit);
    if !is_subdomain(value) {
        messages.push(regex_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    messages
}

fn label1035_messages(value: &[u8]) -> Vec<String> {
    let mut messages = too_long(value.len(), LABEL_MAX, "characters");
    if !is_label(value) || !value[0].is_ascii_lowercase() {
        messages.push(regex_message(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            DNS1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    messages
}

/// A label key, annotation key, finalizer or taint key: a name with an optional DNS
/// prefix before a slash.
#[must_use]
pub fn qualified_name(value: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut messages = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let rule = regex_message(QUALIFIED_RULE, QUALIFIED, &examples);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let faults = subdomain_messages(prefix.as_bytes(), "bytes");
            messages.extend(faults.into_iter().map(|fault| format!("prefix part {fault}")));
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        messages.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_qualified(name) {
        let rule = regex_message(QUALIFIED_RULE, QUALIFIED, &examples);
        messages.push(format!("name part {rule}"));
    }
    messages
}

/// A qualified name with its prefix.
#[must_use]
pub fn domain_prefixed_key(path: &Path, value: &str) -> Errors {
    if value.is_empty() {
        return vec![Error::required(path, "")];
    }
    let messages = qualified_name(value);
    if messages.is_empty() && !value.contains('/') {
        let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
        return vec![Error::invalid(path, value, detail)];
    }
    messages.into_iter().map(|message| Error::invalid(path, value, message)).collect()
}

/// A DNS subdomain, a slash and an HTTP path, as signers and controllers are named.
#[must_use]
pub fn domain_prefixed_path(path: &Path, value: &str) -> Errors {
    if value.is_empty() {
        return vec![Error::required(path, "")];
    }
    let (host, rest) = value.split_once('/').unwrap_or((value, ""));
    if host.is_empty() || rest.is_empty() {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![Error::invalid(path, value, detail)];
    }
    let faults = dns1123_subdomain(host).into_iter();
    let mut errors: Errors = faults.map(|fault| Error::invalid(path, host, fault)).collect();
    if !is_http_path(rest) {
        errors.push(Error::invalid(path, rest, regex_message("Invalid path", HTTP_PATH, &[])));
    }
    errors
}

/// Whether a text consists of characters that an HTTP path may have, at least one.
#[must_use]
pub fn is_http_path(value: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    !value.is_empty() && value.bytes().all(allowed)
}

/// The value of a label; may be empty.
#[must_use]
pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = too_long(value.len(), LABEL_MAX, "bytes");
    if !value.is_empty() && !is_qualified(value) {
        messages.push(regex_message(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    messages
}

/// An identifier of C.
#[must_use]
pub fn c_identifier(value: &str) -> Vec<String> {
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if value.bytes().all(rest) && value.bytes().next().is_some_and(|b| !b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![regex_message(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The name of an environment variable, by the strict rule.
#[must_use]
pub fn env_var_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if !value.bytes().all(allowed) || value.bytes().next().is_none_or(|b| b.is_ascii_digit()) {
        messages.push(regex_message(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    messages.extend(parent_folder(value));
    messages
}

/// The name of an environment variable, by the rule that pods have since 1.34: any
/// printable ASCII but `=`.
#[must_use]
pub fn relaxed_env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

/// A key in the data of a config map or secret.
#[must_use]
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut messages = too_long(value.len(), SUBDOMAIN_MAX, "characters");
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if value.is_empty() || !value.bytes().all(allowed) {
        messages.push(regex_message(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    messages.extend(parent_folder(value));
    messages
}

/// What would lead out of a folder when used as a file name.
fn parent_folder(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// The name of a port: an IANA service name.
#[must_use]
pub fn port_name(value: &str) -> Vec<String> {
    let mut messages = too_long(value.len(), 15, "characters");
    let allowed = |b: u8| b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut refuse = |bad: bool, message: &str| {
        if bad {
            messages.push(message.to_owned());
        }
    };
    refuse(
        value.is_empty() || !value.bytes().all(allowed),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    refuse(
        !value.bytes().any(|byte| byte.is_ascii_lowercase()),
        "must contain at least one letter (a-z)",
    );
    refuse(value.contains("--"), "must not contain consecutive hyphens");
    refuse(value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen");
    messages
}

/// The number of a port.
#[must_use]
pub fn port_number(value: i64) -> Vec<String> {
    in_range(value, 1, 65535)
}

/// A number between two bounds, both allowed.
#[must_use]
pub fn in_range(value: i64, min: i64, max: i64) -> Vec<String> {
    if (min..=max).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {min} and {max}, inclusive")]
}

/// A percentage such as `25%`.
#[must_use]
pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    vec![regex_message(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The name of an HTTP header.
#[must_use]
pub fn http_header_name(value: &str) -> Vec<String> {
    let allowed = |byte: u8| byte == b'-' || byte.is_ascii_alphanumeric();
    if !value.is_empty() && value.bytes().all(allowed) {
        return Vec::new();
    }
    vec![regex_message(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// An integer as a human writes it: no plus sign, no leading zeros.
#[must_use]
pub fn decimal_integer(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["must be non-empty".to_owned()];
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if value == "0" || (plain && !digits.starts_with('0')) {
        return Vec::new();
    }
    vec!["must be a valid decimal integer in canonical form".to_owned()]
}

/// Checks the keys and values of labels. The path in the errors is that of the map,
/// as upstream has it.
#[must_use]
pub fn validate_labels(labels: &Map<String, Value>, path: &Path) -> Errors {
    let mut errors = Errors::new();
    for (key, value) in labels {
        errors.extend(validate_label_name(key, path));
        match value.as_str() {
            Some(text) => {
                let messages = label_value(text).into_iter();
                errors.extend(messages.map(|message| Error::invalid(path, text, message)));
            }
            None => errors.push(not_text(value, &path.key(key))),
        }
    }
    errors
}

/// Checks one label key, taint key or the like.
#[must_use]
pub fn validate_label_name(name: &str, path: &Path) -> Errors {
    qualified_name(name).into_iter().map(|fault| Error::invalid(path, name, fault)).collect()
}

/// Checks the keys of annotations, which may have upper-case prefixes, and the size
/// of all.
#[must_use]
pub fn validate_annotations(annotations: &Map<String, Value>, path: &Path) -> Errors {
    let mut errors = Errors::new();
    let mut bytes = 0;
    for (key, value) in annotations {
        let messages = qualified_name(&key.to_lowercase()).into_iter();
        errors.extend(messages.map(|message| Error::invalid(path, key.as_str(), message)));
        if !value.is_string() {
            errors.push(not_text(value, &path.key(key)));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(Error::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
    errors
}

fn not_text(value: &Value, path: &Path) -> Error {
    Error::type_invalid(path, value.clone(), "must be a string")
}

fn too_long(length: usize, max: usize, unit: &str) -> Vec<String> {
    if length <= max { Vec::new() } else { vec![format!("must be no more than {max} {unit}")] }
}

fn regex_message(rule: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{rule} (regex used for validation is '{regex}')");
    }
    let shown: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{regex}')", shown.join(" or "))
}

fn is_label(value: &[u8]) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    value.iter().all(|byte| *byte == b'-' || alphanumeric(byte))
        && value.first().is_some_and(alphanumeric)
        && value.last().is_some_and(alphanumeric)
}

fn is_subdomain(value: &[u8]) -> bool {
    value.split(|byte| *byte == b'.').all(is_label)
}

fn is_qualified(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}
