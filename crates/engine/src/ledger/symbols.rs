//! Texts that many objects share, such as keys and values of labels.

use crate::pool::{Id, Pool};

/// A text's number.
pub type Symbol = Id<Box<str>>;

/// Texts by number.
#[derive(Debug, Clone, Default)]
pub struct Symbols(Pool<Box<str>>);

impl Symbols {
    /// The number of a text, held once more.
    pub fn hold(&mut self, text: &str) -> Symbol {
        self.0.hold_as(text, || text.into())
    }

    /// Ends one hold.
    pub fn release(&mut self, symbol: Symbol) {
        self.0.release(symbol);
    }

    /// The number of a text that somebody holds.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.0.find(text)
    }

    /// The text.
    #[must_use]
    pub fn text(&self, symbol: Symbol) -> &str {
        self.0.get(symbol)
    }

    /// How many texts are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no text is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
