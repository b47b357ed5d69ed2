//! Which objects a list or a watch means.

use object::selector::field;
use object::selector::label::Selector;

use crate::answer::Failure;
use crate::kinds::{Found, Kind};
use crate::request::ListOptions;
use crate::store::Stored;

/// A label selector and a field selector, checked against the kind.
pub struct Selection {
    labels: Selector,
    /// Which field, which value, and whether it must be equal or must not.
    fields: Vec<(Field, String, bool)>,
}

#[derive(Clone, Copy)]
enum Field {
    Name,
    Namespace,
    Selectable(usize),
}

impl Selection {
    /// Reads the selectors of a list or a watch.
    ///
    /// # Errors
    /// When one is malformed or names a field that cannot be selected by.
    pub fn parse(found: &Found, options: &ListOptions) -> Result<Self, Failure> {
        let labels = options
            .labels
            .parse::<Selector>()
            .map_err(|error| Failure::bad_request(error.to_string()))?;
        let parsed = options
            .fields
            .parse::<field::Selector>()
            .map_err(|error| Failure::bad_request(error.to_string()))?;
        let mut fields = Vec::new();
        for requirement in parsed.requirements() {
            let field = selectable(&found.kind, &requirement.field)?;
            let equal = requirement.operator == field::Operator::Equals;
            fields.push((field, requirement.value.clone(), equal));
        }
        Ok(Self { labels, fields })
    }

    /// Whether an object is meant.
    #[must_use]
    pub fn matches(&self, stored: &Stored) -> bool {
        let fields = self.fields.iter().all(|(field, value, equal)| {
            let (namespace, name) = stored.namespace_and_name();
            let actual = match field {
                Field::Name => name,
                Field::Namespace => namespace,
                Field::Selectable(index) => stored.fields.get(*index).map_or("", |text| text),
            };
            (actual == value) == *equal
        });
        fields && self.labels.matches(|key| stored.label(key))
    }

    /// Whether every object is meant.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.fields.is_empty() && self.labels.is_everything()
    }
}

fn selectable(kind: &Kind, name: &str) -> Result<Field, Failure> {
    match name {
        "metadata.name" => return Ok(Field::Name),
        "metadata.namespace" if kind.namespaced || !kind.is_custom() => {
            return Ok(Field::Namespace);
        }
        _ => {}
    }
    let index = kind.fields.iter().position(|field| field.name == name);
    index.map(Field::Selectable).ok_or_else(|| {
        Failure::bad_request(if kind.fields.is_empty() && !kind.is_custom() {
            format!(
                "{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        } else {
            kind.strategy.unselectable(name)
        })
    })
}
