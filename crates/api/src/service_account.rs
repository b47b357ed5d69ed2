//! Service accounts, as far as every namespace needs its default one.

use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;

/// A service account: its existence is all that is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceAccount {
    /// Who it is.
    pub metadata: ObjectMeta,
}

resource!(ServiceAccount, "", "v1", "ServiceAccount", "serviceaccounts", true);
