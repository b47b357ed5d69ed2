//! Which plugins also look after objects, beside deciding: `--controller-plugins` of Koordinator's
//! scheduler.

use engine::plugin::Plugin;

/// Which controllers run, as they were named: the first word that means one counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controllers(Vec<Word>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    All,
    On(Plugin),
    Off(Plugin),
}

/// A word that names no plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no plugin {0:?}: write a plugin such as Reservation, -Reservation, or *")]
pub struct UnknownController(String);

impl Default for Controllers {
    fn default() -> Self {
        Self(vec![Word::All])
    }
}

impl Controllers {
    /// Reads words such as `*` and `-Reservation`.
    ///
    /// # Errors
    /// When one names no plugin.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownController> {
        let word = |text: &str| {
            let named = |name: &str| {
                let plugin = Plugin::named(name);
                plugin.ok_or_else(|| UnknownController(text.to_owned()))
            };
            match (text, text.strip_prefix('-')) {
                ("*", _) => Ok(Word::All),
                (_, Some(name)) => named(name).map(Word::Off),
                (name, None) => named(name).map(Word::On),
            }
        };
        let words = words.into_iter().map(str::trim).filter(|word| !word.is_empty());
        words.map(word).collect::<Result<_, _>>().map(Self)
    }

    /// Whether what a plugin looks after is looked after.
    #[must_use]
    pub fn runs(&self, plugin: Plugin) -> bool {
        // Names go before what stands for all others, wherever that is.
        let named = self.0.iter().find_map(|word| match word {
            Word::On(own) if *own == plugin => Some(true),
            Word::Off(own) if *own == plugin => Some(false),
            _ => None,
        });
        named.unwrap_or_else(|| self.0.contains(&Word::All))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_80_controllers_are_switched_off_by_name() {
        let check = |text: &str, reservation: bool, quota: bool| {
            let own = Controllers::parse(text.split(',')).unwrap();
            let runs = [Plugin::Reservation, Plugin::ElasticQuota].map(|plugin| own.runs(plugin));
            assert_eq!(runs, [reservation, quota], "{text}");
        };
        check("*", true, true);
        check("*,-Reservation", false, true);
        check("-Reservation,*", false, true);
        check("-Reservation,Reservation", false, false);
        check("Reservation", true, false);
        check("", false, false);
        assert_eq!(Controllers::default(), Controllers::parse(["*"]).unwrap());
        let error = Controllers::parse(["-Reservations"]).unwrap_err().to_string();
        assert!(error.starts_with("there is no plugin \"-Reservations\": "), "{error}");
    }
}
