//! Licences of dependencies: all permissive.

use serde_json::Value;

/// The licences a dependency may have, by their SPDX names.
const PERMISSIVE: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Every package of `cargo metadata` that may not be used under a permissive licence alone.
pub fn forbidden_licences(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let mut findings = Vec::new();
    for package in &packages {
        let name = package["name"].as_str().unwrap_or_default();
        match package["license"].as_str() {
            Some(licence) if is_permissive(licence) => {}
            Some(licence) => findings.push(format!(
                "package {name} has the licence {licence:?}, which is not on the list of \
                 permissive ones in xtask/src/tidy/licences.rs"
            )),
            None => findings.push(format!("package {name} does not say its licence")),
        }
    }
    findings
}

/// Whether an SPDX expression can be met with permissive licences alone. `/` is an old way to
/// write OR.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { tokens: &tokens, at: 0 };
    parser.either() == Some(true) && parser.at == tokens.len()
}

/// A parser that evaluates as it goes; `None` is an expression it does not understand.
struct Parser<'a> {
    tokens: &'a [&'a str],
    at: usize,
}

impl Parser<'_> {
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.tokens.get(self.at) == Some(&word);
        self.at += usize::from(is_next);
        is_next
    }

    fn either(&mut self) -> Option<bool> {
        let mut met = self.both()?;
        while self.takes("OR") {
            met |= self.both()?;
        }
        Some(met)
    }

    fn both(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let met = self.either()?;
            return self.takes(")").then_some(met);
        }
        let mut name = (*self.tokens.get(self.at)?).to_owned();
        self.at += 1;
        if self.takes("WITH") {
            name = format!("{name} WITH {}", self.tokens.get(self.at)?);
            self.at += 1;
        }
        Some(PERMISSIVE.contains(&name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expression_is_permissive_when_it_can_be_met_so() {
        let check = |expression: &str, expected: bool| {
            assert_eq!(is_permissive(expression), expected, "{expression}");
        };
        check("MIT", true);
        check("MIT OR Apache-2.0", true);
        check("MIT/Apache-2.0", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("GPL-3.0 AND MIT", false);
        check("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        check("(MIT OR Apache-2.0) AND MPL-2.0", false);
        check("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true);
        check("Apache-2.0 WITH Other-exception", false);
        check("", false);
        check("(MIT", false);
        check("MIT Apache-2.0", false);
    }

    #[test]
    fn a_package_without_licence_is_found() {
        let metadata = json!({"packages": [
            {"name": "a", "license": "MIT"},
            {"name": "b", "license": null},
            {"name": "c", "license": "AGPL-3.0"},
        ]});
        assert_eq!(forbidden_licences(&metadata).len(), 2);
        assert_eq!(forbidden_licences(&json!({})).len(), 0);
    }
}
