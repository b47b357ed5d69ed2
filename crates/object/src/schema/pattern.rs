//! Regular expressions in Go's dialect, on an engine of the same family: classes such
//! as `\d` know ASCII alone, and a `[` in a class is a character like any other.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

/// The most that one pattern may compile to, in bytes, after the sizes that are tried first: a
/// plain pattern takes the smallest, and only what needs more is allowed more.
const SIZES: [usize; 4] = [8 << 10, 64 << 10, 512 << 10, SIZE_MAX];

const SIZE_MAX: usize = 4 << 20;

/// What all sizes that are tried for the patterns of a schema may come to, in bytes.
const SIZES_SUM_MAX: usize = 32 << 20;

/// What an expression may keep of what it worked out while matching, in bytes.
const CACHE_BYTES_MAX: usize = 1 << 20;

/// The patterns of one schema, each compiled once.
#[derive(Debug)]
pub(super) struct Patterns {
    compiled: BTreeMap<Box<str>, Result<Regex, String>>,
    /// The sizes of those that rules state.
    sizes: BTreeMap<Box<str>, Option<usize>>,
    /// What may still be tried, in bytes.
    left: usize,
}

impl Default for Patterns {
    fn default() -> Self {
        Self { compiled: BTreeMap::new(), sizes: BTreeMap::new(), left: SIZES_SUM_MAX }
    }
}

impl Patterns {
    /// The expression that `pattern` stands for, if it is one.
    pub(super) fn compiled(&mut self, pattern: &str) -> Option<Regex> {
        if !self.compiled.contains_key(pattern) {
            let compiled = self.compile(pattern);
            self.compiled.insert(pattern.into(), compiled);
        }
        self.compiled.get(pattern)?.as_ref().ok().cloned()
    }

    /// Why a pattern that was to be compiled is none.
    pub(super) fn fault(&self, pattern: &str) -> Option<&str> {
        self.compiled.get(pattern)?.as_ref().err().map(String::as_str)
    }

    /// About how large an expression the engine makes of a pattern in a rule, in bytes. Nothing
    /// is said of one that is none, or for which too much would have to be tried.
    pub(super) fn size(&mut self, pattern: &str) -> Option<usize> {
        if let Some(known) = self.sizes.get(pattern) {
            return *known;
        }
        let found = self.fit(pattern).ok().map(|(_, size)| size);
        self.sizes.insert(pattern.into(), found);
        found
    }

    fn compile(&mut self, pattern: &str) -> Result<Regex, String> {
        self.fit(pattern).map(|(regex, _)| regex).map_err(|fault| match fault {
            Fault::Syntax(error) => {
                format!("must be a valid regular expression, but isn't: {error}")
            }
            Fault::TooLarge => format!(
                "a pattern may compile to {} MiB, and this one takes more: repeat fewer times, or \
                 limit the length by maxLength",
                SIZE_MAX >> 20
            ),
            Fault::NoRoom => format!(
                "the patterns of a schema may compile to {} MiB together, and with this one they \
                 could take more: use fewer or simpler patterns",
                SIZES_SUM_MAX >> 20
            ),
        })
    }

    /// The expression that `pattern` stands for, in the smallest of the sizes that it fits in.
    fn fit(&mut self, pattern: &str) -> Result<(Regex, usize), Fault> {
        for size in SIZES {
            self.left = self.left.checked_sub(size).ok_or(Fault::NoRoom)?;
            match compile(pattern, size) {
                Err(Fault::TooLarge) => {}
                tried => return tried.map(|regex| (regex, size)),
            }
        }
        Err(Fault::TooLarge)
    }
}

#[derive(Debug)]
enum Fault {
    /// It is no pattern; the text reads as Go's does.
    Syntax(String),
    /// It would be larger than allowed.
    TooLarge,
    /// The patterns together could be larger than allowed.
    NoRoom,
}

fn compile(pattern: &str, size_max: usize) -> Result<Regex, Fault> {
    let translated = translate(pattern);
    let mut builder = RegexBuilder::new(&translated);
    builder.size_limit(size_max).dfa_size_limit(CACHE_BYTES_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => Fault::TooLarge,
        error => {
            let text = error.to_string();
            let fault = go_fault(pattern, &translated, &text);
            Fault::Syntax(format!("error parsing regexp: {fault}"))
        }
    })
}

/// The same pattern for the engine.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut class: Option<usize> = None;
    while let Some(c) = chars.next() {
        match (c, class) {
            ('\\', _) => {
                let Some(next) = chars.next() else {
                    out.push('\\');
                    break;
                };
                escape(next, class.is_some(), &mut out);
            }
            ('[', None) => {
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
                // A bracket that comes first stands for itself.
                if chars.peek() == Some(&']') {
                    chars.next();
                    out.push_str("\\]");
                }
                class = Some(out.len());
            }
            ('[', Some(_)) if chars.peek() == Some(&':') => out.push('['),
            ('[', Some(_)) => out.push_str("\\["),
            (':', Some(_)) if chars.peek() == Some(&']') && inside_named(&out) => {
                chars.next();
                out.push_str(":]");
            }
            (']', Some(_)) => {
                out.push(']');
                class = None;
            }
            ('&' | '~', Some(_)) => {
                out.push('\\');
                out.push(c);
            }
            ('-', Some(start)) if out.len() == start || chars.peek() == Some(&']') => {
                out.push_str("\\-");
            }
            _ => out.push(c),
        }
    }
    out
}

