//! The tag of an image reference, as far as the pull policy depends on it.

const TAG_MAX: usize = 128;
const NAME_MAX: usize = 255;
const LATEST: &str = "latest";
const HUB: &str = "docker.io";

/// The tag a reference means: `latest` where it has neither tag nor digest, empty where
/// it has a digest alone or is no valid reference.
pub(super) fn tag(image: &str) -> &str {
    if image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return "";
    }
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let (domain, path) = split_domain(rest);
    let (path, tag) = match path.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (path, None),
    };
    let valid = domain.is_none_or(is_domain)
        && is_path(path)
        && domain.unwrap_or(HUB).len() + 1 + path.len() <= NAME_MAX
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    match (valid, tag, digest) {
        (false, _, _) | (true, None, Some(_)) => "",
        (true, Some(tag), _) => tag,
        (true, None, None) => LATEST,
    }
}

/// The registry and the rest. A first part is a registry when it looks like a host.
fn split_domain(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.to_lowercase() != first =>
        {
            (Some(first), rest)
        }
        _ => (None, name),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match address {
        Some(address) => {
            !address.is_empty()
                && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(|label| {
            let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
        }),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_path(path: &str) -> bool {
    path.split('/').all(is_component)
}

/// Lower case letters and digits, with single separators between them; dashes may repeat.
fn is_component(component: &str) -> bool {
    let mut rest = component;
    loop {
        let word = rest.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
        let Some(word) = word else { return !rest.is_empty() };
        if word == 0 {
            return false;
        }
        rest = &rest[word..];
        let end = rest.find(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        let Some(end) = end else { return false };
        let separator = &rest[..end];
        let valid = matches!(separator, "." | "_" | "__") || separator.bytes().all(|b| b == b'-');
        if !valid {
            return false;
        }
        rest = &rest[end..];
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_MAX
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_without_tag_and_digest_means_latest() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let check = |image: &str, expected: &str| assert_eq!(tag(image), expected, "{image}");
        check("nginx", "latest");
        check("nginx:1.27", "1.27");
        check("nginx:latest", "latest");
        check("localhost:5000/a/b", "latest");
        check("localhost:5000/a/b:v1", "v1");
        check("registry.example/a__b--c.d", "latest");
        check("[::1]:5000/a", "latest");
        check(&format!("nginx@{digest}"), "");
        check(&format!("nginx:latest@{digest}"), "latest");
        for invalid in [
            "",
            "Nginx",
            "a//b",
            "-a",
            "a-",
            "a___b",
            "a:-",
            "a@sha256:1",
            "a b",
            "ä",
            "a.example/",
            "a@@",
        ] {
            check(invalid, "");
        }
        check(&"a".repeat(64), "");
        check(&"a".repeat(65), "latest");
    }
}
