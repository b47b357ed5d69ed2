//! What the module does as a whole.
