//! Quantities: amounts of resources.
