//! The options of a request's query and of a deletion's body.

use std::num::IntErrorKind;

use object::field::{Error, Errors, Path};
use serde_json::Value;

use crate::answer::Failure;
use crate::answer::failure::GroupResource;

/// The decoded query of a URL.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the part of a URL after the question mark.
    #[must_use]
    pub fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first value of an option; an empty value counts as none.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Whether an option is set, as kube-apiserver reads flags: present means
    /// yes, unless the value is `false` or `0`.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        Some(!(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    fn number(&self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let parsed = text.parse().map(Some);
        parsed.map_err(|error: std::num::ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    }
}

/// What happens to fields a kind does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped without a word.
    Ignore,
    /// They are dropped, and the answer carries a warning for each.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Options of a request that writes.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Do everything but the commit.
    pub dry_run: bool,
    /// What happens to unknown fields.
    pub field_validation: FieldValidation,
}

/// Whose options they are; errors name them by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionsKind {
    /// Of a create.
    Create,
    /// Of an update.
    Update,
    /// Of a patch.
    Patch,
    /// Of a deletion.
    Delete,
    /// Of a list or a watch.
    List,
}

impl OptionsKind {
    /// The kind of the options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch => "PatchOptions",
            Self::Delete => "DeleteOptions",
            Self::List => "ListOptions",
        }
    }
}

/// Longest name of a field manager.
const FIELD_MANAGER_MAX: usize = 128;

impl WriteOptions {
    /// Reads the options of a write.
    ///
    /// # Errors
    /// When an option has a value it cannot have.
    pub fn parse(query: &Query, kind: OptionsKind) -> Result<Self, Failure> {
        let mut errors = Errors::new();
        let field_validation = match query.text("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(Error::not_supported(&Path::new("fieldValidation"), other, &supported));
                FieldValidation::Warn
            }
        };
        if query.text("fieldManager").is_some_and(|name| name.len() > FIELD_MANAGER_MAX) {
            errors.push(Error::too_long(&Path::new("fieldManager"), FIELD_MANAGER_MAX));
        }
        if kind == OptionsKind::Patch && query.flag("force").is_some() {
            let why = "may not be specified for non-apply patch";
            errors.push(Error::forbidden(&Path::new("force"), why));
        }
        let dry_run = dry_run(query.text("dryRun"), &mut errors);
        refuse_invalid_options(kind, &errors)?;
        Ok(Self { dry_run, field_validation })
    }
}

fn dry_run(value: Option<&str>, errors: &mut Errors) -> bool {
    match value {
        None => false,
        Some("All") => true,
        Some(other) => {
            let given = Value::Array(vec![other.into()]);
            errors.push(Error::not_supported(&Path::new("dryRun"), given, &["All"]));
            false
        }
    }
}

fn refuse_invalid_options(kind: OptionsKind, errors: &[Error]) -> Result<(), Failure> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupResource { group: "meta.k8s.io", resource: kind.as_str() };
    Err(Failure::invalid(&kind, "", errors))
}

/// How exactly a list's revision is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionMatch {
    /// That revision or a later one.
    NotOlderThan,
    /// That very revision.
    Exact,
}

/// Options of a list or a watch.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Label selector, as text.
    pub labels: String,
    /// Field selector, as text.
    pub fields: String,
    /// At most so many objects; zero means all.
    pub limit: i64,
    /// Where the previous page ended.
    pub continue_token: Option<String>,
    /// The revision asked for, as text.
    pub resource_version: String,
    /// How it is meant.
    pub revision_match: Option<RevisionMatch>,
    /// Watch rather than list.
    pub watch: bool,
    /// Whether the watch takes bookmarks.
    pub bookmarks: bool,
    /// Whether the watch begins with what there is.
    pub initial_events: Option<bool>,
    /// When the watch ends.
    pub timeout_seconds: Option<i64>,
}

impl ListOptions {
    /// Reads the options of a list or a watch.
    ///
    /// # Errors
    /// When an option has a value it cannot have, or two contradict each other.
    pub fn parse(query: &Query) -> Result<Self, Failure> {
        let text = |name| query.text(name).unwrap_or_default().to_owned();
        let options = Self {
            labels: text("labelSelector"),
            fields: text("fieldSelector"),
            limit: query.number("limit")?.unwrap_or(0),
            continue_token: query.text("continue").map(str::to_owned),
            resource_version: text("resourceVersion"),
            revision_match: None,
            watch: query.flag("watch").unwrap_or(false),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            initial_events: query.flag("sendInitialEvents"),
            timeout_seconds: query.number("timeoutSeconds")?,
        };
        options.with_match(query.text("resourceVersionMatch"))
    }

