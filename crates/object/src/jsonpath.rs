//! JSONPath as kubectl and CRD columns use it.
