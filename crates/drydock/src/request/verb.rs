//! What a request wants done.

use http::Method;

/// A verb of the API, as discovery lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Follow many.
    Watch,
    /// Make one.
    Create,
    /// Put one in the place of another.
    Update,
    /// Change one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

impl Verb {
    /// The verb of a method on a path that names an object, or none; `watch` is whether the query
    /// asks to follow.
    #[must_use]
    pub fn of(method: &Method, named: bool, watch: bool) -> Option<Self> {
        Some(match (method.as_str(), named) {
            ("GET" | "HEAD", true) => Self::Get,
            ("GET" | "HEAD", false) if watch => Self::Watch,
            ("GET" | "HEAD", false) => Self::List,
            ("POST", _) => Self::Create,
            ("PUT", true) => Self::Update,
            ("PATCH", true) => Self::Patch,
            ("DELETE", true) => Self::Delete,
            ("DELETE", false) => Self::DeleteCollection,
            _ => return None,
        })
    }

    /// The word that discovery uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// The word that kube-apiserver's metrics use.
    #[must_use]
    pub fn in_metrics(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::List => "LIST",
            Self::Watch => "WATCH",
            Self::Create => "POST",
            Self::Update => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::DeleteCollection => "DELETECOLLECTION",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_path_decide_the_verb() {
        let check = |method: Method, named: bool, watch: bool, expected: Option<&str>| {
            let verb = Verb::of(&method, named, watch).map(Verb::as_str);
            assert_eq!(verb, expected, "{method} {named} {watch}");
        };
        check(Method::GET, true, false, Some("get"));
        check(Method::GET, true, true, Some("get"));
        check(Method::HEAD, false, false, Some("list"));
        check(Method::GET, false, true, Some("watch"));
        check(Method::POST, false, false, Some("create"));
        check(Method::PUT, true, false, Some("update"));
        check(Method::PUT, false, false, None);
        check(Method::PATCH, true, false, Some("patch"));
        check(Method::PATCH, false, false, None);
        check(Method::DELETE, true, false, Some("delete"));
        check(Method::DELETE, false, true, Some("deletecollection"));
        check(Method::OPTIONS, true, false, None);
    }
}
