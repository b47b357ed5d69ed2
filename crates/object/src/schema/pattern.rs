//! Regular expressions in Go's dialect, on an engine of the same family: classes such
//! as `\d` know ASCII alone, and a `[` in a class is a character like any other.

use regex::Regex;

/// Compiles a pattern; the error reads as Go's does.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern);
    Regex::new(&translated).map_err(|error| {
        let text = error.to_string();
        format!("error parsing regexp: {}", go_fault(pattern, &translated, &text))
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
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
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
}
