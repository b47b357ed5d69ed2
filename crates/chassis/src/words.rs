//! Words that are not longer than anybody reads. What they say is nothing to this.

/// What words end with that were longer.
const CUT: &str = " ...";

/// Words of so many bytes at most, or of four where that is less, with a sign where there were more.
/// Nothing that is not shown is kept.
#[must_use]
pub fn cut(mut words: String, bytes_max: usize) -> String {
    if words.len() > bytes_max {
        words.truncate(words.floor_char_boundary(bytes_max.saturating_sub(CUT.len())));
        words.push_str(CUT);
        words.shrink_to_fit();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_no_longer_than_allowed_and_ends_between_letters() {
        let check = |words: &str, bytes_max: usize, expected: &str| {
            assert_eq!(cut(words.to_owned(), bytes_max), expected, "{words:?} to {bytes_max}");
            assert!(expected.len() <= bytes_max);
        };
        check("", 4, "");
        check("12345678", 8, "12345678");
        check("123456789", 8, "1234 ...");
        check("123é56789", 8, "123 ...");
        check("12345", 4, " ...");
    }
}