    fn with_match(mut self, given: Option<&str>) -> Result<Self, Failure> {
        let mut errors = Errors::new();
        let at = Path::new("resourceVersionMatch");
        if self.watch {
            self.check_watch_match(given, &mut errors);
        } else {
            if self.initial_events.is_some() {
                let why = "sendInitialEvents is forbidden for list";
                errors.push(Error::forbidden(&Path::new("sendInitialEvents"), why));
            }
            if given.is_some() {
                self.check_list_match(given, &at, &mut errors);
            }
        }
        self.revision_match = match given {
            Some("Exact") => Some(RevisionMatch::Exact),
            Some("NotOlderThan") => Some(RevisionMatch::NotOlderThan),
            _ => None,
        };
        refuse_invalid_options(OptionsKind::List, &errors)?;
        Ok(self)
    }

    fn check_list_match(&self, given: Option<&str>, at: &Path, errors: &mut Errors) {
        if self.resource_version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(Error::forbidden(at, why));
        }
        if self.continue_token.is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(Error::forbidden(at, why));
        }
        match given {
            Some("Exact") if self.resource_version == "0" => {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(Error::forbidden(at, why));
            }
            Some("Exact" | "NotOlderThan") | None => {}
            Some(other) => {
                errors.push(Error::not_supported(at, other, &["Exact", "NotOlderThan", ""]));
            }
        }
    }

    fn check_watch_match(&self, given: Option<&str>, errors: &mut Errors) {
        let at = Path::new("resourceVersionMatch");
        match (self.initial_events, given) {
            (None, Some(_)) => {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(Error::forbidden(&at, why));
            }
            (Some(_), None) => {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(Error::forbidden(&at, why));
            }
            (Some(_), Some(other)) if other != "NotOlderThan" => {
                errors.push(Error::not_supported(&at, other, &["NotOlderThan"]));
            }
            _ => {}
        }
        if self.initial_events.is_some() && self.continue_token.is_some() {
            let why = "sendInitialEvents is forbidden for watch when continue is provided";
            errors.push(Error::forbidden(&Path::new("continue"), why));
        }
    }
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They stay, without their owner.
    Orphan,
    /// They go some time afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// Options of a deletion.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Seconds the object may take to end.
    pub grace_seconds: Option<i64>,
    /// The uid the object must have.
    pub uid: Option<String>,
    /// The resource version the object must have.
    pub resource_version: Option<String>,
    /// What happens to dependents.
    pub propagation: Option<Propagation>,
    /// Whether the client asked for the end of dependents in the old way.
    pub orphan_dependents: Option<bool>,
    /// Do everything but the commit.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads options from the query of a request that has no body.
    ///
    /// # Errors
    /// When an option has a value it cannot have, or two contradict each other.
    pub fn from_query(query: &Query) -> Result<Self, Failure> {
        let mut errors = Errors::new();
        let orphan_dependents = query.flag("orphanDependents");
        let options = Self {
            grace_seconds: query.number("gracePeriodSeconds")?,
            uid: None,
            resource_version: None,
            propagation: propagation(
                query.text("propagationPolicy"),
                orphan_dependents,
                &mut errors,
            ),
            orphan_dependents,
            dry_run: dry_run(query.text("dryRun"), &mut errors),
        };
        refuse_invalid_options(OptionsKind::Delete, &errors)?;
        Ok(options)
    }

    /// Reads options from a body, beside which the query says nothing.
    ///
    /// # Errors
    /// When an option has a value it cannot have, or two contradict each other.
    pub fn from_body(body: &Value) -> Result<Self, Failure> {
        let mut errors = Errors::new();
        let named = body.get("propagationPolicy").and_then(Value::as_str);
        let orphan_dependents = body.get("orphanDependents").and_then(Value::as_bool);
        let given = body.get("dryRun").and_then(|list| list.get(0)).and_then(Value::as_str);
        let precondition =
            |key: &str| Some(body.get("preconditions")?.get(key)?.as_str()?.to_owned());
        let options = Self {
            grace_seconds: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            propagation: propagation(named, orphan_dependents, &mut errors),
            orphan_dependents,
            dry_run: dry_run(given, &mut errors),
        };
        refuse_invalid_options(OptionsKind::Delete, &errors)?;
        Ok(options)
    }
}

fn propagation(
    named: Option<&str>,
    orphan: Option<bool>,
    errors: &mut Errors,
) -> Option<Propagation> {
    let at = Path::new("propagationPolicy");
    if let (Some(name), Some(_)) = (named, orphan) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(Error::invalid(&at, name, why));
    }
    match (named, orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(Error::not_supported(&at, other, &supported));
            None
        }
        (None, None) => None,
    }
}
