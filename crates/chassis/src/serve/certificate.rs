//! Whom a client certificate names: just enough of X.509 to read its subject.
//!
//! Whether the certificate is to be believed is checked elsewhere, before anybody looks here.

/// Tags of DER, as far as a subject needs them.
mod tag {
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
    pub const OBJECT_IDENTIFIER: u8 = 0x06;
    pub const INTEGER: u8 = 0x02;
    /// The version, in front of the serial number; left out in certificates of old.
    pub const VERSION: u8 = 0xa0;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const PRINTABLE_STRING: u8 = 0x13;
    pub const IA5_STRING: u8 = 0x16;
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The subject of a certificate, as Kubernetes reads it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CertificateSubject {
    /// The user: the common name.
    pub common_name: String,
    /// The groups: the organizations.
    pub organizations: Vec<String>,
}

/// The subject of a certificate in DER; `None` where it has none that can be read.
pub fn subject_of(certificate: &[u8]) -> Option<CertificateSubject> {
    let mut outer = Der(certificate);
    let mut signed = Der(Der(outer.take(tag::SEQUENCE)?).take(tag::SEQUENCE)?);
    if signed.0.first() == Some(&tag::VERSION) {
        signed.take(tag::VERSION)?;
    }
    signed.take(tag::INTEGER)?;
    // The algorithm, the issuer and the time in which it is valid.
    for _ in 0..3 {
        signed.take(tag::SEQUENCE)?;
    }
    let mut names = Der(signed.take(tag::SEQUENCE)?);
    let mut subject = CertificateSubject::default();
    while !names.0.is_empty() {
        let mut parts = Der(names.take(tag::SET)?);
        while !parts.0.is_empty() {
            let mut part = Der(parts.take(tag::SEQUENCE)?);
            match part.take(tag::OBJECT_IDENTIFIER)? {
                COMMON_NAME => subject.common_name = part.text()?,
                ORGANIZATION => subject.organizations.push(part.text()?),
                _ => {}
            }
        }
    }
    (!subject.common_name.is_empty()).then_some(subject)
}

/// Elements of DER, one after another.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }

    fn text(&mut self) -> Option<String> {
        let (found, content) = self.next()?;
        let is_text = matches!(found, tag::UTF8_STRING | tag::PRINTABLE_STRING | tag::IA5_STRING);
        is_text.then(|| String::from_utf8(content.to_vec()).ok())?
    }

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match length {
            0..=0x7f => (usize::from(length), rest),
            // A length of up to four bytes, the highest first.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn user_and_groups_are_common_name_and_organization() {
        let check = |names: &[(DnType, &str)], want: Option<(&str, &[&str])>| {
            let got = subject_of(&certificate(names));
            let got = got.map(|got| (got.common_name, got.organizations));
            let owned = |(user, groups): (&str, &[&str])| {
                (user.to_owned(), groups.iter().map(|&group| group.to_owned()).collect::<Vec<_>>())
            };
            assert_eq!(got, want.map(owned), "{names:?}");
        };
        let (user, group) = (DnType::CommonName, DnType::OrganizationName);
        check(&[(user.clone(), "jane")], Some(("jane", &[])));
        let long = "é".repeat(100);
        check(
            &[(group.clone(), "system:masters"), (DnType::CountryName, "CH"), (user, &long)],
            Some((&long, &["system:masters"])),
        );
        check(&[(group, "only-a-group")], None);
        check(&[], None);
    }

    proptest! {
        /// Whatever is sent as a certificate, nothing breaks.
        #[test]
        fn no_certificate_does_harm(cut in 0..500usize, at in 0..500usize, byte in any::<u8>()) {
            let mut der = certificate(&[(DnType::CommonName, "jane")]);
            let at = at % der.len();
            der[at] = byte;
            der.truncate(cut);
            if let Some(subject) = subject_of(&der) {
                prop_assert!(!subject.common_name.is_empty());
            }
        }
    }
}
