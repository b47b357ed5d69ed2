//! Paths of files in volumes.

use object::field::{Error, Errors, Path};

/// Checks a path below some folder.
pub(super) fn descending(errors: &mut Errors, path: &Path, target: &str) {
    if target.starts_with('/') {
        errors.push(Error::invalid(path, target, "must be a relative path"));
    }
    no_backsteps(errors, path, target);
}

/// Checks that a path does not leave its folder.
pub(super) fn no_backsteps(errors: &mut Errors, path: &Path, target: &str) {
    if target.split('/').any(|part| part == "..") {
        errors.push(Error::invalid(path, target, "must not contain '..'"));
    }
}

/// Checks a path below some folder in which names that start with `..` are the kubelet's.
pub(super) fn unreserved(errors: &mut Errors, path: &Path, target: &str) {
    descending(errors, path, target);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.push(Error::invalid(path, target, "must not start with '..'"));
    }
}
