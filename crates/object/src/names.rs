//! Names of objects and what makes one valid.
