//! Where a walk is, as a stack of steps on the stack of the walk: no text is built
//! until an error needs it.

use crate::field::Path;

#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    /// A declared property.
    Field(&'a str),
    /// A key of a map.
    Key(&'a str),
    /// An element of a list.
    Index(usize),
}

/// A position below the root of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trail<'a> {
    up: Option<&'a Trail<'a>>,
    step: Option<Step<'a>>,
    depth: usize,
}

impl<'a> Trail<'a> {
    pub(super) const ROOT: Trail<'static> = Trail { up: None, step: None, depth: 0 };

    pub(super) fn field(&'a self, name: &'a str) -> Trail<'a> {
        self.then(Step::Field(name))
    }

    pub(super) fn key(&'a self, key: &'a str) -> Trail<'a> {
        self.then(Step::Key(key))
    }

    pub(super) fn index(&'a self, index: usize) -> Trail<'a> {
        self.then(Step::Index(index))
    }

    fn then(&'a self, step: Step<'a>) -> Trail<'a> {
        Trail { up: Some(self), step: Some(step), depth: self.depth + 1 }
    }

    /// Whether the walk has reached the bound on nesting.
    pub(super) fn too_deep(&self) -> bool {
        self.depth >= super::DEPTH_MAX
    }

    pub(super) fn is_root(&self) -> bool {
        self.step.is_none()
    }

    fn steps(&self) -> Vec<Step<'a>> {
        let mut steps = Vec::with_capacity(self.depth);
        let mut at = Some(*self);
        while let Some(trail) = at {
            steps.extend(trail.step);
            at = trail.up.copied();
        }
        steps.reverse();
        steps
    }

    /// The path as the JSON schema validator of kube-openapi writes it: map keys
    /// look like fields, and a key at the root has a leading dot.
    pub(super) fn body_path(&self) -> String {
        let mut text = String::new();
        for step in self.steps() {
            match step {
                Step::Field(name) if text.is_empty() => text.push_str(name),
                Step::Field(name) | Step::Key(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                Step::Index(index) => push_index(&mut text, index),
            }
        }
        text
    }

    /// The path as strict decoding writes it in `unknown field "spec.foo"`.
    pub(super) fn strict_path(&self) -> String {
        let mut text = String::new();
        for step in self.steps() {
            match step {
                Step::Field(name) | Step::Key(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Index(index) => push_index(&mut text, index),
            }
        }
        text
    }

    /// The names of the struct fields on the way, as Go's decoder joins them.
    pub(super) fn go_fields(&self) -> String {
        let names: Vec<&str> = self
            .steps()
            .into_iter()
            .filter_map(|step| match step {
                Step::Field(name) => Some(name),
                Step::Key(_) | Step::Index(_) => None,
            })
            .collect();
        names.join(".")
    }

    /// The path as a field path below `base`.
    pub(super) fn path(&self, base: &Path) -> Path {
        let mut text = base.as_str().to_owned();
        for step in self.steps() {
            match step {
                Step::Field(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Key(key) => {
                    text.push('[');
                    text.push_str(key);
                    text.push(']');
                }
                Step::Index(index) => push_index(&mut text, index),
            }
        }
        Path::new(&text)
    }
}

fn push_index(text: &mut String, index: usize) {
    text.push('[');
    text.push_str(&index.to_string());
    text.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_gets_the_path_in_its_own_form() {
        let (spec, list) = (Trail::ROOT.field("spec"), Trail::ROOT.key("a"));
        let ports = spec.field("ports");
        let second = ports.index(1);
        let label = second.key("x/y");
        assert_eq!(label.body_path(), "spec.ports[1].x/y");
        assert_eq!(label.strict_path(), "spec.ports[1].x/y");
        assert_eq!(label.path(&Path::root()).to_string(), "spec.ports[1][x/y]");
        assert_eq!(label.go_fields(), "spec.ports");
        assert_eq!(list.body_path(), ".a");
        assert_eq!(Trail::ROOT.body_path(), "");
    }
}
