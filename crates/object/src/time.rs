//! Times as Kubernetes writes them.