fn inside_named(out: &str) -> bool {
    out.rfind("[:").is_some_and(|at| out[at + 2..].chars().all(|c| c.is_alphabetic() || c == '^'))
}

fn escape(c: char, in_class: bool, out: &mut String) {
    let text = match (c, in_class) {
        ('d', true) => "0-9",
        ('d', false) => "[0-9]",
        ('D', _) => "[^0-9]",
        ('w', true) => "0-9A-Za-z_",
        ('w', false) => "[0-9A-Za-z_]",
        ('W', _) => "[^0-9A-Za-z_]",
        ('s', true) => "\\t\\n\\x0c\\r ",
        ('s', false) => "[\\t\\n\\x0c\\r ]",
        ('S', _) => "[^\\t\\n\\x0c\\r ]",
        ('b', false) => "(?-u:\\b)",
        ('B', false) => "(?-u:\\B)",
        ('<' | '>', _) => {
            out.push(c);
            return;
        }
        _ => {
            out.push('\\');
            out.push(c);
            return;
        }
    };
    out.push_str(text);
}

/// The engine's fault in Go's words, with the part of the pattern that Go quotes.
fn go_fault(pattern: &str, translated: &str, text: &str) -> String {
    let fault = text.lines().rev().find_map(|line| line.trim().strip_prefix("error: "));
    let fault = fault.unwrap_or_else(|| text.lines().next().unwrap_or_default());
    let marks = text.lines().find(|line| {
        let line = line.trim();
        !line.is_empty() && line.bytes().all(|byte| matches!(byte, b'^' | b' '))
    });
    let start = marks.map_or(0, |line| line.find('^').unwrap_or(4).saturating_sub(4));
    let width = marks.map_or(0, |line| line.trim().len());
    let rest: String = translated.chars().skip(start).collect();
    let marked: String = rest.chars().take(width).collect();
    if fault.contains("look-around") {
        return format!("invalid or unsupported Perl syntax: `{marked}`");
    }
    if fault.starts_with("unclosed group") {
        return format!("missing closing ): `{pattern}`");
    }
    if fault.starts_with("unopened group") {
        return format!("unexpected ): `{pattern}`");
    }
    if fault.starts_with("unclosed character class") {
        return format!("missing closing ]: `{rest}`");
    }
    if fault.contains("repetition operator missing") {
        return format!("missing argument to repetition operator: `{marked}`");
    }
    if fault.starts_with("invalid character class range") {
        return format!("invalid character class range: `{marked}`");
    }
    if fault.contains("repetition") {
        return format!("invalid repeat count: `{marked}`");
    }
    if fault.contains("escape") {
        return format!("invalid escape sequence: `{marked}`");
    }
    format!("{fault}: `{pattern}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_it_means_in_go() {
        let check = |pattern: &str, text: &str, expected: bool| {
            let mut patterns = Patterns::default();
            let regex = patterns.compiled(pattern);
            let regex = regex.unwrap_or_else(|| panic!("{:?}", patterns.fault(pattern)));
            assert_eq!(regex.is_match(text), expected, "{pattern} on {text}");
        };
        check(r"^\d+$", "12", true);
        check(r"^\d+$", "١٢", false);
        check(r"^[\w-]+$", "a-b_9", true);
        check(r"^\w$", "é", false);
        check("^[[]$", "[", true);
        check("^[]a]$", "]", true);
        check("^[^]a]$", "b", true);
        check("^[a&&b]+$", "a&b", true);
        check("^[+--]$", ",", true);
        check("^[[:alpha:]]+$", "ab", true);
        check("^[-a]$", "-", true);
        check("^a$", "a\n", false);
        check(r"^[^\s]+$", "a b", false);
    }

    #[test]
    fn what_patterns_compile_to_is_bounded_for_each_and_together() {
        let mut patterns = Patterns { left: 2 << 20, ..Patterns::default() };
        for pattern in [
            r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$",
            r"^([0-9]{1,5}(h|m|s|ms)){1,4}$",
            r"^[^\s]{1,63}$",
            r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$",
        ] {
            assert!(patterns.compiled(pattern).is_some(), "{:?}", patterns.fault(pattern));
        }

        let left = patterns.left;
        for _ in 0..2_000 {
            assert!(patterns.compiled("^[a-z]{1,5}$").is_some());
        }
        assert_eq!(patterns.left, left - SIZES[0], "one pattern is compiled once");

        let check = |left: usize, pattern: &str, told: &str| {
            let mut patterns = Patterns { left, ..Patterns::default() };
            assert!(patterns.compiled(pattern).is_none(), "{pattern}");
            let fault = patterns.fault(pattern).unwrap();
            assert!(fault.starts_with(told), "{fault}");
        };
        let huge = "((a{100}){100}){100}";
        check(SIZES_SUM_MAX, huge, "a pattern may compile to 4 MiB");
        check(SIZE_MAX, huge, "the patterns of a schema may compile to 32 MiB together");
        check(0, "a", "the patterns of a schema may compile to 32 MiB together");
        check(SIZES_SUM_MAX, "(", "must be a valid regular expression, but isn't: error parsing");
    }
}
