//! Paths that are only fields: what a CRD may give for scale and columns.

use serde_json::Value;

/// Why a path is not a simple one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SimplePathError {
    /// There is nothing.
    #[error("must not be empty")]
    Empty,
    /// The path does not begin at the object.
    #[error("must be a simple json path starting with .")]
    NoDot,
}

/// Checks a path as the validation of a CRD does: that it begins with a dot.
///
/// # Errors
/// When it is empty or begins otherwise.
pub fn check_simple(path: &str) -> Result<(), SimplePathError> {
    match path {
        "" => Err(SimplePathError::Empty),
        _ if !path.starts_with('.') => Err(SimplePathError::NoDot),
        _ => Ok(()),
    }
}

/// A path of fields such as `.spec.replicas`, as the scale subresource reads and
/// writes it.
///
/// ```
/// use object::jsonpath::SimplePath;
/// let path = SimplePath::parse(".spec.replicas").unwrap();
/// let mut object = serde_json::json!({"spec": {}});
/// assert!(path.set(&mut object, 3.into()));
/// assert_eq!(path.get(&object), Some(&3.into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimplePath {
    fields: Vec<String>,
}

impl SimplePath {
    /// Reads a path.
    ///
    /// # Errors
    /// When [`check_simple`] refuses it.
    pub fn parse(path: &str) -> Result<Self, SimplePathError> {
        check_simple(path)?;
        let fields = path.strip_prefix('.').unwrap_or(path);
        Ok(Self { fields: fields.split('.').map(str::to_owned).collect() })
    }

    /// The names of the fields, outermost first.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// What the path points to.
    #[must_use]
    pub fn get<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.fields.iter().try_fold(object, |value, field| value.as_object()?.get(field))
    }

    /// Sets what the path points to and makes the objects on the way; false when
    /// something on the way is not an object, which then stays as it was.
    pub fn set(&self, object: &mut Value, value: Value) -> bool {
        let Some((last, parents)) = self.fields.split_last() else { return false };
        let mut at = object;
        for field in parents {
            let Some(fields) = at.as_object_mut() else { return false };
            at = fields.entry(field.as_str()).or_insert_with(|| Value::Object(Default::default()));
        }
        match at.as_object_mut() {
            Some(fields) => {
                fields.insert(last.clone(), value);
                true
            }
            None => false,
        }
    }
}
